"""Which services the spans of each tenant named, so that an erasure finds what is kept by service.

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "tenant_service",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "service", name=op.f("pk_tenant_service")),
    )
    op.create_index(op.f("ix_tenant_service_service"), "tenant_service", ["service"])
