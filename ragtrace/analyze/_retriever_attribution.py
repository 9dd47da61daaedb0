"""The retriever's part of an explanation: Integrated Gradients of its scores, on the query and on each document; of one
that gives vectors alone, what leaving each word out changes (RAG-Ex, Sudhi et al.).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze._generator_attribution import Engine
from ragtrace.analyze.prompts import Unexplained, query_number, retrieval_queries
from ragtrace.attribution import Attribution, integrated_gradients_of_many
from ragtrace.attribution.integrated_gradients import Rule
from ragtrace.attribution.perturbation import cosine, distances
from ragtrace.attribution.spans import Span, split, without
from ragtrace.engines.tokens import Baseline, Token
from ragtrace.explanations import RetrieverAttribution, TokenWeights
from ragtrace.types import RequestRecord

__all__ = [
    "LEAVE_ONE_OUT",
    "EmbeddingEngine",
    "Gradients",
    "RetrieverEngine",
    "Side",
    "explain_retrieval",
    "retrieved_documents",
    "words_of",
]


Side: TypeAlias = Literal["query", "document"]


class Gradients(Protocol):
    """Scores of pairs as a function of token embeddings, as `ragtrace.engines._gradients.TokenGradients` has them."""

    inputs: list[NDArray[np.float32]]
    baselines: list[NDArray[np.float32]]

    @property
    def tokens(self) -> Sequence[tuple[Token, ...]]:
        """The tokens of each pair's side."""
        ...

    def value_and_grad(self, points: Any, owners: NDArray[np.intp]) -> tuple[Any, Any]:
        """Scores and gradients of points; owners: whose they are."""
        ...

    def value(self, points: Any, owners: NDArray[np.intp]) -> Any:
        """Scores of points, without gradients."""
        ...


@runtime_checkable
class EmbeddingEngine(Engine, Protocol):
    """A model that gives vectors of texts, such as `EmbeddingServer`; their cosine is the score."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """`(n, dimension)`."""
        ...


@runtime_checkable
class RetrieverEngine(Engine, Protocol):
    """A model that scores documents for a query."""

    def gradients(self, query: str, documents: Sequence[str], *, of: Side, baseline: Baseline) -> Gradients:
        """The scores as a function of the token embeddings of one side."""
        ...


LEAVE_ONE_OUT: Final = "leave_one_out"
"""The rule of weights by leaving out each word."""
_RULE: Final[Rule] = "gregory"
_NODES: Final = 14
_SIDES: Final[tuple[Side, ...]] = ("query", "document")

_Sides: TypeAlias = dict[Side, tuple[Gradients, list[Attribution]]]


def explain_retrieval(
    record: RequestRecord,
    engine: RetrieverEngine | EmbeddingEngine,
    *,
    ranking: Sequence[str],
    most: int,
    baseline: Baseline = "unk",
    on_progress: Callable[[int], None] | None = None,
) -> tuple[RetrieverAttribution, ...]:
    """Token weights of the first `most` documents: those of `ranking`, then other candidates by rank.

    The query is what the retriever was given: rewritten, where it was rewritten; of several the one that found the
    document at its best rank.

    Raises: Unexplained when texts were not kept or nothing was retrieved, ModelError and AttributionError of the model.
    """
    queries = retrieval_queries(record)
    if not queries[0].strip():
        raise Unexplained("the query's text was not kept; capture_content='full' keeps it")
    documents = retrieved_documents(record, ranking)[:most]
    if not documents:
        raise Unexplained("no document with a text that was kept")
    by_query: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for chunk_id, text in documents:
        by_query[query_number(record, chunk_id)][chunk_id] = text
    if not isinstance(engine, RetrieverEngine):
        weighed = {
            each.chunk_id: each
            for number, found in by_query.items()
            for each in _without_words(queries[number], found, number, engine)
        }
        return tuple(weighed[chunk_id] for chunk_id, _ in documents)
    sides: dict[int, _Sides] = {number: {} for number in by_query}
    for done, of in enumerate(_SIDES, 1):
        for number, found in by_query.items():
            gradients = engine.gradients(queries[number], list(found.values()), of=of, baseline=baseline)
            sides[number][of] = _integrated(gradients)
        if on_progress is not None:
            on_progress(done)
    stored = {
        each.chunk_id: each
        for number, found in by_query.items()
        for each in _attributions(list(found), number, sides[number], engine, baseline)
    }
    return tuple(stored[chunk_id] for chunk_id, _ in documents)


def words_of(text: str) -> list[Span]:
    """The words that are left out of a text; punctuation marks are none."""
    return [word for word in split(text, "word") if any(map(str.isalnum, word.text))]


def _words_left_out(text: str) -> list[tuple[Span, str]]:
    """Each word by its offsets, and the text without that occurrence."""
    return [(word, without(text, word.start, word.end)) for word in words_of(text)]


def _without_words(
    query: str, documents: dict[str, str], number: int, engine: EmbeddingEngine
) -> Iterator[RetrieverAttribution]:
    """Weights 1 - minmax(cosine) of the query's words beside each document, and of its words beside the query."""
    wholes = dict.fromkeys((query, *documents.values()))
    texts = list(
        dict.fromkeys(text for whole in wholes for text in (whole, *(rest for _, rest in _words_left_out(whole))))
    )
    vectors = dict(zip(texts, engine.encode(texts), strict=True))

    def weights(text: str, other: str) -> TokenWeights:
        left = _words_left_out(text)
        similar = np.array([cosine(vectors[rest], vectors[other]) for _, rest in left], dtype=np.float64)
        spans = tuple((word.start, word.end) for word, _ in left)
        return TokenWeights(spans=spans, weights=tuple(distances(similar).tolist()))

    for chunk_id, text in documents.items():
        yield RetrieverAttribution(
            chunk_id=chunk_id,
            score=cosine(vectors[query], vectors[text]),
            query_number=number,
            query=weights(query, text),
            document=weights(text, query),
            evaluations=2 + len(words_of(query)) + len(words_of(text)),
            rule=LEAVE_ONE_OUT,
            engine=engine.kind,
            model=engine.name,
            revision=engine.revision,
        )


