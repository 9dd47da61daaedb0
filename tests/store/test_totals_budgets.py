"""Names that senders make up count as `other` beyond a budget; what has counted by name goes on so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from ragtrace.registry.instruments import BUDGETS, CANDIDATE_AGE, GRADED_ANSWERS, LABEL_FOLDS, REQUESTS
from ragtrace.store import Delta, Finished, Store, _erasure as erasure, histogram_deltas, totals
from ragtrace.store.totals import OTHER, TENANT, UNREPORTED
from ragtrace.types import RequestRecord, SourceReport

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets that are soon used up."""
    limits = {**totals.LIMITS, "service": 3, "segment": 2, TENANT: 2}
    monkeypatch.setattr(totals, "LIMITS", limits)


def counted(store: Store, label: str = "service") -> dict[str, float]:
    """Requests by a label."""
    found: dict[str, float] = {}
    for total in store.totals():
        if total.name == REQUESTS.name:
            name = dict(total.labels)[label]
            found[name] = found.get(name, 0.0) + total.value
    return found


def folds(store: Store) -> dict[str, float]:
    """How often a name was one too many, by label."""
    return {dict(each.labels)["label"]: each.value for each in store.totals() if each.name == LABEL_FOLDS.name}


def records(make: MakeRecord, services: Iterable[str], start: int = 0) -> list[RequestRecord]:
    """A request of each service."""
    return [make(f"r{number}", service=name, segment="a") for number, name in enumerate(services, start)]


def test_services_beyond_the_budget_count_as_other(store: Store, url: str, make_record: MakeRecord) -> None:
    """One request of many names gives few series; after a restart and for another worker the same names count."""
    store.write(records(make_record, [f"s{number:02}" for number in range(20)]))
    assert counted(store) == {"s00": 1.0, "s01": 1.0, "s02": 1.0, OTHER: 17.0}
    assert folds(store) == {"service": 17.0}
    series = len(store.totals())
    with Store.open(url) as another:
        another.write(records(make_record, ["a new one", "s01", "s19"], 100))
    assert counted(store) == {"s00": 1.0, "s01": 2.0, "s02": 1.0, OTHER: 19.0}
    assert len(store.totals()) == series


