"""Labels and drawings are kept beside their requests, and go with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ragtrace.store import CorrectedRate, Drawing, Drawn, RequestLabel, Store, Subject
from ragtrace.types import Feedback, RequestRecord

MakeRecord = Callable[..., RequestRecord]

LABEL = RequestLabel(
    "r1", "ada", "ranking", {"retrieval": "sound", "ranking": "broken"}, ("c1",), "lost in packing", labeled_at=5
)
DRAWING = Drawing("d1", "shop", 0, 10, {"model": "m-1"}, "j1", drawn_at=1, uniform=0.5)
DRAWN = (Drawn("r2", 0, "sound", 0.25), Drawn("r1", 1, "suspected", 1.0))
DAY = 86_400


def test_labels_are_kept_once_for_each_labeler(store: Store, make_record: MakeRecord) -> None:
    """A new one replaces what the same labeler said; others stay; those of unknown requests are not kept."""
    store.write([make_record("r1"), make_record("r2")])
    bob = replace(LABEL, labeler="bob", needed=None, note=None)
    assert store.put_labels([LABEL, bob, replace(LABEL, request_id="r9")]) == {"r1"}
    assert store.labels() == [LABEL, bob]
    changed = replace(LABEL, first_broken="none", stages={}, needed=(), note="no\x00")
    store.put_labels([changed])
    assert store.labels(labeler="ada") == [replace(changed, note="no\ufffd")]
    assert store.labels(request_ids=["r2"]) == []
    assert store.labels(request_ids=["r1", "r2"], labeler="bob") == [bob]
    assert store.labels(service="other") == []
    assert len(store.labels(service="shop")) == 2


def test_a_label_keeps_the_verdict_of_its_time(
    store: Store, make_record: MakeRecord, make_finished: Callable[..., object]
) -> None:
    """The newest verdict when it is given; one that a label carries already stays, as when a file is read again."""
    store.write([make_record("r1")])
    store.finish([make_finished(job) for job in store.claim("w")])  # type: ignore[misc]
    store.put_labels([LABEL])
    (found,) = store.labels()
    assert found.verdict == "recall_failure"
    assert found.analyzer_version is not None
    given = replace(LABEL, verdict="healthy", judge="j0", analyzer_version="7")
    store.put_labels([given])
    assert store.labels() == [given]


def test_a_drawing_is_kept_and_replaced(store: Store, make_record: MakeRecord) -> None:
    """With its requests in order; those that are not stored are left out, and rates go with a new draw."""
    store.write([make_record("r1"), make_record("r2")])
    store.draw(DRAWING, [*DRAWN, Drawn("gone", 2, "sound", 0.25)])
    assert store.drawn_requests("d1") == list(DRAWN)
    rates = (CorrectedRate("retrieval", 0.2, 0.1, 0.3, 0.05, 150),)
    store.save_rates("d1", rates)
    assert store.drawings() == [replace(DRAWING, rates=rates)]
    later = replace(DRAWING, drawing_id="d2", service="other", drawn_at=2)
    store.draw(later, [])
    assert [each.drawing_id for each in store.drawings()] == ["d2", "d1"]
    assert [each.drawing_id for each in store.drawings("shop")] == ["d1"]
    store.draw(DRAWING, DRAWN[:1])
    assert store.drawn_requests("d1") == [DRAWN[0]]
    assert store.drawings("shop") == [DRAWING]


def test_labels_are_erased_with_their_request(store: Store, make_record: MakeRecord) -> None:
    """What is drawn, too; both are counted."""
    store.write([make_record("r1"), make_record("r2")])
    store.draw(DRAWING, DRAWN)
    store.put_labels([LABEL, replace(LABEL, request_id="r2")])
    subject = Subject(requests=("r1",))
    assert {name: store.find_subject(subject).rows[name] for name in ("drawn", "request_label")} == {
        "drawn": 1,
        "request_label": 1,
    }
    erased = store.erase(subject, rewrite=False)
    assert (erased.rows["drawn"], erased.rows["request_label"]) == (1, 1)
    assert [each.request_id for each in store.labels()] == ["r2"]
    assert [each.request_id for each in store.drawn_requests("d1")] == ["r2"]


def test_a_tenants_drawings_are_erased_with_its_services(store: Store, make_record: MakeRecord) -> None:
    """A drawing names a service and its versions."""
    store.write([make_record("r1", service="acme/shop", tenant_id="acme")])
    store.draw(replace(DRAWING, service="acme/shop"), DRAWN[1:])
    store.draw(replace(DRAWING, drawing_id="d2"), [])
    store.erase(Subject(tenant="acme"), rewrite=False)
    assert [each.drawing_id for each in store.drawings()] == ["d2"]


def test_labels_age_with_their_request(store: Store, make_record: MakeRecord) -> None:
    """And a request that is labeled is one that somebody judged: it is kept as long as feedback."""
    store.write([make_record("r1", started_at=1), make_record("r2", started_at=1), make_record("r3", started_at=1)])
    store.draw(DRAWING, DRAWN)
    store.put_labels([LABEL])
    store.write([Feedback(request_id="r3", score=1.0)])
    pruned = store.prune({"random": 10 * DAY, "feedback": 100 * DAY}, now=50 * DAY)
    assert pruned.rows["request"] == 1
    assert [each.request_id for each in store.drawn_requests("d1")] == ["r1"]
    assert store.labels() == [LABEL]
    pruned = store.prune({"all": 10 * DAY}, now=50 * DAY)
    assert (pruned.rows["request_label"], pruned.rows["drawn"]) == (1, 1)
    assert (store.labels(), store.drawn_requests("d1")) == ([], [])


def test_labels_without_a_request_are_found(store: Store, make_record: MakeRecord) -> None:
    """`db check --full` tells of rows whose request somebody deleted by hand."""
    store.write([make_record("r1"), make_record("r2")])
    store.put_labels([LABEL])
    store.draw(DRAWING, DRAWN)
    assert store.inspect(sample=None).problems == ()
    with store._database.write() as connection:
        connection.exec_driver_sql("DELETE FROM request WHERE request_id = 'r1'")
    problems = " ".join(store.inspect(sample=None).problems)
    assert "request_label: 1 rows without a request" in problems
    assert "drawn: 1 rows without a request" in problems
    assert store.inspect(sample=None).rows["request_label"] == 1
