"""The tables of comparisons: the traits that tell which requests can be compared, and the gate's runs."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ragtrace.store.tables import metadata

__all__ = ["gate_run", "gate_version", "trait"]

trait: Final = sa.Table(
    "trait",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("cluster", sa.Text),
    sa.Column("versions", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.BigInteger),
    sa.Column("output_tokens", sa.BigInteger),
    sa.Column("replay", sa.Text),
    sa.Column("attempt", sa.BigInteger, nullable=False),
)
_REPLAYED: Final = sa.text("replay IS NOT NULL")
sa.Index("ix_trait_replay", trait.c.replay, trait.c.question, sqlite_where=_REPLAYED, postgresql_where=_REPLAYED)

gate_run: Final = sa.Table(
    "gate_run",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("decision", sa.Text, nullable=False),
    sa.Column("first_broken", sa.Text),
    sa.Column("baseline", sa.Text, nullable=False),
    sa.Column("candidate", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index(None, "service", "created_at"),
)

gate_version: Final = sa.Table(
    "gate_version",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("component", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, primary_key=True),
    sa.Index(None, "component", "version"),
)
