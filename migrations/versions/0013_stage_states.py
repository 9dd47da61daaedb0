"""Each stage of a diagnosis has a state; services that cite, the background of their words, and judged alerts are kept.

The totals of indicators by metric become those of stages. What judged them is no longer known: their `judge` is that
of the version before. Contradiction has no indicator any more, and its totals go. Diagnoses that were undetermined
ended in an exception, or found no break. The views for people get columns for the states, behind those that they have:
PostgreSQL then keeps the rights that were granted on them.

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_STAGES = ("retrieval", "ranking", "generation", "citation")
_STAGE_OF = {"qc": "retrieval", "eo": "ranking", "ac": "generation", "cc": "citation"}
_JUDGE = "before-8"
_COLUMNS = ("judge", *(f"{stage}_{what}" for stage in _STAGES for what in ("state", "reason")), "doubted")


def upgrade() -> None:
    """Add columns and tables, rename totals; no row of a request is written anew but for its verdict."""
    for name in _COLUMNS:
        op.add_column("diagnosis", sa.Column(name, sa.Text()))
    op.execute("UPDATE diagnosis SET verdict = 'no_break_found' WHERE verdict = 'undetermined' AND cause IS NULL")
    op.execute("UPDATE diagnosis SET verdict = 'error' WHERE verdict = 'undetermined'")
    op.create_table(
        "citing",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.Column("cited", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger()),
        sa.Column("counted_from", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("service", name="pk_citing"),
    )
    op.create_table(
        "background",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("chunks", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("service", name="pk_background"),
    )
    op.create_table(
        "page_judgment",
        sa.Column("alert_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("judgment", sa.Text(), nullable=False),
        sa.Column("judged_at", sa.BigInteger(), nullable=False),
        sa.Column("comment", sa.Text()),
        sa.PrimaryKeyConstraint("alert_id", name="pk_page_judgment"),
    )
    _rename_totals()
    _rename_diagnoses()
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for name, query in _views(is_sqlite=is_sqlite):
        if is_sqlite:
            op.execute(f"DROP VIEW {name}")
        verb = "CREATE VIEW" if is_sqlite else "CREATE OR REPLACE VIEW"
        op.execute(sa.text(f"{verb} {name} AS {query}".replace(":", r"\:")))


def _rename_totals() -> None:
    """`metric=qc` becomes `stage=retrieval`, and so on."""
    connection = op.get_bind()
    total = sa.table("total", sa.column("name", sa.Text), sa.column("labels", sa.Text))
    names = ("ragtrace_sli_requests_total", "ragtrace_sli_good_requests_total")
    for row in connection.execute(sa.select(total.c.name, total.c.labels).where(total.c.name.in_(names))).all():
        same = sa.and_(total.c.name == row.name, total.c.labels == row.labels)
        labels = dict(json.loads(row.labels))
        stage = _STAGE_OF.get(labels.pop("metric", ""))
        if stage is None:
            connection.execute(sa.delete(total).where(same))
            continue
        renamed = sorted((labels | {"stage": stage, "judge": _JUDGE}).items())
        written = json.dumps(renamed, ensure_ascii=True, separators=(",", ":"))
        connection.execute(sa.update(total).where(same).values(labels=written))


def _rename_diagnoses() -> None:
    """`verdict=undetermined` becomes `no_break_found` in the totals of diagnoses, of which most were that."""
    connection = op.get_bind()
    total = sa.table("total", sa.column("name", sa.Text), sa.column("labels", sa.Text))
    counted = sa.select(total.c.labels).where(
        total.c.name == "ragtrace_diagnoses_total", total.c.labels.contains('["verdict","undetermined"]')
    )
    for labels in connection.scalars(counted).all():
        renamed = labels.replace('["verdict","undetermined"]', '["verdict","no_break_found"]')
        same = sa.and_(total.c.name == "ragtrace_diagnoses_total", total.c.labels == labels)
        connection.execute(sa.update(total).where(same).values(labels=renamed))


def _views(*, is_sqlite: bool) -> Iterator[tuple[str, str]]:
    """The views of requests and diagnoses as they were, with the states behind."""
    at = _sqlite_time if is_sqlite else _postgresql_time
    stratum = "CASE WHEN r.head_sampled THEN 'random' ELSE 'flagged' END AS stratum"
    asked = f"r.service, r.segment, {stratum}, {at('r.started_at', 'started')}"
    states = ", ".join(f"d.{name}" for name in _COLUMNS)
    yield (
        "v_request",
        f"""
            SELECT r.request_id, {asked}, r.started_at / 1e9 AS started_seconds, {at("r.ended_at", "ended")},
                (r.ended_at - r.started_at) / 1e9 AS duration_seconds, r.status, r.query_class, r.flags, r.trace_id,
                r.tenant_id, r.session_id, r.head_probability, t.question AS question_key, t.versions, t.input_tokens,
                t.output_tokens, t.replay, d.verdict, d.stage, d.owner, d.cause, d.reference, d.suspected_rollout,
                {states}
            FROM request r
            LEFT JOIN diagnosis d ON d.request_id = r.request_id AND d.kind = 'coverage'
            LEFT JOIN trait t ON t.request_id = r.request_id""",
    )
    yield (
        "v_diagnosis",
        f"""
            SELECT d.request_id, {asked}, d.kind, d.verdict, d.stage, d.owner, d.cause, d.reference,
                d.suspected_rollout, d.analyzer_version, d.record_revision, {states}
            FROM diagnosis d JOIN request r ON r.request_id = d.request_id""",
    )


def _sqlite_time(nanoseconds: str, name: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {nanoseconds} / 1e9, 'unixepoch') AS {name}"


def _postgresql_time(nanoseconds: str, name: str) -> str:
    return f"to_timestamp({nanoseconds} / 1e9) AS {name}"
