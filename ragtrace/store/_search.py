"""Search: which requests hold words in their question or answer, by an index that the store has where somebody made it.

What is indexed is what is stored, which the capture policy left: the distinct words of the question and of the answer,
folded, each at most `LONGEST` characters. Beside them stand a word for the tenant and one for the service, with a
sign that no word of a text has: so a search walks along its own tenant's requests and meets no other's.

A request has one row of `search_entry`, whose number follows its start: the index gives matches newest first without
sorting, in both databases. PostgreSQL's row holds the words, of whose tsvector there is a GIN index. SQLite's index is
an FTS5 table without content, from which words go only if they are given again: its row holds them, compressed. That
the FTS5 table, or the GIN index, exists says that search is on, to writers of any process.

It is turned on and off while the store is in use: filled with what is stored page by page beside writers, or deleted.
"""

from __future__ import annotations

import logging
import random
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError

from ragtrace.errors import CorruptStore, RecordError, StoreError
from ragtrace.store._content import compress, decompress
from ragtrace.store._named_leases import UpkeepLease, pause
from ragtrace.store.database import Database, bigint, chunks, clean, insert
from ragtrace.store.rows import Listing, Position, SearchState
from ragtrace.store.tables import request, search_entry
from ragtrace.types import RequestRecord, content_hash

__all__ = [
    "LONGEST",
    "create",
    "drop",
    "forget",
    "is_on",
    "matches",
    "missing",
    "number_of",
    "place_of",
    "purge",
    "put",
    "state",
    "turn_off",
    "turn_on",
    "words_of",
]

LONGEST: Final = 40
"""Characters of a word; what is longer counts by its beginning."""

_LOG: Final = logging.getLogger("ragtrace.store")
_CHARACTERS: Final = 200_000  # of a question, and of an answer
_MOST: Final = 4_000  # words of a request; PostgreSQL takes 1 MB
_MOST_ASKED: Final = 64  # words of a search
_WALKED: Final = 20_000  # PostgreSQL's newest entries that are looked through before its index is asked
_OFTEN: Final = 400  # of these, from which on words are so frequent that a page of them is all that is told
_MOMENTS: Final[Mapping[str, int]] = {"sqlite": 20, "postgresql": 0}
"""By how many bits nanoseconds are cut: SQLite's index takes less where numbers are near each other, and writes of
PostgreSQL do not wait for each other where they are far from each other."""
_SPREAD: Final = 22  # bits: how far requests of one moment go apart
_ATTEMPTS: Final = 2 * _SPREAD  # to find a number
_PURGE_PAGES: Final = 256  # of one transaction
_TABLE: Final = "search_word"
_INDEX: Final = "ix_search_entry_words"
_VECTOR: Final = "array_to_tsvector(string_to_array(words, ' '))"
_FTS: Final = (
    f"CREATE VIRTUAL TABLE {_TABLE} USING fts5"
    """(words, content='', detail=none, columnsize=0, tokenize="ascii tokenchars '=_'")"""
)
_EAST_ASIAN: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # written without spaces
_WORD: Final = re.compile(rf"[{_EAST_ASIAN}]|[^\W{_EAST_ASIAN}]+")
_matched: Final = sa.table(_TABLE, sa.column("rowid", sa.BigInteger), sa.column(_TABLE, sa.Text))


def words_of(text: str | None) -> Iterator[str]:
    """The words of a text as they are indexed and searched for: letters, digits and `_`, without case and accents;
    of Chinese and Japanese each character."""
    folded = unicodedata.normalize("NFKD", (text or "")[:_CHARACTERS]).casefold()
    plain = folded if folded.isascii() else "".join(one for one in folded if not unicodedata.combining(one))
    return (found[0][:LONGEST] for found in _WORD.finditer(plain))


def _terms(record: RequestRecord) -> list[str]:
    """What is indexed of a record, sorted."""
    answer = record.generation.answer if record.generation else None
    said = chain(words_of(record.query.original), words_of(answer))
    words = islice(dict.fromkeys(said), _MOST)
    return sorted({*words, *_owners(clean(record.tenant_id), clean(record.service))})


