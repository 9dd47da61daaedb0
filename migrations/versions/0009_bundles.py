"""Texts are compressed several together, in bundles: `content` says where each of them stands, under its hash in bytes.
Traces know their size. PostgreSQL no longer tries to compress what is compressed.

The texts that are stored are moved page by page, in the order of their hashes.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
import zstandard
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_PAGE = 500
_SIZE = 16 << 10
_COMPRESSED = (
    ("request", "payload"),
    ("bundle", "body"),
    ("span_part", "body"),
    ("addendum", "body"),
    ("analysis", "body"),
    ("gold", "body"),
    ("gate_run", "body"),
)


def upgrade() -> None:
    """Create the tables anew and fill them."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    op.drop_index("ix_content_condemned", table_name="content")
    op.rename_table("content", "content_before")
    if not is_sqlite:
        op.execute("ALTER TABLE content_before RENAME CONSTRAINT pk_content TO pk_content_before")
    op.create_table(
        "bundle",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bundle")),
    )
    op.create_table(
        "content",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("bundle", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("touched_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_content")),
        sqlite_with_rowid=False,
    )
    op.add_column("trace", sa.Column("bytes", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.execute(
        "UPDATE trace SET bytes = (SELECT COALESCE(SUM(length(body)), 0) FROM span_part"
        " WHERE span_part.tenant = trace.tenant AND span_part.trace_id = trace.trace_id)"
    )
    _fill()
    op.drop_table("content_before")
    if not is_sqlite:
        for table, column in _COMPRESSED:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL")
    condemned = sa.text("touched_at = 0")
    op.create_index(
        "ix_content_condemned", "content", ["hash"], unique=False, sqlite_where=condemned, postgresql_where=condemned
    )


def _fill() -> None:
    columns = [sa.column(name) for name in ("hash", "bundle", "place", "touched_at")]
    content, bundle = sa.table("content", *columns), sa.table("bundle", sa.column("id"), sa.column("body"))
    for rows in _bundles():
        body = zstandard.compress(msgspec.msgpack.encode([text for *_, text in rows]), level=1)
        number = op.get_bind().scalar(sa.insert(bundle).values(body=body).returning(bundle.c.id))
        places = [
            {"hash": bytes.fromhex(digest), "bundle": number, "place": place, "touched_at": touched_at}
            for place, (digest, touched_at, _) in enumerate(rows)
        ]
        op.get_bind().execute(sa.insert(content), places)


def _bundles() -> Iterator[list[tuple[str, int, bytes]]]:
    """Texts that stand together. One that is damaged is left out: nobody can read it as it is."""
    found: list[tuple[str, int, bytes]] = []
    for page in _pages():
        for digest, touched_at, body in page:
            try:
                found.append((digest, touched_at, zstandard.decompress(body)))
            except zstandard.ZstdError:
                continue
            if sum(len(text) for *_, text in found) >= _SIZE:
                yield found
                found = []
    if found:
        yield found


def _pages() -> Iterator[Sequence[Any]]:
    before = sa.table("content_before", *map(sa.column, ("hash", "touched_at", "body")))
    query = sa.select(*before.c).order_by(before.c.hash).limit(_PAGE)
    last = ""
    while rows := op.get_bind().execute(query.where(before.c.hash > last)).all():
        yield rows
        last = rows[-1].hash
