"""The gate's report for its readers: terminal, Markdown, JSON, JUnit XML, and one HTML page."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from ragtrace.errors import ConfigurationError
from ragtrace.gate.types import GateReport
from ragtrace.safe_text import dumps

__all__ = ["SUFFIXES", "Format", "render"]

Format: TypeAlias = Literal["html", "json", "junit", "markdown", "text"]

SUFFIXES: Final[dict[Format, str]] = {
    "html": ".html",
    "json": ".json",
    "junit": ".xml",
    "markdown": ".md",
    "text": ".txt",
}
"""The ending of a file's name, by its format."""


def render(report: GateReport, format: Format, *, width: int = 120, every: bool = False) -> str:
    """The report as text. width, every: of `text`, in columns, and whether passing segments are listed.

    Raises: ConfigurationError for a format that there is none of.
    """
    if format == "html":
        from ragtrace.gate.reports.html import html

        return html(report)
    if format == "json":
        return dumps(msgspec.to_builtins(report)) + "\n"
    if format == "junit":
        from ragtrace.gate.reports.ci import junit

        return junit(report)
    if format == "markdown":
        from ragtrace.gate.reports.ci import markdown

        return markdown(report)
    if format == "text":
        return _text(report, width, every)
    raise ConfigurationError.of("the format", format, ", ".join(SUFFIXES))


def _text(report: GateReport, width: int, every: bool) -> str:
    from io import StringIO

    from rich.console import Console

    from ragtrace.gate.reports.terminal import render_report

    out = StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(render_report(report, every=every))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
