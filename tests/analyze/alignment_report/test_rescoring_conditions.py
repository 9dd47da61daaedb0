"""Requests as they would stand under another condition."""

from __future__ import annotations

import re

import pytest

from ragtrace.analyze.alignment import ranking_of
from ragtrace.analyze.alignment_report import under_condition
from ragtrace.analyze.alignment_report._rates import condition_of
from ragtrace.analyze.prompts import SubsetPrompts, Unexplained
from ragtrace.errors import ConfigurationError
from ragtrace.types import PackedChunk, Packing, PackRun, RequestRecord, replace
from tests.analyze.alignment_report.explained import request

NUMBERED = "Say {chunk:} as it is.\n[1] {chunk:a}\n[2] {chunk:b}\n[3] {chunk:c}\nQuestion?"


def _prompt(record: RequestRecord) -> str:
    prompts = SubsetPrompts.of(record)
    return prompts.of_documents(prompts.documents)


def _repacked(record: RequestRecord, **texts: str | None) -> RequestRecord:
    """The record with other texts of some documents."""
    packing = record.packing
    assert packing is not None
    chunks = tuple(replace(chunk, text=texts.get(chunk.chunk_id, chunk.text)) for chunk in packing.chunks)
    stages = tuple(
        replace(run, packing=Packing(chunks=chunks)) if isinstance(run, PackRun) else run for run in record.stages
    )
    return replace(record, stages=stages)


def test_original_changes_the_name_alone() -> None:
    """The record is the same but for its attribute."""
    record = request("r", "abc", NUMBERED)
    found = under_condition(record, "original")

    assert condition_of(found) == "original"
    assert replace(found, attributes={}) == record


@pytest.mark.parametrize("template", [None, NUMBERED])
def test_shuffled_moves_documents_and_nothing_else(template: str | None) -> None:
    """Each text once, numbers in their order, ranks as they were; another place for some document."""
    record = request("r", "abc", template)
    found = under_condition(record, "shuffled", seed=3)
    before, now = _prompt(record), _prompt(found)

    assert now != before
    assert sorted(re.findall(r"text \w", now)) == sorted(re.findall(r"text \w", before))
    assert re.findall(r"\[\d\]", now) == ["[1]", "[2]", "[3]"]
    assert re.sub(r"text \w\.", "", now) == re.sub(r"text \w\.", "", before)
    assert ranking_of(found, "abc") == ("a", "b", "c")
    assert SubsetPrompts.of(found).documents == tuple(re.findall(r"The text (\w)", now))
    assert condition_of(found) == "shuffled"


def test_shuffled_is_a_matter_of_seed_and_request() -> None:
    """The same seed gives the same order; seeds and requests give all orders."""
    orders = {
        _prompt(under_condition(request(f"r{number}", "abc", NUMBERED), "shuffled", seed))
        for number in range(4)
        for seed in range(10)
    }
    again = [_prompt(under_condition(request("r", "abc", NUMBERED), "shuffled", 5)) for _ in range(2)]

    assert len(orders) == 6
    assert again[0] == again[1]


def test_a_subset_of_a_shuffled_prompt_holds_its_documents() -> None:
    """The changed template serves any subset."""
    prompts = SubsetPrompts.of(under_condition(request("r", "abc", NUMBERED), "shuffled", seed=3))

    assert "text b." in prompts.of_documents({"b"})
    assert "text a." not in prompts.of_documents({"b"})


@pytest.mark.parametrize(
    "template",
    [
        "Alpha: {chunk:a}\nBeta: {chunk:b}\nGamma: {chunk:c}\nQuestion?",
        "Edition 2023: {chunk:a}\nEdition 2024: {chunk:b}\nEdition 2025: {chunk:c}\nQuestion?",
        "Alpha: {chunk:a}\nBeta: {chunk:b}\nQuestion?",
    ],
)
def test_titles_forbid_another_order(template: str) -> None:
    """What names a document would stand beside another one."""
    with pytest.raises(Unexplained, match="says of each document more than its number"):
        under_condition(request("r", "abc", template), "shuffled")


