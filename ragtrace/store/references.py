"""Reads which texts are in use: the hashes in the payloads of all requests and addenda, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store.database import Database
from ragtrace.store.payload import read_slots
from ragtrace.store.tables import addendum, request

__all__ = ["in_use"]

_PAGE: Final = 200


def in_use(database: Database, each_page: Callable[[], object], *, damaged: bool = False) -> Iterator[str]:
    """The hash of every text in use, as often as it is used. Each page is a transaction of its own; `each_page` is
    called before it. What is written meanwhile may be missing.

    damaged: pass over payloads that cannot be read. Raises: CorruptStore at the first one otherwise.
    """
    for key, body in ((request.c.request_id, request.c.payload), (addendum.c.addendum_id, addendum.c.body)):
        query = sa.select(key, body).order_by(key).limit(_PAGE)
        last: str | None = None
        while True:
            each_page()
            with database.read() as connection:
                rows = connection.execute(query if last is None else query.where(key > last)).all()
            for identity, payload in rows:
                try:
                    yield from (digest for digest in read_slots(identity, payload) if digest is not None)
                except CorruptStore:
                    if not damaged:
                        raise
            if len(rows) < _PAGE:
                break
            last = rows[-1][0]
