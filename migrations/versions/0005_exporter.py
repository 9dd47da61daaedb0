"""What the exporter needs: which label values it names, the queue's depth without the done jobs, renamed totals.

Requests that are stored count as counted, so that one that is deleted and comes again does not count twice.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_FORMER = "ragtrace_attribution_cost_seconds_total"
_NAME = "ragtrace_analysis_seconds_total"


def upgrade() -> None:
    """Create the table and the indexes, and carry over what was counted."""
    op.create_table(
        "exposed",
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("label", "service", "value", name=op.f("pk_exposed")),
    )
    op.drop_index("ix_job_waiting", "job")
    for name, state, columns in (
        ("ix_job_waiting", "pending", ["created_at", "kind", "available_at"]),
        ("ix_job_dead", "dead", ["kind"]),
    ):
        where = sa.text(f"state = '{state}'")
        op.create_index(name, "job", columns, unique=False, sqlite_where=where, postgresql_where=where)
    _count_requests()
    _rename_costs()


def _count_requests() -> None:
    op.execute(
        "INSERT INTO counted (request_id, kind) SELECT request_id, 'request' FROM request WHERE true"
        " ON CONFLICT DO NOTHING"
    )


def _rename_costs() -> None:
    """The series of what explanations took is now one of what any analysis took."""
    total = sa.table("total", sa.column("name", sa.Text()), sa.column("labels", sa.Text()))
    connection = op.get_bind()
    former = total.c.name == _FORMER
    for labels in connection.scalars(sa.select(total.c.labels).where(former)).all():
        given = sorted([*json.loads(labels), ["job_kind", "attribution"]])
        written = json.dumps(given, ensure_ascii=True, separators=(",", ":"))
        connection.execute(sa.update(total).where(former, total.c.labels == labels).values(name=_NAME, labels=written))
