"""What is learned of services: from when on they count as citing, and what they usually return."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.store import Citing, ServiceTraffic, Store
from ragtrace.store.erasure import Subject
from ragtrace.store.services import REMEMBERED, is_enough
from ragtrace.store.tables import background, page_judgment
from ragtrace.types import RequestRecord

MakeRecord = Callable[..., RequestRecord]

TRAFFIC = ServiceTraffic(
    seen=frozenset({7, 2**32 - 1}), counts={3: 2, 5: 1}, scores={"v1|e2": (0.5, 0.25)}, requests=2, made_at=10
)


def _noted(store: Store, *answers: tuple[int, int]) -> Citing:
    for batch in answers:
        store.note_answers({"shop": batch})
    return store.citing(["shop"])["shop"]


def test_nothing_is_known_of_a_service_at_first(store: Store) -> None:
    """Whether it cites is open, and stays so until enough answers have come."""
    assert store.citing() == {}
    assert Citing().cites is None
    assert _noted(store, (19, 0)).cites is None
    assert _noted(store, (1, 0)).cites is False


def test_a_service_that_cites_counts_as_citing_from_then_on(store: Store) -> None:
    """Four answers are enough; nothing but an operator takes it back."""
    before = time.time_ns()
    assert _noted(store, (3, 3)).cites is None
    citing = _noted(store, (1, 1))
    assert citing.since is not None
    assert before <= citing.since <= time.time_ns()
    assert (citing.answers, citing.cited, citing.cites) == (4, 4, True)
    assert _noted(store, (5_000, 0)).since == citing.since


def test_services_are_learned_apart(store: Store) -> None:
    """Those that were asked for, or all by name."""
    store.note_answers({"b": (9, 9), "a": (9, 0)})
    assert [(name, known.cited) for name, known in store.citing().items()] == [("a", 0), ("b", 9)]
    assert list(store.citing(["b", "unknown"])) == ["b"]


@pytest.mark.parametrize(("share", "learned"), [(0.05, False), (0.5, True), (1.0, True)])
def test_stray_marks_never_add_up(store: Store, share: float, learned: bool) -> None:
    """One answer in twenty with a "[1]" in it is no citing service, however many come; one in two is."""
    chance = random.Random(7)
    for _ in range(40):
        store.note_answers({"shop": (50, sum(chance.random() < share for _ in range(50)))})
    assert (store.citing()["shop"].cites is True) == learned


def test_stray_marks_reach_the_line_as_rarely_as_is_said() -> None:
    """Of 20,000 services with stray marks in 5 % of 2,000 answers fewer than 0.05 % count as citing; one that cites in
    every second answer does after at most 200."""
    chance = random.Random(11)

    def crosses(share: float, answers: int) -> bool:
        cited = 0
        for count in range(1, answers + 1):
            cited += chance.random() < share
            if is_enough(count, cited):
                return True
        return False

    assert sum(crosses(0.05, 200) for _ in range(20_000)) <= 10  # what has not crossed by then is far from the line
    assert all(crosses(0.5, 200) for _ in range(1_000))


def test_a_service_may_begin_to_cite_at_any_time(store: Store) -> None:
    """What came long ago weighs less and less: after 5,000 answers without, 80 with citations are enough."""
    for _ in range(100):
        store.note_answers({"shop": (50, 0)})
    assert store.citing()["shop"].answers < REMEMBERED
    assert store.citing()["shop"].cites is False
    for _ in range(8):
        store.note_answers({"shop": (10, 10)})
    assert store.citing()["shop"].cites is True


def test_an_operator_may_have_it_forgotten(store: Store) -> None:
    """It is learned anew, from requests that begin from then on; says whether there was anything to forget."""
    assert store.forget_citing("shop") is False
    _noted(store, (30, 30))
    before = time.time_ns()
    assert store.forget_citing("shop") is True
    forgotten = store.citing()["shop"]
    assert (forgotten.answers, forgotten.cited, forgotten.cites) == (0, 0, None)
    assert before <= forgotten.counted_from <= time.time_ns()
    assert store.forget_citing("shop") is False
    assert _noted(store, (20, 0)).counted_from >= forgotten.counted_from
    assert store.citing()["shop"].cites is False


def test_what_a_service_returns_is_kept_whole(store: Store) -> None:
    """Checksums, counts, scores and when; of another service nothing."""
    assert store.traffic("shop") is None
    assert store.save_traffic("shop", TRAFFIC)
    assert store.traffic("shop") == TRAFFIC
    assert store.traffic_made(["shop", "other"]) == {"shop": 10}
    newer = ServiceTraffic(requests=9, made_at=11)
    assert store.save_traffic("shop", newer, is_new=False)
    assert store.traffic("shop") == newer


def test_what_was_erased_meanwhile_does_not_come_back(store: Store) -> None:
    """A worker that kept something before finds it gone, and writes nothing."""
    assert store.save_traffic("shop", TRAFFIC, is_new=False) is False
    assert store.traffic("shop") is None


def test_what_cannot_be_read_is_made_again(store: Store) -> None:
    """It is an estimate; `inspect` says that it is damaged."""
    store.save_traffic("shop", TRAFFIC)
    assert store.inspect().problems == ()
    with store._database.write() as connection:
        connection.execute(sa.update(background).values(body=b"\0"))
    assert store.traffic("shop") is None
    (problem,) = store.inspect().problems
    assert problem.startswith("background shop: what a service usually returns cannot be read")
    assert store.save_traffic("shop", TRAFFIC)
    assert store.traffic("shop") == TRAFFIC


def test_erasure_takes_what_the_services_of_a_subject_returned(store: Store, make_record: MakeRecord) -> None:
    """Who looks for a word could find it there. Other services keep theirs, and citing is counts alone."""
    store.write([make_record("r1", tenant_id="acme"), make_record("r2", service="other", tenant_id="else")])
    for name in ("shop", "other"):
        store.save_traffic(name, TRAFFIC)
        store.note_answers({name: (9, 9)})
    store.erase(Subject(tenant="acme"))
    assert store.traffic_made(["shop", "other"]) == {"other": 10}
    assert store.citing()["shop"].cites is True


def test_erasure_blanks_what_on_call_said_of_a_request(store: Store, make_record: MakeRecord) -> None:
    """The judgment stays, as a count; words that name an erased request do not."""
    store.write([make_record("r1"), make_record("r2")])
    said = {"a": "see r1, it was fine", "b": "see r10", "c": None}
    same: dict[str, Any] = {"service": "shop", "segment": "s", "stage": "retrieval", "severity": "page", "judged_at": 1}
    with store._database.write() as connection:
        for alert_id, comment in said.items():
            row = {"alert_id": alert_id, "judgment": "right", "comment": comment, **same}
            connection.execute(sa.insert(page_judgment).values(row))
    store.erase(Subject(requests=("r1",)))
    with store._database.read() as connection:
        rows = connection.execute(sa.select(page_judgment).order_by(page_judgment.c.alert_id)).all()
    assert [(row.alert_id, row.judgment, row.comment) for row in rows] == [
        ("a", "right", "(erased)"),
        ("b", "right", "see r10"),
        ("c", "right", None),
    ]


def test_retention_leaves_what_was_learned(store: Store, make_record: MakeRecord) -> None:
    """It is of services, not of requests."""
    store.write([make_record("r1")])
    store.save_traffic("shop", TRAFFIC)
    store.note_answers({"shop": (9, 9)})
    store.prune({"all": 0.0})
    assert store.counts()["request"] == 0
    assert store.traffic("shop") == TRAFFIC
    assert store.citing()["shop"].cites is True
