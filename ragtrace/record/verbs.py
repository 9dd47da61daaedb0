"""`request`, `retrieve`, `rerank`, `pack`, `generate`: each a decorator and a context manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, overload

from ragtrace.record import handles
from ragtrace.record.current import Request
from ragtrace.record.decorators import Instrument
from ragtrace.record.instruments import (
    GenerateInstrument,
    PackInstrument,
    RequestInstrument,
    RerankInstrument,
    RetrieveInstrument,
)
from ragtrace.types import Facet

__all__ = ["generate", "pack", "request", "rerank", "retrieve"]

F = TypeVar("F", bound=Callable[..., Any])

Versions: TypeAlias = Mapping[str, str]
Facets: TypeAlias = Iterable[Facet | Mapping[str, Any]]
From: TypeAlias = Callable[..., Any]  # takes a value from the decorated function's arguments, or from its result


@overload
def request(function: F, /) -> F: ...
@overload
def request(
    *,
    query: str | From | None = None,
    query_class: str | From | None = None,
    segment: str | From | None = None,
    facets: str | Facets | From | None = None,
    tenant_id: str | From | None = None,
    session_id: str | From | None = None,
    request_id: str | From | None = None,
    flag: str | bool | From | None = None,
    cites: bool | str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Instrument[Request]: ...
def request(
    function: Callable[..., Any] | None = None,
    /,
    *,
    query: str | From | None = None,
    query_class: str | From | None = None,
    segment: str | From | None = None,
    facets: str | Facets | From | None = None,
    tenant_id: str | From | None = None,
    session_id: str | From | None = None,
    request_id: str | From | None = None,
    flag: str | bool | From | None = None,
    cites: bool | str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a request: all stages that run inside of it stand in one record.

        @ragtrace.request(query="payload.question", segment="payload.product")
        def answer(payload): ...

        with ragtrace.request(query=text, query_class="policy_date") as request:
            request.flag("vip")

    As a decorator, arguments say where a value is: a parameter's name, a dotted path that begins with one, or a
    function of the arguments; `query_class`, `segment`, `tenant_id`, `session_id`, `request_id` and `flag` may also
    be the value itself, as `cites` is (whether the answer is meant to cite its sources; by default that is learned from
    what the application's answers do). In a `with` statement they are the values.
    """
    given = {
        "query": query,
        "query_class": query_class,
        "segment": segment,
        "facets": facets,
        "tenant_id": tenant_id,
        "session_id": session_id,
        "request_id": request_id,
        "flag": flag,
        "cites": cites,
    }
    return _made(RequestInstrument(given, name=name, versions=versions), function)


@overload
def retrieve(function: F, /) -> F: ...
@overload
def retrieve(
    *,
    query: str | From | None = None,
    top_k: str | int | From | None = None,
    source: str | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Instrument[handles.Retrieval]: ...
def retrieve(
    function: Callable[..., Any] | None = None,
    /,
    *,
    query: str | From | None = None,
    top_k: str | int | From | None = None,
    source: str | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a retriever call: its query and every candidate that it returns.

        @ragtrace.retrieve
        def search(query: str, top_k: int) -> list[Hit]: ...

        with ragtrace.retrieve(query=text, top_k=50) as run:
            run.candidates(index.search(text, 50))

    `returns` says where in the value the candidates are: a dotted path (`"hits"`) or a function of the value.
    """
    given = {"query": query, "top_k": top_k, "source": source}
    return _made(RetrieveInstrument(given, name=name, versions=versions, returns=returns), function)


@overload
def rerank(function: F, /) -> F: ...
@overload
def rerank(
    *,
    candidates: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Instrument[handles.Reranking]: ...
def rerank(
    function: Callable[..., Any] | None = None,
    /,
    *,
    candidates: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a reranker call: each chunk's rank before and after. Without an input list, the last retriever's is it.

    @ragtrace.rerank
    def rerank(query: str, hits: list[Hit]) -> list[Hit]: ...
    """
    given = {"candidates": candidates}
    return _made(RerankInstrument(given, name=name, versions=versions, returns=returns), function)


@overload
def pack(function: F, /) -> F: ...
@overload
def pack(
    *,
    budget: str | int | From | None = None,
    candidates: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Instrument[handles.Packing]: ...
def pack(
    function: Callable[..., Any] | None = None,
    /,
    *,
    budget: str | int | From | None = None,
    candidates: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a packing: which chunks reached the prompt, in which order, cut where, and which did not, and why.

        @ragtrace.pack(budget="max_tokens")
        def build_prompt(hits, max_tokens): ...

    The function may return chunks, a mapping or object with `chunks`, `dropped`, `budget_tokens` and `prompt`, or
    just the prompt: then the candidates whose text stands in it were packed.
    """
    given = {"budget": budget, "candidates": candidates}
    return _made(PackInstrument(given, name=name, versions=versions, returns=returns), function)


@overload
def generate(function: F, /) -> F: ...
@overload
def generate(
    *,
    model: str | From | None = None,
    prompt: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Instrument[handles.Generation]: ...
def generate(
    function: Callable[..., Any] | None = None,
    /,
    *,
    model: str | From | None = None,
    prompt: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a generator call: the answer, its citations, token usage and finish reason; a stream is joined.

    @ragtrace.generate(model="gpt-4o")
    def complete(prompt: str) -> str: ...
    """
    given = {"model": model, "prompt": prompt}
    return _made(GenerateInstrument(given, name=name, versions=versions, returns=returns), function)


def _made(instrument: Instrument[Any], function: Callable[..., Any] | None) -> Any:
    return instrument if function is None else instrument(function)