def _owners(tenant: str | None, service: str | None) -> Iterator[str]:
    """The words that stand for a tenant and a service: no text has a word with `=`."""
    for name, value in (("t", tenant), ("s", service)):
        if value is not None:
            yield f"{name}={content_hash(value)[:10]}"


def is_on(connection: sa.Connection) -> bool:
    """Whether the store has the index."""
    if connection.dialect.name == "sqlite":
        query = f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{_TABLE}'"
    else:
        query = f"SELECT to_regclass('{_INDEX}')"
    return connection.exec_driver_sql(query).scalar() is not None


def create(connection: sa.Connection) -> None:
    """Make the index, empty, where there is none; no writer of records should be beside. Raises: StoreError."""
    if is_on(connection):
        return
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(f"CREATE INDEX {_INDEX} ON {search_entry.name} USING gin ({_VECTOR})")
        return
    if connection.exec_driver_sql("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").scalar() is None:
        raise StoreError("this Python's SQLite has no FTS5; use another build of Python, or PostgreSQL")
    connection.exec_driver_sql(_FTS)


def drop(connection: sa.Connection) -> None:
    """Delete the index with all that is in it; no writer of records should be beside."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {_TABLE}")
        connection.execute(sa.delete(search_entry))
    else:
        connection.exec_driver_sql(f"DROP INDEX IF EXISTS {_INDEX}")
        connection.exec_driver_sql(f"TRUNCATE {search_entry.name}")


def missing(connection: sa.Connection, behind: str, limit: int) -> Sequence[str]:
    """Up to `limit` requests behind an id that are not in the index, locked, in the order of their ids."""
    there = sa.exists().where(search_entry.c.request_id == request.c.request_id)
    query = sa.select(request.c.request_id).where(request.c.request_id > behind, ~there)
    return connection.scalars(query.order_by(request.c.request_id).limit(limit).with_for_update()).all()


def put(connection: sa.Connection, records: Iterable[RequestRecord]) -> None:
    """Index these stored requests as they are now, each once; nothing where search is off. What cannot be indexed is
    logged and cannot be searched for: the requests themselves are written all the same."""
    given = {record.request_id: record for record in records}
    if not given or not is_on(connection):
        return
    forget(connection, given)
    with _bearing_damage(connection):
        numbers = _numbered(connection, given)
        if connection.dialect.name == "sqlite" and numbers:
            statement = f"INSERT INTO {_TABLE} (rowid, words) VALUES (?, ?)"
            rows = [(number, " ".join(_terms(given[each]))) for each, number in sorted(numbers.items())]
            connection.exec_driver_sql(statement, rows)


@contextmanager
def _bearing_damage(connection: sa.Connection) -> Iterator[None]:
    """A savepoint: what a damaged index refuses is undone and logged, and the transaction goes on without it."""
    try:
        with connection.begin_nested():
            yield
    except DBAPIError as error:
        if _is_over(connection, error):
            raise
        _warn(error.orig)


def _is_over(connection: sa.Connection, error: DBAPIError) -> bool:
    """Whether an error has ended the whole transaction, or is none of the index: no connection, a deadlock, no room."""
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        return not driver.in_transaction  # SQLite may undo all of it where the disk is full
    return error.connection_invalidated or isinstance(error, OperationalError)


def _warn(reason: object) -> None:
    _LOG.warning(
        "the index of words is damaged (%s): requests may not be found, and words of deleted ones may stand in it; "
        "ragtrace db search off, then ragtrace db search on, makes it anew",
        reason,
    )


def _kept(connection: sa.Connection, record: RequestRecord) -> Any:
    """The words as a row of `search_entry` has them."""
    terms = _terms(record)
    if connection.dialect.name == "sqlite":
        return compress(" ".join(terms).encode())
    return " ".join(terms)


def _numbered(connection: sa.Connection, records: Mapping[str, RequestRecord]) -> dict[str, int]:
    """Insert the rows of records, by request, at the first free numbers from their moments on. Requests of one moment
    go apart by chance, twice as far with each attempt, so that ten thousand of them take few. Returns the numbers; a
    request that got none, as where another writer has just indexed it, is logged."""
    numbers: dict[str, int] = {}
    kept = {each: _kept(connection, record) for each, record in records.items()}
    for attempt in range(_ATTEMPTS):
        left = [each for each in records if each not in numbers]
        if not left:
            return numbers
        width = 1 << min(attempt, _SPREAD)
        drawn = {each: _moment(connection, records[each].started_at) + random.randrange(width) for each in left}
        in_order = sorted(left, key=lambda each: drawn[each])  # so that two writers do not wait for each other
        values = [{"id": drawn[each], "request_id": each, "words": kept[each]} for each in in_order]
        statement = insert(connection, search_entry).on_conflict_do_nothing().returning(search_entry.c.request_id)
        numbers.update((each, drawn[each]) for each in connection.scalars(statement, values))
    if left := [each for each in records if each not in numbers]:
        _warn(f"no number was free for {len(left)} requests, {left[0]} among them")
    return numbers


def _moment(connection: sa.Connection, started_at: int) -> int:
    """The number from which on a request that began then (nanoseconds) stands."""
    return bigint(started_at) >> _MOMENTS[connection.dialect.name]


def forget(connection: sa.Connection, request_ids: Iterable[str]) -> int:
    """Take these requests out of the index; `purge` takes their words off SQLite's pages. Returns how many there were.
    Where one's words cannot be read its row goes alone, and the log says that its words stay."""
    number = 0
    for ids in chunks(sorted(request_ids)):
        chosen = search_entry.c.request_id.in_(ids)
        if connection.dialect.name == "sqlite":
            rows = connection.execute(sa.select(search_entry.c.id, search_entry.c.words).where(chosen)).all()
            known = [(row.id, words) for row in rows if (words := _read(row.words)) is not None]
            if known:
                statement = f"INSERT INTO {_TABLE} ({_TABLE}, rowid, words) VALUES ('delete', ?, ?)"
                with _bearing_damage(connection):
                    connection.exec_driver_sql(statement, known)
        number += connection.execute(sa.delete(search_entry).where(chosen)).rowcount
    return number


