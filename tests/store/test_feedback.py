"""Judgments: what each says, that it counts once, and that one which names a trace joins its request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import pytest

from ragtrace.registry.instruments import OUTCOMES
from ragtrace.store import Exemplar, Store, TraceJudgment
from ragtrace.store._feedback import Outcome, outcome_of
from ragtrace.types import Feedback, RequestRecord, replace

MakeRecord = Callable[..., RequestRecord]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ({"label": "task_success", "score": 1.0}, Outcome("task", True)),
        ({"label": "task_failure", "score": 0.0, "source": "verifier"}, Outcome("task", False)),
        ({"score": 1.0}, Outcome("rating", True)),
        ({"score": 0.01}, Outcome("rating", True)),
        ({"score": 0.0}, Outcome("rating", False)),
        ({"score": -1.0}, Outcome("rating", False)),
        ({"label": "thumbs_up"}, Outcome("rating", True)),
        ({"label": " Thumbs-Down "}, Outcome("rating", False)),
        ({"label": "wrong", "score": 0.9}, Outcome("rating", False)),
        ({"label": "off topic", "score": -0.5}, Outcome("rating", False)),
        ({"score": 0.5, "source": "verifier"}, Outcome("verifier", True)),
        ({"score": 0.49, "source": "verifier"}, Outcome("verifier", False)),
        ({"score": 0.2, "label": "pass", "source": "verifier:nli"}, Outcome("verifier", True)),
        ({"label": "Failed", "source": "Verifier-2"}, Outcome("verifier", False)),
        ({"score": 0.4, "source": "my judge"}, Outcome("rating", True)),
        ({"comment": "thanks"}, None),
        ({"label": "off topic"}, None),
        ({"score": 4.0}, None),
        ({"score": -1.01}, None),
        ({"score": float("nan")}, None),
    ],
)
def test_what_a_judgment_says(said: dict[str, object], outcome: Outcome | None) -> None:
    """A known label decides, else the score; what cannot be read is no outcome."""
    assert outcome_of(Feedback(request_id="r1", **said)) == outcome  # type: ignore[arg-type]


def _counts(store: Store) -> dict[tuple[str, ...], float]:
    """Segment, outcome and result of each series with its value."""
    labels = [(dict(total.labels), total.value) for total in store.totals() if total.name == OUTCOMES.name]
    return {(each["segment"], each["outcome"], each["result"]): value for each, value in labels}


RATED = Feedback(request_id="r1", score=1.0, feedback_id="f1")
GOOD = {("billing", "rating", "good"): 1.0, ("billing", "rating", "bad"): 0.0}


def test_a_judgment_counts_with_its_request(store: Store, make_record: MakeRecord) -> None:
    """Both results have a series from the first judgment on."""
    store.write([make_record()])
    store.write([RATED])
    assert _counts(store) == GOOD
    store.write([Feedback(request_id="r1", label="task_failure", feedback_id="f2")])
    assert _counts(store) == GOOD | {("billing", "task", "good"): 0.0, ("billing", "task", "bad"): 1.0}


@pytest.mark.parametrize("times", [1, 3])
def test_a_replay_counts_nothing_twice(store: Store, make_record: MakeRecord, times: int) -> None:
    """Whatever is written again, alone or in one batch with its request."""
    for _ in range(times):
        store.write([RATED, make_record(), RATED])
        store.write([RATED])
        store.write([make_record()])
    assert _counts(store) == GOOD


def test_a_judgment_that_comes_first_counts_when_its_request_comes(store: Store, make_record: MakeRecord) -> None:
    """With the request's service and segment; one whose request never comes counts nowhere."""
    store.write([RATED, Feedback(request_id="never", score=1.0, feedback_id="f3")])
    assert _counts(store) == {}
    store.write([make_record()])
    assert _counts(store) == GOOD
    store.write([make_record(record_revision=1), RATED])
    assert _counts(store) == GOOD


def test_a_judgment_that_a_record_carries_counts_too(store: Store, make_record: MakeRecord) -> None:
    """Once, also when it comes by itself as well, or with a newer revision."""
    store.write([make_record(feedback=(RATED,))])
    store.write([RATED, make_record(feedback=(RATED,), record_revision=1)])
    assert _counts(store) == GOOD
    later = Feedback(request_id="r1", score=-1.0, feedback_id="f2")
    store.write([make_record(feedback=(RATED, later), record_revision=2)])
    assert _counts(store) == {("billing", "rating", "good"): 1.0, ("billing", "rating", "bad"): 1.0}


def test_requests_that_were_kept_for_a_flag_alone_do_not_count(store: Store, make_record: MakeRecord) -> None:
    """A complaint keeps a request, praise does not: their ratio would be worse than the truth."""
    store.write([make_record("r1", head_sampled=False, flags=("thumbs_down",)), make_record("r2")])
    store.write([Feedback(request_id=each, score=-1.0, feedback_id=each) for each in ("r1", "r2")])
    assert _counts(store) == {("billing", "rating", "good"): 0.0, ("billing", "rating", "bad"): 1.0}


def test_judgments_without_an_id_count_by_what_they_say(store: Store, make_record: MakeRecord) -> None:
    """The same words of the same source are the same judgment, whenever and however they come; others are another."""
    store.write([make_record()])
    said = [Feedback(request_id="r1", score=1.0, created_at=at) for at in (1, 2, 1)]
    store.write(said)
    store.write(said)
    assert _counts(store)["billing", "rating", "good"] == 1.0
    store.write([replace(said[0], source="another"), replace(said[0], comment="thanks")])
    assert _counts(store)["billing", "rating", "good"] == 3.0


