"""LangChain's vector stores and document compressors: searches give the scores that retrievers drop, and are
retrievals of their own where no retriever asks for them; compressors are rerankings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, TypeAlias

from opentelemetry.context import get_current

from ragtrace.record.contexts import within
from ragtrace.record.instrumentation.base import Patches, guarded
from ragtrace.record.instrumentation.runs import Runs, begin_stage, covered, covering
from ragtrace.record.recording import Recording

__all__ = ["with_scores", "wrap_all"]

Scores: TypeAlias = dict[int, tuple[Any, float]]  # by the document's identity, with the document itself

_SEARCHES: Final = tuple(
    f"{prefix}{name}"
    for prefix in ("", "a")
    for name in (
        "similarity_search",
        "similarity_search_with_score",
        "similarity_search_with_relevance_scores",
        "similarity_search_by_vector",
        "similarity_search_with_score_by_vector",
        "max_marginal_relevance_search",
        "max_marginal_relevance_search_by_vector",
    )
)
_METADATA: Final = ("relevance_score", "score", "_score")
_scores: ContextVar[Scores | None] = ContextVar("ragtrace-langchain-scores", default=None)
_compressing: ContextVar[Any] = ContextVar("ragtrace-langchain-compressing", default=None)


def wrap_all(patches: Patches, runs: Runs) -> None:
    """Wrap searches, compressors and retriever calls of all classes, present and to come."""
    compressor = import_module("langchain_core.documents.compressor").BaseDocumentCompressor
    _wrap_tree(patches, import_module("langchain_core.vectorstores").VectorStore, _SEARCHES, _search, _asearch)
    reranked = _Compressions(runs)
    names = ("compress_documents", "acompress_documents")
    _wrap_tree(patches, compressor, names, reranked.call, reranked.acall)
    retriever = import_module("langchain_core.retrievers").BaseRetriever
    _wrap_tree(patches, retriever, ("invoke", "ainvoke"), _collect, _acollect)


def _wrap_tree(patches: Patches, root: Any, names: tuple[str, ...], sync: Any, later: Any) -> None:
    def wrap(kind: type) -> None:
        for name in names:
            if name in vars(kind):
                patches.wrap_calls(kind, name, sync, later)

    def of_new_class(wrapped: Callable[..., None], instance: Any, args: Any, kwargs: Any) -> None:
        wrapped(*args, **kwargs)
        guarded("instrument.langchain")(wrap)(instance)

    found = [root]
    for kind in found:
        wrap(kind)
        found.extend(each for each in kind.__subclasses__() if each not in found)
    if "__init_subclass__" not in vars(root):
        patches.add(root, "__init_subclass__", classmethod(_inherited(root)))
    patches.wrap(root, "__init_subclass__", of_new_class)


def _inherited(root: Any) -> Callable[..., None]:
    def __init_subclass__(cls: Any, **kwargs: Any) -> None:
        super(root, cls).__init_subclass__(**kwargs)

    return __init_subclass__


def with_scores(documents: Any, *, ranked: bool = False) -> list[Any]:
    """Documents with the scores that the store gave them, or that a reranker left in their metadata."""
    known = {} if ranked else _scores.get() or {}
    pairs = [(document, _score(document, known)) for document in documents]
    return _nearest_first([document if score is None else (document, score) for document, score in pairs])


def _score(document: Any, known: Scores) -> float | None:
    found = known.get(id(document))
    if found is not None and found[0] is document:
        return found[1]
    metadata = getattr(document, "metadata", None) or {}
    return next((float(metadata[key]) for key in _METADATA if isinstance(metadata.get(key), int | float)), None)


def _nearest_first(pairs: list[Any]) -> list[Any]:
    """Scores that rise down a list of best hits are distances: their negatives are the scores."""
    scores = [pair[1] for pair in pairs if isinstance(pair, tuple)]
    if len(scores) < 2 or scores[0] >= scores[-1] or scores != sorted(scores):
        return pairs
    return [(pair[0], -pair[1]) if isinstance(pair, tuple) else pair for pair in pairs]


@contextmanager
def _collecting() -> Iterator[Scores]:
    scores: Scores = {}
    token = _scores.set(scores)
    try:
        with within(covering(get_current())):
            yield scores
    finally:
        _scores.reset(token)


def _collect(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    with _collecting():
        return wrapped(*args, **kwargs)


async def _acollect(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    with _collecting():
        return await wrapped(*args, **kwargs)


def _search(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    scores = _scores.get()
    if scores is not None or covered():
        hits = wrapped(*args, **kwargs)
        _note(scores, hits)
        return hits
    recording = _begin_search(instance, args, kwargs)
    with _collecting():
        try:
            hits = wrapped(*args, **kwargs)
        except BaseException as error:
            _end(recording, error=error)
            raise
        _end(recording, hits)
        return hits


async def _asearch(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    scores = _scores.get()
    if scores is not None or covered():
        hits = await wrapped(*args, **kwargs)
        _note(scores, hits)
        return hits
    recording = _begin_search(instance, args, kwargs)
    with _collecting():
        try:
            hits = await wrapped(*args, **kwargs)
        except BaseException as error:
            _end(recording, error=error)
            raise
        _end(recording, hits)
        return hits


@guarded("instrument.langchain")
def _note(scores: Scores | None, hits: Any) -> None:
    if scores is not None:
        for hit in hits:
            if isinstance(hit, tuple) and len(hit) == 2:
                scores[id(hit[0])] = (hit[0], float(hit[1]))


@guarded("instrument.langchain")
def _begin_search(store: Any, args: Any, kwargs: Any) -> Recording | None:
    query = kwargs.get("query", args[0] if args else None)
    top_k = kwargs.get("k", args[1] if len(args) > 1 else None)
    inputs = {"query": query if isinstance(query, str) else None, "top_k": top_k}
    return begin_stage("retrieve", type(store).__name__, inputs)


@guarded("instrument.langchain")
def _end(recording: Recording | None, hits: Any = None, error: BaseException | None = None) -> None:
    if recording is None:
        return
    if error is not None:
        recording.fail(error)
        return
    _note(_scores.get(), hits)
    recording.end(with_scores([hit[0] if isinstance(hit, tuple) else hit for hit in hits]))


class _Compressions:
    """Document compressors, in the request of the run that calls them."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def call(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if _compressing.get() is instance:  # its async half, in a thread
            return wrapped(*args, **kwargs)
        recording = self._begin(instance, args, kwargs)
        with within(covering()):
            try:
                documents = wrapped(*args, **kwargs)
            except BaseException as error:
                self._end(recording, error=error)
                raise
        self._end(recording, documents)
        return documents

    async def acall(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recording = self._begin(instance, args, kwargs)
        token = _compressing.set(instance)
        with within(covering()):
            try:
                documents = await wrapped(*args, **kwargs)
            except BaseException as error:
                self._end(recording, error=error)
                raise
            finally:
                _compressing.reset(token)
        self._end(recording, documents)
        return documents

    @guarded("instrument.langchain")
    def _begin(self, compressor: Any, args: Any, kwargs: Any) -> Recording | None:
        callbacks = kwargs.get("callbacks", args[2] if len(args) > 2 else None)
        run = self._runs.find(getattr(callbacks, "parent_run_id", None))
        documents = kwargs.get("documents", args[0] if args else None)
        request = run.request if run is not None else None
        return begin_stage("rerank", type(compressor).__name__, {"candidates": list(documents or ())}, request)

    @guarded("instrument.langchain")
    def _end(self, recording: Recording | None, documents: Any = None, error: BaseException | None = None) -> None:
        if recording is None:
            return
        if error is None:
            recording.end(with_scores(documents, ranked=True))
        else:
            recording.fail(error)
