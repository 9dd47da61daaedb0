"""Shades of an explanation: texts cut at their tokens, and how strongly each part is colored by what its tokens
contribute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ragtrace.explanations import GeneratorAttribution, Offsets

__all__ = [
    "FAINTEST",
    "LEAST_SHARE",
    "LEVELS",
    "PALETTE",
    "Matrix",
    "Segment",
    "Strength",
    "answer_strength",
    "cut",
    "opponent",
    "strongest",
    "weighed",
    "words",
]

# Ten hues that stay apart with any color blindness: Okabe and Ito's without black, then two of Tol's and a gray.
PALETTE: Final = (
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233),
    (213, 94, 0), (240, 228, 66), (136, 34, 85), (153, 153, 51), (136, 136, 136),
)  # fmt: skip
LEVELS: Final = 8
_LONGEST_WORD: Final = 32  # scripts without spaces would be one word
FAINTEST: Final = 0.1  # of the scale: what is weaker has no shade
_OPPOSED: Final = 0.25  # of the scale: what speaks so much against a word is marked
_OPPONENT: Final = 0.5  # the same for documents, of which there are many
_LEAST: Final = {"log_probability": 0.5, "similarity": 0.05}  # of the answer's scale, so that noise stays pale
LEAST_SHARE: Final = 0.05
"""The same for the shares of the question's words, which are means over the answer."""

Matrix: TypeAlias = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Segment:
    """`text[start:end]` and the tokens (by number) that stand there; none for what lies between tokens."""

    start: int
    end: int
    text: str
    tokens: tuple[int, ...] = ()

    def total(self, values: Sequence[float]) -> float:
        """The sum of these tokens' values."""
        return sum(values[token] for token in self.tokens if token < len(values))


@dataclass(frozen=True, slots=True)
class Strength:
    """How values become shades: linear up to `scale`, of which there are `LEVELS`."""

    scale: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Strength:
        """From the values that are shown. The top twentieth may be shaded alike, so that one token does not pale the
        rest, down to half of the largest."""
        sizes = sorted(abs(value) for value in values)
        return cls(max(sizes[math.ceil(0.95 * len(sizes)) - 1], sizes[-1] / 2) if sizes else 0.0)

    def level(self, value: float) -> int:
        """From 0 (no shade) to `LEVELS`, whatever the sign."""
        if self.scale <= 0.0 or abs(value) < FAINTEST * self.scale:
            return 0
        return min(LEVELS, math.ceil(LEVELS * abs(value) / self.scale))

    def opposes(self, value: float, part: float = _OPPOSED) -> bool:
        """Whether a value speaks against its word by `part` of the scale, so that it is to be marked."""
        return self.scale > 0.0 and value <= -part * self.scale


def cut(text: str, spans: Sequence[Offsets]) -> list[Segment]:
    """The whole of `text` in segments: tokens whose offsets overlap are one, what lies between them has none, but for
    white space, which goes with the token behind it.

    Offsets beyond the text are clipped; a token without text (a special token) is in no segment.
    """
    segments: list[Segment] = []
    at = 0
    for start, end, tokens in _joined(text, spans):
        if start > at and text[at:start].isspace():
            start = at
        elif start > at:
            segments.append(Segment(at, start, text[at:start]))
        segments.append(Segment(start, end, text[start:end], tokens))
        at = end
    return [*segments, Segment(at, len(text), text[at:])] if at < len(text) else segments


def _joined(text: str, spans: Sequence[Offsets]) -> list[tuple[int, int, tuple[int, ...]]]:
    size = len(text)
    clipped = ((max(0, min(start, size)), min(end, size), token) for token, (start, end) in enumerate(spans))
    joined: list[tuple[int, int, tuple[int, ...]]] = []
    for start, end, token in sorted(place for place in clipped if place[0] < place[1]):
        if joined and start < joined[-1][1]:
            first, last, tokens = joined[-1]
            joined[-1] = (first, max(last, end), (*tokens, token))
        else:
            joined.append((start, end, (token,)))
    return joined


def answer_strength(segments: Sequence[Segment], generator: GeneratorAttribution) -> Strength:
    """One scale for all documents, by what each segment's best document adds to it."""
    best = (strongest(segment, generator.values) for segment in segments)
    scale = Strength.of(found[1] for found in best if found is not None).scale
    return Strength(max(scale, _LEAST[generator.unit]))


def weighed(
    text: str, spans: Sequence[Offsets], weights: Sequence[float], least: float = 0.0
) -> tuple[list[Segment], list[float], Strength]:
    """The words of a text, the weight of each, and the scale of their shades, `least` or more."""
    segments = words(cut(text, spans))
    totals = [segment.total(weights) for segment in segments]
    scale = Strength.of(total for segment, total in zip(segments, totals, strict=True) if segment.tokens).scale
    return segments, totals, Strength(max(scale, least))


def strongest(segment: Segment, values: Matrix) -> tuple[int, float] | None:
    """The row that adds most to a segment, and how much; None where nothing is known of it or no row adds anything."""
    if not segment.tokens or not values:
        return None
    totals = [segment.total(row) for row in values]
    best = max(range(len(totals)), key=totals.__getitem__)
    return (best, totals[best]) if totals[best] > 0.0 else None


def opponent(segment: Segment, values: Matrix, strength: Strength) -> int | None:
    """The row that speaks most against a segment, where one does so strongly."""
    if not segment.tokens or not values:
        return None
    totals = [segment.total(row) for row in values]
    worst = min(range(len(totals)), key=totals.__getitem__)
    return worst if strength.opposes(totals[worst], _OPPONENT) else None


def words(segments: Sequence[Segment]) -> list[Segment]:
    """The segments with the parts of a word joined."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        if last is not None and _belongs(last, segment):
            tokens = (*last.tokens, *segment.tokens)
            joined[-1] = Segment(last.start, segment.end, last.text + segment.text, tokens)
        else:
            joined.append(segment)
    return joined


def _belongs(last: Segment, segment: Segment) -> bool:
    """Whether a segment goes on with the word before it."""
    is_short = segment.end - last.start <= _LONGEST_WORD
    return is_short and last.text[-1].isalnum() and segment.text[0].isalnum()
