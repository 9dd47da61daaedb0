"""What the stages of a running request hand on to each other, told by the identity of the host's objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any, Final, Protocol

from ragtrace.record.coercion import Chunk, Known
from ragtrace.record.coercion.allowance import within
from ragtrace.record.coercion.chunks import read_chunk
from ragtrace.record.drafts import Part
from ragtrace.types import Candidate, RetrieveRun

__all__ = ["Given", "Left", "Lineage", "Source", "known_from"]


class Left(Protocol):
    """A stage that left chunks for the next one."""

    def left(self) -> list[str]:
        """Their ids, each once."""


class Source(Protocol):
    """A stage that handed items on."""

    def identified(self) -> dict[int, str]:
        """The chunk ids of its items by their place, from 0."""


class Given:
    """What a stage was given: what the stage before it left, all that one stage handed on, or items of several stages
    and of the host's own."""

    __slots__ = ("_left", "_parts", "_whole")

    def __init__(
        self,
        left: Left | None = None,
        whole: Source | None = None,
        parts: Sequence[tuple[Source, int] | Chunk] = (),
    ) -> None:
        self._left = left
        self._whole = whole
        self._parts = parts

    def ids(self, known: Known) -> list[str]:
        """Its chunk ids, in order."""
        if self._left is not None:
            return self._left.left()
        if self._whole is not None:
            return list(self._whole.identified().values())
        found = []
        for part in self._parts:
            chunk_id = known.identify(part) if isinstance(part, Chunk) else part[0].identified().get(part[1])
            if chunk_id is not None:
                found.append(chunk_id)
        return found


_NONE: Final[tuple[int, dict[int, tuple[Source, int]]]] = (0, {})


class Lineage:
    """The host's items as long as the request runs; none of them is held longer."""

    __slots__ = ("_outputs", "_places")

    def __init__(self) -> None:
        self._outputs: list[tuple[Sequence[Any], Source]] = []
        self._places: tuple[int, dict[int, tuple[Source, int]]] = _NONE  # how many outputs it covers

    def remember(self, items: Sequence[Any], source: Source) -> None:
        """Keep what a stage returned."""
        self._outputs.append((items if type(items) is tuple else [*items], source))

    def recognize_whole(self, items: Any) -> Given | None:
        """What one stage returned, handed on as it was; None for all else. So it is most of the time."""
        if isinstance(items, list | tuple) and items:
            for known, source in reversed(self._outputs):
                if len(known) == len(items) and all(map(is_, known, items)):
                    return Given(None, source)
        return None

    def recognize(self, items: Iterable[Any]) -> Given:
        """Where a stage's inputs come from; an item that no stage returned is read. Raises: Unreadable."""
        listed = items if isinstance(items, list | tuple) else list(within(items))
        if (found := self.recognize_whole(listed)) is not None:
            return found
        outputs = self._outputs
        count, places = self._places
        if count != len(outputs):  # other threads may add to them
            taken = outputs.copy()
            places = {id(item): (source, place) for known, source in taken for place, item in enumerate(known)}
            self._places = len(taken), places
        return Given(parts=[places.get(id(item)) or read_chunk(item) for item in within(listed)])

    def forget(self) -> None:
        """Let go of the host's items."""
        self._outputs.clear()
        self._places = _NONE


def known_from(parts: Sequence[Part]) -> Known:
    """All that retrievers among these parts returned."""
    return Known(_candidates(parts))


def _candidates(parts: Sequence[Part]) -> Iterable[Candidate]:
    for part in parts:
        run = part.read()
        if isinstance(run, RetrieveRun):
            yield from run.candidates
