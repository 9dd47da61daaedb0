"""What probes of the index found, one row for each request that was asked about.

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "index_probe",
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text()),
        sa.Column("chunk_id", sa.Text()),
        sa.Column("depth", sa.BigInteger(), nullable=False),
        sa.Column("depth_asked", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger()),
        sa.Column("exact_rank", sa.BigInteger()),
        sa.Column("by_gold", sa.Boolean(), nullable=False),
        sa.Column("drawn", sa.Boolean(), nullable=False),
        sa.Column("index_version", sa.Text()),
        sa.PrimaryKeyConstraint("request_id", name=op.f("pk_index_probe")),
    )
