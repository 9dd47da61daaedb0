"""One side of a comparison, chosen by service, time, versions and replay, and the traits beside every record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from ragtrace.store import Finished, Judge, MeasuredRequest, Replayed, RequestFilter, Store, populations
from ragtrace.store._ground_truth import question_hash
from ragtrace.store.populations import traits_of
from ragtrace.store.rows import UNANSWERED, unanswered
from ragtrace.store.tables import trait
from ragtrace.types import (
    Addendum,
    Claim,
    Diagnosis,
    GenerateRun,
    Generation,
    Query,
    RequestRecord,
    Score,
    StageFinding,
    TokenUsage,
    VerifiedBy,
    replace,
)

if TYPE_CHECKING:
    from tests.store.conftest import MakeFinished, MakeRecord


METRICS = ("answer_coverage", "query_coverage")


def _found(store: Store, *metrics: str, **wanted: Any) -> list[MeasuredRequest]:
    return list(store.measured(RequestFilter(**{"service": "shop", **wanted}), metrics))


def _ids(store: Store, **wanted: Any) -> list[str]:
    return [each.request_id for each in _found(store, **wanted)]


@pytest.fixture
def filled(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> Store:
    """Six requests of two versions in the order of time, one of another service, one of a replay; r5 waits."""
    records = [make_record(f"r{at}", started_at=at, versions={"model": f"m{at // 3}", "index": "i"}) for at in range(6)]
    replayed = {"ragtrace.replay.run": "n", "ragtrace.replay.question": "q"}
    others = [make_record("else", service="other"), make_record("again", started_at=3, attributes=replayed)]
    store.write([*records, *others])
    store.finish([make_finished(job, value=0.25) for job in store.claim("w") if job.request_id != "r5"])
    return store


def test_what_is_wanted_is_found(filled: Store) -> None:
    """Bounds hold from since up to before until; replays are found by their name alone."""
    assert _ids(filled) == ["r0", "r1", "r2", "r3", "r4", "r5"]
    assert _ids(filled, since=1, until=3) == ["r1", "r2"]
    assert _ids(filled, versions=(("model", "m1"), ("index", "i"))) == ["r3", "r4", "r5"]
    assert _ids(filled, versions=(("model", "m"),)) == []
    assert _ids(filled, others=(("model", "m1"), ("index", "i"))) == ["r0", "r1", "r2"]
    assert _ids(filled, others=(("model", "m"),)) == ["r0", "r1", "r2", "r3", "r4", "r5"]
    assert _ids(filled, others=(("model", "m1"), ("packer", "p"))) == []
    assert _ids(filled, replay="n") == ["again"]
    assert _ids(filled, replay="n", until=3) == []
    assert _ids(filled, service="other") == ["else"]
    assert _ids(filled, replay="none of it") == []


def test_a_request_comes_with_its_diagnosis_and_scores(filled: Store) -> None:
    """Scores stand in the order in which they were asked for; what is undefined, or not analyzed yet, is None."""
    first, *_, last = _found(filled, *METRICS)
    assert first.values == (None, 0.25)
    assert (first.verdict, first.states, first.judge, first.reference) == ("recall_failure", {}, None, "none")
    assert first.traits.versions == {"model": "m0", "index": "i"}
    assert (last.request_id, last.analyzer_version, last.verdict, last.values) == ("r5", None, None, (None, None))


def test_a_request_comes_with_the_states_of_its_stages(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """Of the stages that apply, with what judged them; the verifier is told by analyses that have claims."""
    store.write([make_record(f"r{at}") for at in range(3)])
    findings = (
        StageFinding(stage="retrieval", state="broken"),
        StageFinding(stage="generation", state="suspected", reason="unsupported"),
    )
    diagnosis = Diagnosis(verdict="recall_failure", stage="retrieval", stages=findings, judge="j1")
    claims, model = (Claim(start=0, end=1, text="A"),), VerifiedBy(name="nli", weights="0")
    given: tuple[dict[str, Any], ...] = (
        {"claims": claims, "verified_by": model},
        {"claims": claims},
        {"verified_by": model},
    )
    finished = [
        Finished(job, replace(make_finished(job).analysis, diagnosis=diagnosis, **fields))
        for job, fields in zip(store.claim("w"), given, strict=True)
    ]
    store.finish(finished)
    found = _found(store, *METRICS)
    assert {(each.judge, tuple(each.states.items())) for each in found} == {
        ("j1", (("retrieval", "broken"), ("generation", "suspected")))
    }
    assert store.judges([each.job.request_id for each in finished]) == {Judge("j1", "nli"), Judge("j1", "")}
    assert store.judges([finished[2].job.request_id]) == set()


@pytest.mark.parametrize(
    ("coverage", "reason", "value"),
    [(0.0, None, 0.0), (None, "abstained", 1.0), (None, "no_answer", 1.0), (None, "no_factual_claims", 1.0),
     (None, "language", None), (None, "not_recorded", None)],
)  # fmt: skip
def test_an_answer_that_states_nothing_is_told_by_its_reason(
    store: Store, make_record: MakeRecord, make_finished: Any, coverage: Any, reason: Any, value: Any
) -> None:
    """As `unanswered` has it; what cannot be read says nothing."""
    store.write([make_record()])
    [job] = store.claim("w")
    finished = make_finished(job)
    scores = (Score(metric="answer_coverage", value=coverage, reason=reason), Score(metric="query_coverage", value=0.5))
    store.finish([type(finished)(job, replace(finished.analysis, scores=scores))])
    [found] = _found(store, "query_coverage", UNANSWERED)
    assert found.values == (0.5, value)
    assert unanswered(coverage, reason) == value


def test_labels_that_only_look_alike_are_told_apart(store: Store, make_record: MakeRecord) -> None:
    """Quotes, percent signs, underscores and other letters stand for themselves."""
    labels = ['a"b', "a_b", "a%b", "axb", "ä", 'x", "model": "a_b']
    store.write([make_record(f"r{at}", versions={"model": label}) for at, label in enumerate(labels)])
    for at, label in enumerate(labels):
        assert _ids(store, versions=(("model", label),)) == [f"r{at}"]


def test_pages_leave_nothing_out(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of one moment on both sides of a page's end are all found, once."""
    monkeypatch.setattr(populations, "_PAGE", 2)
    store.write([make_record(f"r{at}", started_at=at // 4) for at in range(9)])
    store.finish([make_finished(job) for job in store.claim("w")])
    found = _found(store, "query_coverage")
    assert [each.request_id for each in found] == [f"r{at}" for at in range(9)]
    assert {each.values for each in found} == {(0.5,)}


def test_the_services_are_found(filled: Store) -> None:
    """Each once, by name."""
    assert filled.services() == ["other", "shop"]


def test_a_score_by_another_analysis_is_not_taken(store: Store, make_record: MakeRecord, make_finished: Any) -> None:
    """Only scores of coverage count."""
    store.write([make_record()])
    [job] = store.claim("w")
    finished = make_finished(job)
    scores = (Score(metric="query_coverage", value=1.0),)
    analysis = replace(finished.analysis, kind="attribution", scores=scores)
    store.finish([type(finished)(job, analysis)])
    assert _found(store, "query_coverage")[0].values == (None,)


@pytest.mark.parametrize(
    "wanted", [RequestFilter("s"), RequestFilter("s", replay="n"), RequestFilter("s", versions=(("model", "m"),))]
)
def test_pages_are_found_by_their_time(tmp_path: Path, wanted: RequestFilter) -> None:
    """No page reads the whole store; replays are found by their own index."""
    with Store.open(f"sqlite:///{tmp_path}/plan.db") as store, store._database.read() as connection:
        query = populations._query(connection, wanted, dict(wanted.versions))
        text = str(query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
        plan = [row.detail for row in connection.execute(sa.text(f"EXPLAIN QUERY PLAN {text}".replace(":", r"\:")))]
    assert any("SEARCH request USING INDEX ix_request_service_started_at" in step for step in plan), plan
    assert not [step for step in plan if step.startswith("SCAN") or "TEMP B-TREE" in step], plan
    if wanted.replay is not None:
        assert any("started_at>? AND started_at<?" in step for step in plan), plan
        assert any(
            "USING COVERING INDEX ix_trait_replay" in step or "USING INDEX ix_trait_replay" in step for step in plan
        )


def test_a_record_of_another_revision_counts_once(store: Store, make_record: MakeRecord) -> None:
    """A request that was written again is still one."""
    record: RequestRecord = make_record()
    store.write([record])
    store.write([replace(record, record_revision=2)])
    assert _ids(store) == ["r1"]


def _generated(**usage: int) -> GenerateRun:
    return GenerateRun(generation=Generation(usage=TokenUsage(**usage)))


def _rows(store: Store) -> dict[str, dict[str, object]]:
    with store._database.read() as connection:
        rows = connection.execute(sa.select(trait)).mappings().all()
    return {row["request_id"]: dict(row) for row in rows}


def test_a_question_is_known_by_its_words() -> None:
    """Case and white space make no difference; nothing asked is no question."""
    asked = [RequestRecord(request_id="r", service="s", query=Query(original=each)) for each in ("A  b?", "a B?", " ")]
    assert [traits_of(each).question for each in asked] == [question_hash("a b?"), question_hash("a b?"), ""]


def test_a_replay_names_its_questions_itself() -> None:
    """Run, question, attempt and document come from the replay's attributes; a session goes before the document."""
    attributes = {"run": "nightly", "question": "q7", "attempt": 2, "document": "d1"}
    attributes = {f"ragtrace.replay.{name}": value for name, value in attributes.items()}
    record = RequestRecord(request_id="r", service="s", query=Query(original="what?"), attributes=attributes)
    found = traits_of(record)
    assert (found.replay, found.question, found.attempt, found.cluster) == ("nightly", "q7", 2, "d1")
    assert traits_of(RequestRecord(request_id="r", service="s", session_id="s1", attributes=attributes)).cluster == "s1"


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), (None, None)),
        ((GenerateRun(),), (None, None)),
        ((_generated(output_tokens=3),), (None, 3)),
        ((_generated(input_tokens=5, output_tokens=3), _generated(output_tokens=4)), (5, 7)),
    ],
)
def test_tokens_are_summed_over_the_generations(
    runs: tuple[GenerateRun, ...], expected: tuple[int | None, int | None]
) -> None:
    """Every generation costs; what no model reported is unknown, not zero."""
    found = traits_of(RequestRecord(request_id="r", service="s", stages=runs))
    assert (found.input_tokens, found.output_tokens) == expected


