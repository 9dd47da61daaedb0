"""Spans that arrive from anybody: traces and their parts, until they are assembled and late spans no longer expected.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the two tables."""
    op.create_table(
        "trace",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("parts", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.Column("due_at", sa.Double()),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("tenant", "trace_id", name=op.f("pk_trace")),
    )
    due = sa.text("due_at IS NOT NULL")
    op.create_index("ix_trace_due_at", "trace", ["due_at"], unique=False, sqlite_where=due, postgresql_where=due)
    op.create_index("ix_trace_last_at", "trace", ["last_at"], unique=False)
    op.create_table(
        "span_part",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "trace_id", "digest", name=op.f("pk_span_part")),
    )
