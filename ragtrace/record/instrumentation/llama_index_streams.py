"""LlamaIndex's streams: what is recorded while the host, or a thread or task of LlamaIndex's own, reads an answer."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, Final

from ragtrace.record.coercion.values import first, text
from ragtrace.record.instrumentation.runs import Run
from ragtrace.record.streams import Following, is_passed_through, pass_through

__all__ = ["Histories", "read_answer", "stepped"]

_WRITERS: Final = ("write_response_to_history", "awrite_response_to_history")


class Histories:
    """Chats whose streamed answer is read by a thread or task that writes it into the history.

    The chat's span ends before or after that reader's; whichever is last ends the chat.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chats: dict[str, str] = {}  # the chat's span by its reader's
        self._waiting: set[str] = set()  # chats whose own span has ended
        self._read: set[str] = set()  # chats whose reader was faster

    def __len__(self) -> int:
        return len(self._chats) + len(self._waiting) + len(self._read)

    def enter(self, id_: str, chat: str) -> None:
        """A span begins inside of `chat`; it is noted when it is a reader's."""
        if id_.partition("-")[0].rpartition(".")[2] in _WRITERS:
            self._chats[id_] = chat

    def is_awaited(self, chat: str, result: Any) -> bool:
        """Whether the chat, whose own span has ended, ends later, with its reader."""
        reader = first(result, "write_response_to_history_thread", "awrite_response_to_history_task")
        with self._lock:
            if reader is None or chat in self._read:
                self._read.discard(chat)
                return False
            self._waiting.add(chat)
            return True

    def leave(self, id_: str) -> str | None:
        """The chat that ends with this span; None when it is no reader's, or the chat's own span is still open."""
        chat = self._chats.pop(id_, None)
        if chat is None:
            return None
        with self._lock:
            if chat in self._waiting:
                self._waiting.discard(chat)
                return chat
            self._read.add(chat)
        return None

    def forget(self, chat: str) -> None:
        """The chat broke off."""
        with self._lock:
            self._read.discard(chat)
            self._waiting.discard(chat)


class _Reading(Following):
    """The host reads a streamed response: then, the request is current again."""

    def __init__(self, stream: Run, end: Callable[..., None]) -> None:
        super().__init__(stream.request.context)
        self._end = end

    def end(self, error: BaseException | None = None) -> None:
        """It is read, or left."""
        self._end(error)

    def drop(self) -> None:
        """Nobody reads it."""
        self._end()


def stepped(parts: Any, stream: Run, end: Callable[..., None]) -> Any:
    """A generator's parts, read in the request of `stream`; None for what is no generator, or is stepped already."""
    if not (inspect.isasyncgen(parts) or inspect.isgenerator(parts)) or is_passed_through(parts):
        return None
    followed = pass_through(parts, _Reading(stream, end))
    return None if followed is parts else followed


def read_answer(response: Any) -> dict[str, Any]:
    """A chat or completion response as plain parts."""
    raw = getattr(response, "raw", None)
    choices = first(raw, "choices")
    message = getattr(response, "message", None)
    return {
        "answer": text(message.content if message is not None else response.text) or "",
        "finish_reason": first(choices[0] if isinstance(choices, list) and choices else raw, "finish_reason"),
        "usage": first(raw, "usage") or getattr(response, "additional_kwargs", None),
        "model": first(raw, "model"),
    }
