"""Which chunks a packer left out, and why."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.record.coercion import Known, read_packing
from ragtrace.types import Candidate

TEXTS = {
    "a": "The first chunk is about motor insurance in Ireland.",
    "b": "The second chunk is about travel, and about luggage.",
    "b2": " The second chunk is  about travel,\nand about luggage. ",
    "b3": "about travel, and about luggage.",
    "c": "The third chunk is about pets and what a surgeon costs.",
    "d": "The fourth chunk is about household contents and bicycles.",
    "e": None,
}
KNOWN = Known([Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(TEXTS.items(), 1)])


def reasons(value: Any, inputs: str, budget: int | None = None) -> dict[str, str]:
    """Why each chunk was left out."""
    packing = read_packing(value, KNOWN, inputs.split(), budget).packing
    assert all(chunk.inferred == (chunk.why != chunk.reason) for chunk in packing.dropped)
    return {chunk.chunk_id: chunk.why for chunk in packing.dropped}


def prompt(*names: str) -> str:
    """A prompt with these chunks."""
    return "\n\n".join(["Use:", *(TEXTS[name] or "" for name in names), "Why?"])


@pytest.mark.parametrize(
    ("value", "inputs", "budget", "why"),
    [
        (["a", "b"], "a b c d", None, {"c": "probably limit", "d": "probably limit"}),
        (["b", "a"], "a b c", None, {"c": "probably limit"}),
        (["a", "b"], "a b c", 90, {"c": "probably budget"}),
        ({"chunks": ["a"], "budget": 90}, "a b", None, {"b": "probably budget"}),
        (["a", TEXTS["b"][:30] + "…"], "a b c", None, {"c": "probably budget"}),  # type: ignore[index]
        (["a", "c"], "a b c", None, {"b": "probably filter"}),
        (["a", "c"], "a b c d", 90, {"b": "probably filter", "d": "unknown"}),
        (["b", "c"], "b b2 b3 c d", None,
         {"b2": "probably duplicate", "b3": "probably duplicate", "d": "probably limit"}),
        ([TEXTS["b"][:30] + "…"], "b b2 b3", None, {"b2": "probably duplicate", "b3": "probably budget"}),  # type: ignore[index]
        ({"chunks": ["a"], "dropped": [("b", "stale"), "c", ("d", "budget")]}, "a b c d", None,
         {"b": "stale", "c": "probably budget", "d": "budget"}),
        ({"chunks": ["a", "c"], "dropped": [("b", "duplicate")]}, "a b c d", None,
         {"b": "duplicate", "d": "probably limit"}),
        ({"chunks": ["a"], "dropped": ["z"]}, "a b", None, {"z": "unknown", "b": "probably limit"}),
        ([], "a b", 90, {"a": "unknown", "b": "unknown"}),
        (["z"], "a b", None, {"a": "unknown", "b": "unknown"}),
        (["a", object()], "a b", None, {"b": "unknown"}),
        (["a", "c"], "a e c d", None, {"e": "probably filter", "d": "unknown"}),
        (prompt("a", "c"), "a e c d", None, {"e": "unknown", "d": "probably limit"}),
        (prompt("a", "c"), "a b c", None, {"b": "probably filter"}),
        (prompt("a", "b"), "a b2 b b3 c", 90,
         {"b2": "probably duplicate", "b3": "probably duplicate", "c": "probably budget"}),
        (prompt("d"), "a b", None, {"a": "unknown", "b": "unknown"}),
        (["a"], "", None, {}),
    ],
)  # fmt: skip
def test_reasons(value: Any, inputs: str, budget: int | None, why: dict[str, str]) -> None:
    """The host's word where there is one; else what the packing looks like, and nothing where that is not certain."""
    assert reasons(value, inputs, budget) == why