@pytest.mark.parametrize("template", ["{chunk:a}\n\n{chunk:b}", "Context:\n{chunk:a}\n---\n{chunk:b}\nQuestion?"])
def test_two_documents_without_titles_can_be_moved(template: str) -> None:
    """A separator names nobody."""
    records = [under_condition(request("r", "ab", template), "shuffled", seed) for seed in range(8)]

    assert len({_prompt(record) for record in records}) == 2


def test_deduplicated_keeps_the_best_ranked_of_equal_texts() -> None:
    """White space and case do not tell texts apart; the best rank stays, wherever it stands in the prompt."""
    record = _repacked(request("r", "abc", NUMBERED), c="the  TEXT a. more of it.")
    found = under_condition(record, "deduplicated")

    assert found.packing is not None
    assert [chunk.chunk_id for chunk in found.packing.chunks] == ["a", "b"]
    assert [(drop.chunk_id, drop.reason) for drop in found.packing.dropped] == [("c", "duplicate")]
    assert _prompt(found) == (
        "Say {chunk:} as it is.\n[1] The text a. More of it.\n[2] The text b. More of it.\nQuestion?".replace(
            "{chunk:}", "{"
        )
    )
    assert condition_of(found) == "deduplicated"


def test_deduplicated_leaves_other_numbers_alone() -> None:
    """A document that goes from the middle takes its number along, so that citations still fit."""
    record = _repacked(request("r", "abc", NUMBERED), b="The text a. More of it.")

    assert "[1] The text a. More of it.\n[3] The text c." in _prompt(under_condition(record, "deduplicated"))


def test_deduplicated_without_duplicates_changes_nothing() -> None:
    """The prompt is the same."""
    record = request("r", "abc", NUMBERED)

    assert _prompt(under_condition(record, "deduplicated")) == _prompt(record)


def test_the_given_record_stays_as_it_is() -> None:
    """The function is pure."""
    record = _repacked(request("r", "abc", NUMBERED), c="The text a. More of it.")
    before = replace(record)
    for condition in ("deduplicated", "shuffled"):
        under_condition(record, condition)

    assert record == before


def test_what_is_missing_is_said() -> None:
    """Hidden texts, no packing, an id twice, a template of another packing, a condition that does not exist."""
    record = request("r", "abc", NUMBERED)
    chunk = PackedChunk(chunk_id="a", position=1, text="A")
    twice = replace(record, stages=(PackRun(packing=Packing(chunks=(chunk, chunk))),))

    with pytest.raises(Unexplained, match="'b' was not kept"):
        under_condition(_repacked(record, b=None), "deduplicated")
    with pytest.raises(Unexplained, match="no documents were packed"):
        under_condition(replace(record, stages=()), "shuffled")
    with pytest.raises(Unexplained, match="twice"):
        under_condition(twice, "shuffled")
    with pytest.raises(Unexplained, match="not packed"):
        under_condition(request("r", "ab", NUMBERED), "shuffled")
    with pytest.raises(ConfigurationError, match="original, deduplicated, shuffled, shuffled-deduplicated"):
        under_condition(record, "sorted")


def test_shuffled_without_duplicates() -> None:
    """Both at once: the worse ranked of equal texts is gone, the others change places, and k falls."""
    record = request("r", "abc", NUMBERED)
    repacked = _repacked(record, c="the  TEXT a. more of it.")
    found = [under_condition(repacked, "shuffled-deduplicated", seed) for seed in range(8)]
    kept = {tuple(chunk.chunk_id for chunk in each.packing.chunks) for each in found if each.packing is not None}
    assert kept == {("a", "b"), ("b", "a")}
    assert {condition_of(each) for each in found} == {"shuffled-deduplicated"}
