"""A user's applications, as `ragtrace replay` finds them: decorated, async, streaming, slow, failing, not decorated."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import ragtrace

TEXT = "Theft of bicycles is covered up to EUR 500."
HERE = sqlite3.connect(":memory:")  # may be used from this thread alone
asked: Counter[str] = Counter()
threads: set[str] = set()


@ragtrace.retrieve
def search(query: str) -> list[dict[str, Any]]:
    """A retriever."""
    return [{"id": "c1", "text": TEXT, "score": 0.9}, {"id": "c2", "text": "Fire is covered.", "score": 0.2}]


@ragtrace.pack
def pack(hits: list[dict[str, Any]]) -> str:
    """A packer."""
    return str(hits[0]["text"])


@ragtrace.generate
def write(prompt: str) -> str:
    """A generator."""
    return f"{prompt} [1]"


def plain(question: str) -> str:
    """Opens no request of its own."""
    asked[question] += 1
    threads.add(threading.current_thread().name)
    return write(pack(search(question)))


@ragtrace.request(versions={"model": "m-2"}, segment="application")
def decorated(question: str) -> str:
    """Opens one."""
    return plain(question)


async def asynchronous(question: str) -> str:
    """A coroutine function."""
    await asyncio.sleep(0)
    return plain(question)


def streaming(question: str) -> Iterator[str]:
    """The answer word by word."""
    yield from plain(question).split()


async def streaming_later(question: str) -> AsyncIterator[str]:
    """The same, async."""
    for word in plain(question).split():
        yield word


def bare(question: str) -> str:
    """Nothing of it is recorded."""
    asked[question] += 1
    return "42"


def flaky(question: str) -> str:
    """Fails when it is asked first."""
    plain(question)
    if asked[question] == 1:
        raise ConnectionError("the model's server is away")
    return "better"


def failing(question: str) -> str:
    """Fails at some questions, or at all."""
    answer = plain(question)
    if question in os.environ.get("FAILS_AT", question):
        raise ValueError("no such table")
    return answer


def talkative(question: str) -> str:
    """Fails at length."""
    raise ValueError("no such table\n  at line 2\n" + "x" * 10_000)


def ending(question: str) -> str:
    """Ends the program."""
    plain(question)
    raise SystemExit(3)


def hanging(question: str) -> str:
    """Hangs at one question."""
    if "hang" in question:
        time.sleep(30)
        return ""
    return plain(question)


async def hanging_later(question: str) -> str:
    """Hangs at one question, async."""
    if "hang" in question:
        await asyncio.sleep(30)
    return plain(question)


def bound_to_its_thread(question: str) -> str:
    """Uses a connection that belongs to the thread which has imported this."""
    HERE.execute("SELECT 1")
    return plain(question)


def with_a_loop_of_its_own(question: str) -> str:
    """Sync outside, async inside."""
    return asyncio.run(asynchronous(question))


def lazy(question: str) -> str:
    """Configures itself when it is first asked, as it would in production."""
    if not asked["configured"]:
        time.sleep(0.05)  # others come here in the meantime
        asked["configured"] += 1
        ragtrace.configure(service="lazy", store="sqlite:////nowhere/production.db", sample_rate=0.0, enabled=False)
    return plain(question)


def restless(question: str) -> str:
    """Configures itself each time."""
    ragtrace.configure(service="restless")
    return plain(question)


def make() -> Callable[[str], str]:
    """A factory."""
    return plain


class Application:
    """Made once, asked often."""

    async def __call__(self, question: str) -> str:
        """Like a function."""
        return await asynchronous(question)

    def ask(self, question: str) -> str:
        """A method."""
        return plain(question)


application = Application()
constant = 42


def of_two(question: str, user: str) -> str:
    """Needs more than the question."""
    return question + user
