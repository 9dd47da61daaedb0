"""Draws every dashboard from a live Prometheus into one HTML file that needs nothing else: no server, no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from importlib import resources
from typing import Any, Final

from ragtrace.dashboards.contents import DASHBOARDS
from ragtrace.dashboards.headline import findings, releases
from ragtrace.dashboards.model import STAGE_COLORS, Dashboard
from ragtrace.dashboards.prometheus import Prometheus, Series
from ragtrace.dashboards.shown import read
from ragtrace.dashboards.span import Span
from ragtrace.dashboards.variables import ANY, TRACE_URL

__all__ = ["page", "preview"]

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<noscript>The panels are drawn by the script of this page; it loads nothing.</noscript>
<script type="application/json" id="data">{data}</script>
<script>{library}</script>
<script>{script}</script>
</body>
</html>
"""


def preview(
    server: Prometheus, span: Span, *, trace_url: str = TRACE_URL, dashboards: Iterable[Dashboard] = DASHBOARDS
) -> str:
    """The whole file.

    trace_url: where a trace is shown; its id is appended, or put where `{trace_id}` stands.
    Raises: PrometheusError when the server does not answer.
    """
    rollouts = releases(server, span)
    return page(
        {
            "start": span.start,
            "end": span.end,
            "stage_colors": STAGE_COLORS,
            "trace_url": trace_url if "{trace_id}" in trace_url else f"{trace_url}{{trace_id}}",
            "about": _about(server, span),
            "findings": [each._asdict() for each in findings(server, span, rollouts)],
            "releases": [_release(each) for each in rollouts],
            "dashboards": read(server, dashboards, span),
        }
    )


def page(data: dict[str, Any]) -> str:
    """The file that shows `data`, which `preview` reads from a server."""
    library, script = _asset("uplot", "uPlot.iife.min.js"), _asset("preview.js")
    return _PAGE.format(
        policy=escape(_policy(library, script)),
        title="ragtrace dashboards",
        style=_asset("uplot", "uPlot.min.css") + _asset("preview.css"),
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        library=library,
        script=script,
    )


def _policy(*scripts: str) -> str:
    """Nothing is loaded, and no script runs but the page's own."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'"


def _asset(*names: str) -> str:
    return resources.files("ragtrace.dashboards").joinpath("page", *names).read_text("utf-8")


def _about(server: Prometheus, span: Span) -> str:
    start, end = (datetime.fromtimestamp(at, UTC) for at in (span.start, span.end))
    patterns = {"service": span.service, "segment": span.segment, "stratum": span.stratum}
    chosen = " · ".join(f"{name}: {'all' if pattern == ANY else pattern}" for name, pattern in patterns.items())
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC · {chosen} · from {server.url}"


def _release(each: Series) -> dict[str, Any]:
    return {"at": each.last / 1000, "name": f"{each.label('component')} {each.label('version')}"}
