"""Reports as text for a terminal, as Markdown and as JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import msgspec
import pytest
from rich.console import Console

from bench.traffic import SERVICE, Break
from ragtrace import resources
from ragtrace.triage import Report, markdown, read_payload, render, triage_alert, triage_request, triage_segment
from ragtrace.triage.markdown import code, escaped
from tests.triage.conftest import END, WINDOW
from tests.triage.test_alerts import alert, payload

if TYPE_CHECKING:
    from tests.triage.conftest import Fill


def text(report: Report, width: int, store: str | None = None) -> str:
    """The report as a terminal of that width shows it."""
    output = io.StringIO()
    Console(file=output, width=width, markup=False, highlight=False).print(render(report, store=store))
    return output.getvalue()


def broken(fill: Fill) -> Report:
    """A report on a broken stage with all of its parts."""
    return triage_segment(fill(Break("ranking", 0.6, 0.7, 0.9, component="packer")), SERVICE, "limit", WINDOW, now=END)


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_what_is_to_be_done_first(fill: Fill, width: int) -> None:
    """Stage, owner and release stand in the first lines; no line is longer than the terminal, no command is broken."""
    report = broken(fill)
    lines = text(report, width).splitlines()
    assert max(map(len, lines)) <= width
    top = " ".join(" ".join(lines[:8]).split())
    for expected in ("ranking", "ranking-context", "packer=packer-bad"):
        assert expected in top
    for each in report.telling:
        assert any(line.strip() == each.command for line in lines)


def test_commands_name_the_store_that_was_given(fill: Fill) -> None:
    """So that they can be pasted."""
    report = broken(fill)
    assert f"{report.telling[0].command} --store sqlite:///x.db" in text(report, 120, "sqlite:///x.db")


def test_markdown_holds_the_same(fill: Fill) -> None:
    """Conclusion, owner, checks, recovery, segments and commands."""
    report = broken(fill)
    page = markdown(report)
    assert page.startswith("# Triage: assistant, limit\n")
    for expected in (
        "ranking-context",
        "packer=packer-bad",
        "## Recovery",
        "| segment | state |",
        report.telling[0].command,
    ):
        assert expected in page


def test_markdown_of_an_alert_and_of_a_request(fill: Fill) -> None:
    """The alert's name and the request's question are there."""
    store = fill(Break("ranking", 0.6, 0.7, component="packer"))
    (one,) = read_payload(payload(alert())).alerts
    assert "RagtraceEvidencePage" in markdown(triage_alert(store, one, now=END))
    row = store.find_requests(stage="ranking", limit=1)[0]
    record = store.get_record(row.request_id)
    assert record is not None
    report = triage_request(store, record, store.get_analysis(row.request_id), now=END)
    assert record.query.original in markdown(report)
    assert record.query.original in text(report, 80)


def test_what_the_host_wrote_cannot_become_markdown() -> None:
    """Links, images, HTML, tables and code are shown as they are."""
    assert escaped("![x](http://a) <b>|`c`") == r"\!\[x\](http\://a) \<b\>\|\`c\`"
    assert escaped("# a\n- b") == r"\# a - b"
    assert escaped("see https://evil.example/?q or www.evil.example") == (
        r"see https\://evil.example/?q or www\.evil.example"
    )
    assert escaped("11-21 10:04:30Z") == "11-21 10:04:30Z"
    assert code("a`b``c") == "```a`b``c```"
    assert code("`a") == "`` `a ``"


def test_every_report_fits_the_documented_schema(fill: Fill) -> None:
    """Broken and not, of a segment, of an alert, of a request."""
    root = resources.checkout()
    assert root is not None
    schema = json.loads((root / Path("docs/triage.schema.json")).read_text())
    store = fill(Break("ranking", 0.6, 0.7, component="packer"))
    (one,) = read_payload(payload(alert())).alerts
    row = store.find_requests(stage="ranking", limit=1)[0]
    record = store.get_record(row.request_id)
    assert record is not None
    for report in (
        triage_segment(store, SERVICE, "limit", WINDOW, now=END),
        triage_segment(store, "none", None, WINDOW, now=END),
        triage_alert(store, one, now=END),
        triage_request(store, record, store.get_analysis(row.request_id), now=END),
        triage_request(store, record, None, now=END),
    ):
        jsonschema.validate(json.loads(msgspec.json.encode(report)), schema)
