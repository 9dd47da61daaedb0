"""What each stage of an analyzed request took: time, tokens and cost, beside its diagnosis.

Revision ID: 0021
Revises: 0020
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; earlier diagnoses have none."""
    op.add_column("diagnosis", sa.Column("expenses", sa.Text()))


def downgrade() -> None:
    """Take it away."""
    op.drop_column("diagnosis", "expenses")
