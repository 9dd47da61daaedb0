"""Owns how the parts of traces are stored: by themselves when they come, and against the texts of their record once
that is written, so that no text lies in the store twice while spans are kept.

A part that is stored against texts names their hashes, in order; it cannot be read without them. So they count as used
as long as it is there (`ragtrace.store.references`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
import zstandard

from ragtrace.errors import CorruptStore
from ragtrace.store.bulk import insert_new
from ragtrace.store.bundles import fetch
from ragtrace.store.compression import compress_against, decompress, decompress_against
from ragtrace.store.content import texts_of
from ragtrace.store.span_rows import Assembled, DueTrace, StoredPart
from ragtrace.store.spans import of_traces, stored_as
from ragtrace.store.tables import span_part

__all__ = ["Smaller", "read", "rewrite", "smaller", "unreadable"]

_HASH: Final = 16  # bytes
_REMEDY: Final = (
    "restore the database from a backup, or send the same spans again once their assembly has failed; until then its "
    "request stays as it is, and its spans are kept"
)


class Smaller(NamedTuple):
    """A part that takes less room against texts: the tenant and id of its trace, its digest, the hashes of the texts,
    and what is stored of it then."""

    trace: tuple[str, str]
    digest: str
    texts: tuple[str, ...]
    body: bytes


def smaller(made: Iterable[Assembled], hashes: Mapping[str, str]) -> list[Smaller]:
    """The parts that are stored by themselves, made ready to be stored against the texts of their record.

    hashes: of the texts that are written with the records; others may be missing.
    """
    return [part for each in made for part in _smaller(each, hashes)]


def _smaller(made: Assembled, hashes: Mapping[str, str]) -> Iterator[Smaller]:
    alone = [part for part in made.parts if part.alone]
    if made.record is None or not alone:
        return
    texts = {hashes[text]: text for text in texts_of(made.record) if text is not None and text in hashes}
    if not texts:
        return
    bodies = compress_against([part.body for part in alone], _joined(texts.values()))
    for part, body in zip(alone, bodies, strict=True):
        if len(body) + _HASH * len(texts) < part.alone:
            yield Smaller((made.trace.tenant, made.trace.trace_id), part.digest, tuple(texts), body)


def _joined(texts: Iterable[str]) -> bytes:
    return "".join(texts).encode("utf-8", "surrogatepass")


def rewrite(connection: sa.Connection, parts: Iterable[Smaller]) -> None:
    """Store these parts against their texts. Their traces must be those that `spans.settle` has just settled, which are
    locked and have the parts that were read: one that was forgotten meanwhile would come back.

    They are deleted and inserted: rows that shrink in place would leave SQLite's pages half empty.
    """
    given = sorted(parts)
    same = sa.and_(*(column == sa.bindparam(f"of_{column.name}") for column in span_part.primary_key))
    keys = [{"of_tenant": each.trace[0], "of_trace_id": each.trace[1], "of_digest": each.digest} for each in given]
    if keys:
        connection.execute(sa.delete(span_part).where(same), keys)
    rows = [(*each.trace, each.digest, each.body, bytes.fromhex("".join(each.texts))) for each in given]
    insert_new(connection, tuple(span_part.c), rows)


def read(
    connection: sa.Connection, traces: Iterable[DueTrace]
) -> dict[tuple[str, str], list[StoredPart] | CorruptStore]:
    """The parts of these traces, or why they cannot be read."""
    found: dict[tuple[str, str], list[Any]] = {}
    for same in of_traces(span_part, ((each.tenant, each.trace_id) for each in traces)):
        for row in connection.execute(sa.select(span_part).where(same)):
            found.setdefault((row.tenant, row.trace_id), []).append(row)
    return {key: _inflated(connection, rows) for key, rows in found.items()}


def unreadable(connection: sa.Connection, key: Iterable[str]) -> CorruptStore | None:
    """Why a part cannot be read; None where it can, or is there no more."""
    same = [column == value for column, value in zip(span_part.primary_key, key, strict=True)]
    found = _inflated(connection, connection.execute(sa.select(span_part).where(*same)).all())
    return found if isinstance(found, CorruptStore) else None


def _inflated(connection: sa.Connection, rows: Sequence[Any]) -> list[StoredPart] | CorruptStore:
    try:
        texts = fetch(connection, {digest for row in rows for digest in row.texts or ()})
        return [_part(row, texts) for row in rows]
    except CorruptStore as error:
        return error


def _part(row: Any, texts: Mapping[str, str]) -> StoredPart:
    lacking = [digest for digest in row.texts or () if digest not in texts]
    if lacking:
        raise CorruptStore(f"{len(lacking)} of the {len(row.texts)} texts of its spans are missing; {_REMEDY}")
    try:
        if row.texts is None:
            return StoredPart(row.digest, _alone(row.digest, row.body), len(row.body))
        return StoredPart(row.digest, decompress_against(row.body, _joined(texts[digest] for digest in row.texts)))
    except zstandard.ZstdError as error:
        raise CorruptStore(f"its spans are damaged ({error}); {_REMEDY}") from error


def _alone(digest: str, stored: bytes) -> bytes:
    """What is stored by itself. Its digest is that of what is stored; before the ninth schema, of what came."""
    body = decompress(stored)
    if digest != stored_as(stored) and digest != stored_as(body):
        raise zstandard.ZstdError("its digest is another")
    return body
