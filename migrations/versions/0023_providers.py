"""Whose documents an analyzed request retrieved, beside its diagnosis: what the list of requests is filtered by.

Revision ID: 0023
Revises: 0022
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; earlier diagnoses have none."""
    op.add_column("diagnosis", sa.Column("providers", sa.Text()))


def downgrade() -> None:
    """Take it away."""
    op.drop_column("diagnosis", "providers")