def _attributions(
    chunk_ids: Sequence[str], query: int, sides: _Sides, engine: RetrieverEngine, baseline: Baseline
) -> Iterator[RetrieverAttribution]:
    """Those of the documents that one query found."""
    scores = _scores(sides["document"][0])
    for place, chunk_id in enumerate(chunk_ids):
        yield _stored(chunk_id, place, float(scores[place]), query, sides, engine, baseline)


def retrieved_documents(record: RequestRecord, ranking: Sequence[str]) -> list[tuple[str, str]]:
    """Ids and texts, those of `ranking` first: a candidate's own text, else what stands in the prompt."""
    candidates = {candidate.chunk_id: candidate.text for candidate in record.candidates}
    chunks = record.packing.chunks if record.packing is not None else ()
    packed = {chunk.chunk_id: chunk.text for chunk in chunks}
    order = dict.fromkeys((*ranking, *packed, *candidates))
    texts = [(chunk_id, candidates.get(chunk_id) or packed.get(chunk_id)) for chunk_id in order]
    return [(chunk_id, text) for chunk_id, text in texts if text and text.strip()]


def _integrated(gradients: Gradients) -> tuple[Gradients, list[Attribution]]:
    found = integrated_gradients_of_many(
        gradients.value_and_grad,
        gradients.inputs,
        gradients.baselines,
        value=gradients.value,
        rule=_RULE,
        n_steps=_NODES,
    )
    return gradients, found


def _scores(gradients: Gradients) -> NDArray[np.float64]:
    """The scores of the texts as they are."""
    longest = max(len(each) for each in gradients.inputs)
    points = np.stack([np.pad(each, ((0, longest - len(each)), (0, 0))) for each in gradients.inputs])
    return np.asarray(gradients.value(points, np.arange(len(points), dtype=np.intp)), dtype=np.float64)


def _stored(
    chunk_id: str,
    number: int,
    score: float,
    query: int,
    sides: _Sides,
    engine: RetrieverEngine,
    baseline: Baseline,
) -> RetrieverAttribution:
    found = [attributions[number] for _, attributions in sides.values()]
    return RetrieverAttribution(
        chunk_id=chunk_id,
        score=score,
        query_number=query,
        query=_weights("query", number, sides),
        document=_weights("document", number, sides),
        completeness_delta=max((each.completeness_delta for each in found), key=abs),
        evaluations=sum(each.n_evaluations for each in found),
        rule=_RULE,
        baseline=baseline,
        engine=engine.kind,
        model=engine.name,
        revision=engine.revision,
    )


def _weights(of: Side, number: int, sides: _Sides) -> TokenWeights:
    """The weights of the text's own tokens; the others do not move, so that theirs are 0."""
    gradients, attributions = sides[of]
    pairs = [
        ((token.start, token.end), float(weight))
        for token, weight in zip(gradients.tokens[number], attributions[number].values, strict=True)
        if token.part == of
    ]
    return TokenWeights(spans=tuple(span for span, _ in pairs), weights=tuple(weight for _, weight in pairs))
