"""Words that the retriever goes by: those of the query among a document's strongest, and their parts of speech."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from ragtrace.analyze.alignment_report._rates import ExplainedRequest, WeightedMean, condition_of, estimated
from ragtrace.analyze.prompts import retrieval_queries
from ragtrace.attribution import Span, WeightedSpan, merged_into_words
from ragtrace.attribution.spans import split
from ragtrace.explanations import TokenWeights
from ragtrace.types import RequestRecord

__all__ = ["MassShare", "Overlap", "Side", "Tagging", "WordSample", "overlaps", "sampled_words", "shares"]

Side: TypeAlias = Literal["query", "document"]

OVERLAP_TOP: Final = 0.5
TAGGED_TOP: Final = 0.3
_SIDES: Final[tuple[Side, ...]] = ("query", "document")
_LISTED: Final = 12  # tags, and pairs of tags
_OTHER: Final = "X"  # the Universal POS tag of what has none

AnySpan = TypeVar("AnySpan", Span, WeightedSpan)


class Tagging(Protocol):
    """What gives parts of speech."""

    @property
    def name(self) -> str:
        """The pipeline's name."""
        ...

    def tagged(self, text: str) -> Sequence[tuple[int, int, str]]:
        """(start, end, tag) of each token of a text."""
        ...


@dataclass(frozen=True, slots=True)
class WordSample:
    """The words of one request's retrieval, averaged over its documents; shares lie in [0, 1].

    overlap: share of query words among the strongest half of a document's words. at_random: the same among all words,
    which is what half of them chosen at random would give. found: share of the query's words that stand in that half.
    mass, counts: by side and by tag or pair of tags, the share of attribution over the strongest 30 % of words, and the
    share of all words.
    """

    request_id: str
    model: str
    condition: str
    weight: float
    drawn: bool
    documents: int
    overlap: float
    at_random: float
    found: float
    mass: Mapping[Side, Mapping[str, float]] = field(default_factory=dict)
    counts: Mapping[Side, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Table 10 of RAG-E for one retriever and condition."""

    model: str
    condition: str
    requests: int
    documents: int
    overlap: WeightedMean
    at_random: WeightedMean
    found: WeightedMean


@dataclass(frozen=True, slots=True)
class MassShare:
    """Share of attribution mass of one tag, or of one pair of neighboring tags (`ADJ NOUN`), beside its share of all
    words (or pairs)."""

    model: str
    condition: str
    side: Side
    tag: str
    is_pair: bool
    mass: WeightedMean
    of_words: WeightedMean


def sampled_words(explained: ExplainedRequest, tagging: Tagging | None = None) -> WordSample | None:
    """The words of one request; None where nothing is known of its retrieval, or its texts were not kept.

    A word's weight is the sum of its tokens'. Punctuation marks are no words; query words are compared without case.
    """
    record, attributions = explained.record, explained.explanation.retriever
    queries = retrieval_queries(record)
    asked = [{word.text.casefold() for word in _words(split(query, "word"))} for query in queries]
    texts = _texts(record)
    sides = [
        (_weighed(texts[attribution.chunk_id], attribution.document), attribution)
        for attribution in attributions
        if attribution.chunk_id in texts and attribution.query_number < len(queries)
    ]
    documents = [(words, attribution) for words, attribution in sides if words and asked[attribution.query_number]]
    if not documents:
        return None
    of_each = [asked[attribution.query_number] for _, attribution in documents]
    tops = [[word.text.casefold() for word in _strongest(words, OVERLAP_TOP)] for words, _ in documents]
    alls = [[word.text.casefold() for word in words] for words, _ in documents]
    mass: dict[Side, Mapping[str, float]] = {}
    counts: dict[Side, Mapping[str, float]] = {}
    if tagging is not None:
        of_documents = [_tagged(texts[attribution.chunk_id], words, tagging) for words, attribution in documents]
        query_texts = [queries[attribution.query_number] for _, attribution in documents]
        weighed = [
            _weighed(query, attribution.query) for query, (_, attribution) in zip(query_texts, documents, strict=True)
        ]
        of_query = [_tagged(query, words, tagging) for query, words in zip(query_texts, weighed, strict=True)]
        for side, pairs in zip(_SIDES, (of_query, of_documents), strict=True):
            mass[side] = _averaged([shares for shares, _ in pairs])
            counts[side] = _averaged([shares for _, shares in pairs])
    return WordSample(
        request_id=record.request_id,
        model=documents[0][1].model or "unknown",
        condition=condition_of(record),
        weight=explained.weight,
        drawn=explained.drawn,
        documents=len(documents),
        overlap=_mean(_shared(top, words) for top, words in zip(tops, of_each, strict=True)),
        at_random=_mean(_shared(every, words) for every, words in zip(alls, of_each, strict=True)),
        found=_mean(len(words & set(top)) / len(words) for top, words in zip(tops, of_each, strict=True)),
        mass=mass,
        counts=counts,
    )


def _shared(words: Sequence[str], asked: Set[str]) -> float:
    """Which part of the words a query has."""
    return sum(word in asked for word in words) / len(words)


def _texts(record: RequestRecord) -> dict[str, str]:
    packing = record.packing
    packed = {chunk.chunk_id: chunk.text for chunk in packing.chunks} if packing is not None else {}
    own = {candidate.chunk_id: candidate.text for candidate in record.candidates if candidate.text}
    return {chunk_id: text for chunk_id, text in (packed | own).items() if text}


def _weighed(text: str, weights: TokenWeights) -> list[WeightedSpan]:
    """The words of a text with their weights; none where the weights belong to another text."""
    if not weights.spans or max(end for _, end in weights.spans) > len(text):
        return []
    tokens = [Span(start, end, text[start:end]) for start, end in weights.spans]
    return _words(merged_into_words(text, tokens, weights.weights))


def _words(parts: Iterable[AnySpan]) -> list[AnySpan]:
    return [part for part in parts if any(map(str.isalnum, part.text))]


def _strongest(words: Sequence[WeightedSpan], share: float) -> list[WeightedSpan]:
    """The words of highest weight, in their order in the text; the earlier one of equals."""
    count = math.ceil(share * len(words))
    chosen = sorted(range(len(words)), key=lambda place: -words[place].weight)[:count]
    return [words[place] for place in sorted(chosen)]


def _tagged(text: str, words: Sequence[WeightedSpan], tagging: Tagging) -> tuple[dict[str, float], dict[str, float]]:
    """The share of positive weight over the strongest words by tag and by pair of tags, and the share of all words.

    A pair is two neighboring words that are both among the strongest, with the weight of both.
    """
    if not words:
        return {}, {}
    tags = _tags_of(words, tagging.tagged(text))
    top = {word.start for word in _strongest(words, TAGGED_TOP)}
    named = list(zip(words, tags, strict=True))
    single = [(tag, word.weight) for word, tag in named if word.start in top]
    double = [
        (f"{tag} {following}", word.weight + after.weight)
        for (word, tag), (after, following) in pairwise(named)
        if word.start in top and after.start in top
    ]
    pairs = [(f"{tag} {following}", 1.0) for tag, following in pairwise(tags)]
    return _shares(single) | _shares(double), _shares((tag, 1.0) for tag in tags) | _shares(pairs)


def _tags_of(words: Sequence[WeightedSpan], tokens: Sequence[tuple[int, int, str]]) -> list[str]:
    """The tag of the token in which each word begins; X where none does."""
    starts = [start for start, _, _ in tokens]
    tags = []
    for word in words:
        at = bisect_right(starts, word.start) - 1
        tags.append(tokens[at][2] or _OTHER if at >= 0 and word.start < tokens[at][1] else _OTHER)
    return tags


def _shares(amounts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Each name's part of the sum of what is above 0; nothing where that is nothing."""
    sums: defaultdict[str, float] = defaultdict(float)
    for name, amount in amounts:
        sums[name] += max(0.0, amount)
    total = sum(sums.values())
    return {name: amount / total for name, amount in sums.items()} if total > 0 else {}


def _averaged(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for shares in each for name in shares)
    return {name: _mean(shares.get(name, 0.0) for shares in each) for name in names}


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)


