"""Parts of traces may be compressed against the texts of their record, whose hashes they name.

Parts that are stored already stay as they are.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. PostgreSQL shall not try to compress hashes."""
    op.add_column("span_part", sa.Column("texts", sa.LargeBinary(), nullable=True))
    if op.get_bind().dialect.name != "sqlite":
        op.execute("ALTER TABLE span_part ALTER COLUMN texts SET STORAGE EXTERNAL")
