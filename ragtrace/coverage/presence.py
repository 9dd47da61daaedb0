"""Evidence presence: how likely the candidates hold what the question needs, where no oracle can tell.

Facets alone seldom tell: most questions name none that an absent chunk would leave unmet. What shows a lost chunk is
that no candidate speaks of the question as it would, that the generator declined although it was given the best
candidates, or that its answer rests on nothing that was retrieved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from typing import Final

from ragtrace.coverage.equivalence import repeat_each_other
from ragtrace.coverage.support import Evidence, Vocabulary
from ragtrace.coverage.text import content_words
from ragtrace.types import Candidate, Claim

__all__ = ["are_alike", "evidence_presence", "spoken_share", "told_share"]

FEWEST: Final = 10  # candidates: among fewer, what is rare or stands out cannot be told
REPEATS: Final = 2  # so many candidates that repeat the best one: editions, which words do not tell apart


# Weights of the logarithm of the odds, fitted by logistic regression on faults in requests of SciFact, CLAP-NQ and
# MTRAG, both outcomes weighed alike. No score of the retriever is among them: it would speak for itself.
BASE, SPOKEN, FIRST, TOLD, DECLINED = -7.18, 1.00, 4.04, 5.61, -4.33


def evidence_presence(
    query: str, candidates: Sequence[Candidate], *, claims: Sequence[Claim] = (), declined: bool = False
) -> float | None:
    """The estimated probability that the candidates hold the evidence, in (0, 1); 0 where there are no candidates.

    1 / (1 + exp(-(b + w_1 · spoken + w_2 · first + w_3 · told + w_4 · declined))), see `spoken_share` and `told_share`;
    `first` is the share of the question's words that the best candidate holds. Absent and present evidence are taken to
    be alike frequent. None where the candidates are few or have no text, or the question has no words. Where they are
    alike (see `are_alike`), only absence can be told: None from 0.5 on. claims: those of the answer; declined: it
    abstains although the best candidates stood in its prompt.
    """
    if not candidates:
        return 0.0
    pool = _read(sorted(candidates, key=lambda candidate: candidate.rank))
    words = content_words(query)
    if len(pool) < FEWEST or not words or not any(chunk.windows for chunk in pool):
        return None
    vocabulary = Vocabulary(pool)
    asked = _weighted(words, vocabulary)
    logit = BASE + SPOKEN * _spoken(asked, pool) + FIRST * _share(asked, pool[0].words | pool[0].heading)
    logit += TOLD * _told(claims, pool, vocabulary) + DECLINED * declined
    return None if logit >= 0 and _repeated(pool) >= REPEATS else 1 / (1 + math.exp(-logit))


def are_alike(candidates: Sequence[Candidate]) -> bool:
    """Whether others nearly repeat the best candidate, as editions of one text do: they share at least half of all
    their terms. Words then do not tell whether the right one of them is there; facets do."""
    return _repeated(_read(sorted(candidates, key=lambda each: each.rank))) >= REPEATS


def spoken_share(query: str, candidates: Sequence[Candidate]) -> float | None:
    """The rarity-weighted share of the question's words that one window of a candidate holds, with its heading: the
    best one's, in [0, 1]. None without text of any candidate, or without words in the question."""
    pool = _read(candidates)
    asked = _weighted(content_words(query), Vocabulary(pool))
    return _spoken(asked, pool) if asked and any(chunk.windows for chunk in pool) else None


def told_share(claims: Sequence[Claim], candidates: Sequence[Candidate]) -> float:
    """The rarity-weighted share of a factual claim's words that one candidate holds, or the claim's support, weighed by
    what it says beyond the question, where that is more: of the claim for which it is largest, in [0, 1]. 1 without
    factual claims, which tell nothing.

    A generator that alters what it was given leaves most words, and one that tells it in words of its own is supported;
    one that was given nothing has both its own words and no support.
    """
    pool = _read(candidates)
    return _told(claims, pool, Vocabulary(pool))


def _repeated(pool: Sequence[Evidence]) -> int:
    """How many chunks nearly repeat the first."""
    return sum(repeat_each_other(pool[0], other) for other in pool[1:])


def _spoken(asked: dict[str, float], pool: Sequence[Evidence]) -> float:
    best = 0.0
    for chunk in pool:
        if _share(asked, chunk.words | chunk.heading) <= best:
            continue  # no window of it holds more than all of it
        named = asked.keys() & chunk.heading
        best = max(best, *(_share(asked, named | (asked.keys() & window.words)) for window in chunk.windows))
    return best


def _told(claims: Sequence[Claim], pool: Sequence[Evidence], vocabulary: Vocabulary) -> float:
    told = [
        (_weighted(content_words(claim.text), vocabulary), claim.weight * (claim.support or 0.0))
        for claim in claims
        if claim.factual
    ]
    shares = (max(_share(words, chunk.words), support) for words, support in told if words for chunk in pool)
    return max(shares, default=1.0)


def _read(candidates: Iterable[Candidate]) -> list[Evidence]:
    return [Evidence.read(candidate.chunk_id, candidate.text or "") for candidate in candidates]


def _weighted(words: Iterable[str], vocabulary: Vocabulary) -> dict[str, float]:
    return {word: vocabulary.weight(word) for word in words}


def _share(weights: dict[str, float], among: Set[str]) -> float:
    """The weight of the words that are `among` others over that of all."""
    shared = math.fsum(weights[word] for word in weights.keys() & among)  # the same in every order
    return shared / math.fsum(weights.values()) if weights else 0.0