def overlaps(samples: Sequence[WordSample], *, seed: int = 0) -> list[Overlap]:
    """Table 10: a row for each retriever and condition."""
    return [
        Overlap(
            model=model,
            condition=condition,
            requests=len(members),
            documents=sum(each.documents for each in members),
            overlap=_over(members, [each.overlap for each in members], seed),
            at_random=_over(members, [each.at_random for each in members], seed),
            found=_over(members, [each.found for each in members], seed),
        )
        for (model, condition), members in _groups(samples)
    ]


def shares(samples: Sequence[WordSample], *, seed: int = 0) -> list[MassShare]:
    """Shares by tag and by pair of tags, most mass first, a dozen of each; for each retriever, condition and side."""
    most_mass: list[MassShare] = []
    for (model, condition), members in _groups(samples):
        for side in _SIDES:
            names = dict.fromkeys(name for sample in members for name in sample.mass.get(side, {}))
            for is_pair in (False, True):
                listed = [
                    MassShare(
                        model=model,
                        condition=condition,
                        side=side,
                        tag=name,
                        is_pair=is_pair,
                        mass=_over(members, [sample.mass[side].get(name, 0.0) for sample in members], seed),
                        of_words=_over(members, [sample.counts[side].get(name, 0.0) for sample in members], seed),
                    )
                    for name in names
                    if (" " in name) is is_pair
                ]
                most_mass += sorted(listed, key=lambda share: (-share.mass.mean, share.tag))[:_LISTED]
    return most_mass


def _groups(samples: Sequence[WordSample]) -> list[tuple[tuple[str, str], list[WordSample]]]:
    by: defaultdict[tuple[str, str], list[WordSample]] = defaultdict(list)
    for each in samples:
        by[each.model, each.condition].append(each)
    return sorted(by.items())


def _over(members: Sequence[WordSample], values: Sequence[float], seed: int) -> WeightedMean:
    found = estimated(values, [each.weight for each in members], seed)
    assert found is not None  # there are members
    return found
