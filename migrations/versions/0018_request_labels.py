"""What people say of single requests: drawings of requests to label, the requests drawn, and the labels.

The views for people get labels and feedback, so that both can be set beside the verdicts.

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables and the views."""
    op.create_table(
        "drawing",
        sa.Column("drawing_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("versions", sa.Text(), nullable=False),
        sa.Column("judge", sa.Text(), nullable=False),
        sa.Column("drawn_at", sa.BigInteger(), nullable=False),
        sa.Column("uniform", sa.Double(), nullable=False),
        sa.Column("population", sa.BigInteger(), nullable=False),
        sa.Column("rates", sa.Text()),
        sa.PrimaryKeyConstraint("drawing_id", name=op.f("pk_drawing")),
    )
    op.create_index("ix_drawing_service_drawn_at", "drawing", ["service", "drawn_at"])
    op.create_table(
        "drawn",
        sa.Column("drawing_id", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("stratum", sa.Text(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("drawing_id", "request_id", name=op.f("pk_drawn")),
    )
    op.create_index("ix_drawn_request_id", "drawn", ["request_id"])
    op.create_table(
        "request_label",
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("labeler", sa.Text(), nullable=False),
        sa.Column("labeled_at", sa.BigInteger(), nullable=False),
        sa.Column("first_broken", sa.Text(), nullable=False),
        sa.Column("stages", sa.Text(), nullable=False),
        sa.Column("needed", sa.Text()),
        sa.Column("note", sa.Text()),
        sa.Column("verdict", sa.Text()),
        sa.Column("judge", sa.Text()),
        sa.Column("analyzer_version", sa.Text()),
        sa.PrimaryKeyConstraint("request_id", "labeler", name=op.f("pk_request_label")),
    )
    at = _sqlite_time if op.get_bind().dialect.name == "sqlite" else _postgresql_time
    stratum = "CASE WHEN r.head_sampled THEN 'random' ELSE 'flagged' END AS stratum"
    asked = rf"r.service, r.segment, {stratum}, {at('r.started_at', 'started')}".replace(":", r"\:")
    labeled, said = (at(f"{name}", as_).replace(":", r"\:") for name, as_ in _TIMES)
    op.execute(
        sa.text(f"""
            CREATE VIEW v_label AS
            SELECT l.request_id, {asked}, l.labeler, {labeled}, l.first_broken, l.stages, l.needed, l.note,
                l.verdict AS verdict_then, l.judge AS judge_then, d.verdict, d.stage, d.judge
            FROM request_label l JOIN request r ON r.request_id = l.request_id
            LEFT JOIN diagnosis d ON d.request_id = l.request_id AND d.kind = 'coverage'""")
    )
    op.execute(
        sa.text(f"""
            CREATE VIEW v_feedback AS
            SELECT f.request_id, {asked}, f.source, {said}, f.label, f.score, f.comment
            FROM feedback f JOIN request r ON r.request_id = f.request_id""")
    )


_TIMES = (("l.labeled_at", "labeled"), ("f.created_at", "said"))


def _sqlite_time(nanoseconds: str, name: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {nanoseconds} / 1e9, 'unixepoch') AS {name}"


def _postgresql_time(nanoseconds: str, name: str) -> str:
    return f"to_timestamp({nanoseconds} / 1e9) AS {name}"
