"""The write lock of a SQLite file while a thread of this process holds it, which a fork has to wait for.

SQLite keeps the state of a file's locks in the process, for all connections to it. A child that is forked in the middle
of a writing transaction takes the lock for its own process's, and finds the database locked for as long as it lives.
"""

from __future__ import annotations

import os
from threading import get_ident
from typing import Final

__all__ = ["WriteLock", "is_held_by"]

_holders: Final[set[int]] = set()
os.register_at_fork(after_in_child=_holders.clear)


class WriteLock:
    """Around a transaction: `taken` is called in the block once it has the lock, and the block ends behind its end."""

    __slots__ = ()

    def __enter__(self) -> WriteLock:
        return self

    def taken(self) -> None:
        """This thread has it now."""
        _holders.add(get_ident())

    def __exit__(self, *about: object) -> None:
        _holders.discard(get_ident())


def is_held_by(thread: int | None) -> bool:
    """Whether the thread with this ident is in such a transaction."""
    return thread in _holders
