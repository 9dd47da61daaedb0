"""Calibrations of services: by which lines a service is judged, and what one in shadow would have said.

Revision ID: 0019
Revises: 0018
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "calibration",
        sa.Column("calibration_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("judge", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("accepted_at", sa.BigInteger()),
        sa.Column("fitted", sa.Text(), nullable=False),
        sa.Column("shadow_requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("named", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("shadow_named", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("calibration_id", name=op.f("pk_calibration")),
    )
    op.create_index("ix_calibration_service_judge", "calibration", ["service", "judge"])
