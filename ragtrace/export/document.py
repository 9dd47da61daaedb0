"""An HTML file that needs nothing else: no network, no fonts, and no script to be read."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from ragtrace.export.markup import Html, join, tag

__all__ = ["asset", "standalone"]


def asset(package: str, name: str) -> str:
    """A file of the folder `page/` of a package."""
    return resources.files(package).joinpath("page", name).read_text("utf-8")


def standalone(title: str, style: str, *body: Html, script: str = "") -> str:
    """The whole file. style: what the page has beyond the style of all pages. script: the only one that may run."""
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("title", title),
        tag("style", Html(asset("ragtrace.export", "base.css") + style)),
    )
    last = tag("script", Html(script)) if script else ""
    html = tag("html", tag("head", head), tag("body", *body, last), lang="en")
    return f"<!DOCTYPE html>\n{html}\n"


def _policy(script: str) -> str:
    """Nothing is loaded, and no script runs but the page's own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"'sha256-{digest}'" if script else "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'"
