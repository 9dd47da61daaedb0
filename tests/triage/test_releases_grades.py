"""What grades of relevance add to the walk over a segment."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from bench.traffic import SERVICE, Break, Traffic, store_traffic
from ragtrace.triage import triage_segment
from ragtrace.types import Grading, RequestRecord, RetrievalAction, replace
from tests.triage.conftest import END, START, WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ragtrace.store import Store


class WorseIndex(Traffic):
    """Traffic of whose requests a third is graded INCORRECT by the new index, and which is broken no more for that."""

    def grading(self, record: RequestRecord) -> Grading:
        """By the version of the index, and the request's number."""
        is_bad = record.versions["index"] == "index-bad" and int(record.request_id[16:], 16) % 3 == 0
        return _graded("INCORRECT" if is_bad else "CORRECT", "other")


class Rolling(Traffic):
    """Traffic of which a tenth is graded INCORRECT by chance, while every fortieth request brings a new index."""

    def requests(self) -> Iterator[tuple[RequestRecord, Break | None]]:
        """With the version of the hour."""
        for number, (record, broken) in enumerate(super().requests()):
            yield replace(record, versions={"index": f"i-{number // 40}"}), broken

    def grading(self, record: RequestRecord) -> Grading:
        """By chance, the same for each run."""
        is_bad = random.Random(f"{self.seed} {record.request_id}").random() < 0.1
        return _graded("INCORRECT" if is_bad else "CORRECT", "other")


class WrongReligion(Traffic):
    """Traffic whose retrieval is always trusted; the answers of one type of question are the broken ones."""

    def grading(self, record: RequestRecord) -> Grading:
        """Segments in which nothing breaks are the other types."""
        return _graded("CORRECT", record.segment)


def _graded(action: RetrievalAction, kind: str) -> Grading:
    return Grading(action=action, upper=0.59, lower=-0.99, by="words", question_type=kind)


def conclusion(store: Store) -> str:
    """What the report on the service says."""
    return triage_segment(store, SERVICE, None, WINDOW, now=END).conclusion


def test_more_incorrect_retrieval_is_told_with_its_release(store: Store) -> None:
    """No state proves a break; the share, the one before, and the release since which it is so."""
    store_traffic(store, WorseIndex(600, START, END, (Break("retrieval", 0.0, 0.75, component="index"),)))
    said = conclusion(store)
    assert "no stage is broken" in said
    assert "Retrieval was graded INCORRECT in 33 % (before in 0 %) since index=index-bad" in said


def test_releases_that_fit_alike_are_all_named(store: Store) -> None:
    """Two that came three requests apart: nobody can tell which of them it was; one long before is left out."""
    store_traffic(
        store,
        WorseIndex(
            600,
            START,
            END,
            (
                Break("retrieval", 0.0, 0.55, component="retriever"),
                Break("retrieval", 0.0, 0.745, component="embedding"),
                Break("retrieval", 0.0, 0.75, component="index"),
            ),
            versions={"retriever": "v-1", "embedding": "e-1", "index": "i-1"},
        ),
    )
    assert "since one of embedding=embedding-bad, index=index-bad, which fit alike" in conclusion(store)


@pytest.mark.parametrize("seed", [1, 2])
def test_of_many_releases_none_is_named_for_its_luck(store: Store, seed: int) -> None:
    """Fifteen of the index, and grades that change with none of them."""
    store_traffic(store, Rolling(600, START, END, seed=seed))
    assert "graded" not in conclusion(store)


def test_grades_that_are_as_before_say_nothing(store: Store) -> None:
    """Nor does a service that nobody grades."""
    store_traffic(store, WorseIndex(600, START, END))
    assert "graded" not in conclusion(store)


def test_a_type_that_is_confidently_wrong_is_told(store: Store) -> None:
    """By its name; the others are not."""
    segment = "exception"
    store_traffic(store, WrongReligion(600, START, END, (Break("generation", 0.9, 0.5, segment=segment),)))
    said = conclusion(store)
    assert f"uestions of the type {segment} are confidently wrong" in said
    assert said.count("confidently wrong") == 1
