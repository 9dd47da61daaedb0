"""A small RAG application whose answers follow from the number of the question alone, plain or recorded.

Its eight kinds of requests are those that go wrong in applications: they raise, time out, stream, run in threads.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["KINDS", "Pipeline", "is_flagged", "kind_of", "request_id_of"]

KINDS = ("plain", "flagged", "raises", "streams", "batch", "gathered", "cancelled", "overdue")
_FLAGGED = {"flagged", "raises", "batch", "cancelled", "overdue"}

Hit = dict[str, Any]


def kind_of(number: int) -> str:
    """What happens to the request with this number."""
    return KINDS[int.from_bytes(hashlib.blake2b(b"%d" % number, digest_size=4).digest(), "big") % len(KINDS)]


def is_flagged(number: int) -> bool:
    """Whether the host raises a flag for it."""
    return kind_of(number) in _FLAGGED


def request_id_of(number: int) -> str:
    """The host's name for it."""
    return f"chaos-{number}"


def _search(query: str, source: str = "main", size: int = 0) -> list[Hit]:
    text = "x" * size
    return [
        {"id": f"{source}-{query}-{place}", "text": f"{query} {place} {text}", "score": 1 / (place + 1)}
        for place in range(6)
    ]


def _rerank(query: str, hits: list[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: hashlib.md5(hit["id"].encode()).digest())[:4]


def _pack(hits: list[Hit]) -> str:
    return "\n".join(hit["text"][:40] for hit in hits[:3])


def _generate(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]


def _stream(prompt: str) -> Iterator[str]:
    yield from _generate(prompt)


def _break(query: str) -> list[Hit]:
    raise LookupError(f"no index for {query}")


async def _wait(prompt: str) -> str:
    await asyncio.Event().wait()
    return ""


def _hold(query: str, began: threading.Event, let_go: threading.Event) -> list[Hit]:
    began.set()
    let_go.wait(60)
    return _search(query, "late")


class Pipeline:
    """Answers numbers. With `trace` (the module ragtrace), all of it is decorated; else nothing is."""

    def __init__(self, trace: Any = None, size: int = 0) -> None:
        self._trace = trace
        self._pool = ThreadPoolExecutor(4)
        retrieve, rerank, pack, generate = (
            getattr(trace, name) if trace else _as_it_is for name in ("retrieve", "rerank", "pack", "generate")
        )
        self.search = retrieve(functools.partial(_search, size=size))
        self._break, self._hold, self.rerank, self._pack = (
            retrieve(_break),
            retrieve(_hold),
            rerank(_rerank),
            pack(_pack),
        )
        self._generate, self._stream, self._wait = generate(_generate), generate(_stream), generate(_wait)
        request = trace.request(request_id="name", query="question") if trace else _as_it_is
        self._ask, self._ask_async = request(self._asked), request(self._asked_async)

    def answer(self, number: int) -> str:
        """What the application answers, or the exception that it raises, as text."""
        try:
            return str(self._ask(f"question {number}", request_id_of(number), kind_of(number)))
        except LookupError as error:
            return f"raised {error}"

    async def answer_async(self, number: int) -> str:
        """The same in an event loop."""
        try:
            return str(await self._ask_async(f"question {number}", request_id_of(number), kind_of(number)))
        except LookupError as error:
            return f"raised {error}"

    def close(self) -> None:
        """Wait for its threads."""
        self._pool.shutdown()

    def _asked(self, question: str, name: str, kind: str) -> str:
        if kind in ("gathered", "cancelled"):
            return asyncio.run(self._in_loop(question, kind))
        self._flag(kind)
        if kind == "raises":
            return self._finish(question, self._break(question))
        if kind == "batch":
            found = list(self._pool.map(self.search, [question] * 3, "abc"))
            return self._finish(question, [hit for hits in found for hit in hits])
        if kind == "overdue":
            return self._overdue(question)
        hits = self.search(question)
        if kind == "streams":
            return "".join(self._stream(self._pack(self.rerank(question, hits))))
        return self._finish(question, hits)

    async def _asked_async(self, question: str, name: str, kind: str) -> str:
        if kind in ("gathered", "cancelled"):
            return await self._in_loop(question, kind)
        await asyncio.sleep(0)
        return self._asked(question, name, kind)

    async def _in_loop(self, question: str, kind: str) -> str:
        self._flag(kind)
        found = await asyncio.gather(*(asyncio.to_thread(self.search, question, source) for source in "ab"))
        prompt = self._pack(self.rerank(question, [hit for hits in found for hit in hits]))
        if kind == "gathered":
            return str(self._generate(prompt))
        try:
            return str(await asyncio.wait_for(self._wait(prompt), 0.002))
        except TimeoutError:
            return "timed out"

    def _overdue(self, question: str) -> str:
        began, let_go = threading.Event(), threading.Event()
        future = self._pool.submit(self._hold, question, began, let_go)
        began.wait(60)
        try:
            future.result(timeout=0.002)
        except TimeoutError:
            return "overdue"
        finally:
            let_go.set()
        return "in time"

    def _finish(self, question: str, hits: list[Hit]) -> str:
        return str(self._generate(self._pack(self.rerank(question, hits))))

    def _flag(self, kind: str) -> None:
        if self._trace and kind in _FLAGGED:
            self._trace.current_request().flag(kind)


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