def _read(words: bytes) -> str | None:
    """The words of SQLite's row; None, with a warning, where they are damaged."""
    try:
        return decompress(words).decode()
    except Exception as error:  # whatever a decompressor makes of damaged bytes
        _warn(error)
        return None


def purge(database: Database, begin: Callable[[sa.Connection], object]) -> None:
    """Write SQLite's index anew in small transactions, since words of requests that are gone stay on its pages until
    then. PostgreSQL's words go when its tables are rewritten, with the samples of their columns.

    begin: what each transaction does first.
    """
    if not database.address.is_sqlite:
        return
    for _ in range(2):  # where a merge was under way, the first round ends that one alone
        pages = -_PURGE_PAGES  # less than nothing: all that is there becomes one
        began = time.monotonic()
        while _merge(database, pages, begin):
            pages = _PURGE_PAGES
            pause(began)
            began = time.monotonic()


def _merge(database: Database, pages: int, begin: Callable[[sa.Connection], object]) -> bool:
    """One step. Returns whether there was something to do."""
    with database.write() as connection:
        begin(connection)
        if not is_on(connection):
            return False
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
        driver: Any = connection.connection.driver_connection
        before = driver.total_changes
        with _bearing_damage(connection):
            connection.exec_driver_sql(f"INSERT INTO {_TABLE} ({_TABLE}, rank) VALUES ('merge', ?)", (pages,))
        return bool(driver.total_changes - before >= 2)  # as SQLite says when there was nothing to do


def matches(
    connection: sa.Connection, wanted: Listing, below: int | None, most: int
) -> tuple[list[tuple[str, int]], int | None]:
    """Up to `most` requests, with their numbers in the index, that hold all words of `wanted.search`, of its tenant and
    service, newest first; and the number behind which there may be more, None where nothing is.

    below: only numbers below this one. Raises: StoreError where search is off.
    """
    if not is_on(connection):
        raise StoreError("search is off in this store; ragtrace db search on makes its index")
    asked = list(islice(dict.fromkeys(words_of(wanted.search)), _MOST_ASKED))
    if not asked:
        return [], None
    terms = [*asked, *_owners(clean(wanted.tenant_id), clean(wanted.service))]
    if connection.dialect.name == "sqlite":
        query = _of_fts(connection, wanted, terms, below).limit(most)
        return _with_end([(row.request_id, row.id) for row in connection.execute(query)], most)
    found, end = _walked(connection, wanted, terms, below, most)
    if len(found) == most or end is None or (len(found) >= _OFTEN and wanted.tenant_id is None):
        return found, found[-1][1] if len(found) == most else end
    return _with_end(_of_gin(connection, wanted, terms, below, most), most)


