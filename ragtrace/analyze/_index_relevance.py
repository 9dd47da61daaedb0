"""The relevance of what a probe found: whether a calibrated model proves evidence that the candidates lack.

Words find evidence in an index where it speaks better of the question than any candidate. A model of relevance finds
what says it in other words. Its judgments of single chunks and of the best of them as one text are set beside what the
request itself told of where it broke (`ragtrace.analyze._joint_judgment`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ragtrace.analyze._joint_judgment import Chances
from ragtrace.analyze._stage_signs import odds_by_place, once_more
from ragtrace.coverage import Background
from ragtrace.coverage.citations import SUPPORTED
from ragtrace.coverage.relevance import Rarity, question_match
from ragtrace.coverage.support import Evidence
from ragtrace.coverage.verifier import RelevanceJudge
from ragtrace.types import Candidate

__all__ = ["relevant_beyond", "with_index"]

MOST: Final = 20  # chunks of one request that are judged: those that match the question best by words
TOGETHER: Final = 3  # of them, the most relevant that are judged as one text


def with_index(heard: Chances, odds: float) -> Chances:
    """The chances once the index was asked. odds: the log odds that it holds evidence beside the candidates, against
    that it holds none; whether it does tells nothing of the other stages."""
    lost = heard.retrieval * math.exp(odds)
    whole = heard.sound + heard.ranking + heard.generation + lost
    return Chances(heard.sound / whole, lost / whole, heard.ranking / whole, heard.generation / whole)


def relevant_beyond(
    query: str,
    found: Sequence[Candidate],
    judge: RelevanceJudge,
    background: Background | None = None,
) -> tuple[float, list[Candidate]]:
    """The log odds that what a probe found beside the candidates holds the evidence, and the chunks that do, the most
    relevant first. Raises: NotJudged where the judge's budget or server has ended."""
    texts = [each for each in found if each.text]
    pool = [Evidence.read(each.chunk_id, each.text or "") for each in texts]
    if not pool:
        return -math.inf, []
    match = question_match(query, pool, Rarity(pool, background)).mean(axis=0)
    near = sorted(range(len(texts)), key=lambda place: (-match[place], texts[place].rank))[:MOST]
    said = dict(zip(near, judge.relevant([(query, texts[place].text or "") for place in near]), strict=True))
    best = sorted(near, key=lambda place: -said[place])[:TOGETHER]
    more = 0.0
    if len(best) > 1 and said[best[0]] >= SUPPORTED:
        more = once_more(judge.relevant([(query, "\n\n".join(texts[place].text or "" for place in best))])[0])
    odds = odds_by_place(
        {str(place): chance for place, chance in said.items()},
        {str(place): float(match[place]) for place in near},
        {str(place): more for place in best},
    )
    return odds, [texts[place] for place in best if said[place] >= SUPPORTED]
