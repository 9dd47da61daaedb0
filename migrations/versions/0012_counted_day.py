"""What was counted has a day, so that it need not be remembered for ever.

Of what is stored already the day is not known. It is counted as of the day of this migration: before it, in truth, and
so it is forgotten late rather than early.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; neither database writes its rows anew for that."""
    today = str(int(time.time() // 86_400))
    op.add_column("counted", sa.Column("day", sa.Integer(), nullable=False, server_default=today))
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("counted", "day", server_default=None)
