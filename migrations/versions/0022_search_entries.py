"""Which requests the index of words holds, and their words; empty until somebody turns search on.

Revision ID: 0022
Revises: 0021
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; the index of words is made by `ragtrace db search on`."""
    op.create_table(
        "search_entry",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("words", sa.LargeBinary().with_variant(sa.Text(), "postgresql")),
        sa.PrimaryKeyConstraint("id", name="pk_search_entry"),
        sa.UniqueConstraint("request_id", name="uq_search_entry"),
    )
