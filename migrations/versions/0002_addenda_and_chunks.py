"""Addenda to requests, and which content each chunk id held under which version of the index.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "addendum",
        sa.Column("addendum_id", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("addendum_id", name=op.f("pk_addendum")),
    )
    op.create_index(op.f("ix_addendum_request_id"), "addendum", ["request_id"], unique=False)
    op.create_table(
        "chunk_identity",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("chunk_id", sa.Text(), nullable=False),
        sa.Column("index_version", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("previous_version", sa.Text(), nullable=True),
        sa.Column("previous_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("service", "chunk_id", "index_version", name=op.f("pk_chunk_identity")),
    )
    op.create_index(
        op.f("ix_chunk_identity_service_content_hash"), "chunk_identity", ["service", "content_hash"], unique=False
    )
    op.create_index(
        op.f("ix_chunk_identity_service_index_version"), "chunk_identity", ["service", "index_version"], unique=False
    )
