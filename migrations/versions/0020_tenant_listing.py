"""The index by which a tenant's people list their requests, newest first, at any size of the store.

Revision ID: 0020
Revises: 0019
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_KNOWN = sa.text("tenant_id IS NOT NULL")


def upgrade() -> None:
    """Add it; requests without a tenant are not in it."""
    op.create_index(
        "ix_request_tenant_id_service_started_at_request_id",
        "request",
        ["tenant_id", "service", "started_at", "request_id"],
        sqlite_where=_KNOWN,
        postgresql_where=_KNOWN,
    )
