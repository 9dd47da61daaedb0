"""The tables of upkeep and of reading by SQL: what was erased and forgotten, which services a tenant named, the shares
of documents and the findings of probes."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ragtrace.store.tables import metadata

__all__ = ["attribution_share", "audit", "erased", "index_probe", "tenant_service"]

erased: Final = sa.Table(
    "erased",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
)

tenant_service: Final = sa.Table(  # which services the spans of a tenant named
    "tenant_service",
    metadata,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, primary_key=True),
    sa.Index(None, "service"),
)

audit: Final = sa.Table(  # what people had deleted
    "audit",
    metadata,
    sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),  # JSON
    sa.Column("rows", sa.Text, nullable=False),  # JSON
)

attribution_share: Final = sa.Table(
    "attribution_share",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("chunk_id", sa.Text, nullable=False),
    sa.Column("share", sa.Double, nullable=False),
    sa.Column("share_error", sa.Double),
)

index_probe: Final = sa.Table(  # of several chunks the one that names the cause
    "index_probe",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("asked_at", sa.BigInteger, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("cause", sa.Text),
    sa.Column("chunk_id", sa.Text),
    sa.Column("depth", sa.BigInteger, nullable=False),
    sa.Column("depth_asked", sa.BigInteger, nullable=False),
    sa.Column("rank", sa.BigInteger),
    sa.Column("exact_rank", sa.BigInteger),
    sa.Column("by_gold", sa.Boolean, nullable=False),
    sa.Column("drawn", sa.Boolean, nullable=False),
    sa.Column("index_version", sa.Text),
)
