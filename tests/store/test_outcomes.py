"""What a judgement says, and that each counts once, whichever comes first, it or its request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragtrace.registry.instruments import OUTCOMES
from ragtrace.store import Exemplar, Store
from ragtrace.store.feedback import Outcome, outcome_of
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
def test_what_a_judgement_says(said: dict[str, object], outcome: Outcome | None) -> None:
    """A known label decides, else the score; what cannot be read is no outcome."""
    assert outcome_of(Feedback(request_id="r1", **said)) == outcome  # type: ignore[arg-type]


def _counts(store: Store) -> dict[tuple[str, ...], float]:
    """Segment, outcome and result of each series with its value."""
    labels = [(dict(total.labels), total.value) for total in store.totals() if total.name == OUTCOMES.name]
    return {(each["segment"], each["outcome"], each["result"]): value for each, value in labels}


RATED = Feedback(request_id="r1", score=1.0, feedback_id="f1")
GOOD = {("billing", "rating", "good"): 1.0, ("billing", "rating", "bad"): 0.0}


def test_a_judgement_counts_with_its_request(store: Store, make_record: MakeRecord) -> None:
    """Both results have a series from the first judgement on."""
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


def test_a_judgement_that_comes_first_counts_when_its_request_comes(store: Store, make_record: MakeRecord) -> None:
    """With the request's service and segment; one whose request never comes counts nowhere."""
    store.write([RATED, Feedback(request_id="never", score=1.0, feedback_id="f3")])
    assert _counts(store) == {}
    store.write([make_record()])
    assert _counts(store) == GOOD
    store.write([make_record(record_revision=1), RATED])
    assert _counts(store) == GOOD


def test_a_judgement_that_a_record_carries_counts_too(store: Store, make_record: MakeRecord) -> None:
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


def test_judgements_without_an_id_count_by_what_they_say(store: Store, make_record: MakeRecord) -> None:
    """The same words of the same source are the same judgement, whenever and however they come; others are another."""
    store.write([make_record()])
    said = [Feedback(request_id="r1", score=1.0, created_at=at) for at in (1, 2, 1)]
    store.write(said)
    store.write(said)
    assert _counts(store)["billing", "rating", "good"] == 1.0
    store.write([replace(said[0], source="another"), replace(said[0], comment="thanks")])
    assert _counts(store)["billing", "rating", "good"] == 3.0


def test_a_bad_judgement_shows_its_trace(store: Store, make_record: MakeRecord) -> None:
    """A good one leaves the example that there is."""
    store.write([make_record(trace_id="abc")])
    store.write([Feedback(request_id="r1", score=-1.0, created_at=2_000_000_000, feedback_id="f2"), RATED])
    shown = [total.exemplar for total in store.totals() if total.name == OUTCOMES.name and total.exemplar]
    assert shown == [Exemplar("abc", 1.0, 2.0)]
