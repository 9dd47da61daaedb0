"""Triage names the provider that a release starved, and its release; nobody whose documents are less useful."""

from __future__ import annotations

import pytest

from ragtrace.store import Finished, Store
from ragtrace.triage import Window, triage_segment
from tests.analyze.test_exposure_report import MINUTE, START, analysis, record

HALF = START + 30 * MINUTE


def fill(store: Store, useful_then: tuple[int, ...], useful_now: tuple[int, ...], version: str) -> None:
    """South's second document leaves the prompts half way, where a release may come."""
    for at, packed, useful, index in ((START, (0, 1), useful_then, "i-1"), (HALF, (0, 2), useful_now, version)):
        records = [record(at // MINUTE % 1000 * 100 + one, packed, at=at, version=index) for one in range(60)]
        store.write(records)
        by_id = {each.request_id: each for each in records}
        jobs = store.claim("test", limit=60)
        store.finish([Finished(job, analysis(by_id[job.request_id], useful, (0,))) for job in jobs])


@pytest.mark.parametrize(
    ("useful_now", "version", "starved"),
    [
        ((1, 3), "i-2", ["south"]),
        ((0, 2), "i-2", []),  # its documents answer the questions no more
        ((1, 3), "i-1", []),  # nothing was released
    ],
)
def test_who_is_starved_is_named_with_the_release(
    store: Store, useful_now: tuple[int, ...], version: str, starved: list[str]
) -> None:
    """In the conclusion, too."""
    fill(store, (1, 3), useful_now, version)
    window = Window(HALF, HALF + 30 * MINUTE, START)
    report = triage_segment(store, "s", None, window)
    assert [each.provider for each in report.starved] == starved
    assert ("index=i-2" in report.conclusion and "south from 50 % to 0 %" in report.conclusion) == bool(starved)


def test_who_asks_for_no_providers_gets_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the analyzer is told."""
    monkeypatch.setenv("RAGTRACE_PROVIDER", "none")
    fill(store, (1, 3), (1, 3), "i-2")
    assert triage_segment(store, "s", None, Window(HALF, HALF + 30 * MINUTE, START)).starved == ()


@pytest.mark.parametrize("name", ["UNNAMED", "OTHERS"])
def test_what_is_no_provider_is_not_named(store: Store, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Here by the name of the one who is starved."""
    monkeypatch.setattr(f"ragtrace.triage._releases.{name}", "south")
    fill(store, (1, 3), (1, 3), "i-2")
    assert triage_segment(store, "s", None, Window(HALF, HALF + 30 * MINUTE, START)).starved == ()
