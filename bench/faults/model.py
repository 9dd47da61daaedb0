"""What a fault is, and what it may look at: the question's known evidence and its healthy run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.datasets.model import Case
from ragtrace.demo.corpus import Chunk
from ragtrace.demo.corpus.documents import JURISDICTIONS, Document
from ragtrace.demo.retrieval import Hit
from ragtrace.types import Stage

__all__ = ["STRENGTHS", "Fault", "Scene", "passage"]

STRENGTHS: Final = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault at one strength: 1 (slight) to 3 (gross)."""

    stage: Stage
    kind: str
    strength: int

    def __str__(self) -> str:
        return f"{self.kind} {self.strength}"


@dataclass(frozen=True, slots=True)
class Scene:
    """One request before the fault: its case, what the healthy pipeline ranked, and what the corpus offers.

    evidence: chunk id -> sentences, of the chunks that the fault may take away: the known evidence, or for a second
    fault behind a first one that took the evidence, the chunks that would have come first instead.
    common: how many passages hold a word; strangers: statements of other questions' answers; names: names to swap in.
    """

    case: Case
    evidence: Mapping[str, Sequence[str]]
    ranked: Sequence[Hit]
    packed: int
    common: Mapping[str, int]
    strangers: Sequence[str]
    names: Sequence[str]
    seed: str

    def chance(self, salt: str) -> random.Random:
        """Random numbers that this scene alone decides."""
        return random.Random(f"{self.seed}:{salt}")


def passage(chunk_id: str, text: str, **metadata: str) -> Chunk:
    """A passage in the demo's form, of a document of the one edition that there is, so that no date ranks it."""
    document = Document("passages", "passages", JURISDICTIONS[0], "1.0", None, 2000)
    return Chunk(chunk_id, text, document, chunk_id, "passage", metadata)
