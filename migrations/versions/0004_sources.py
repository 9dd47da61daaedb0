"""Reports on the sources of documents, releases that somebody recorded, and samples of requests by their indexes alone.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables, let a release stand without a request that carried it, and widen two indexes."""
    op.create_table(
        "source",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("first_reported_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("service", "source", name=op.f("pk_source")),
    )
    op.create_table(
        "source_report",
        sa.Column("report_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("reported_at", sa.BigInteger(), nullable=False),
        sa.Column("documents", sa.BigInteger(), nullable=True),
        sa.Column("newest_at", sa.BigInteger(), nullable=True),
        sa.Column("delay_seconds", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("report_id", name=op.f("pk_source_report")),
    )
    op.create_index(
        op.f("ix_source_report_service_source_reported_at"),
        "source_report",
        ["service", "source", "reported_at"],
        unique=False,
    )
    for field in ("documents", "newest_at", "delay_seconds"):
        given = sa.text(f"{field} IS NOT NULL")
        op.create_index(
            f"ix_source_report_{field}",
            "source_report",
            ["service", "source", "reported_at", "report_id"],
            unique=False,
            sqlite_where=given,
            postgresql_where=given,
        )
    with op.batch_alter_table("release") as batch:
        batch.alter_column("first_seen_at", existing_type=sa.BigInteger(), nullable=True)
        batch.add_column(sa.Column("recorded_at", sa.BigInteger(), nullable=True))
    for columns in (["service", "segment", "started_at"], ["service", "started_at"]):
        op.drop_index(op.f(f"ix_request_{'_'.join(columns)}"), table_name="request")
        wider = [*columns, "request_id", "head_sampled"]
        op.create_index(op.f(f"ix_request_{'_'.join(wider)}"), "request", wider, unique=False)
