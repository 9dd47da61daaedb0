"""Miscitation: how sure it is that a claim cites the wrong one of the packed chunks.

What a claim says is laid beside the chunks that it cites and beside all others of the prompt. A claim that no chunk
bears out says nothing of its citations: it is the generator's. So does one whose cited chunk says much the same as the
other one, as duplicates and editions of one text do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ragtrace.coverage._evidence import hold_the_same, repeat_each_other
from ragtrace.coverage.citations import SUPPORTED
from ragtrace.coverage.relevance import Rarity, spoken_of
from ragtrace.coverage.support import Evidence, Statement
from ragtrace.coverage.support.lexical import Ground
from ragtrace.coverage.text import content_words
from ragtrace.coverage.values import Value
from ragtrace.types import Claim

__all__ = ["SURE", "BearingGap", "Miscitation", "bearing_gap", "miscitation", "miscitation_odds"]

SURE: Final = 0.98  # from which a claim cites the wrong chunk,
SURE_UNBORNE: Final = 0.995  # and where words do not see that the other chunk supports the claim
OPEN: Final = 0.97  # the most, where another reading of the citation may be right
MOST: Final = 20  # values and names of a claim that are looked up
TOLD: Final = 0.3  # share of a claim's words that another chunk must hold beyond the cited one to be told by them
WORDS: Final = 3  # content words, values and names of a claim, from which it can be sure
# Of claims whose cited chunk bears them out, those that another one of the prompt bears out as well: of any others, and
# of two that say much the same.
ALSO: Final = 0.1
ALSO_SAME: Final = 0.9
_ANY: Final = 0.03  # what counts for each chunk beside its support by words
SUREST: Final = 5.0  # log odds beyond which words are not believed beside a model


class Miscitation(NamedTuple):
    """How sure it is that a claim cites the wrong chunk, in (0, 1), the cited and the other chunk by their ids."""

    sureness: float
    cited: str
    other: str


class _Bearing(NamedTuple):
    """How far one chunk bears a claim out, each in [0, 1]: its support, the share of the claim's words in one place
    of the chunk, and the share of its values and names that the chunk has."""

    support: float
    words: float
    values: float


class BearingGap(NamedTuple):
    """The cited chunk, the other one, and how much better the other one bears the claim out, each in [-1, 1]."""

    cited: Evidence
    other: Evidence
    gaps: _Bearing


# Fitted by `python bench/citations.py` on citing requests of bench/domains, sound ones against swapped marks.
_BASE: Final = -0.96
_WEIGHTS: Final = _Bearing(support=2.71, words=5.97, values=5.09)


def miscitation(
    claim: Claim,
    packed: Sequence[Evidence],
    supports: Mapping[str, float],
    rarity: Rarity,
    *,
    is_numbered: bool = False,
) -> Miscitation | None:
    """How sure it is that a claim cites the wrong chunk; None where it cites none, or there is no other.

    1 / (1 + exp(-(b + Σ w_i · (other_i - cited_i)))) over support, words and values, for the cited and the other chunk
    that bear the claim out best. Below `SURE` where the claim says little, where the two chunks repeat each other,
    where it would be right if numbers counted from 0, where words do not tell the chunks apart and the cited one
    gives a figure of it by arithmetic, or, below `SURE_UNBORNE`, where the other one does not support the claim.
    packed: the chunks in the order of the prompt;
    supports: chunk id -> support of the claim in [0, 1]; is_numbered: whether it is known from which number on chunks
    are counted.
    """
    gap = bearing_gap(claim, packed, supports, rarity)
    if gap is None:
        return None
    sureness = 1 / (1 + math.exp(-_log_odds(gap)))
    is_next = not is_numbered and packed.index(gap.other) == packed.index(gap.cited) + 1
    is_supported = supports.get(gap.other.chunk_id, 0.0) >= SUPPORTED
    is_same = repeat_each_other(gap.cited, gap.other) or hold_the_same(claim.text, gap.cited, gap.other)
    is_open = _says_little(claim) or is_same or (not is_supported and sureness < SURE_UNBORNE)
    is_open = is_open or (is_next and _is_number(claim, gap.cited.chunk_id))
    is_open = is_open or (gap.gaps.words < TOLD and _reckons(claim, gap.cited))
    return Miscitation(min(sureness, OPEN) if is_open else sureness, gap.cited.chunk_id, gap.other.chunk_id)


def miscitation_odds(
    claim: Claim,
    packed: Sequence[Evidence],
    odds: Mapping[str, float],
    by_words: Claim,
    rarity: Rarity,
    *,
    is_numbered: bool = False,
) -> tuple[float, str, str] | None:
    """The log of the ratio of likelihoods that a claim cites the wrong chunk, against a right one, by a calibrated
    model and by words, with the ids of the cited and of the other chunk; None where it cites none that was judged, or
    no other was.

    odds: of the chunks that the model was asked about, the log odds that each bears the claim out; by_words: the claim
    as words judge it. If it cites the right chunk, that one bears it out, and another one may do so besides; if not,
    another one does alone. Words tell which chunk of each group that would be, and are heard once more as they are.
    """
    gap = bearing_gap(by_words, packed, by_words.supports, rarity)
    named = {mark.chunk_id for mark in claim.citations}
    judged = [chunk for chunk in packed if chunk.chunk_id in odds]
    groups = [chunk for chunk in judged if chunk.chunk_id in named], [c for c in judged if c.chunk_id not in named]
    if gap is None or not all(groups):
        return None
    cited, other = (max(group, key=lambda chunk: odds[chunk.chunk_id]) for group in groups)
    own, others = (_any_bears_it_out(group, odds, by_words.supports) for group in groups)
    is_same = repeat_each_other(cited, other) or hold_the_same(claim.text, cited, other)
    also = ALSO_SAME if is_same else ALSO
    by_model = others - own - math.log(1 - also + also * math.exp(others))
    found = by_model + min(max(_log_odds(gap), -SUREST), SUREST)
    if not is_numbered and packed.index(other) == packed.index(cited) + 1 and _is_number(claim, cited.chunk_id):
        found = min(found, math.log(OPEN / (1 - OPEN)))
    return found, cited.chunk_id, other.chunk_id


def _any_bears_it_out(chunks: Sequence[Evidence], odds: Mapping[str, float], supports: Mapping[str, float]) -> float:
    """The log odds that one of the chunks bears a claim out, against that none does; words tell which is likely."""
    likely = [_ANY + supports.get(chunk.chunk_id, 0.0) for chunk in chunks]
    borne = math.fsum(share * math.exp(odds[chunk.chunk_id]) for share, chunk in zip(likely, chunks, strict=True))
    return math.log(borne / math.fsum(likely))


def bearing_gap(
    claim: Claim, packed: Sequence[Evidence], supports: Mapping[str, float], rarity: Rarity
) -> BearingGap | None:
    """The chunk that a claim cites and the one that it does not, of each the one that bears it out best, and by how
    much the other one does so better; None where there are not both."""
    named = {mark.chunk_id for mark in claim.citations if mark.chunk_id}
    cited = [chunk for chunk in packed if chunk.chunk_id in named]
    others = [chunk for chunk in packed if chunk.chunk_id not in named]
    if not cited or not others:
        return None
    words, statement = frozenset(content_words(claim.text)), Statement.read(claim)
    bearings = {
        chunk.chunk_id: _bearing(words, statement, chunk, supports.get(chunk.chunk_id, 0.0), rarity) for chunk in packed
    }
    own, other = (max(group, key=lambda chunk: _strength(bearings[chunk.chunk_id])) for group in (cited, others))
    both = zip(bearings[own.chunk_id], bearings[other.chunk_id], strict=True)
    return BearingGap(own, other, _Bearing(*(theirs - mine for mine, theirs in both)))


def _log_odds(gap: BearingGap) -> float:
    return _BASE + math.fsum(weight * value for weight, value in zip(_WEIGHTS, gap.gaps, strict=True))


def _says_little(claim: Claim) -> bool:
    statement = Statement.read(claim)
    words = {word for word in content_words(claim.text) if "'" not in word}  # "you're" says nothing
    return len(words) + len(_exact(statement)) + len(statement.names) < WORDS


def _reckons(claim: Claim, cited: Evidence) -> bool:
    """Whether a claim computes a figure from those of the chunk that it cites, so that another one may hold it by
    chance."""
    return bool(Ground([cited.reading]).computed(Statement.read(claim)))


def _is_number(claim: Claim, chunk_id: str) -> bool:
    """Whether a claim cites a chunk by a number."""
    return any(mark.chunk_id == chunk_id and any(map(str.isdigit, mark.marker)) for mark in claim.citations)


def _bearing(words: frozenset[str], statement: Statement, chunk: Evidence, support: float, rarity: Rarity) -> _Bearing:
    ground = Ground([chunk.reading])
    values, names = _exact(statement)[:MOST], statement.names[:MOST]
    held = sum(map(ground.holds, values)) + sum(map(ground.names, names))
    count = len(values) + len(names)
    return _Bearing(support, spoken_of(words, chunk, rarity), held / count if count else 0.0)


def _exact(statement: Statement) -> list[Value]:
    return [value for value in statement.values if value.is_exact]


def _strength(bearing: _Bearing) -> float:
    return math.fsum(weight * value for weight, value in zip(_WEIGHTS, bearing, strict=True))
