"""Reports as text for a terminal, as Markdown and as JSON."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import msgspec
import pytest
from rich.console import Console

from bench.traffic import SERVICE, Break
from ragtrace import installation
from ragtrace.formats import code, escaped, plain, show_command
from ragtrace.safe_text import UNSAFE
from ragtrace.triage import Report, markdown, read_payload, render, triage_alert, triage_request, triage_segment
from ragtrace.triage._report import ReasonCount, Tally, Unjudged
from ragtrace.triage.rendering import counting, mean_text, unjudged_text
from ragtrace.types import replace
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
    for each in report.exemplars:
        assert any(line.strip() == each.command for line in lines)


def test_a_mean_of_a_few_is_no_figure() -> None:
    """Nine requests tell nothing, ten do; of none there is a dash."""
    assert [mean_text(0.0, count) for count in (0, 9, 10)] == ["-", "too few (9)", "0.00 (10)"]


def test_what_is_counted_is_said(fill: Fill) -> None:
    """In a terminal and in Markdown: of which requests shares are, and what now and before mean."""
    report = broken(fill)
    said = counting(report)
    assert "no earlier one is broken or suspected" in said
    assert f"now: since {report.range.since[5:10]}" in said if report.range else False
    assert said in " ".join(text(report, 120).split())
    assert f"- counted: {said}" in markdown(report)


def test_a_mean_stands_with_the_number_of_its_requests(fill: Fill) -> None:
    """In a terminal and in Markdown."""
    report = broken(fill)
    value = next(one for check in report.checks for one in check.values if one.now_count)
    said = f"{value.now:.2f} ({value.now_count:,})"
    for shown in (text(report, 120), markdown(report)):
        assert "now (requests)" in shown
        assert said in shown


def test_commands_name_the_store_that_was_given(fill: Fill) -> None:
    """So that they can be pasted."""
    report = broken(fill)
    assert f"{report.exemplars[0].command} --store sqlite:///x.db" in text(report, 120, "sqlite:///x.db")


@pytest.mark.parametrize(
    ("request_id", "words"),
    [
        ("01a2", ["01a2"]),
        ("x; rm -rf ~", ["x; rm -rf ~"]),
        ("it's", ["it's"]),
        ("-x", ["--", "-x"]),
        ("\x1b[2J'\\a\u202e\n", ["\x1b[2J'\\a\u202e\n"]),
    ],
)
def test_a_command_names_its_request_whatever_the_id_holds(request_id: str, words: list[str]) -> None:
    """A shell runs nothing of an id, and hands the whole of it over; nothing of it reaches the terminal before."""
    command = show_command(request_id)
    assert plain(command) == command
    given = subprocess.run(
        ["bash", "-c", f"ragtrace() {{ printf '%s\\0' \"$@\"; }}; {command}"],
        env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True,
    )  # fmt: skip
    assert given.stdout.decode().split("\0")[:-1] == ["show", *words]


def test_a_command_may_name_a_store_beside_any_id() -> None:
    """An option stands before what ends the options."""
    assert show_command("01a2", "sqlite:///my db") == "ragtrace show 01a2 --store 'sqlite:///my db'"
    assert show_command("-x", "sqlite:///x.db") == "ragtrace show --store sqlite:///x.db -- -x"


def test_names_of_the_host_command_no_terminal(fill: Fill) -> None:
    """A segment with escapes and line breaks stands on one line, without them, in text and in Markdown."""
    hostile = "\x1b[31mred\x1b]0;title\x07\n# two \u202e"
    store = fill(Break("ranking", 0.6, 0.7, component="packer"), segments=(hostile, "limit"))
    report = triage_segment(store, SERVICE, hostile, WINDOW, now=END)
    for shown in (text(report, 120), markdown(report), report.conclusion):
        assert not UNSAFE.search(shown)
        assert not any(line.strip().startswith(("# two", "two")) for line in shown.splitlines())


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
        report.exemplars[0].command,
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


def test_a_long_question_does_not_hide_the_owner(fill: Fill) -> None:
    """A document that was asked about is cut, in text and in Markdown; the JSON has all of it."""
    store = fill(Break("ranking", 0.6, 0.7, component="packer"))
    row = store.find_requests(stage="ranking", limit=1)[0]
    record = store.get_record(row.request_id)
    assert record is not None
    asked = replace(record, query=replace(record.query, original="حريق " * 4000))
    report = triage_request(store, asked, store.get_analysis(row.request_id), now=END)
    assert report.request is not None
    assert len(report.request.asked) > 15_000
    for shown in (text(report, 80), markdown(report)):
        assert len(shown.partition("ranking-context")[0]) < 1500


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
    root = installation.checkout()
    assert root is not None
    schema = json.loads((root / Path("docs/reference/triage.schema.json")).read_text())
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


def test_the_numbers_of_what_is_in_doubt_add_up() -> None:
    """Broken ones, the reasons of the others, and the reasons that are not named; what is before it stands beside."""
    now, before = (
        Tally(count=count, of=of, share=count / of, low=0.0, high=1.0) for count, of in ((105, 164), (1, 30))
    )
    reason = ReasonCount(reason="unsupported", words="weakly supported", count=3)
    told = Unjudged(state="doubted", now=now, before=before, has_risen=True, broken=100, reasons=(reason,))
    line = "in doubt: 105 of 164 (64 %), up from 3.3 %: broken (100); weakly supported (3); other reasons (2)"
    assert unjudged_text(told) == line
    alone = Unjudged(state="not_known", now=before, before=now, has_risen=False)
    assert unjudged_text(alone) == "not known: 1 of 30 (3.3 %), before 64 %"


def test_a_label_calls_nobody() -> None:
    """A mention in Markdown would notify all who can read the report."""
    assert "@everyone" not in escaped("segment @everyone @here")
    assert "a @ b" in escaped("a @ b")
