"""OpenAI's streams, sync and async: what they were, with their parts joined for the record as they pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import wrapt

from ragtrace.record.recording import Recording
from ragtrace.record.streams import Passing

__all__ = ["RecordedAsyncStream", "RecordedStream"]


class _Answering(Passing):
    """Chat chunks or response events, as what an undivided answer would have been."""

    def __init__(self, recording: Recording, end: Callable[[Any], None]) -> None:
        def ended(parts: Any) -> None:
            if parts.response is None:
                recording.end(parts)
            else:
                end(parts.response)

        super().__init__(recording, ended)


class RecordedStream(wrapt.ObjectProxy):  # type: ignore[type-arg]  # no argument at run time
    """OpenAI's own stream, whose parts are also joined."""

    def __init__(self, wrapped: Any, end: Callable[[Any], None], recording: Recording) -> None:
        super().__init__(wrapped)
        self._self_passing = _Answering(recording, end)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            part = next(self.__wrapped__)
        except StopIteration:
            self._self_passing.end()
            raise
        except BaseException as error:
            self._self_passing.end(error)
            raise
        self._self_passing.take(part)
        return part

    def __enter__(self) -> Any:
        self.__wrapped__.__enter__()
        return self

    def __exit__(self, *about: Any) -> Any:
        self._self_passing.end()
        return self.__wrapped__.__exit__(*about)

    def close(self) -> None:
        """Close the connection; what has passed is the answer."""
        self._self_passing.end()
        self.__wrapped__.close()

    def __del__(self) -> None:
        self._self_passing.end()


class RecordedAsyncStream(wrapt.ObjectProxy):  # type: ignore[type-arg]  # no argument at run time
    """The same, async."""

    def __init__(self, wrapped: Any, end: Callable[[Any], None], recording: Recording) -> None:
        super().__init__(wrapped)
        self._self_passing = _Answering(recording, end)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            part = await self.__wrapped__.__anext__()
        except StopAsyncIteration:
            self._self_passing.end()
            raise
        except BaseException as error:
            self._self_passing.end(error)
            raise
        self._self_passing.take(part)
        return part

    async def __aenter__(self) -> Any:
        await self.__wrapped__.__aenter__()
        return self

    async def __aexit__(self, *about: Any) -> Any:
        self._self_passing.end()
        return await self.__wrapped__.__aexit__(*about)

    async def close(self) -> None:
        """Close the connection; what has passed is the answer."""
        self._self_passing.end()
        await self.__wrapped__.close()

    def __del__(self) -> None:
        self._self_passing.end()