def test_analyses_count_under_the_same_names(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """Whoever counts what: results and the time of the last one too."""
    store.write(records(make_record, "abcdefgh"))
    for job in store.claim("w", limit=100):
        finished = make_finished(job)
        store.finish([replace(finished, deltas=(*finished.deltas, Delta("d", (("service", job.service),), 1.0)))])
    values = {dict(total.labels)["service"]: total.value for total in store.totals() if total.name == "d"}
    assert values == {"a": 1.0, "b": 1.0, "c": 1.0, OTHER: 5.0}
    assert set(store.last_success()) == {"a", "b", "c", OTHER}


def test_each_tenant_has_a_budget_of_its_own(store: Store, make_record: MakeRecord) -> None:
    """A tenant that makes up services takes no place of another; tenants have a budget as well."""
    names = [*(f"loud/s{number}" for number in range(9)), "quiet/one", "third/one", "alone", "loud/other"]
    store.write(records(make_record, names))
    assert counted(store) == {
        **{f"loud/s{number}": 1.0 for number in range(3)},
        "loud/other": 7.0,
        "quiet/one": 1.0,
        OTHER: 1.0,
        "alone": 1.0,
    }
    assert store.exposed()[TENANT, ""] == ("loud", "quiet")


def test_segments_have_a_budget_of_their_service(store: Store, make_record: MakeRecord) -> None:
    """The first ones of each service keep their name, and what counts as `other` is one segment."""
    store.write([make_record(f"r{segment}", segment=segment) for segment in "dcba"])
    store.write([make_record(f"s{segment}", service="desk", segment=segment) for segment in "dz"])
    assert counted(store, "segment") == {"a": 1.0, "b": 1.0, OTHER: 2.0, "d": 1.0, "z": 1.0}
    assert folds(store) == {"segment": 2.0}


def test_a_long_name_counts_as_other(store: Store, make_record: MakeRecord) -> None:
    """It would stand in each series of a scrape."""
    store.write(records(make_record, ["x" * 257, "y" * 256]))
    assert counted(store) == {OTHER: 1.0, "y" * 256: 1.0}


def test_any_text_may_be_a_name(store: Store) -> None:
    """Whatever a host calls its services and segments; the same name again takes no second place."""
    awkward = ["\x00", "\ud800", 'a "quoted"\nline']
    for _ in range(2):
        store.expose([("service", "", name) for name in awkward])
    assert store.exposed() == {("service", ""): tuple(sorted(awkward))}


def test_writers_beside_each_other_keep_to_the_budget(store: Store, url: str, make_record: MakeRecord) -> None:
    """Each of several writers brings names of its own, at once: there are as many places as before, and no count is
    lost."""
    failed: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            with Store.open(url) as own:
                for turn in range(6):
                    given = records(make_record, [f"w{writer}-{turn}", "shared"], 100 * writer + 2 * turn)
                    own.write(given)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    found = counted(store)
    assert sum(found.values()) == 36
    assert found["shared"] + found[OTHER] >= 18
    assert len(found) == 4
    assert len(store.exposed()["service", ""]) == 3


def test_an_operator_admits_a_service(store: Store, make_record: MakeRecord) -> None:
    """It counts by name from then on, whatever the budget; what it counted before stays with `other`."""
    store.write(records(make_record, "abcd"))
    assert store.admit("d")
    assert not store.admit("d")
    assert store.admit("new/d")
    store.write(records(make_record, ["d", "e", "new/d"], 10))
    assert counted(store) == {"a": 1.0, "b": 1.0, "c": 1.0, OTHER: 2.0, "d": 1.0, "new/d": 1.0}


def test_a_service_is_forgotten(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """All that is exported under its name goes, and its place is free; another whose name holds its name stays, no
    request goes, and none counts again."""
    odd = 'shop","x'
    store.write([make_record("r1", versions={"index": "v1"}), make_record("r2", service=odd, segment="shop")])
    store.write([SourceReport(service="shop", source="wiki", reported_at=1)])
    for job in store.claim("w", limit=10):
        store.finish([make_finished(job)])
    rows = store.forget_totals("shop")
    assert {name: rows[name] for name in ("release", "source", "source_report", "success")} == dict.fromkeys(
        ("release", "source", "source_report", "success"), 1
    )
    assert set(counted(store)) == {odd}
    assert [total for total in store.totals() if ("service", "shop") in total.labels] == []
    assert (store.releases("shop"), store.sources(), list(store.last_success())) == ([], [], [odd])
    assert store.exposed() == {("service", ""): (odd,), ("segment", odd): ("shop",)}
    store.write([make_record("r1", record_revision=2)])
    assert set(counted(store)) == {odd}
    assert len(store.find_requests()) == 2
    assert store.forget_totals("shop") == {}


def test_a_segment_is_forgotten(store: Store, make_record: MakeRecord) -> None:
    """The series of that segment go, and the next one takes its place; what has no segment stays."""
    store.write([make_record(f"r{segment}", segment=segment) for segment in "abc"])
    rows = store.forget_totals("shop", "a")
    assert rows == {"total": 1, "exposed": 1}
    store.write([make_record("r9", segment="d")])
    assert counted(store, "segment") == {"b": 1.0, OTHER: 1.0, "d": 1.0}


def test_who_forgot_what_is_written_down(store: Store, make_record: MakeRecord) -> None:
    """When, who, of what and how many rows; where nothing was found, nothing is."""
    store.write([make_record("r1"), make_record("r2", service="desk")])
    store.forget_totals("shop", "billing")
    store.forget_totals("desk")
    store.forget_totals("nobody")
    first, second = store.audit()
    assert (first.action, first.subject, first.rows["total"]) == (
        erasure.FORGOTTEN,
        {"service": "shop", "segment": "billing"},
        1,
    )
    assert "@" in first.actor
    assert second.subject == {"service": "desk"}
    assert store.forgotten() == {"desk": second.at / 1e9}
    assert store.audit(second.at / 1e9 + 1) == []


def _age(source: str, service: str = "shop") -> tuple[Delta, ...]:
    labels = (("service", service), ("source", source))
    return histogram_deltas(CANDIDATE_AGE.name, labels, 60.0, CANDIDATE_AGE.buckets)


def ages(store: Store) -> dict[tuple[str, str], float]:
    """How many ages of candidates counted, by service and source."""
    found = (
        (dict(total.labels), total.value) for total in store.totals() if total.name == f"{CANDIDATE_AGE.name}_count"
    )
    return {(labels["service"], labels["source"]): value for labels, value in found}


@pytest.fixture
def count(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> Callable[..., None]:
    """Counts ages as the result of a request of its own."""
    numbers = iter(range(1000))

    def finish(*given: tuple[Delta, ...]) -> None:
        store.write([make_record(f"r{next(numbers)}")])
        (job,) = store.claim("w")
        store.finish([replace(make_finished(job), deltas=tuple(delta for age in given for delta in age))])

    return finish


def test_sources_of_candidates_count_by_name_up_to_a_limit(store: Store, count: Callable[..., None]) -> None:
    """A host that takes each document's address for its source makes no series without end."""
    count(*(_age(f"s{number:03}") for number in range(UNREPORTED - 1)))
    count(_age("t0"), _age("t1"), _age("t1", "desk"))
    count(_age("t1"), _age("t0"), _age("s000"), _age("t1", "desk"))
    found = ages(store)
    assert len(found) == UNREPORTED + 2
    assert (found["shop", "t0"], found["shop", OTHER], found["shop", "s000"]) == (2.0, 2.0, 2.0)
    assert found["desk", "t1"] == 2.0


def test_a_reported_source_counts_by_name_where_others_do_not(store: Store, count: Callable[..., None]) -> None:
    """Up to the budget of the label."""
    count(*(_age(f"s{number:03}") for number in range(UNREPORTED)))
    more = BUDGETS["source"] - UNREPORTED + 1
    store.write([SourceReport(service="shop", source=f"w{n:03}", reported_at=1) for n in range(more)])
    count(*(_age(f"w{number:03}") for number in range(more)), _age("t0"))
    found = ages(store)
    assert (found["shop", "w000"], found["shop", OTHER]) == (1.0, 2.0)
    assert len(found) == BUDGETS["source"] + 1


def test_types_of_questions_count_by_name_up_to_their_budget(store: Store, count: Callable[..., None]) -> None:
    """A host has as many query classes as it likes; those beyond the budget of their service count as `other`."""

    def of(kind: str) -> tuple[Delta, ...]:
        labels = (("service", "shop"), ("question_type", kind), ("action", "CORRECT"), ("result", "good"))
        return (Delta(GRADED_ANSWERS.name, labels, 1.0),)

    count(*(of(f"k{number:03}") for number in range(BUDGETS["question_type"] + 3)))
    totals = [total for total in store.totals() if total.name == GRADED_ANSWERS.name]
    found = {dict(total.labels)["question_type"]: total.value for total in totals}
    assert len(found) == BUDGETS["question_type"] + 1
    assert found[OTHER] == 3.0
    assert folds(store)["question_type"] == 3.0
