"""Packing: budget, limit, duplicates and truncation."""

from __future__ import annotations

from typing import cast

from ragtrace.demo._generation import BudgetPacker
from ragtrace.demo._retrieval import Hit
from ragtrace.engines.encoder import Encoder


class _WordEncoder:
    """Counts words as tokens."""

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def truncate(self, text: str, tokens: int) -> str:
        return " ".join(text.split(" ")[:tokens])


def _packer(budget: int, limit: int = 8) -> BudgetPacker:
    return BudgetPacker(cast(Encoder, _WordEncoder()), budget=budget, limit=limit)


def _hit(name: str, words: int) -> Hit:
    half = " ".join(["word"] * (words // 2 - 1))
    return Hit(name, f"{name}:\n{half} {name}a. {half} {name}b.", 1.0, "doc", "source")


def test_all_fit() -> None:
    """Within the budget everything is packed whole, in rank order."""
    context = _packer(500).pack([_hit("a", 50), _hit("b", 50)])
    assert [chunk.chunk_id for chunk in context.chunks] == ["a", "b"]
    assert not any(chunk.truncated for chunk in context.chunks)
    assert context.dropped == []


def test_the_last_chunk_is_cut_behind_a_sentence() -> None:
    """What no longer fits is cut to whole sentences; token counts say by how much."""
    context = _packer(200).pack([_hit("a", 100), _hit("b", 120)])
    cut = context.chunks[1]
    assert cut.truncated
    assert cut.text.endswith("ba.")
    assert cut.tokens < cut.tokens_full == 121


def test_a_small_rest_is_dropped() -> None:
    """A chunk of which too little would remain is dropped for the budget, and so is all behind it that is too long."""
    context = _packer(120).pack([_hit("a", 100), _hit("b", 100)])
    assert [(chunk.chunk_id, chunk.reason) for chunk in context.dropped] == [("b", "budget")]


def test_limit_and_duplicates() -> None:
    """A body that is in the prompt already is a duplicate; past the limit nothing is packed."""
    first = _hit("a", 20)
    again = Hit("copy", first.text, 0.9, "doc", "source")
    context = _packer(500, limit=2).pack([first, again, _hit("b", 20), _hit("c", 20)])
    assert [chunk.chunk_id for chunk in context.chunks] == ["a", "b"]
    assert [(chunk.chunk_id, chunk.reason) for chunk in context.dropped] == [("copy", "duplicate"), ("c", "limit")]


def test_the_budget_is_kept() -> None:
    """Packed tokens never exceed the budget."""
    for budget in range(0, 400, 37):
        context = _packer(budget).pack([_hit(name, 90) for name in "abcdef"])
        assert sum(chunk.tokens for chunk in context.chunks) <= budget
        assert len(context.chunks) + len(context.dropped) == 6
