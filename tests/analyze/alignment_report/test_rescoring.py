"""Sampled requests that a model scores now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze.alignment_report._rescoring import Skipped, reexplained, rescored, sampled_records
from ragtrace.errors import ConfigurationError, ModelError, ServerError
from ragtrace.store import Store
from tests.analyze.alignment_report.explained import GENERATOR, request, write
from tests.analyze.engines import AdditiveGenerator, LinearRetriever


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store.open(f"sqlite:///{tmp_path / 'kept.db'}") as opened:
        yield opened


class PositionalGenerator(AdditiveGenerator):
    """Uses documents by their place in the whole prompt, whatever they say."""

    order = ""

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """More for what stands earlier in the longest prompt, which is asked for first."""
        there = ["".join(re.findall(r"The text (\w)", prompt)) for prompt in prompts]
        if len(longest := max(there, key=len)) == len("abcd"):
            self.order = longest
        worth = [[sum(4.0 - self.order.index(name) for name in names)] for names in there]
        found: NDArray[np.float64] = super().score(prompts, answer) + np.array(worth)
        return found


def test_takes_the_newest_sampled_requests(store: Store) -> None:
    """Requests that only a flag kept, that were not answered, or that ran under another condition are not taken."""
    write(
        store,
        *(request(f"r{at}", started_at=at) for at in range(5)),
        request("flagged", started_at=9, head_sampled=False, flags=("slow",)),
        request("silent", started_at=9, stages=()),
        request("other", started_at=9, attributes={"condition": "shuffled"}),
        request("elsewhere", started_at=9, service="t"),
    )

    assert [each.request_id for each in sampled_records(store, 3, service="s")] == ["r4", "r3", "r2"]
    assert len(sampled_records(store, 100, service="s")) == 5
    assert [each.request_id for each in sampled_records(store, 9, service="s", since=3)] == ["r4", "r3"]


def test_looks_further_where_few_were_sampled(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first look that finds too few is followed by wider ones."""
    monkeypatch.setattr("ragtrace.analyze.alignment_report._rescoring._FIRST", 2)
    write(store, *(request(f"r{at}", started_at=at, head_sampled=at < 2, flags=("slow",)) for at in range(9)))

    assert [each.request_id for each in sampled_records(store, 2)] == ["r1", "r0"]


def test_what_goes_by_content_is_the_same_in_another_order() -> None:
    """A generator that reads texts ranks them alike when they are shuffled, and the same prompt is scored once."""
    generator = AdditiveGenerator(GENERATOR.worth, name="m-1")
    found = rescored([request("r", "abcd")], generator, ("original", "deduplicated", "shuffled"), skipped=Skipped())

    assert [each.condition for each in found] == ["original", "deduplicated", "shuffled"]
    assert len({each.alignment.generator for each in found}) == 1
    assert found[0].alignment.generator == ("d", "c", "b", "a")
    assert len(generator.prompts) == 2 * 16


def test_what_goes_by_place_follows_the_order() -> None:
    """A generator that looks at places does not rank the same documents first."""
    template = "[1] {chunk:a}\n[2] {chunk:b}\n[3] {chunk:c}\n[4] {chunk:d}\nQuestion?"
    records = [request(f"r{at}", "abcd", template) for at in range(6)]
    found = rescored(records, PositionalGenerator({}), ("original", "shuffled"), skipped=Skipped())
    firsts = {each.alignment.generator[0] for each in found if each.condition == "shuffled"}

    assert {each.alignment.generator for each in found if each.condition == "original"} == {("a", "b", "c", "d")}
    assert len(firsts) > 1


def test_reasons_are_counted_and_others_go_on() -> None:
    """One request without texts does not stop the next; what cannot be made is an error before anything is scored."""
    skipped = Skipped()
    bare = request("r1", stages=request("r1").stages[:1])
    generator = AdditiveGenerator(GENERATOR.worth)
    found = rescored([bare, request("r2")], generator, ("original",), skipped=skipped)

    assert [each.request_id for each in found] == ["r2"]
    assert skipped.reasons == {"no generation was recorded": 1}
    with pytest.raises(ConfigurationError, match="sorted"):
        rescored([request("r")], AdditiveGenerator({}), ("original", "sorted"), skipped=Skipped())


def test_a_request_without_several_conditions_is_one_request() -> None:
    """It is counted once, by its first reason, whatever the number of conditions under which it is missing."""
    skipped = Skipped()
    bare = [request(f"r{at}", stages=request("r").stages[:1]) for at in range(2)]
    conditions = ("original", "deduplicated", "shuffled")
    rescored([*bare, request("whole")], AdditiveGenerator(GENERATOR.worth), conditions, skipped=skipped)

    assert skipped.reasons == {"no generation was recorded": 2}


def test_a_model_that_cannot_do_it_skips_and_a_server_that_is_gone_ends() -> None:
    """A prompt that is too long is one request's fate; a server that cannot be reached is everybody's."""

    def too_long() -> None:
        raise ModelError("the prompt is too long")

    def gone() -> None:
        raise ServerError("no answer from the server")

    skipped = Skipped()
    assert rescored([request("r")], AdditiveGenerator({}, before=too_long), ("original",), skipped=skipped) == []
    assert skipped.reasons == {"the prompt is too long": 1}
    with pytest.raises(ServerError):
        rescored([request("r")], AdditiveGenerator({}, before=gone), ("original",), skipped=Skipped())


def test_retrieval_is_explained_or_the_reason_counted() -> None:
    """Requests without texts have none."""
    skipped, done = Skipped(), []
    records = [request("r1"), request("r2", stages=request("r2").stages[2:])]
    found = reexplained(records, LinearRetriever(), skipped=skipped, on_progress=lambda: done.append(1))

    assert [(each.record.request_id, each.drawn) for each in found] == [("r1", True)]
    assert skipped.reasons.total() == 1
    assert len(done) == 2


def test_progress_is_told_by_request() -> None:
    """Also for those that are skipped."""
    done: list[Any] = []
    rescored(
        [request("r1", stages=()), request("r2")],
        AdditiveGenerator({}),
        ("original",),
        skipped=Skipped(),
        on_progress=lambda: done.append(1),
    )

    assert len(done) == 2