def _with_end(found: list[tuple[str, int]], most: int) -> tuple[list[tuple[str, int]], int | None]:
    return found, found[-1][1] if len(found) == most else None


def _of_fts(
    connection: sa.Connection, wanted: Listing, terms: Sequence[str], below: int | None
) -> sa.Select[tuple[str, int]]:
    """SQLite's index merges its lists from the newest on, and stops where enough is found."""
    joined = _matched.join(search_entry, search_entry.c.id == _matched.c.rowid)
    query = sa.select(search_entry.c.request_id, search_entry.c.id).select_from(joined)
    query = query.where(_matched.c[_TABLE].op("MATCH")(" ".join(f'"{term}"' for term in terms)))
    query = query.where(*_between(connection, wanted, _matched.c.rowid, below))
    if wanted.until is not None:  # numbers reach 73 minutes too far here, in PostgreSQL milliseconds
        query = query.where(_begin(search_entry.c.request_id) < bigint(wanted.until))
    return query.order_by(_matched.c.rowid.desc())


def _walked(
    connection: sa.Connection, wanted: Listing, terms: Sequence[str], below: int | None, most: int
) -> tuple[list[tuple[str, int]], int | None]:
    """What holds the terms among PostgreSQL's newest entries, and the number of the last one that was looked at, None
    where that was the last of all. So frequent words are found at once; their lists in the index are read whole."""
    entry = search_entry.c
    query = sa.select(entry.id, entry.request_id, entry.words).where(*_between(connection, wanted, entry.id, below))
    near = query.order_by(entry.id.desc()).limit(_WALKED).subquery()
    spaced = sa.func.concat(" ", near.c.words, " ")
    holding = [sa.func.strpos(spaced, f" {term} ") > 0 for term in terms]
    found = sa.select(near.c.request_id, near.c.id).where(*holding).order_by(near.c.id.desc()).limit(most)
    rows = [(row.request_id, row.id) for row in connection.execute(found)]
    if len(rows) == most:
        return rows, rows[-1][1]
    ids = sa.select(entry.id).where(*_between(connection, wanted, entry.id, below))
    return rows, connection.scalar(ids.order_by(entry.id.desc()).limit(1).offset(_WALKED - 1))


def _of_gin(
    connection: sa.Connection, wanted: Listing, terms: Sequence[str], below: int | None, most: int
) -> list[tuple[str, int]]:
    """What PostgreSQL's index of words has. The planner takes words for independent of each other, expects many, and
    would rather walk all entries by their numbers: so the numbers are none that an index leads to here. Of half a
    million that hold the words, only those that are given out are kept."""
    asked = " & ".join(f"'{term}'" for term in terms)
    holds = sa.literal_column(_VECTOR).op("@@")(sa.cast(asked, sa.dialects.postgresql.TSQUERY))
    number = search_entry.c.id + 0
    query = sa.select(search_entry.c.request_id, search_entry.c.id).where(holds)
    newest = query.where(*_between(connection, wanted, number, below)).order_by(number.desc()).limit(most)
    connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
    rows = [(row.request_id, row.id) for row in connection.execute(newest)]
    connection.exec_driver_sql("SET LOCAL enable_seqscan TO DEFAULT")
    return rows


def _between(
    connection: sa.Connection, wanted: Listing, number: sa.ColumnElement[int], below: int | None
) -> list[sa.ColumnElement[bool]]:
    """What the times of a listing, and the place that it goes on from, ask of an entry's number."""
    found: list[sa.ColumnElement[bool]] = []
    if wanted.since is not None:
        found.append(number >= _moment(connection, wanted.since))
    if wanted.until is not None:
        found.append(number < _moment(connection, wanted.until) + (1 << _SPREAD))
    if below is not None:
        found.append(number < below)
    return found


