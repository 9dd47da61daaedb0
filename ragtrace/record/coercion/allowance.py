"""The allowance for reading a host's value in the host's own thread: so many items, for so long. The rest is counted.

An attribute that loads lazily may wait for a server, a list may have a hundred thousand rich items, and `range(10**12)`
is a sequence as well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any, Final, Self, TypeVar

from ragtrace.record.guard import let_through

__all__ = ["Allowance", "cut", "within"]

T = TypeVar("T")

_MOST: Final = 2**31 - 1  # items that are counted as left out of one value
_here: Final = threading.local()


class Allowance:
    """What may be read of one value while this is entered. `left_out`: how many items were not, as far as can be told.

    items: of each list or mapping in it. seconds: of the wall clock, since a host that waits is no faster for a
    processor that does not. One attribute that takes longer is not broken off.
    """

    __slots__ = ("_before", "_ends", "items", "left_out", "seconds")

    def __init__(self, items: int, seconds: float) -> None:
        self.items = items
        self.seconds = seconds
        self.left_out = 0

    def __enter__(self) -> Self:
        self._before: Allowance | None = getattr(_here, "now", None)
        self._ends = perf_counter() + self.seconds
        _here.now = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.now = self._before

    def leave_out(self, count: int) -> None:
        """Count items that are not read."""
        self.left_out = min(_MOST, self.left_out + count)

    def part(self, items: Iterable[T]) -> Iterator[T]:
        """The items that may be read."""
        for number, item in enumerate(items):
            if number >= self.items or perf_counter() > self._ends:
                self.leave_out(_length(items, number + 1) - number)
                return
            yield item


def within(items: Iterable[T]) -> Iterable[T]:
    """The items that may be read here; all of them where nothing is said, as in the background."""
    allowance: Allowance | None = getattr(_here, "now", None)
    return items if allowance is None else allowance.part(items)


def cut(value: Any) -> Any:
    """A list or tuple, for what reads all of it at once, without the items that may not be read here; all else as it
    is."""
    allowance: Allowance | None = getattr(_here, "now", None)
    if allowance is None or not isinstance(value, list | tuple) or len(value) <= allowance.items:
        return value
    allowance.leave_out(len(value) - allowance.items)
    return value[: allowance.items]


def _length(items: Iterable[Any], least: int) -> int:
    """How many there are; `least` where they do not say."""
    try:
        return max(least, min(_MOST + least, len(items)))  # type: ignore[arg-type]
    except OverflowError:
        return _MOST + least
    except BaseException as error:
        let_through(error)
        return least
