"""What the release gate had said of the suspected release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.traffic import SERVICE, Break
from ragtrace.store import GateRun, Store
from ragtrace.triage import markdown, triage_request, triage_segment
from ragtrace.triage._releases import gate_note
from ragtrace.triage.postmortem import postmortem
from tests.triage.conftest import END, WINDOW

if TYPE_CHECKING:
    from tests.triage.conftest import Fill

AT = 1_700_000_000_000_000_000
WHEN = "11-14 22:13:20Z"


def _keep(store: Store, run_id: str, *versions: tuple[str, str], at: int = AT, **fields: Any) -> None:
    given = {"decision": "pass", "baseline": "replay:a", "candidate": "replay:b", "service": SERVICE, **fields}
    store.add_gate_run(GateRun(run_id=run_id, created_at=at, versions=versions, **given), b"{}")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, f"last gate passed with reranker=v2 at {WHEN}, compared with replay:a (ragtrace gate show abcdefghijkl)"),
        (
            {"decision": "block", "first_broken": "ranking"},
            f"last gate blocked with reranker=v2 at {WHEN} for its ranking (ragtrace gate show abcdefghijkl)",
        ),
        (
            {"decision": "undecided"},
            f"last gate could not decide with reranker=v2 at {WHEN} (ragtrace gate show abcdefghijkl)",
        ),
    ],
)
def test_the_last_run_with_the_release_is_told(store: Store, fields: dict[str, Any], told: str) -> None:
    """Its decision, when, and how to see it; later runs with other versions say nothing of it."""
    _keep(store, "old", ("reranker", "v2"), at=AT - 1, decision="undecided")
    _keep(store, "abcdefghijklmnop", ("reranker", "v2"), ("model", "m"), **fields)
    _keep(store, "later", ("reranker", "v3"), at=AT + 1)
    assert gate_note(store, SERVICE, "reranker=v2") == told


def test_a_release_that_no_gate_judged_is_told(store: Store) -> None:
    """Since when there was none; a service that is never gated is left alone."""
    assert gate_note(store, SERVICE, "reranker=v2") == ""
    _keep(store, "other", ("reranker", "v2"), service="another")
    assert gate_note(store, SERVICE, "reranker=v2") == ""
    _keep(store, "run1", ("model", "m1"), at=AT - 5_000_000_000)
    told = "no gate with reranker=v2: the last one of assistant, at 11-14 22:13:15Z, passed (ragtrace gate show run1)"
    assert gate_note(store, SERVICE, "reranker=v2") == told
    _keep(store, "run2", ("reranker", "v1"))
    told = f"no gate since {WHEN}, which passed with reranker=v1: reranker=v2 was not judged (ragtrace gate show run2)"
    assert gate_note(store, SERVICE, "reranker=v2") == told
    assert gate_note(store, SERVICE, None) == ""


def test_reports_tell_it(fill: Fill) -> None:
    """A segment's, a request's, and a postmortem; in Markdown as well."""
    store = fill(Break("ranking", 0.4, 0.7, component="reranker"))
    report = triage_segment(store, SERVICE, None, WINDOW, now=END)
    assert (report.stage, report.gate_note) == ("ranking", "")
    component, _, version = (report.suspected_release or "").partition("=")
    _keep(store, "run", (component, version))
    report = triage_segment(store, SERVICE, None, WINDOW, now=END)
    assert report.gate_note.startswith(f"last gate passed with {report.suspected_release} at ")
    assert f"- gate: last gate passed with {report.suspected_release}" in markdown(report).replace("\\", "")
    assert f"Last gate passed with {report.suspected_release}" in postmortem(store, SERVICE, None, WINDOW, now=END)
    record = store.get_record(report.exemplars[0].request_id)
    assert record is not None
    single = triage_request(store, record, store.get_analysis(record.request_id), now=END)
    assert single.gate_note == report.gate_note
