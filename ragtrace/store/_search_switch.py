"""Turning search on and off: the index of words made and filled with what is stored, or deleted, beside writers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore, RecordError
from ragtrace.store import _records as records, _search as search
from ragtrace.store._named_leases import UpkeepLease, pause
from ragtrace.store.database import Database
from ragtrace.store.rows import SearchState
from ragtrace.store.tables import request, search_entry
from ragtrace.types import RequestRecord

__all__ = ["state", "turn_off", "turn_on"]

_LOG: Final = logging.getLogger("ragtrace.store")
_PAGE: Final = 100
_WORK: Final = "ragtrace db search"


def state(connection: sa.Connection) -> SearchState:
    """Whether search is on, and how many requests are indexed."""
    indexed, stored = (
        connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0 for table in (search_entry, request)
    )
    return SearchState(search.is_on(connection), indexed, stored)


def turn_on(database: Database, on_batch: Callable[[SearchState], object]) -> SearchState:
    """Make the index where there is none, while no record is written, then fill it page by page beside writers."""
    unreadable, behind = 0, ""
    with UpkeepLease(database, _WORK) as upkeep:
        with database.write() as connection:
            upkeep.hold(connection)
            records.wait_for_turn(connection, alone=True)
            search.create(connection)
            now = state(connection)
        indexed = now.indexed
        while True:
            began = time.monotonic()
            with database.write() as connection:
                upkeep.hold(connection)
                page = search.missing(connection, behind, _PAGE)
                found = _readable(connection, page)
                search.put(connection, found)
            if not page:
                break
            behind, indexed, unreadable = page[-1], indexed + len(found), unreadable + len(page) - len(found)
            on_batch(SearchState(True, indexed, now.requests, unreadable))
            pause(began)
        search.purge(database, upkeep.hold)
    if not database.address.is_sqlite:
        with database.write() as connection:
            connection.exec_driver_sql(f"ANALYZE {search_entry.name}")
    with database.read() as connection:
        last = state(connection)
    return SearchState(last.is_on, last.indexed, last.requests, unreadable)


def turn_off(database: Database) -> None:
    """Delete the index while no record is written."""
    with UpkeepLease(database, _WORK) as upkeep, database.write() as connection:
        upkeep.hold(connection)
        records.wait_for_turn(connection, alone=True)
        search.drop(connection)


def _readable(connection: sa.Connection, request_ids: Iterable[str]) -> list[RequestRecord]:
    """The records that can be read; the log names the others."""
    found: list[RequestRecord] = []
    for request_id in request_ids:
        try:
            found += records.read(connection, [request_id]).values()
        except (CorruptStore, RecordError) as error:
            _LOG.error("request %s cannot be searched for: %s", request_id, error)
    return found
