"""The rationale of a claim: the sentence of a chunk that supports it, contradicts it, or comes nearest to it.

Found from the texts when it is asked for, and not stored. A sentence is chosen by how much of the claim's words it
holds, each weighed by its rarity among the chunk's sentences; a value counts in whichever form it is written.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragtrace.coverage.citations import SUPPORTED
from ragtrace.coverage.support.contradiction import compare, rarities_of
from ragtrace.coverage.support.readings import HEADING, Evidence, Statement, Vocabulary, Window
from ragtrace.coverage.text import Sentence, sentences
from ragtrace.coverage.values import says
from ragtrace.types import Candidate, Claim, PackedChunk

__all__ = ["Rationale", "Stance", "rationales"]

Stance: TypeAlias = Literal["supports", "contradicts", "nearest"]
"""What a chunk does to a claim; `nearest`: of all chunks it says most of it, and does not support it."""

ADDED: Final = 0.25  # share of a claim's words, by rarity, that a second sentence must add to be quoted as well
LONGEST: Final = 400  # characters of a sentence that are quoted
_STRIDE: Final = 100  # characters between two parts of a longer sentence that are compared


@dataclass(frozen=True, slots=True)
class Rationale:
    """What a claim's state rests on: one sentence of a chunk, or two where the claim joins them.

    sentences: in the order of the chunk, with offsets in its text; of one that is longer than `LONGEST` the part that
    holds most of the claim.
    """

    chunk_id: str
    stance: Stance
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """The quotation on one line, with dots for what it leaves out."""
        return " … ".join(" ".join(sentence.text.split()) for sentence in self.sentences)


def rationales(
    claims: Sequence[Claim], packed: Sequence[PackedChunk], candidates: Sequence[Candidate] = ()
) -> tuple[Rationale | None, ...]:
    """The rationale of each judged claim, from the chunk that decided: the one that contradicts it, the one in the
    prompt that supports it best, else a candidate outside of the prompt that supports it, else the nearest.

    None for a claim that is not factual, of which no chunk says anything, or whose chunk's text was not kept.
    """
    texts = {item.chunk_id: item.text for item in candidates if item.text}
    within = {chunk.chunk_id: chunk.text for chunk in packed if chunk.text}
    pool = [Evidence.read(*each) for each in (texts | within).items()]
    vocabulary = Vocabulary(pool)
    return tuple(_rationale(claim, within, texts, vocabulary) for claim in claims)


def _rationale(
    claim: Claim, within: Mapping[str, str], texts: Mapping[str, str], vocabulary: Vocabulary
) -> Rationale | None:
    stance, chunk_id, text = _deciding(claim, within, texts)
    if not claim.factual or chunk_id is None or text is None:
        return None
    statement = Statement.read(claim)
    parts = sentences(text)
    against = _contradicting(statement, chunk_id, text, vocabulary)
    chosen = [part for place, part in enumerate(parts) if (place in against) == (stance == "contradicts")] or parts
    heading = _heading(text)
    quotable = [piece for part in chosen for piece in _pieces(part, heading)]
    found = _holding_most(statement, quotable, heading, alone=stance == "contradicts")
    return Rationale(chunk_id, stance, tuple(found)) if found else None


def _deciding(
    claim: Claim, within: Mapping[str, str], texts: Mapping[str, str]
) -> tuple[Stance, str | None, str | None]:
    """What decided on the claim: the stance, the chunk's id, and its text."""
    best, outside = claim.best_chunk, claim.unselected_chunk
    if (claim.contradiction or 0.0) >= SUPPORTED:
        return "contradicts", best, within.get(best or "")
    if (claim.support or 0.0) >= SUPPORTED:
        return "supports", best, within.get(best or "")
    if outside is not None:
        return "supports", outside, texts.get(outside)
    return "nearest", best, within.get(best or "")


def _contradicting(statement: Statement, chunk_id: str, text: str, vocabulary: Vocabulary) -> frozenset[int]:
    """The places of the sentences that contradict the claim as far as words tell; that the chunk does is known."""
    reading = Evidence.read(chunk_id, text).reading
    return compare(statement, [reading], rarities_of(statement, vocabulary), lambda value: "unknown")[0].sentences


def _heading(text: str) -> int:
    """Where the first line ends if it is a heading and no sentence, else 0."""
    first, _, rest = text.partition("\n")
    is_heading = rest.strip() and len(first) <= HEADING and not first.rstrip().endswith((".", "!", "?", ";", ","))
    return len(first) if is_heading else 0


def _pieces(part: Sentence, heading: int) -> Iterator[Sentence]:
    """A sentence as it is, without a heading that no paragraph parts from it; of a longer one its parts, which overlap
    and begin and end between words."""
    if part.start < heading < part.end:
        yield Sentence(part.start, heading, part.text[: heading - part.start])
        rest = part.text[heading - part.start :].lstrip()
        part = Sentence(part.end - len(rest), part.end, rest)
    last = len(part.text) - LONGEST
    for offset in range(0, last + _STRIDE, _STRIDE) if last > 0 else (0,):
        first = part.text.rfind(" ", 0, offset) + 1
        cut = part.text.rfind(" ", first, first + LONGEST) if len(part.text) - first > LONGEST else len(part.text)
        end = cut if cut > first else first + LONGEST  # one word without an end
        piece = part.text[first:end].rstrip()
        yield Sentence(part.start + first, part.start + first + len(piece), piece)


def _holding_most(statement: Statement, parts: Sequence[Sentence], heading: int, *, alone: bool) -> list[Sentence]:
    """The sentence that holds most of the claim, and unless `alone` one that adds enough of what it lacks, which may be
    the heading."""
    windows = [Window(part.text) for part in parts]
    frequency = Counter(term for window in windows for term in window.vocabulary)
    weights = {term: math.log1p((len(windows) + 1) / (frequency[term] + 0.5)) for term in statement.terms}
    held = [_held(statement, window) for window in windows]
    body = [place for place, part in enumerate(parts) if part.end > heading] or list(range(len(parts)))
    total, lacking = sum(weights.values()), set(weights)
    chosen: list[int] = []
    for places in (body,) if alone else (body, range(len(parts))):
        gains = {place: sum(weights[term] for term in held[place] & lacking) for place in places}
        best = max(gains, key=gains.__getitem__, default=0)
        if not gains.get(best) or (chosen and gains[best] < ADDED * total):
            break
        chosen.append(best)
        lacking -= held[best]
    return [parts[place] for place in sorted(chosen)]


def _held(statement: Statement, window: Window) -> frozenset[str]:
    """The terms of a claim that a sentence says, those of a value also where it is written in another form."""
    stated = [any(says(value, other) for other in window.values) for value in statement.values]
    return frozenset(
        term
        for term, place in zip(statement.terms, statement.places, strict=True)
        if term in window.vocabulary or (place >= 0 and stated[place])
    )
