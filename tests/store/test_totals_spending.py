"""What explanations spend, by day and resource, and the jobs that results ask for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ragtrace.store import ATTRIBUTION, Finished, FollowUp, Store
from ragtrace.types import RequestRecord

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]

NOON = 1_800_000_000.0  # 2027-01-15 08:00 UTC
DAY = 86400.0


def totals(store: Store, name: str) -> dict[str, float]:
    """A total by resource."""
    return {dict(total.labels)["resource"]: total.value for total in store.totals() if total.name == name}


def test_seconds_add_up_by_day_and_resource(store: Store) -> None:
    """A day begins at midnight UTC."""
    store.spend({"cpu": 2.0, "gpu": 1.0}, now=NOON)
    store.spend({"cpu": 3.0}, now=NOON + 16 * 3600 - 1)
    store.spend({"cpu": 7.0}, now=NOON + 16 * 3600)
    assert store.spent(NOON) == {"cpu": 5.0, "gpu": 1.0}
    assert store.spent(NOON + DAY) == {"cpu": 7.0}
    assert store.spent(NOON - DAY) == {}
    assert totals(store, "ragtrace_analysis_seconds_total") == {"cpu": 12.0, "gpu": 1.0}


def test_a_day_whose_budget_is_used_up_counts_once(store: Store) -> None:
    """When it is reached, not when it is passed further; a resource without a budget never."""
    for now in (NOON, NOON + 1, NOON + 2, NOON + DAY):
        store.spend({"cpu": 5.0, "gpu": 5.0}, budgets={"cpu": 10.0}, now=now)
    assert totals(store, "ragtrace_attribution_budget_exhausted_total") == {"cpu": 1.0, "gpu": 0.0}


def test_many_spend_at_once(store: Store) -> None:
    """Nothing is lost, and the budget is used up once."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(store.spend, {"cpu": 1.0}, budgets={"cpu": 20.0}, now=NOON) for _ in range(40)]:
            done.result()
    assert store.spent(NOON) == {"cpu": 40.0}
    assert totals(store, "ragtrace_attribution_budget_exhausted_total") == {"cpu": 1.0}


@pytest.mark.parametrize("flagged", [True, False])
def test_a_result_asks_for_a_job_once(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished, flagged: bool
) -> None:
    """In the result's transaction, of the same revision; the same result again asks for nothing new."""
    store.write([make_record(record_revision=3)])
    [job] = store.claim("w")
    asked = replace(make_finished(job), follow_up=FollowUp(ATTRIBUTION, "attribution-1", flagged))
    assert store.finish([asked]) == 1
    assert store.finish([asked]) == 0
    [deep] = store.claim("w", kinds=(ATTRIBUTION,))
    assert (deep.request_id, deep.service, deep.kind, deep.analyzer_version, deep.record_revision, deep.flagged) == (
        "r1", "shop", ATTRIBUTION, "attribution-1", 3, flagged,
    )  # fmt: skip
    assert deep.priority == 0
    assert store.queue_depth()["done"] == 1
    assert store.queue_depth(ATTRIBUTION)["leased"] == 1


def test_a_lost_lease_asks_for_nothing(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """A result that is refused enqueues no job."""
    store.write([make_record()])
    [job] = store.claim("a", lease_seconds=1, now=1e11)
    store.claim("b", now=1e11 + 2)
    follow_up = FollowUp(ATTRIBUTION, "attribution-1", flagged=True)
    assert store.finish([replace(make_finished(job), follow_up=follow_up)], now=1e11 + 3) == 0
    assert store.queue_depth(ATTRIBUTION) == {"pending": 0, "leased": 0, "done": 0, "dead": 0}


def test_a_hopeless_job_is_dead_at_once(store: Store, make_record: MakeRecord) -> None:
    """Without its further attempts."""
    store.write([make_record()])
    [job] = store.claim("w")
    store.fail(job, "the text is too long", for_good=True)
    assert store.queue_depth() == {"pending": 0, "leased": 0, "done": 0, "dead": 1}
    assert store.claim("w", now=1e11) == []
