"""The opening and closing of a store."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from ragtrace.store import schema
from ragtrace.store.address import Address
from ragtrace.store.database import Database

__all__ = ["Opened", "moment"]


def moment(now: float | None) -> float:
    """A moment in Unix seconds; None for the present."""
    return time.time() if now is None else now


class Opened:
    """One open database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, url: str) -> Self:
        """Open `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`; an empty database gets its schema.

        Raises: ConfigurationError (no such kind of database), StoreUnavailable (unreachable, not writable),
        CorruptStore, SchemaMismatch (an older schema: `ragtrace db upgrade`; a newer one: upgrade ragtrace).
        """
        database = Database(Address.parse(url), schema.ensure)
        try:
            database.prepare()
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL without its password, as messages show it."""
        return self._database.address.shown
