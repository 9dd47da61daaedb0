"""The corpus, as far as requests and reports tell of it: which content each chunk id held under which version of the
index and what drifted, and what is reported of the sources of documents.

Index versions are ordered by the time at which they came into use. A chunk is compared once, with the newest earlier
version that had its id or its content: `unchanged`, `rewritten` (same id, other content) or `renumbered` (same content,
other id). Of a chunk id the two newest versions are kept, of a service the `VERSIONS` newest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import sqlalchemy as sa

from ragtrace.registry.instruments import CHUNK_DRIFT
from ragtrace.store import totals
from ragtrace.store._content import fetch_texts
from ragtrace.store._releases import CAME_AT
from ragtrace.store.database import bigint, chunks, clean, insert, take_advisory_lock
from ragtrace.store.rows import ChunkSeen, Delta, Drift, SourceState
from ragtrace.store.tables import chunk_identity, release, source, source_report
from ragtrace.types import SourceReport, content_hash

__all__ = [
    "HISTORY",
    "INDEX",
    "VERSIONS",
    "add_reports",
    "chunk_texts",
    "counts_query",
    "drift",
    "find_sources",
    "forget_source",
    "got",
    "note_chunks",
    "returned",
    "sources_query",
    "unseen",
]

INDEX: Final = "index"
"""The component whose version names an index build."""
VERSIONS: Final = 20

Kind: TypeAlias = Literal["unchanged", "rewritten", "renumbered"]

_KEPT: Final = 2  # index versions of one chunk id
_LONGEST: Final = 256  # characters of a key: PostgreSQL's indexes take 2,700 bytes
_EXAMPLES: Final = 3
_TURN: Final = 0x7261677472610002  # "ragtra", 2
_SAME: Final = [column == sa.bindparam(f"key_{column.name}") for column in chunk_identity.primary_key]


class _Row(NamedTuple):
    chunk_id: str
    index_version: str
    content_hash: str
    kind: str | None = None


class _Outcome(NamedTuple):
    kind: Kind
    previous_version: str
    previous_id: str


def unseen(connection: sa.Connection, seen: Iterable[ChunkSeen]) -> list[ChunkSeen]:
    """What is not noted yet, each chunk once for a service and index version: its first content stands."""
    new: list[ChunkSeen] = []
    for service, of_service in sorted(_by_service(seen).items()):
        ranks = _ranks(connection, service)
        known: dict[str, set[str]] = defaultdict(set)
        for row in _rows(connection, service, chunk_identity.c.chunk_id, {chunk.chunk_id for chunk in of_service}):
            known[row.chunk_id].add(row.index_version)
        new += [chunk for chunk in of_service if _is_wanted(chunk, known[chunk.chunk_id], ranks)]
    return new


def returned(connection: sa.Connection, service: str, version: str, chunk_ids: Iterable[str]) -> set[str]:
    """Those of the chunks that requests of a service have got from this version of its index."""
    given = {_key(chunk_id): chunk_id for chunk_id in chunk_ids}
    rows = _rows(connection, clean(service), chunk_identity.c.chunk_id, set(given))
    return {given[row.chunk_id] for row in rows if row.index_version == clean(version)}


def got(connection: sa.Connection, service: str, chunk_ids: Iterable[str]) -> set[str] | None:
    """Those of the chunks that requests of a service have got from any version of its index that is kept; None where
    nothing is known of its chunks."""
    own = sa.select(chunk_identity.c.chunk_id).where(chunk_identity.c.service == clean(service)).limit(1)
    if connection.scalar(own) is None:
        return None
    given = {_key(chunk_id): chunk_id for chunk_id in chunk_ids}
    return {given[row.chunk_id] for row in _rows(connection, clean(service), chunk_identity.c.chunk_id, set(given))}


def chunk_texts(connection: sa.Connection, service: str, chunk_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """What chunks held when a request of the service last got them: the version of the index, and the text. Chunks
    that no request got, or whose text is not kept, are left out."""
    given = {_key(chunk_id): chunk_id for chunk_id in chunk_ids}
    rows = _rows(connection, clean(service), chunk_identity.c.chunk_id, set(given))
    latest = {row.chunk_id: row for row in sorted(rows, key=lambda row: row.index_version)}
    known = fetch_texts(connection, {row.content_hash for row in latest.values()})
    return {
        given[chunk_id]: (row.index_version, known[row.content_hash])
        for chunk_id, row in latest.items()
        if row.content_hash in known
    }


def _by_service(seen: Iterable[ChunkSeen]) -> dict[str, list[ChunkSeen]]:
    first: dict[tuple[str, str, str], ChunkSeen] = {}
    for each in seen:
        key = (clean(each.service), _key(each.chunk_id), clean(each.index_version))
        first.setdefault(key, ChunkSeen(key[0], key[2], key[1], _key(each.content_hash)))
    found: dict[str, list[ChunkSeen]] = defaultdict(list)
    for key in sorted(first):
        found[key[0]].append(first[key])
    return found


def _key(text: str) -> str:
    """`text` as an index can hold it; the hash of one that is too long."""
    return clean(text) if len(text) <= _LONGEST else content_hash(text)


def _ranks(connection: sa.Connection, service: str) -> dict[str, int]:
    """The newest index versions of a service; the higher, the newer."""
    newest = connection.scalars(
        sa.select(release.c.version)
        .where(release.c.service == service, release.c.component == INDEX)
        .order_by(CAME_AT.desc(), release.c.version.desc())
        .limit(VERSIONS)
    )
    return {version: -place for place, version in enumerate(newest)}


def _rows(connection: sa.Connection, service: str, column: sa.Column[Any], values: Iterable[str]) -> Iterator[_Row]:
    fields = [chunk_identity.c[name] for name in _Row._fields]
    for some in chunks(sorted(values)):
        found = connection.execute(sa.select(*fields).where(chunk_identity.c.service == service, column.in_(some)))
        yield from (_Row(*row) for row in found)


def _is_wanted(seen: ChunkSeen, known: set[str], ranks: Mapping[str, int]) -> bool:
    """Whether it is new, and its version not older than those that are kept."""
    if seen.index_version in known or seen.index_version not in ranks:
        return False
    newer = [each for each in known if ranks.get(each, -VERSIONS) > ranks[seen.index_version]]
    return len(newer) < _KEPT


def note_chunks(connection: sa.Connection, seen: Iterable[ChunkSeen]) -> None:
    """Note what is unseen, compare it, and count what drifted, all once."""
    take_advisory_lock(connection, _TURN)  # two that write at once would not see, and not compare, each other's chunks
    deltas: list[Delta] = []
    for service, given in _by_service(unseen(connection, seen)).items():
        connection.execute(insert(connection, chunk_identity), [_columns(each) for each in given])
        drifted = _compare(connection, service, given)
        deltas += [_delta(service, kind, drifted[kind]) for kind in ("rewritten", "renumbered")]
    totals.add(connection, deltas)


def _columns(seen: ChunkSeen) -> dict[str, Any]:
    return {name: getattr(seen, name) for name in ChunkSeen.__slots__}


def _delta(service: str, kind: str, number: int) -> Delta:
    return Delta(CHUNK_DRIFT.name, (("service", service), ("kind", kind)), float(number))


def _compare(connection: sa.Connection, service: str, given: Sequence[ChunkSeen]) -> Counter[str]:
    """Compare the chunks that nothing was known to compare with, write how they changed, and drop what is too old."""
    ranks = _ranks(connection, service)
    ids, hashes = {each.chunk_id for each in given}, {each.content_hash for each in given}
    rows = set(_rows(connection, service, chunk_identity.c.chunk_id, ids))
    rows.update(_rows(connection, service, chunk_identity.c.content_hash, hashes))
    known = _KnownChunks((row for row in rows if row.index_version in ranks), ranks)
    changes = {row: outcome for row in sorted(rows - known.compared) if (outcome := known.outcome(row)) is not None}
    if changes:
        written = [{**_place(service, row), **outcome._asdict()} for row, outcome in changes.items()]
        connection.execute(sa.update(chunk_identity).where(*_SAME), written)
    _drop(connection, service, [row for chunk_id in sorted(ids) for row in known.versions(chunk_id)[_KEPT:]], ranks)
    return Counter(outcome.kind for outcome in changes.values())


class _KnownChunks:
    """What is known of some chunks of one service."""

    def __init__(self, rows: Iterable[_Row], ranks: Mapping[str, int]) -> None:
        self._ranks = ranks
        self._by_id: dict[str, list[_Row]] = defaultdict(list)
        self._by_hash: dict[str, list[_Row]] = defaultdict(list)
        self.compared: set[_Row] = set()
        for row in rows:
            self._by_id[row.chunk_id].append(row)
            self._by_hash[row.content_hash].append(row)
            if row.kind is not None:
                self.compared.add(row)

    def versions(self, chunk_id: str) -> list[_Row]:
        """The rows of one chunk id, newest version first."""
        return sorted(self._by_id[chunk_id], key=lambda row: -self._ranks[row.index_version])

    def outcome(self, row: _Row) -> _Outcome | None:
        """How a chunk differs from what came before it; None where nothing did."""
        rank = self._ranks.get(row.index_version)
        if rank is None:
            return None
        before = max(self._before(self._by_id[row.chunk_id], rank), default=None)
        moved = max(self._before(self._moved(row), rank), default=None)
        if before and before[1].content_hash == row.content_hash:
            return _Outcome("unchanged", before[1].index_version, row.chunk_id)
        if moved and (before is None or moved[0] >= before[0]):
            return _Outcome("renumbered", moved[1].index_version, moved[1].chunk_id)
        return _Outcome("rewritten", before[1].index_version, row.chunk_id) if before else None

    def _before(self, rows: Iterable[_Row], rank: int) -> Iterator[tuple[int, _Row]]:
        ranked = ((self._ranks[row.index_version], row) for row in rows)
        return (each for each in ranked if each[0] < rank)

    def _moved(self, row: _Row) -> list[_Row]:
        """The same content under other ids, but for ids that still hold it: those are copies."""
        same = self._by_hash[row.content_hash]
        here = {each.chunk_id for each in same if each.index_version == row.index_version}
        return [each for each in same if each.chunk_id not in here]


def _place(service: str, row: _Row) -> dict[str, str]:
    return {"key_service": service, "key_chunk_id": row.chunk_id, "key_index_version": row.index_version}


def _drop(connection: sa.Connection, service: str, rows: Sequence[_Row], ranks: Mapping[str, int]) -> None:
    if rows:
        connection.execute(sa.delete(chunk_identity).where(*_SAME), [_place(service, row) for row in rows])
    if len(ranks) == VERSIONS:
        old = sa.and_(chunk_identity.c.service == service, chunk_identity.c.index_version.not_in(list(ranks)))
        connection.execute(sa.delete(chunk_identity).where(old))


def drift(connection: sa.Connection, service: str | None) -> list[Drift]:
    """How the chunks of each index version differ from those of the version before it, newest first."""
    columns = chunk_identity.c
    pair = (columns.service, columns.previous_version, columns.index_version)
    counted = sa.select(*pair, columns.kind, sa.func.count().label("number")).where(columns.kind.is_not(None))
    if service is not None:
        counted = counted.where(columns.service == clean(service))
    numbers: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for row in connection.execute(counted.group_by(*pair, columns.kind)):
        numbers[row[0], row[1], row[2]][row.kind] = row.number
    ranks = {name: _ranks(connection, name) for name, _, _ in numbers}

    def order(key: tuple[str, str, str]) -> tuple[str, int, int]:
        name, *versions = key
        previous, version = (ranks[name].get(each, -VERSIONS) for each in versions)
        return name, -version, -previous

    return [_drift(connection, key, numbers[key]) for key in sorted(numbers, key=order)]


def _drift(connection: sa.Connection, key: tuple[str, str, str], numbers: Mapping[str, int]) -> Drift:
    return Drift(
        *key,
        unchanged=numbers.get("unchanged", 0),
        rewritten=numbers.get("rewritten", 0),
        renumbered=numbers.get("renumbered", 0),
        rewritten_ids=tuple(chunk_id for _, chunk_id in _examples(connection, key, "rewritten")),
        renumbered_ids=_examples(connection, key, "renumbered"),
    )


def _examples(connection: sa.Connection, key: tuple[str, str, str], kind: Kind) -> tuple[tuple[str, str], ...]:
    """Some chunks: their id before and their id now."""
    columns = chunk_identity.c
    place = (columns.service, columns.previous_version, columns.index_version, columns.kind)
    same = [column == value for column, value in zip(place, (*key, kind), strict=True)]
    query = sa.select(columns.previous_id, columns.chunk_id).where(*same)
    return tuple((row[0], row[1]) for row in connection.execute(query.order_by(columns.chunk_id).limit(_EXAMPLES)))


HISTORY: Final = 20
"""How many reports before the last one say what is usual."""

_FEWEST: Final = 3  # reports from which something is usual
_FLOOR: Final = 0.1  # a share of the usual number: less is never unusual, however alike the reports were
_DEVIATIONS: Final = 5.0
_NORMAL: Final = 1.4826  # from a median absolute deviation to a standard deviation of the normal distribution
_FIELDS: Final = ("documents", "newest_at", "delay_seconds")


def add_reports(connection: sa.Connection, given: Sequence[SourceReport]) -> None:
    """Store reports, each once."""
    rows = {row["report_id"]: row for row in map(_row, given)}
    if not rows:
        return
    connection.execute(insert(connection, source_report).on_conflict_do_nothing(), [rows[key] for key in sorted(rows)])
    first: dict[tuple[str, str], int] = {}
    for row in rows.values():
        key = (row["service"], row["source"])
        first[key] = min(first.get(key, row["reported_at"]), row["reported_at"])
    connection.execute(
        insert(connection, source).on_conflict_do_nothing(),
        [dict(zip(source.c.keys(), (*key, first[key]), strict=True)) for key in sorted(first)],
    )


def _row(report: SourceReport) -> dict[str, Any]:
    return {
        "report_id": clean(report.report_id) or content_hash(msgspec.json.encode(report).decode()),
        "service": clean(report.service),
        "source": clean(report.source),
        "reported_at": bigint(report.reported_at),
        "documents": None if report.documents is None else bigint(report.documents),
        "newest_at": None if report.newest_at is None else bigint(report.newest_at),
        "delay_seconds": report.delay_seconds,
    }


def find_sources(connection: sa.Connection, service: str | None) -> list[SourceState]:
    """What is reported of each source by now, in the order of their first reports."""
    query = sources_query()
    if service is not None:
        query = query.where(source.c.service == clean(service))
    return [_state(connection, row) for row in connection.execute(query).mappings().all()]


def sources_query() -> sa.Select[Any]:
    """The query behind `find`. The history's length costs nothing: each value is looked up in an index of its own."""
    columns = [source.c.service, source.c.source, *map(_last, ("reported_at", *_FIELDS))]
    return sa.select(*columns).order_by(source.c.first_reported_at, source.c.service, source.c.source)


