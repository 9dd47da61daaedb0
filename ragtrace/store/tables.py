"""The tables of the store, as SQLAlchemy Core describes them. `migrations/` creates them; a test holds the two equal.

Columns in nanoseconds carry the record's own times (`started_at`, `first_seen_at`, `computed_at`); the queue and the
leases count in Unix seconds. Large bodies stand last in their rows, so that scans of the narrow columns skip them; what
a migration added to them since stands behind.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ragtrace.store.columns import Digest, Digests, Moment
from ragtrace.types import Stage

__all__ = [
    "STAGE_NAMES",
    "addendum",
    "analysis",
    "background",
    "bundle",
    "citing",
    "content",
    "counted",
    "diagnosis",
    "exposed",
    "fault",
    "feedback",
    "job",
    "lease",
    "metadata",
    "page_judgment",
    "request",
    "score",
    "span_part",
    "spending",
    "success",
    "total",
    "trace",
]

metadata: Final = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

_ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite numbers rows only in an INTEGER key

request: Final = sa.Table(
    "request",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("segment", sa.Text, nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("ended_at", sa.BigInteger, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("trace_id", sa.Text),
    sa.Column("query_class", sa.Text),
    sa.Column("flags", sa.Text, nullable=False),
    sa.Column("head_sampled", sa.Boolean, nullable=False),
    sa.Column("head_probability", sa.Double, nullable=False),
    sa.Column("record_revision", sa.BigInteger, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("tenant_id", sa.Text),
    sa.Column("session_id", sa.Text),
    sa.Column("stated_at", sa.BigInteger),  # what its sender says, where it cannot have begun then
    sa.Index(None, "service", "segment", "started_at", "request_id", "head_sampled"),  # the last two: samples are
    sa.Index(None, "service", "started_at", "request_id", "head_sampled"),  # drawn from the index alone
    sa.Index(None, "started_at"),
)
for _names in (("tenant_id", "request_id"), ("session_id", "request_id"), ("trace_id",)):  # erased in this order
    _known = sa.text(f"{_names[0]} IS NOT NULL")
    sa.Index(None, *[request.c[_name] for _name in _names], sqlite_where=_known, postgresql_where=_known)

bundle: Final = sa.Table(
    "bundle",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

content: Final = sa.Table(
    "content",
    metadata,
    sa.Column("hash", Digest, primary_key=True),
    sa.Column("bundle", sa.BigInteger, nullable=False),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("touched_at", Moment, nullable=False),  # 0: to be deleted unless it is used again
    sqlite_with_rowid=False,
)
_CONDEMNED: Final = sa.text("touched_at = 0")
sa.Index("ix_content_condemned", content.c.hash, sqlite_where=_CONDEMNED, postgresql_where=_CONDEMNED)

addendum: Final = sa.Table(
    "addendum",
    metadata,
    sa.Column("addendum_id", sa.Text, primary_key=True),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index(None, "request_id"),
)

feedback: Final = sa.Table(
    "feedback",
    metadata,
    sa.Column("feedback_id", sa.Text, primary_key=True),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("score", sa.Double),
    sa.Column("label", sa.Text),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("comment", sa.Text),
    sa.Index(None, "request_id"),
)

analysis: Final = sa.Table(
    "analysis",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("analyzer_version", sa.Text, primary_key=True),
    sa.Column("record_revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("reference", sa.Text, nullable=False),
    sa.Column("computed_at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

score: Final = sa.Table(
    "score",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("metric", sa.Text, primary_key=True),
    sa.Column("reference", sa.Text, primary_key=True),
    sa.Column("analyzer_version", sa.Text, nullable=False),
    sa.Column("value", sa.Double),
    sa.Column("reason", sa.Text),
)

STAGE_NAMES: Final[tuple[Stage, ...]] = ("retrieval", "ranking", "generation", "citation")

diagnosis: Final = sa.Table(
    "diagnosis",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("analyzer_version", sa.Text, nullable=False),
    sa.Column("record_revision", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("verdict", sa.Text, nullable=False),
    sa.Column("stage", sa.Text),
    sa.Column("owner", sa.Text),
    sa.Column("cause", sa.Text),
    sa.Column("reference", sa.Text, nullable=False),
    sa.Column("suspected_rollout", sa.Text),
    sa.Column("judge", sa.Text),
    *(sa.Column(f"{stage}_{what}", sa.Text) for stage in STAGE_NAMES for what in ("state", "reason")),
    sa.Column("doubted", sa.Text),
    sa.Index(None, "kind", "stage", "started_at"),
    sa.Index(None, "kind", "started_at"),
)

job: Final = sa.Table(
    "job",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("analyzer_version", sa.Text, nullable=False),
    sa.Column("record_revision", sa.BigInteger, nullable=False),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("flagged", sa.Boolean, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("available_at", sa.Double, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("lease_owner", sa.Text),
    sa.Column("lease_token", sa.Text),
    sa.Column("lease_expires_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.Column("error", sa.Text),
    sa.UniqueConstraint("request_id", "kind", "analyzer_version", "record_revision"),
)
_PENDING: Final = sa.text("state = 'pending'")
_LEASED: Final = sa.text("state = 'leased'")
_DEAD: Final = sa.text("state = 'dead'")
sa.Index("ix_job_pending", job.c.priority.desc(), job.c.id, sqlite_where=_PENDING, postgresql_where=_PENDING)
sa.Index("ix_job_leased", job.c.lease_expires_at, sqlite_where=_LEASED, postgresql_where=_LEASED)
sa.Index(
    "ix_job_waiting",
    job.c.created_at,  # led by kind, SQLite would prefer it for claims
    job.c.kind,
    job.c.available_at,
    sqlite_where=_PENDING,
    postgresql_where=_PENDING,
)
sa.Index("ix_job_dead", job.c.kind, sqlite_where=_DEAD, postgresql_where=_DEAD)
sa.Index(
    "ix_job_finished_at_state", job.c.finished_at, job.c.state
)  # led by state, SQLite would prefer it to the others

counted: Final = sa.Table(
    "counted",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("day", sa.Integer, nullable=False),  # since the epoch, of the beginning of what was counted
)

total: Final = sa.Table(
    "total",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("labels", sa.Text, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("first_at", sa.Double, nullable=False),
    sa.Column("exemplar_trace_id", sa.Text),
    sa.Column("exemplar_value", sa.Double),
    sa.Column("exemplar_at", sa.Double),
)

exposed: Final = sa.Table(
    "exposed",
    metadata,
    sa.Column("label", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, primary_key=True),
    sa.Column("place", sa.BigInteger, nullable=False),
)

citing: Final = sa.Table(  # of a service's last answers with claims, how many cite; since when it counts as citing
    "citing",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("answers", sa.BigInteger, nullable=False),
    sa.Column("cited", sa.BigInteger, nullable=False),
    sa.Column("since", sa.BigInteger),
    sa.Column("counted_from", sa.BigInteger, nullable=False),
)

background: Final = sa.Table(  # in how many of the chunks that a service returned each word stands
    "background",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("chunks", sa.BigInteger, nullable=False),
    sa.Column("made_at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

page_judgment: Final = sa.Table(  # what on-call said of alerts
    "page_judgment",
    metadata,
    sa.Column("alert_id", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("segment", sa.Text, nullable=False),
    sa.Column("stage", sa.Text, nullable=False),
    sa.Column("severity", sa.Text, nullable=False),
    sa.Column("judgment", sa.Text, nullable=False),
    sa.Column("judged_at", sa.BigInteger, nullable=False),
    sa.Column("comment", sa.Text),
)

success: Final = sa.Table(
    "success",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
)

spending: Final = sa.Table(
    "spending",
    metadata,
    sa.Column("day", sa.Text, primary_key=True),
    sa.Column("resource", sa.Text, primary_key=True),
    sa.Column("seconds", sa.Double, nullable=False),
)

fault: Final = sa.Table(
    "fault",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("where", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)

lease: Final = sa.Table(
    "lease",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
)

trace: Final = sa.Table(
    "trace",
    metadata,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("trace_id", sa.Text, primary_key=True),
    sa.Column("parts", sa.BigInteger, nullable=False),
    sa.Column("last_at", sa.Double, nullable=False),
    sa.Column("due_at", sa.Double),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("bytes", sa.BigInteger, nullable=False),  # of its parts, inflated
    sa.Index(None, "last_at"),
)
_DUE: Final = sa.text("due_at IS NOT NULL")
sa.Index("ix_trace_due_at", trace.c.due_at, sqlite_where=_DUE, postgresql_where=_DUE)

span_part: Final = sa.Table(
    "span_part",
    metadata,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("trace_id", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("texts", Digests),  # against which the body is compressed
)
