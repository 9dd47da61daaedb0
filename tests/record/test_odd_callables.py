"""Callables that are no plain functions: caches, objects with methods, proxies, mocks, coroutines of the old kind."""

from __future__ import annotations

import asyncio
import functools
import types
from typing import Any
from unittest.mock import Mock

import pytest

import ragtrace
from ragtrace.types import RetrieveRun


def search(query: str) -> list[str]:
    """A retriever."""
    return [query]


def test_a_cached_function_keeps_its_methods(recorded: Any) -> None:
    """`cache_clear` and its like are where they were, also of an object with methods of its own."""

    @ragtrace.retrieve
    @functools.lru_cache
    def cached(query: str) -> tuple[str, ...]:
        return (query,)

    class Searcher:
        """A callable object."""

        def __call__(self, query: str) -> list[str]:
            return [query]

        def rebuild(self) -> str:
            """Rebuild its index."""
            return "rebuilt"

    searcher = ragtrace.retrieve(Searcher())
    assert [cached("q"), cached("q")] == [("q",)] * 2
    assert cached.cache_info().hits == 1
    cached.cache_clear()
    assert cached.cache_info().hits == 0
    assert searcher("q") == ["q"]
    assert searcher.rebuild() == "rebuilt"
    assert len(recorded.records) == 3


class Proxy:
    """A callable that makes something up, or raises, for every name that it is asked for."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        return self._answer(name)

    def __call__(self, query: str) -> list[str]:
        """A retriever."""
        return [query]


def _refuse(name: str) -> Any:
    raise RuntimeError(name)


PROXIES: dict[str, Any] = {
    "raises": Proxy(_refuse),
    "makes something up": Proxy(lambda name: object()),
    "mock": Mock(return_value=["q"]),
    "mock of a function": Mock(spec=search, return_value=["q"]),
}


@pytest.mark.parametrize("callable_", PROXIES.values(), ids=PROXIES)
def test_proxies_and_mocks_are_decorated(recorded: Any, callable_: Any) -> None:
    """Whatever they say about themselves."""
    assert ragtrace.retrieve(callable_)("q") == ["q"]
    assert recorded.record.query.original == "q"


def test_a_coroutine_of_the_old_kind_is_awaited(recorded: Any) -> None:
    """A generator that `types.coroutine` makes awaitable."""

    @ragtrace.retrieve
    @types.coroutine
    def fetch(query: str) -> Any:
        yield
        return [query]

    async def run() -> list[str]:
        return await fetch("q")  # type: ignore[no-any-return]

    assert asyncio.run(run()) == ["q"]
    assert [chunk.chunk_id for chunk in recorded.run(RetrieveRun).candidates] == ["q"]
