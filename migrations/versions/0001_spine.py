"""The spine: records, texts, results, totals, releases, gold sets, faults, leases and the queue.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "analysis",
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("analyzer_version", sa.Text(), nullable=False),
        sa.Column("record_revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("computed_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("request_id", "kind", "analyzer_version", "record_revision", name=op.f("pk_analysis")),
    )
    op.create_table(
        "content",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_content")),
    )
    op.create_table(
        "counted",
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("request_id", "kind", name=op.f("pk_counted")),
    )
    op.create_table(
        "diagnosis",
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("analyzer_version", sa.Text(), nullable=False),
        sa.Column("record_revision", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("suspected_rollout", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("request_id", "kind", name=op.f("pk_diagnosis")),
    )
    op.create_index(
        op.f("ix_diagnosis_kind_stage_started_at"), "diagnosis", ["kind", "stage", "started_at"], unique=False
    )
    op.create_index(op.f("ix_diagnosis_kind_started_at"), "diagnosis", ["kind", "started_at"], unique=False)
    op.create_table(
        "fault",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("where", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("service", "where", "kind", name=op.f("pk_fault")),
    )
    op.create_table(
        "feedback",
        sa.Column("feedback_id", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("feedback_id", name=op.f("pk_feedback")),
    )
    op.create_index(op.f("ix_feedback_request_id"), "feedback", ["request_id"], unique=False)
    op.create_table(
        "gold",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("question_hash", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("service", "question_hash", name=op.f("pk_gold")),
    )
    op.create_table(
        "job",
        sa.Column("id", _ID, nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("analyzer_version", sa.Text(), nullable=False),
        sa.Column("record_revision", sa.BigInteger(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("flagged", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("available_at", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_token", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
        sa.UniqueConstraint("request_id", "kind", "analyzer_version", "record_revision", name=op.f("uq_job")),
    )
    op.create_index(
        "ix_job_leased",
        "job",
        ["lease_expires_at"],
        unique=False,
        sqlite_where=sa.text("state = 'leased'"),
        postgresql_where=sa.text("state = 'leased'"),
    )
    op.create_index(
        "ix_job_pending",
        "job",
        [sa.literal_column("priority DESC"), "id"],
        unique=False,
        sqlite_where=sa.text("state = 'pending'"),
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_job_waiting",
        "job",
        ["created_at"],
        unique=False,
        sqlite_where=sa.text("state = 'pending'"),
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index("ix_job_finished_at_state", "job", ["finished_at", "state"], unique=False)
    op.create_table(
        "lease",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lease")),
    )
    op.create_table(
        "release",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("service", "component", "version", name=op.f("pk_release")),
    )
    op.create_table(
        "request",
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=True),
        sa.Column("query_class", sa.Text(), nullable=True),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("head_sampled", sa.Boolean(), nullable=False),
        sa.Column("head_probability", sa.Double(), nullable=False),
        sa.Column("record_revision", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("request_id", name=op.f("pk_request")),
    )
    op.create_index(
        op.f("ix_request_service_segment_started_at"), "request", ["service", "segment", "started_at"], unique=False
    )
    op.create_index(op.f("ix_request_service_started_at"), "request", ["service", "started_at"], unique=False)
    op.create_index(op.f("ix_request_started_at"), "request", ["started_at"], unique=False)
    op.create_table(
        "score",
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("analyzer_version", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("request_id", "kind", "metric", "reference", name=op.f("pk_score")),
    )
    op.create_table(
        "success",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("service", name=op.f("pk_success")),
    )
    op.create_table(
        "total",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("first_at", sa.Double(), nullable=False),
        sa.Column("exemplar_trace_id", sa.Text(), nullable=True),
        sa.Column("exemplar_value", sa.Double(), nullable=True),
        sa.Column("exemplar_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("name", "labels", name=op.f("pk_total")),
    )
