"""What a claim says, read once for all evidence that it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.claims.frames import FRAME_WORDS, mentions_blanked
from ragtrace.coverage.support.reading import counted
from ragtrace.coverage.text import is_content, located_terms, negation_count
from ragtrace.coverage.values import Value, values
from ragtrace.types import Claim

__all__ = ["Statement"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim without its citations and without the words that only frame it.

    `terms`: words and numbers in order; `places`: of each, the index of the value that it is part of, or -1; `words`:
    those that are part of no value; `counts`: for each value, what it counts ("claims" in "3 claims").
    """

    terms: tuple[str, ...]
    places: tuple[int, ...]
    words: frozenset[str]
    values: tuple[Value, ...]
    counts: tuple[str, ...]
    negations: int

    @classmethod
    def read(cls, claim: Claim) -> Statement:
        """Offsets stay those of the claim's text."""
        known = [mark for mark in claim.citations if mark.chunk_id]
        text = mentions_blanked(without_citations(claim.text, known, claim.start))
        found = values(text)
        located = [(term, _place(start, found)) for term, start in located_terms(text) if term not in FRAME_WORDS]
        return cls(
            terms=tuple(term for term, _ in located),
            places=tuple(place for _, place in located),
            words=frozenset(term for term, place in located if place < 0 and is_content(term)),
            values=found,
            counts=tuple(counted(text, value) for value in found),
            negations=negation_count(text),
        )


def _place(start: int, found: Sequence[Value]) -> int:
    return next((place for place, value in enumerate(found) if value.start <= start < value.end), -1)
