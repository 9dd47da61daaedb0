"""The tables of what no single request owns: releases, sources of documents, the identity of chunks, gold sets."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ragtrace.store.tables import metadata

__all__ = ["chunk_identity", "gold", "release", "source", "source_report"]

release: Final = sa.Table(
    "release",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("component", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, primary_key=True),
    sa.Column("first_seen_at", sa.BigInteger),
    sa.Column("recorded_at", sa.BigInteger),
)

source: Final = sa.Table(
    "source",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("first_reported_at", sa.BigInteger, nullable=False),
)

source_report: Final = sa.Table(
    "source_report",
    metadata,
    sa.Column("report_id", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("reported_at", sa.BigInteger, nullable=False),
    sa.Column("documents", sa.BigInteger),
    sa.Column("newest_at", sa.BigInteger),
    sa.Column("delay_seconds", sa.Double),
    sa.Index(None, "service", "source", "reported_at"),
)
for _field in ("documents", "newest_at", "delay_seconds"):  # each report may leave them out
    _given = sa.text(f"{_field} IS NOT NULL")
    _order = [source_report.c[name] for name in ("service", "source", "reported_at", "report_id")]
    sa.Index(f"ix_source_report_{_field}", *_order, sqlite_where=_given, postgresql_where=_given)

chunk_identity: Final = sa.Table(
    "chunk_identity",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("chunk_id", sa.Text, primary_key=True),
    sa.Column("index_version", sa.Text, primary_key=True),
    sa.Column("content_hash", sa.Text, nullable=False),
    sa.Column("kind", sa.Text),
    sa.Column("previous_version", sa.Text),
    sa.Column("previous_id", sa.Text),
    sa.Index(None, "service", "content_hash"),
    sa.Index(None, "service", "index_version"),
)

gold: Final = sa.Table(
    "gold",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("question_hash", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("question", sa.Text),
    sa.Column("query_class", sa.Text),
    sa.Column("chunk_ids", sa.Text),  # JSON
    sa.Column("facets", sa.Text),  # JSON
)
