"""What looking after a store needs: when each text was last used, whose each request is, what was erased; and views.

The tenant and the session of requests that are stored are read out of their payloads, page by page, as are the shares
of stored attributions and the questions of gold sets. Texts that are stored count as used at the time of the migration.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
import zstandard
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_PAGE = 500
_OF_SOURCE = "p.service = s.service AND p.source = s.source"


def upgrade() -> None:
    """Add the columns and tables, fill them, make the views."""
    now = sa.text(str(int(time.time())))  # a constant: neither database rewrites its rows for it
    op.add_column("content", sa.Column("touched_at", sa.BigInteger(), nullable=False, server_default=now))
    condemned = sa.text("touched_at = 0")
    op.create_index(
        "ix_content_condemned", "content", ["hash"], unique=False, sqlite_where=condemned, postgresql_where=condemned
    )
    for owner in ("tenant_id", "session_id"):
        op.add_column("request", sa.Column(owner, sa.Text()))
    op.create_table(
        "erased",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_erased")),
    )
    op.create_table(
        "attribution_share",
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("chunk_id", sa.Text(), nullable=False),
        sa.Column("share", sa.Double(), nullable=False),
        sa.Column("share_error", sa.Double()),
        sa.PrimaryKeyConstraint("request_id", "position", name=op.f("pk_attribution_share")),
    )
    for name in ("question", "query_class", "chunk_ids", "facets"):
        op.add_column("gold", sa.Column(name, sa.Text()))
    _fill_owners()
    for names in (["tenant_id", "request_id"], ["session_id", "request_id"], ["trace_id"]):
        where = sa.text(f"{names[0]} IS NOT NULL")  # after they are filled: an index is quicker made than kept
        op.create_index(
            f"ix_request_{'_'.join(names)}", "request", names, unique=False, sqlite_where=where, postgresql_where=where
        )
    _fill_shares()
    _fill_gold()
    for name, query in _views(op.get_bind().dialect.name).items():
        op.execute(sa.text(f"CREATE VIEW {name} AS {query}".replace(":", r"\:")))


def _fill_owners() -> None:
    request = _table("request", "request_id", "payload", "tenant_id", "session_id")
    statement = sa.update(request).where(request.c.request_id == sa.bindparam("key"))
    for page in _pages(request, ("request_id",), "payload"):
        rows = [{"key": row.request_id, **_owners(row.payload)} for row in page]
        found = [row for row in rows if row["tenant_id"] is not None or row["session_id"] is not None]
        if found:
            op.get_bind().execute(statement, found)


def _owners(payload: bytes) -> dict[str, str | None]:
    read = _read(payload).get("record")
    record: dict[str, Any] = read if isinstance(read, dict) else {}
    return {name: _clean(record.get(name)) for name in ("tenant_id", "session_id")}


def _fill_shares() -> None:
    """The shares of the newest attribution of each request."""
    analysis = _table("analysis", "request_id", "kind", "analyzer_version", "record_revision", "body")
    diagnosis = _table("diagnosis", "request_id", "kind", "analyzer_version", "record_revision")
    same = [diagnosis.c[column.name] == column for column in analysis.c if column.name != "body"]
    newest = sa.exists().where(*same)
    share = _table("attribution_share", "request_id", "position", "chunk_id", "share", "share_error")
    for page in _pages(analysis, ("request_id", "analyzer_version"), "body", analysis.c.kind == "attribution", newest):
        rows = [row for each in page for row in _shares(each.request_id, _read(each.body))]
        if rows:
            op.get_bind().execute(sa.insert(share), rows)


def _shares(request_id: str, analysis: dict[str, Any]) -> Iterator[dict[str, Any]]:
    generator = (analysis.get("explanation") or {}).get("generator") or {}
    chunk_ids, shares = generator.get("chunk_ids", ()), generator.get("shares", ())
    errors = generator.get("share_errors") or [None] * len(shares)
    for position, (chunk_id, share, error) in enumerate(zip(chunk_ids, shares, errors, strict=False)):
        yield {
            "request_id": request_id,
            "position": position,
            "chunk_id": _clean(chunk_id),
            "share": share,
            "share_error": error,
        }


def _fill_gold() -> None:
    gold = _table("gold", "service", "question_hash", "body", "question", "query_class", "chunk_ids", "facets")
    statement = sa.update(gold).where(
        gold.c.service == sa.bindparam("of_service"), gold.c.question_hash == sa.bindparam("of_question")
    )
    for page in _pages(gold, ("service", "question_hash"), "body"):
        rows = [{"of_service": row.service, "of_question": row.question_hash, **_gold(row.body)} for row in page]
        op.get_bind().execute(statement, rows)


def _gold(body: bytes) -> dict[str, str | None]:
    read = _read(body)
    return {
        "question": _clean(read.get("question")),
        "query_class": _clean(read.get("query_class")),
        "chunk_ids": _clean(json.dumps(read.get("chunk_ids", []), ensure_ascii=False, separators=(",", ":"))),
        "facets": _clean(json.dumps(read.get("facets", []), ensure_ascii=False, separators=(",", ":"))),
    }


def _table(name: str, *columns: str) -> sa.TableClause:
    return sa.table(name, *map(sa.column, columns))


def _pages(
    table: sa.TableClause, key: Sequence[str], body: str, *where: sa.ColumnElement[bool]
) -> Iterator[list[sa.Row[Any]]]:
    columns = [table.c[name] for name in key]
    query = sa.select(*columns, table.c[body]).where(*where).order_by(*columns).limit(_PAGE)
    page = list(op.get_bind().execute(query))
    while page:
        yield page
        last = [sa.literal(value) for value in page[-1][:-1]]
        page = list(op.get_bind().execute(query.where(sa.tuple_(*columns) > sa.tuple_(*last))))


def _read(body: bytes) -> dict[str, Any]:
    """What a body tells; nothing where it is damaged."""
    try:
        read = json.loads(zstandard.decompress(body))
    except (zstandard.ZstdError, ValueError, TypeError):
        return {}
    return read if isinstance(read, dict) else {}


def _clean(text: Any) -> str | None:
    if not isinstance(text, str):
        return None
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _views(dialect: str) -> dict[str, str]:
    """The views for people: times as ISO 8601 or timestamptz beside Unix seconds, no column that must be decoded."""
    at = _sqlite_time if dialect == "sqlite" else _postgresql_time
    stratum = "CASE WHEN r.head_sampled THEN 'random' ELSE 'flagged' END AS stratum"
    asked = f"r.service, r.segment, {stratum}, {at('r.started_at', 'started')}"
    return {
        "v_request": f"""
            SELECT r.request_id, {asked}, r.started_at / 1e9 AS started_seconds, {at("r.ended_at", "ended")},
                (r.ended_at - r.started_at) / 1e9 AS duration_seconds, r.status, r.query_class, r.flags, r.trace_id,
                r.tenant_id, r.session_id, r.head_probability, t.question AS question_key, t.versions, t.input_tokens,
                t.output_tokens, t.replay, d.verdict, d.stage, d.owner, d.cause, d.reference, d.suspected_rollout
            FROM request r
            LEFT JOIN diagnosis d ON d.request_id = r.request_id AND d.kind = 'coverage'
            LEFT JOIN trait t ON t.request_id = r.request_id""",
        "v_score": f"""
            SELECT s.request_id, {asked}, s.kind, s.metric, s.reference, s.value, s.reason, s.analyzer_version
            FROM score s JOIN request r ON r.request_id = s.request_id""",
        "v_diagnosis": f"""
            SELECT d.request_id, {asked}, d.kind, d.verdict, d.stage, d.owner, d.cause, d.reference,
                d.suspected_rollout, d.analyzer_version, d.record_revision
            FROM diagnosis d JOIN request r ON r.request_id = d.request_id""",
        "v_attribution": f"""
            SELECT a.request_id, {asked}, a.position, a.chunk_id, a.share, a.share_error
            FROM attribution_share a JOIN request r ON r.request_id = a.request_id""",
        "v_gold": """
            SELECT g.service, g.question_hash, g.question, g.query_class, g.chunk_ids, g.facets FROM gold g""",
        "v_release": f"""
            SELECT l.service, l.component, l.version, {at("COALESCE(l.recorded_at, l.first_seen_at)", "came_into_use")},
                {at("l.first_seen_at", "first_seen")}, {at("l.recorded_at", "recorded")}
            FROM release l""",
        "v_source": f"""
            SELECT o.service, o.source, {at("o.first_reported_at", "first_reported")},
                {at("o.reported_at", "reported")}, o.reported_at / 1e9 AS reported_seconds, o.documents,
                {at("o.newest_at", "newest_document")}, o.delay_seconds
            FROM (SELECT s.service, s.source, s.first_reported_at,
                (SELECT MAX(p.reported_at) FROM source_report p WHERE {_OF_SOURCE}) AS reported_at,
                {", ".join(map(_last, ("documents", "newest_at", "delay_seconds")))} FROM source s) o""",
        "v_source_report": f"""
            SELECT p.report_id, p.service, p.source, {at("p.reported_at", "reported")},
                p.reported_at / 1e9 AS reported_seconds, p.documents, {at("p.newest_at", "newest_document")},
                p.delay_seconds
            FROM source_report p""",
    }


def _last(field: str) -> str:
    """A field of the last report on a source that has it."""
    newest = f"WHERE {_OF_SOURCE} AND p.{field} IS NOT NULL ORDER BY p.reported_at DESC, p.report_id DESC LIMIT 1"
    return f"(SELECT p.{field} FROM source_report p {newest}) AS {field}"


def _sqlite_time(nanoseconds: str, name: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {nanoseconds} / 1e9, 'unixepoch') AS {name}"


def _postgresql_time(nanoseconds: str, name: str) -> str:
    return f"to_timestamp({nanoseconds} / 1e9) AS {name}"
