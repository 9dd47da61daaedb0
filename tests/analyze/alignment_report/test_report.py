"""The whole report: where its numbers come from, and of which requests they speak."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrace import analyze
from ragtrace.analyze import alignment_report as package
from ragtrace.analyze.alignment_report import alignment_report
from ragtrace.errors import ConfigurationError
from ragtrace.store import Store
from tests.analyze.alignment_report.explained import GENERATOR, explain, request, write
from tests.analyze.engines import LinearRetriever


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store.open(f"sqlite:///{tmp_path / 'kept.db'}") as opened:
        yield opened


def test_public_names_exist() -> None:
    """`__all__` names what the package has."""
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert analyze.__name__ == "ragtrace.analyze"


def test_only_drawn_requests_speak_for_all(store: Store) -> None:
    """A sampled request that a flag had explained is not part of the random stratum; the flagged one is asked for."""
    explain(store, request("r1"), request("r2", head_probability=0.5))
    explain(store, request("r3"), request("r4", head_sampled=False, flags=("slow",)), drawn=False)
    drawn, flagged = alignment_report(store), alignment_report(store, stratum="flagged")

    assert (drawn.basis.stratum, drawn.basis.requests, drawn.basis.left_out) == ("random", 2, 2)
    assert (flagged.basis.stratum, flagged.basis.requests, flagged.basis.left_out) == ("flagged", 2, 2)
    assert drawn.rates[0].requests == flagged.rates[0].requests == 2
    estimate = drawn.rates[0].wasted_retrieval.estimate
    assert estimate is not None
    assert estimate.mean == 1.0  # the generator's order is the reverse


def test_retrieval_that_flags_had_explained_is_never_random(store: Store) -> None:
    """Drawn requests buy no explanation of retrieval; where all of them have one, it is random."""
    explain(store, request("r1"))
    explain(store, request("r2"), parts=("generator", "retriever"))
    mixed = alignment_report(store)

    assert (mixed.words_basis.stratum, mixed.words_basis.requests) == ("flagged", 1)
    explain(store, request("r3"), parts=("retriever",), drawn=False)
    assert alignment_report(store).words_basis.requests == 2


def test_retrieval_of_all_drawn_requests_is_random(store: Store) -> None:
    """And flagged ones are left out."""
    explain(store, request("r1"), request("r2"), parts=("generator", "retriever"))
    explain(store, request("r3"), parts=("retriever",), drawn=False)
    basis = alignment_report(store).words_basis

    assert (basis.stratum, basis.requests, basis.left_out) == ("random", 2, 1)


def test_services_and_times_are_chosen(store: Store) -> None:
    """What is not asked for is not read."""
    explain(store, request("r1", started_at=1), request("r2", started_at=5), request("r3", service="t", started_at=9))

    assert alignment_report(store, service="s").basis.requests == 2
    assert alignment_report(store, since=5).basis.requests == 2


def test_many_requests_are_read_page_by_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is lost between two pages."""
    monkeypatch.setattr("ragtrace.analyze.alignment_report._rates._PAGE", 3)
    explain(store, *(request(f"r{at}", started_at=at) for at in range(8)))

    assert alignment_report(store).basis.requests == 8


def test_what_could_not_be_aligned_is_counted_by_reason(store: Store) -> None:
    """A single document has no order."""
    explain(store, request("r1", "a"), request("r2", "b"), request("r3"))
    basis = alignment_report(store).basis

    assert (basis.requests, basis.skipped) == (1, {"a single document has only one order": 2})


def test_a_generator_scores_sampled_requests_under_each_condition(store: Store) -> None:
    """In place of what is stored, whether or not they were explained."""
    write(store, request("r1"), request("r2"), request("r3", head_sampled=False, flags=("slow",)))
    told: list[tuple[str, int, int]] = []
    found = alignment_report(
        store,
        generator=GENERATOR,
        retriever=LinearRetriever(),
        conditions=("original", "shuffled"),
        stability=16,
        limit=10,
        on_progress=lambda *progress: told.append(progress),
    )

    assert [(row.group.condition, row.requests) for row in found.rates] == [("original", 2), ("shuffled", 2)]
    assert (found.basis.source, found.basis.stratum, found.basis.requests) == ("rescored", "random", 2)
    assert (found.words_basis.source, found.words_basis.requests, found.overlap[0].documents) == ("rescored", 2, 8)
    assert found.stability_basis is not None
    assert [(curve.method, curve.requests) for curve in found.stability] == [("gp", 2), ("pmcshap", 2)]
    assert told[:2] == [("conditions", 1, 2), ("conditions", 2, 2)]
    assert [name for name, _, _ in told[2:]] == ["retrieval"] * 2 + ["stability"] * 2


def test_an_empty_store_gives_an_empty_report(store: Store) -> None:
    """With a model or without."""
    for given in ({}, {"generator": GENERATOR, "retriever": LinearRetriever(), "stability": 64}):
        found = alignment_report(store, **given)  # type: ignore[arg-type]
        assert (found.rates, found.overlap, found.stability, found.basis.requests) == ((), (), (), 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stratum": "all"}, "random or flagged"),
        ({"conditions": ("shuffled",)}, "give a generator"),
        ({"stability": 64}, "give a generator"),
        ({"conditions": ("sorted",)}, "original, deduplicated, shuffled"),
        ({"conditions": ()}, "no condition is given"),
        ({"limit": 0}, "1 or more"),
        ({"stability": 4, "generator": GENERATOR}, "8 prompts or more"),
    ],
)
def test_arguments_that_do_not_fit_are_named(store: Store, given: dict[str, Any], message: str) -> None:
    """Before anything is read."""
    with pytest.raises(ConfigurationError, match=message):
        alignment_report(store, **given)
