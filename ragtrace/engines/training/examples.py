"""Labelled claims, and to which part of the data a source belongs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = ["ENTAILED", "Example", "Label", "Part", "is_held_out", "part_of"]

Label: TypeAlias = Literal["entailment", "neutral", "contradiction", "unsupported"]
"""`unsupported`: neutral or contradiction, the data do not say which."""
Part: TypeAlias = Literal["train", "calibrate", "held_out"]
ENTAILED: Final = "entailment"
_CALIBRATE: Final = 4  # one in so many development sources


@dataclass(frozen=True, slots=True)
class Example:
    """A claim, the texts that it should rest on, and whether it does.

    Attributes:
        source: what the texts come from; all examples of a source fall into the same part.
        answer: the answer that it is a part of, where the data have answers.
        lexical: the support by words alone, where the claim is part of an answer.
        certain: False where people marked it as unsupported but true by general knowledge.
        wrong: start and end of what people marked in the claim; None where they did not mark.
    """

    dataset: str
    source: str
    claim: str
    evidence: tuple[str, ...]
    label: Label
    answer: str | None = None
    lexical: float | None = None
    certain: bool = True
    wrong: tuple[tuple[int, int], ...] | None = None

    @property
    def supported(self) -> bool:
        """Whether the evidence entails the claim."""
        return self.label == ENTAILED

    @property
    def part(self) -> Part:
        """Where its source falls."""
        return part_of(self.source)


def is_held_out(source: str) -> bool:
    """Whether nothing may be fitted or chosen on `source`: one half of all sources, by a hash of the name."""
    return _draw(source) % 2 == 1


def part_of(source: str) -> Part:
    """Held out, or for training, or for the calibration (a quarter of what is not held out)."""
    if is_held_out(source):
        return "held_out"
    return "calibrate" if _draw(source) // 2 % _CALIBRATE == 0 else "train"


def _draw(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "big")