def test_traits_follow_their_record(store: Store, make_record: MakeRecord) -> None:
    """They are written with a record, and anew with each revision and each addendum."""
    store.write([make_record(session_id="s\x00", versions={"model": "m1"})])
    row = _rows(store)["r1"]
    assert (row["cluster"], json.loads(str(row["versions"])), row["replay"]) == ("s\ufffd", {"model": "m1"}, None)
    store.write([make_record(versions={"model": "m2"}, record_revision=1)])
    assert json.loads(str(_rows(store)["r1"]["versions"])) == {"model": "m2"}
    late = Addendum(request_id="r1", service="shop", addendum_id="a", stages=(_generated(output_tokens=9),))
    store.write([late])
    assert _rows(store)["r1"]["output_tokens"] == 9


def test_a_replays_attempts_are_found(store: Store, make_record: MakeRecord) -> None:
    """By question, the earlier attempts first, each with the outcome of its request."""

    def asked(request_id: str, question: str, attempt: int, status: str) -> RequestRecord:
        attributes = {"ragtrace.replay.run": "n", "ragtrace.replay.question": question,
                      "ragtrace.replay.attempt": attempt}  # fmt: skip
        return make_record(request_id, attributes=attributes, status=status)

    store.write(
        [asked("r2", "q1", 2, "ok"), asked("r1", "q1", 1, "error"), asked("r3", "q0", 1, "ok"), make_record("r4")]
    )
    assert store.replayed("n") == [
        Replayed("q0", 1, "r3", "shop", "ok"),
        Replayed("q1", 1, "r1", "shop", "error"),
        Replayed("q1", 2, "r2", "shop", "ok"),
    ]
    assert store.replayed("m") == []
    store.write([asked("r5", "q1", 1, "ok"), make_record("r6", attributes={"ragtrace.replay.run": "a"})])
    assert store.replays() == ["a", "n"]


def test_replays_are_listed_with_their_services_newest_first(store: Store, make_record: MakeRecord) -> None:
    """One that has requests of two services stands there twice; of a tenant those of its own services."""

    def asked(request_id: str, run: str, service: str, at: int) -> RequestRecord:
        return make_record(request_id, attributes={"ragtrace.replay.run": run}, service=service, started_at=at)

    store.write(
        [
            asked("r1", "b", "acme/x", 1),
            asked("r2", "a", "acme/x", 2),
            asked("r3", "b", "rival/x", 3),
            asked("r4", "a", "acme/x", 1),
            make_record("r5"),
        ]
    )
    assert store.replayed_services() == [("b", "rival/x"), ("a", "acme/x"), ("b", "acme/x")]
    assert store.replayed_services("acme") == [("a", "acme/x"), ("b", "acme/x")]
    assert store.replayed_services("acm") == []
