"""Pages of requests and slices of time: bounded work that misses nothing and repeats nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from bench.traffic import MINUTE, SERVICE, Break, Traffic, store_traffic
from ragtrace.store import Listing, Position, Store
from ragtrace.types import RequestRecord, Stage, StageState

START, END = 1_700_000_000_000_000_000, 1_700_000_000_000_000_000 + 240 * MINUTE


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three hundred requests, some of which break at ranking in the second half."""
    opened = Store.open(f"sqlite:///{tmp_path_factory.mktemp('listing') / 'store.db'}")
    store_traffic(opened, Traffic(300, START, END, [Break("ranking", 0.5, 0.5, component="reranker")]))
    opened.write([RequestRecord(request_id=f"t{n}", service="other", tenant_id="acme", started_at=START) for n in "ab"])
    return opened


@pytest.mark.parametrize(
    "wanted",
    [
        Listing(),
        Listing(service=SERVICE),
        Listing(service=SERVICE, stage="ranking"),
        Listing(service=SERVICE, verdict="selection_failure", segment="limit"),
        Listing(tenant_id="acme"),
        Listing(since=START + 60 * MINUTE, until=START + 120 * MINUTE),
        Listing(service=SERVICE, stage="ranking", oldest_first=True),
        Listing(oldest_first=True),
    ],
    ids=str,
)
def test_pages_together_are_the_whole_list(store: Store, wanted: Listing) -> None:
    """Each request once, in the order of time that is wanted, however small the pages and however short the look for
    each."""
    rows = store.list_requests(wanted, limit=1_000, scan=1_000).rows
    whole = [row.request_id for row in rows]
    assert rows == tuple(
        sorted(rows, key=lambda row: (row.started_at, row.request_id), reverse=not wanted.oldest_first)
    )
    found: list[str] = []
    before: Position | None = None
    while True:
        page = store.list_requests(wanted, before, limit=7, scan=20)
        found += [row.request_id for row in page.rows]
        before = page.after
        if before is None:
            break
    assert whole
    assert found == whole
    assert len(set(found)) == len(found)


def test_filters_are_those_of_the_diagnosis(store: Store) -> None:
    """What is listed broke first at the stage, and the rest did not."""
    broken = store.list_requests(Listing(stage="ranking"), limit=1_000, scan=1_000).rows
    assert broken
    assert {row.stage for row in broken} == {"ranking"}
    rollout = broken[0].suspected_rollout
    assert rollout is not None
    same = store.list_requests(Listing(rollout=rollout), limit=1_000, scan=1_000).rows
    assert {row.suspected_rollout for row in same} == {rollout}
    assert store.list_requests(Listing(is_labeled=True)).rows == ()


def test_slices_hold_the_first_requests_of_each(store: Store) -> None:
    """No more than asked for, of the slice alone, in time order."""
    bounds = [START, START + 120 * MINUTE, END + 1]
    slices = store.slices(Listing(service=SERVICE), bounds, 40)
    assert [len(each) for each in slices] == [40, 40]
    for each, since, until in zip(slices, bounds, bounds[1:], strict=False):
        assert all(since <= one.started_at < until for one in each)
        assert [one.started_at for one in each] == sorted(one.started_at for one in each)


def test_requests_are_counted_as_far_as_asked(store: Store) -> None:
    """Of a service and a time, and no further."""
    all_of_it = len(store.list_requests(Listing(service=SERVICE), limit=10_000, scan=10_000).rows)
    assert store.count_requests(Listing(service=SERVICE), 10_000) == all_of_it
    assert store.count_requests(Listing(service=SERVICE), 7) == 7
    assert store.count_requests(Listing(service=SERVICE, since=END + 1), 7) == 0
    newest = store.list_requests(Listing(service=SERVICE), limit=5, scan=100).rows
    assert store.start_of(Listing(service=SERVICE), 5) == newest[4].started_at
    assert store.start_of(Listing(service=SERVICE), all_of_it + 1) is None


def test_a_tenant_has_its_own_services_and_times(store: Store) -> None:
    """Of services that others have, only where the tenant has requests in them."""
    assert store.services_of("acme") == ["other"]
    assert store.services_of("nobody") == []
    assert store.time_bounds(SERVICE, "acme") is None
    assert store.time_bounds("other", "acme") == (START, START)


def test_pages_are_led_by_indexes(store: Store, tmp_path: Path) -> None:
    """A list of a service, a tenant or everything is read along an index, and sorted by none."""
    from ragtrace.store._requests import _near

    engine = sa.create_engine(store.url)
    with engine.connect() as connection:
        for wanted in (Listing(), Listing(service=SERVICE), Listing(service="other", tenant_id="acme")):
            query = _near(wanted, Position(END, "x")).order_by(sa.desc("started_at"), sa.desc("request_id")).limit(9)
            text = str(query.compile(engine, compile_kwargs={"literal_binds": True}))
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
            assert any("INDEX" in line for line in plan), plan
            if wanted.service:
                assert not any("TEMP B-TREE" in line for line in plan), plan


def test_a_state_is_that_of_the_stage_that_is_asked_for(tmp_path: Path) -> None:
    """Of some stage where none is given; the first broken one plays no part beside a state."""
    with Store.open(f"sqlite:///{tmp_path / 'doubt.db'}") as opened:
        doubt: dict[Stage, tuple[StageState, str]] = {"generation": ("suspected", "unsupported")}
        store_traffic(opened, Traffic(5, START, END, unjudged=doubt))

        def count(**given: str) -> int:
            return len(opened.list_requests(Listing(**given), limit=10, scan=10).rows)  # type: ignore[arg-type]

        assert count(doubt="suspected") == count(doubt="suspected", stage="generation") == 5
        assert count(doubt="suspected", stage="ranking") == count(stage="generation") == 0
