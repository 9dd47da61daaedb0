"""sentence-transformers: `semantic_search`, `CrossEncoder.rank` and `CrossEncoder.predict`, which have no hooks, are
wrapped; `encode` is, so that a position in a matrix of embeddings is known by the text that was embedded."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from ragtrace.record._recording import Recording
from ragtrace.record.guard import guarded
from ragtrace.record.instrumentation import INTEGRATIONS
from ragtrace.record.instrumentation.base import Instrumentor, begin_stage, called_from, covered, usable_recorder

__all__ = ["SentenceTransformersInstrumentor"]

_PACKAGE: Final = "sentence_transformers"
_LIMIT: Final = 256  # matrices of embeddings whose texts are known at once


class SentenceTransformersInstrumentor(Instrumentor):
    """Calls of the library are stages of the current request, or requests of their own."""

    module = _PACKAGE
    _instruments = ("sentence-transformers >= 5.4, < 7",)

    def apply(self) -> None:
        """Wrap the functions of the library that are stages."""
        library = import_module(_PACKAGE)
        texts = _Texts()
        search = _Search(texts)
        for module in (library.util, import_module(f"{_PACKAGE}.util.retrieval")):
            self.patches.wrap(module, "semantic_search", search)
        self.patches.wrap(library.SentenceTransformer, "encode", texts.remember)
        self.patches.wrap(library.CrossEncoder, "rank", _rank)
        self.patches.wrap(library.CrossEncoder, "predict", _predict)


class _Texts:
    """Which texts a matrix of embeddings was made of, for as long as the matrix lives."""

    def __init__(self) -> None:
        self._known: dict[int, Sequence[Any]] = {}

    def remember(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Wraps `encode`."""
        embeddings = wrapped(*args, **kwargs)
        if usable_recorder() is not None:
            self._keep(embeddings, args, kwargs)
        return embeddings

    @guarded("instrument.sentence_transformers")
    def _keep(self, embeddings: Any, args: Any, kwargs: Any) -> None:
        given = next((kwargs[key] for key in ("inputs", "sentences") if key in kwargs), args[0] if args else None)
        given = [given] if isinstance(given, str) else given
        if not isinstance(given, list | tuple) or not hasattr(embeddings, "shape") or len(self._known) >= _LIMIT:
            return
        key = id(embeddings)
        weakref.finalize(embeddings, self._known.pop, key, None).atexit = False
        self._known[key] = tuple(given)

    def of(self, embeddings: Any) -> Sequence[Any]:
        """The texts; none when they are not known."""
        return self._known.get(id(embeddings), ())


class _Search:
    """Wraps `semantic_search`: one retrieval for each query."""

    def __init__(self, texts: _Texts) -> None:
        self._texts = texts

    def __call__(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if covered() or called_from(1, _PACKAGE):
            return wrapped(*args, **kwargs)
        given = _Given(args, kwargs)
        recording = self._begin(given)
        if recording is None:
            return wrapped(*args, **kwargs)
        recording.enter()
        try:
            found = wrapped(*args, **kwargs)
        except BaseException as error:
            recording.fail(error)
            raise
        self._end(recording, given, found)
        return found

    @guarded("instrument.sentence_transformers")
    def _begin(self, given: _Given) -> Recording | None:
        return begin_stage(
            "retrieve", "semantic_search", {"query": self._query(given, 0), "top_k": given(5, "top_k", 10)}
        )

    @guarded("instrument.sentence_transformers")
    def _end(self, recording: Recording, given: _Given, found: Any) -> None:
        corpus = self._texts.of(given(1, "corpus_embeddings"))
        recording.end(_hits(found[0], corpus) if found else [])
        for number, hits in enumerate(found[1:], 1):
            further = begin_stage("retrieve", "semantic_search", {"query": self._query(given, number)})
            if further is not None:
                further.end(_hits(hits, corpus))

    def _query(self, given: _Given, number: int) -> str | None:
        queries = self._texts.of(given(0, "query_embeddings"))
        query = queries[number] if number < len(queries) else None
        return query if isinstance(query, str) else None


class _Given:
    """The arguments of one call, by place or by name."""

    def __init__(self, args: Any, kwargs: Any) -> None:
        self._args = args
        self._kwargs = kwargs

    def __call__(self, place: int, name: str, default: Any = None) -> Any:
        return self._args[place] if place < len(self._args) else self._kwargs.get(name, default)


def _hits(hits: Any, corpus: Sequence[Any]) -> list[dict[str, Any]]:
    """Hits with the texts behind their positions. The id is the position, as the library and its host name it."""
    read = []
    for hit in hits:
        place = hit["corpus_id"]
        text = corpus[place] if place < len(corpus) else None
        read.append({"id": str(place), "score": hit["score"], "text": text if isinstance(text, str) else None})
    return read


def _rank(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """`CrossEncoder.rank`: positions among its documents, best first."""
    documents = _Given(args, kwargs)(1, "documents")
    return _rerank(lambda: wrapped(*args, **kwargs), documents, lambda ranked: ranked)


def _predict(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """`CrossEncoder.predict` of pairs that share their query: its scores are the order of the documents."""
    given = _Given(args, kwargs)
    pairs = given(0, "inputs", kwargs.get("sentences"))
    documents = _documents(pairs)
    if documents is None:
        return wrapped(*args, **kwargs)

    def ranked(scores: Any) -> list[dict[str, Any]]:
        numbers = [float(score) for score in scores]
        order = sorted(range(len(numbers)), key=lambda place: -numbers[place])
        return [{"corpus_id": place, "score": numbers[place]} for place in order]

    return _rerank(lambda: wrapped(*args, **kwargs), documents, ranked)


@guarded("instrument.sentence_transformers")
def _documents(pairs: Any) -> list[str] | None:
    """The documents of (query, document) pairs; None when it is not one query with several documents."""
    if not isinstance(pairs, list | tuple) or len(pairs) < 2:
        return None
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        return None
    texts = [pair[1] for pair in pairs]
    same = all(pair[0] == pairs[0][0] for pair in pairs)
    return texts if same and all(isinstance(text, str) for text in texts) else None


def _rerank(call: Callable[[], Any], documents: Any, read: Callable[[Any], Any]) -> Any:
    if covered() or called_from(2, _PACKAGE, *INTEGRATIONS):
        return call()
    recording = _begin_rerank(documents)
    if recording is None:
        return call()
    recording.enter()
    try:
        value = call()
    except BaseException as error:
        recording.fail(error)
        raise
    _end_rerank(recording, value, read)
    return value


@guarded("instrument.sentence_transformers")
def _begin_rerank(documents: Any) -> Recording | None:
    return begin_stage("rerank", "CrossEncoder", {"candidates": [{"text": text} for text in documents or ()]})


@guarded("instrument.sentence_transformers")
def _end_rerank(recording: Recording, value: Any, read: Callable[[Any], Any]) -> None:
    recording.end([{"corpus_id": hit["corpus_id"], "score": hit["score"]} for hit in read(value)])
