"""Reads which texts are in use: the hashes in the payloads of all requests and addenda, and those against which parts
of traces are stored, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store.database import Database
from ragtrace.store.payload import read_slots
from ragtrace.store.tables import addendum, request, span_part

__all__ = ["in_use"]

_PAGE: Final = 200


def in_use(database: Database, each_page: Callable[[], object], *, damaged: bool = False) -> Iterator[str]:
    """The hash of every text in use, as often as it is used. Each page is a transaction of its own; `each_page` is
    called before it. What is written meanwhile may be missing.

    damaged: pass over payloads that cannot be read. Raises: CorruptStore at the first one otherwise.
    """
    for body in (request.c.payload, addendum.c.body):
        for identity, payload in _rows(database, sa.select(*body.table.primary_key, body), each_page):
            try:
                yield from (digest for digest in read_slots(identity, payload) if digest is not None)
            except CorruptStore:
                if not damaged:
                    raise
    against = sa.select(*span_part.primary_key, span_part.c.texts).where(span_part.c.texts.is_not(None))
    for *_, texts in _rows(database, against, each_page):
        yield from texts


def _rows(database: Database, query: sa.Select[Any], each_page: Callable[[], object]) -> Iterator[Sequence[Any]]:
    """The rows of a query of a table's key and one column more."""
    *key, _ = query.selected_columns
    ordered = query.order_by(*key).limit(_PAGE)
    page: Sequence[Sequence[Any]] | None = None
    while page is None or len(page) == _PAGE:
        after = ordered if page is None else ordered.where(sa.tuple_(*key) > sa.tuple_(*map(sa.literal, page[-1][:-1])))
        each_page()
        with database.read() as connection:
            page = connection.execute(after).all()
        yield from page
