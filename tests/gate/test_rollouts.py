"""A version that was in use twice is two candidates, and is refused until a window says which."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ragtrace.analyze.worker import run as analyze
from ragtrace.errors import InputError
from ragtrace.gate.population import Loaded, load
from ragtrace.gate.selection import parse
from ragtrace.store import Store
from tests.gate.measured import recorded

START, MINUTE = 1_700_000_000_000_000_000, 60_000_000_000
SELECTED = "version:model=m1"


def _stored(folder: Path, *models: str, minutes: int = 1) -> str:
    """A store with one analyzed request of each of these models, in their order."""
    url = f"sqlite:///{folder}/gate.db"
    with Store.open(url) as store:
        times = [START + at * minutes * MINUTE for at in range(len(models))]
        records = [
            recorded(f"r{at:03}", versions={"model": model}, started_at=times[at], ended_at=times[at] + MINUTE)
            for at, model in enumerate(models)
        ]
        store.write(records)
        analyze(store)
    return url


def _load(url: str, *selections: str) -> Loaded:
    return load([parse("--side", each) for each in selections], store=url, service=None, metrics=("errors",))


def test_a_version_that_came_back_is_refused_until_a_window_says_which(tmp_path: Path) -> None:
    """The line has both windows, and each of them selects one time."""
    url = _stored(tmp_path, *["m1"] * 20, *["m2"] * 15, *["m1"] * 12)
    with pytest.raises(InputError, match="the baseline 'version:model=m1' was in use twice") as refused:
        _load(url, SELECTED)
    windows = [part for part in str(refused.value).split("'") if "window:" in part]
    assert [len(_load(url, window).populations[0]) for window in windows] == [20, 12]
    assert len(_load(url, "version:model=m2").populations[0]) == 15


def test_a_recorded_return_is_known_from_few_requests(tmp_path: Path) -> None:
    """Two before and two after prove nothing by themselves; that somebody recorded the rollback does."""
    models = ["m1", "m1", "m2", "m2", "m1", "m1"]
    url = _stored(tmp_path, *models, minutes=10)
    assert len(_load(url, SELECTED).populations[0]) == 4
    with Store.open(url) as store:
        store.record_release("shop", "model", "m1", START + 35 * MINUTE)
    with pytest.raises(InputError, match="was in use twice"):
        _load(url, SELECTED)


@pytest.mark.parametrize("share", [0.03, 0.3, 0.9])
def test_a_canary_is_no_second_rollout(tmp_path: Path, share: float) -> None:
    """Requests of it come now and then, with pauses as long as chance makes them."""
    chance = random.Random(1)
    models = ["m1" if chance.random() < share else "m2" for _ in range(900)]
    found = _load(_stored(tmp_path, *models), SELECTED).populations[0]
    assert len(found) == models.count("m1")


def test_a_version_that_was_replaced_step_by_step_is_no_second_rollout(tmp_path: Path) -> None:
    """A rollout in steps leaves a last few stragglers behind long pauses."""
    chance = random.Random(2)
    models = ["m1" if chance.random() < share else "m2" for share in (1.0, 0.5, 0.1, 0.02) for _ in range(300)]
    assert len(_load(_stored(tmp_path, *models), SELECTED).populations[0]) == models.count("m1")
