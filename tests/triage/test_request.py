"""The walk over one request: its values, its release, and what its segment says to that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.traffic import MINUTE, SERVICE, Break
from ragtrace.triage import Report, triage_request
from tests.triage.conftest import END

if TYPE_CHECKING:
    from ragtrace.store import Store
    from tests.triage.conftest import Fill


def walk(store: Store, *, stage: str | None, last: int = 0) -> Report:
    """The report on the newest request that broke first in this stage, or on the newest of all."""
    row = store.find_requests(service=SERVICE, stage=stage, limit=last + 1)[last]
    record = store.get_record(row.request_id)
    assert record is not None
    return triage_request(store, record, store.get_analysis(row.request_id), now=END)


def test_a_broken_request_names_stage_owner_release_and_others(fill: Fill) -> None:
    """Its values stand beside objectives and the segment's; later stages are not checked."""
    report = walk(fill(Break("ranking", 0.5, 0.8, component="reranker")), stage="ranking")
    assert (report.stage, report.owner) == ("ranking", "ranking-context")
    assert report.suspected_release == "reranker=reranker-bad"
    assert "when this began in the segment" in report.release_note
    assert [check.state for check in report.checks] == ["sound", "broken", "not_checked", "not_checked"]
    recall = report.checks[1].values[0]
    assert (recall.metric, recall.objective, recall.now) == ("evidence_recall", ">= 1", 0.5)
    assert len(report.exemplars) == 3
    assert report.request is not None
    assert report.request.request_id not in {each.request_id for each in report.exemplars}


def test_what_was_normal_before_the_release_is_the_comparison(fill: Fill) -> None:
    """A release of hours ago: the time before it is read as well."""
    store = fill(Break("ranking", 0.5, 0.3, component="reranker"))
    report = walk(store, stage="ranking")
    assert report.onset is not None
    assert report.onset.before.count == 0
    assert report.onset.before.of > 20
    assert report.range is not None
    assert report.range.requests == 200  # one of three segments, all of its time


def test_a_release_that_does_not_fit_is_doubted(fill: Fill) -> None:
    """The newest release of the stage came long before the segment's requests broke."""
    store = fill(Break("ranking", 0.0, 0.1, component="reranker"), Break("ranking", 0.6, 0.8))
    report = walk(store, stage="ranking")
    assert report.suspected_release == "reranker=reranker-bad"
    assert "does not fit" in report.release_note


def test_a_lonely_failure_says_that_little_is_known(fill: Fill) -> None:
    """One broken request of the segment shows no beginning."""
    store = fill(Break("ranking", 0.0, 0.5, component="reranker"), Break("ranking", 1.0, 0.9, 0.901), count=999)
    report = walk(store, stage="ranking")
    assert report.stage == "ranking"
    assert "too few requests" in report.release_note
    assert report.exemplars == ()


def test_a_healthy_request_blames_nobody(fill: Fill) -> None:
    """No stage, no owner, nobody to look at."""
    report = walk(fill(), stage=None)
    assert (report.stage, report.owner, report.suspected_release) == (None, None, None)
    assert {check.state for check in report.checks} == {"sound"}
    assert report.conclusion == "healthy: retrieval, ranking, generation and citation are sound."


def test_a_request_of_which_not_all_is_known_says_what_is_not(fill: Fill) -> None:
    """No stage broke, which is not healthy: how many are sound, and why the others are not known, in words."""
    unjudged: Any = {"retrieval": ("not_known", "undecided"), "generation": ("suspected", "unsupported")}
    report = walk(fill(unjudged=unjudged), stage=None)
    assert [check.state for check in report.checks] == ["not_known", "sound", "suspected", "sound"]
    assert report.checks[0].finding == "not known: no proof either way"
    assert (report.stage, report.owner) == (None, None)
    assert report.conclusion == (
        "no break found: 2 of 4 stages judged sound; retrieval is not known; generation is suspected."
    )


def test_a_break_behind_a_stage_that_is_not_known_says_so(fill: Fill) -> None:
    """Generation broke; whether retrieval broke before is not known."""
    store = fill(Break("generation", 0.5, 0.8, component="model"), unjudged={"retrieval": ("not_known", "undecided")})
    report = walk(store, stage="generation")
    assert report.stage == "generation"
    assert report.conclusion.startswith(
        "grounding failure: generation broke; whether retrieval broke before is not known (no proof either way)"
    )
    assert [check.state for check in report.checks] == ["not_known", "sound", "broken", "not_checked"]


def test_a_request_that_an_earlier_version_judged_is_not_judged_by_these_rules(fill: Fill) -> None:
    """Its verdict stands for nothing here: what judges it anew is said."""
    report = walk(fill(Break("ranking", 1.0, 0.0), count=30, outdated=True), stage=None)
    assert (report.stage, report.checks) == (None, ())
    assert "ragtrace analyze --redo" in report.conclusion


def test_a_request_without_analysis_says_what_to_do(fill: Fill) -> None:
    """No guess is made."""
    store = fill()
    row = store.find_requests(limit=1)[0]
    record = store.get_record(row.request_id)
    assert record is not None
    report = triage_request(store, record, None)
    assert "ragtrace analyze" in report.conclusion
    assert report.checks == ()


def test_a_release_that_was_recorded_later_is_used(fill: Fill) -> None:
    """The stored diagnosis knew one version; triage knows by now that another came before it."""
    store = fill(Break("ranking", 0.5, 0.8))
    assert walk(store, stage="ranking").suspected_release is None
    store.record_release(SERVICE, "reranker", "r-0", END - 600 * MINUTE)
    assert walk(store, stage="ranking").suspected_release == "reranker=r-1"


def test_a_request_that_is_not_meant_to_cite_has_no_such_stage(fill: Fill) -> None:
    """Its citations are not missing, and nothing about it is not known."""
    report = walk(fill(inapplicable=("citation",)), stage=None)
    assert report.checks[-1].state == "not_checked"
    assert "does not apply" in report.checks[-1].finding
    assert report.conclusion == "healthy: retrieval, ranking and generation are sound."
