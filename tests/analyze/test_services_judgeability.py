"""How much of a service can be judged: which requests tell, and what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrace.analyze.services import FEWEST, judgeability
from ragtrace.store import Finished, Store
from ragtrace.types import Analysis, Diagnosis, RequestRecord, StageFinding, StageState

DAY = 86_400 * 10**9
NEWEST = 1_700_000_000 * 10**9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store.open(f"sqlite:///{tmp_path / 'ragtrace.db'}") as opened:
        yield opened


def _add(store: Store, name: str, started_at: int, count: int, state: StageState, *, sampled: bool = True) -> None:
    records = [
        RequestRecord(
            request_id=f"{name}-{number}",
            service="shop",
            started_at=started_at - number,
            head_sampled=sampled,
            flags=() if sampled else ("slow",),
        )
        for number in range(count)
    ]
    store.write(records)
    reason = None if state == "sound" else "undecided"
    diagnosis = Diagnosis(
        verdict="no_break_found", stages=(StageFinding(stage="retrieval", state=state, reason=reason),), judge="j1"
    )
    done = [
        Finished(
            job,
            Analysis(request_id=job.request_id, analyzer_version=job.analyzer_version, diagnosis=diagnosis),
            (),
        )
        for job in store.claim("test", limit=count)
    ]
    assert store.finish(done) == count


def _shares(store: Store) -> tuple[int, float, float]:
    (retrieval,) = judgeability(store, "shop").stages
    return retrieval.requests, retrieval.share("sound"), retrieval.share("not_known")


def test_the_last_day_tells(store: Store) -> None:
    """What was a day before the newest request no longer counts, where the day has enough requests."""
    _add(store, "old", NEWEST - 2 * DAY, 100, "not_known")
    _add(store, "new", NEWEST, FEWEST, "sound")
    assert _shares(store) == (FEWEST, 1.0, 0.0)


def test_few_requests_are_joined_by_earlier_ones(store: Store) -> None:
    """A week where the day has too few, and all where the week has."""
    _add(store, "new", NEWEST, 10, "sound")
    _add(store, "week", NEWEST - 3 * DAY, 10, "not_known")
    _add(store, "older", NEWEST - 30 * DAY, 20, "not_known")
    assert _shares(store) == (40, 0.25, 0.75)
    _add(store, "more", NEWEST - 4 * DAY, FEWEST - 20, "sound")
    assert _shares(store) == (FEWEST, (FEWEST - 10) / FEWEST, 10 / FEWEST)


def test_flagged_requests_do_not_tell(store: Store) -> None:
    """They were kept for looking odd, and speak for no one else."""
    _add(store, "sampled", NEWEST, 5, "sound")
    _add(store, "flagged", NEWEST, 5, "not_known", sampled=False)
    assert _shares(store) == (5, 1.0, 0.0)


def test_a_service_without_requests_has_no_stages(store: Store) -> None:
    """Nothing is known, and nothing is claimed."""
    known = judgeability(store, "nobody")
    assert (known.requests, known.outdated, known.stages, known.judges_citations) == (0, 0, (), False)