def test_a_bad_judgment_shows_its_trace(store: Store, make_record: MakeRecord) -> None:
    """A good one leaves the example that there is."""
    store.write([make_record(trace_id="abc")])
    store.write([Feedback(request_id="r1", score=-1.0, created_at=2_000_000_000, feedback_id="f2"), RATED])
    shown = [total.exemplar for total in store.totals() if total.name == OUTCOMES.name and total.exemplar]
    assert shown == [Exemplar("abc", 1.0, 2.0)]


TRACE = "5b8efff798038103d269b633813fc60c"
SAID = Feedback(request_id="", source="judge", score=1.0, label="pass", comment="so it is", created_at=5)


def judgment(tenant: str = "", said: Feedback = SAID) -> TraceJudgment:
    """One of the trace."""
    return TraceJudgment(tenant, TRACE, said)


def judged(store: Store, request_id: str) -> list[tuple[str | None, str]]:
    """Label and source of what is said of a request."""
    record = store.get_record(request_id)
    assert record is not None
    assert all(each.request_id == request_id for each in record.feedback)
    return [(each.label, each.source) for each in record.feedback]


def counted(store: Store) -> float:
    """Good outcomes."""
    found = [each.value for each in store.totals() if each.name == OUTCOMES.name and ("result", "good") in each.labels]
    return sum(found)


@pytest.mark.parametrize("request_id", [TRACE, "the host's own"])
@pytest.mark.parametrize("order", list(permutations(["request", "judgment", "judgment"])), ids="-".join)
def test_whichever_comes_first(store: Store, make_record: MakeRecord, request_id: str, order: Sequence[str]) -> None:
    """It joins the request under the id that this has, and counts once."""
    for each in order:
        if each == "request":
            store.write([make_record(request_id, trace_id=TRACE)])
        else:
            store.add_judgments([judgment()])
    assert judged(store, request_id) == [("pass", "judge")]
    assert (counted(store), store.counts()["feedback"]) == (1.0, 1)


@pytest.mark.parametrize("first", ["trace", "feedback"])
def test_the_same_by_another_way(store: Store, make_record: MakeRecord, first: str) -> None:
    """What a span or a log says, and the host says again by itself, is one judgment."""
    ways = {
        "trace": lambda: store.add_judgments([judgment()]),
        "feedback": lambda: store.write([replace(SAID, request_id="own", created_at=77)]),
    }
    store.write([make_record("own", trace_id=TRACE, feedback=(replace(SAID, request_id="own", created_at=3),))])
    for way in (first, *(ways.keys() - {first})):
        ways[way]()
    assert judged(store, "own") == [("pass", "judge")]
    assert counted(store) == 1.0


def test_the_same_said_before_the_request(store: Store, make_record: MakeRecord) -> None:
    """Of two that waited, one by its trace and one by its id, one is left."""
    store.add_judgments([judgment()])
    store.write([replace(SAID, request_id="own")])
    store.write([make_record("own", trace_id=TRACE)])
    assert judged(store, "own") == [("pass", "judge")]
    assert counted(store) == 1.0


@pytest.mark.parametrize("first", ["request", "judgment"])
def test_tenants(store: Store, make_record: MakeRecord, first: str) -> None:
    """A tenant judges its own requests only, also where another one's have the same trace."""

    def request() -> None:
        for tenant in ("alpha", "beta"):
            store.write([make_record(f"{tenant}:own", trace_id=TRACE, tenant_id=tenant)])

    def say() -> None:
        store.add_judgments([judgment("beta"), judgment("gamma", replace(SAID, source="spy"))])

    for step in (request, say) if first == "request" else (say, request):
        step()
    assert judged(store, "alpha:own") == []
    assert judged(store, "beta:own") == [("pass", "judge")]


@pytest.mark.parametrize("first", ["request", "judgment"])
def test_a_record_of_the_host_itself(store: Store, make_record: MakeRecord, first: str) -> None:
    """It names its tenant, whose judgments it has; those that came without tokens are everybody's."""

    def say() -> None:
        store.add_judgments([judgment("alpha"), judgment("", replace(SAID, source="other"))])

    if first == "judgment":
        say()
    store.write([make_record("own", trace_id=TRACE, tenant_id="alpha")])
    if first == "request":
        say()
    assert sorted(judged(store, "own")) == [("pass", "judge"), ("pass", "other")]


def test_what_belongs_to_a_stored_request_stays(store: Store, make_record: MakeRecord) -> None:
    """A request whose id is the trace's keeps what is said of it, whatever else comes with this trace."""
    store.write([make_record(TRACE, trace_id=TRACE)])
    store.add_judgments([judgment()])
    store.write([make_record("another", trace_id=TRACE)])
    assert judged(store, TRACE) == [("pass", "judge")]
    assert judged(store, "another") == []


def test_several_requests_of_a_trace(store: Store, make_record: MakeRecord) -> None:
    """The one that began first is meant, in whatever order they are written."""
    store.add_judgments([judgment()])
    store.write([make_record(each, trace_id=TRACE, started_at=at) for each, at in (("late", 9), ("early", 1))])
    store.add_judgments([judgment(said=replace(SAID, source="second", created_at=9))])
    assert judged(store, "late") == []
    assert judged(store, "early") == [("pass", "judge"), ("pass", "second")]


def test_a_newer_record_without_it(store: Store, make_record: MakeRecord) -> None:
    """What a record carried stays when another record of the same request is the newer one, or is older."""
    said = replace(SAID, request_id="r1")
    store.write([make_record(feedback=(said,))])
    store.write([make_record(record_revision=1)])
    store.write([make_record(record_revision=-5, feedback=(replace(said, source="late", created_at=9),))])
    assert judged(store, "r1") == [("pass", "judge"), ("pass", "late")]
    assert counted(store) == 2.0