def _last(name: str) -> sa.Label[Any]:
    """A field of the last report on a source that has it."""
    found = sa.select(source_report.c[name]).where(*_of(source.c.service, source.c.source))
    if name == "reported_at":
        return found.order_by(source_report.c.reported_at.desc()).limit(1).scalar_subquery().label(name)
    return _newest_first(found.where(source_report.c[name].is_not(None))).limit(1).scalar_subquery().label(name)


def _newest_first(query: sa.Select[Any]) -> sa.Select[Any]:
    return query.order_by(source_report.c.reported_at.desc(), source_report.c.report_id.desc())


def _of(service: Any, name: Any) -> tuple[sa.ColumnElement[bool], ...]:
    return source_report.c.service == service, source_report.c.source == name


def counts_query(service: str, name: str) -> sa.Select[Any]:
    """The documents of the last reports that count them, newest first."""
    query = sa.select(source_report.c.documents).where(*_of(service, name), source_report.c.documents.is_not(None))
    return _newest_first(query).limit(HISTORY + 1)


def _state(connection: sa.Connection, row: sa.RowMapping) -> SourceState:
    counts = list(connection.scalars(counts_query(row["service"], row["source"])))
    if len(counts) <= _FEWEST:
        return SourceState(**row)
    last, before = counts[0], counts[1:]
    return SourceState(**row, usual_documents=float(median(before)), is_unusual=_is_unusual(last, before))


def _is_unusual(last: int, before: Sequence[int]) -> bool:
    """Whether a count is far from those before it, by their median absolute deviation: one bad run among them does not
    make the next bad run usual, as it would by mean and standard deviation."""
    usual = median(before)
    spread = _NORMAL * median(abs(count - usual) for count in before)
    return abs(last - usual) > max(_DEVIATIONS * spread, _FLOOR * usual)


def forget_source(connection: sa.Connection, service: str, name: str) -> bool:
    """Delete all reports on a source. False when there are none."""
    connection.execute(sa.delete(source_report).where(*_of(clean(service), clean(name))))
    known = sa.delete(source).where(source.c.service == clean(service), source.c.source == clean(name))
    return connection.execute(known).rowcount > 0