def number_of(connection: sa.Connection, wanted: Listing, before: Position) -> int:
    """The number behind which a listing goes on from a place."""
    own = _own(connection, wanted, before)
    return _moment(connection, before.started_at) if own is None else own


def place_of(connection: sa.Connection, number: int, request_id: str | None) -> Position:
    """The place of a number, to go on from. request_id: whose number it is; None for an entry of anybody, of which
    only PostgreSQL's walk tells, whose numbers are moments."""
    if request_id is None:
        return Position(number, "")
    same = request.c.request_id == request_id
    return Position(connection.scalar(sa.select(request.c.started_at).where(same)) or 0, request_id)


def _own(connection: sa.Connection, wanted: Listing, before: Position) -> int | None:
    """The number of the request that a page ended with. A position is what anybody writes into an address: a request
    of another tenant or service has none here, as one that there never was, so that no page tells of it."""
    joined = search_entry.join(request, request.c.request_id == search_entry.c.request_id)
    query = sa.select(search_entry.c.id).select_from(joined).where(request.c.request_id == clean(before.request_id))
    for name in ("tenant_id", "service"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(request.c[name] == clean(value))
    return connection.scalar(query)


def _begin(request_id: sa.Column[Any]) -> sa.ScalarSelect[Any]:
    """When a request began; no join, so that the index of words leads whatever else there is an index of."""
    return sa.select(request.c.started_at).where(request.c.request_id == request_id).scalar_subquery()


_Step: TypeAlias = Callable[[sa.Connection], object]
_ReadRecords: TypeAlias = Callable[[sa.Connection, Iterable[str]], Mapping[str, RequestRecord]]

_PAGE: Final = 100
_WORK: Final = "ragtrace db search"


def state(connection: sa.Connection) -> SearchState:
    """Whether search is on, and how many requests are indexed."""
    indexed, stored = (
        connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0 for table in (search_entry, request)
    )
    return SearchState(is_on(connection), indexed, stored)


def turn_on(
    database: Database, begin: _Step, read: _ReadRecords, on_batch: Callable[[SearchState], object]
) -> SearchState:
    """Make the index where there is none, while no record is written, then fill it page by page beside writers.

    begin: called in a transaction; no writer of records is beside it from then on. read: the records of these ids.
    """
    unreadable, behind = 0, ""
    with UpkeepLease(database, _WORK) as upkeep:
        with database.write() as connection:
            upkeep.hold(connection)
            begin(connection)
            create(connection)
            now = state(connection)
        indexed = now.indexed
        while True:
            began = time.monotonic()
            with database.write() as connection:
                upkeep.hold(connection)
                page = missing(connection, behind, _PAGE)
                found = _readable(connection, page, read)
                put(connection, found)
            if not page:
                break
            behind, indexed, unreadable = page[-1], indexed + len(found), unreadable + len(page) - len(found)
            on_batch(SearchState(True, indexed, now.requests, unreadable))
            pause(began)
        purge(database, upkeep.hold)
    if not database.address.is_sqlite:
        with database.write() as connection:
            connection.exec_driver_sql(f"ANALYZE {search_entry.name}")
    with database.read() as connection:
        last = state(connection)
    return SearchState(last.is_on, last.indexed, last.requests, unreadable)


def turn_off(database: Database, begin: _Step) -> None:
    """Delete the index while no record is written; begin: as for `turn_on`."""
    with UpkeepLease(database, _WORK) as upkeep, database.write() as connection:
        upkeep.hold(connection)
        begin(connection)
        drop(connection)


def _readable(connection: sa.Connection, request_ids: Iterable[str], read: _ReadRecords) -> list[RequestRecord]:
    """The records that can be read; the log names the others."""
    found: list[RequestRecord] = []
    for request_id in request_ids:
        try:
            found += read(connection, [request_id]).values()
        except (CorruptStore, RecordError) as error:
            _LOG.error("request %s cannot be searched for: %s", request_id, error)
    return found
