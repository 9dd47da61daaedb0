"""The tables of upkeep and of reading by SQL: what was erased, and the shares of documents in narrow rows."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ragtrace.store.tables import metadata

__all__ = ["attribution_share", "erased"]

erased: Final = sa.Table(
    "erased",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
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
