"""The tables of the store, as SQLAlchemy Core describes them. `migrations/` creates them; a test holds the two equal.

Columns in nanoseconds carry the record's own times (`started_at`, `first_seen_at`, `computed_at`); the queue and the
leases count in Unix seconds. Large bodies stand last in their rows, so that scans of the narrow columns skip them; what
a migration added to them since stands behind. Some columns are other values to us than to the database.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from ragtrace.types import Stage

__all__ = [
    "DISTANT",
    "MINUTE",
    "STAGE_NAMES",
    "Digest",
    "Digests",
    "Moment",
    "addendum",
    "analysis",
    "attribution_share",
    "audit",
    "background",
    "bundle",
    "calibration",
    "chunk_identity",
    "citing",
    "content",
    "counted",
    "diagnosis",
    "drawing",
    "drawn",
    "erased",
    "exposed",
    "fault",
    "feedback",
    "gate_run",
    "gate_version",
    "gold",
    "index_probe",
    "job",
    "lease",
    "metadata",
    "page_judgment",
    "release",
    "request",
    "request_label",
    "score",
    "search_entry",
    "source",
    "source_report",
    "span_part",
    "spending",
    "success",
    "tenant_service",
    "total",
    "trace",
    "trait",
]

MINUTE: Final = 60  # seconds


class Digest(sa.TypeDecorator[str]):
    """A hash of 16 bytes, in hexadecimal digits to us. To SQLite it is bytes; PostgreSQL's UUID takes eight less."""

    impl = sa.LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """What the database keeps."""
        return dialect.type_descriptor(sa.LargeBinary() if dialect.name == "sqlite" else postgresql.UUID(as_uuid=False))

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> bytes | str | None:
        """A beginning stands for the first hash that has it. Raises: ValueError when it is no hexadecimal number."""
        if value is None:
            return None
        digits = bytes.fromhex(value)
        return digits if dialect.name == "sqlite" else digits.ljust(16, b"\0").hex()

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> str | None:
        """Lower-case digits."""
        if value is None:
            return None
        digits: str = value.hex() if dialect.name == "sqlite" else value.replace("-", "")
        return digits


class Digests(sa.TypeDecorator[tuple[str, ...]]):
    """Hashes of 16 bytes, one behind the other."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: sa.Dialect) -> bytes | None:
        """Raises: ValueError when one is no hexadecimal number."""
        return None if value is None else bytes.fromhex("".join(value))

    def process_result_value(self, value: bytes | None, dialect: sa.Dialect) -> tuple[str, ...] | None:
        """Lower-case digits."""
        return None if value is None else tuple(value[at : at + 16].hex() for at in range(0, len(value), 16))


class Moment(sa.TypeDecorator[int]):
    """Unix seconds. PostgreSQL keeps minutes, in four bytes: those that have passed, but 0 for 0 alone."""

    impl = sa.BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """What the database keeps."""
        return dialect.type_descriptor(sa.BigInteger() if dialect.name == "sqlite" else sa.Integer())

    def process_bind_param(self, value: int | None, dialect: sa.Dialect) -> int | None:
        """As the database keeps it."""
        if value is None or dialect.name == "sqlite":
            return value
        return max(value // MINUTE, min(value, 1))

    def process_result_value(self, value: int | None, dialect: sa.Dialect) -> int | None:
        """The reverse."""
        return value if value is None or dialect.name == "sqlite" else value * MINUTE


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

_OF_TENANT: Final = sa.text("tenant_id IS NOT NULL")
sa.Index(  # what a tenant's people list, newest first
    None,
    *[request.c[_name] for _name in ("tenant_id", "service", "started_at", "request_id")],
    sqlite_where=_OF_TENANT,
    postgresql_where=_OF_TENANT,
)

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
DISTANT: Final = "distant"  # beside the names of stages in `doubted`: the answer is far from its question

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
    sa.Column("expenses", sa.Text),  # JSON: by stage microseconds, tokens in and out, who counted, cost
    sa.Column("providers", sa.Text),  # JSON: of the candidates
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


trait: Final = sa.Table(
    "trait",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("cluster", sa.Text),
    sa.Column("versions", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.BigInteger),
    sa.Column("output_tokens", sa.BigInteger),
    sa.Column("replay", sa.Text),
    sa.Column("attempt", sa.BigInteger, nullable=False),
)
_REPLAYED: Final = sa.text("replay IS NOT NULL")
sa.Index("ix_trait_replay", trait.c.replay, trait.c.question, sqlite_where=_REPLAYED, postgresql_where=_REPLAYED)

gate_run: Final = sa.Table(
    "gate_run",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("decision", sa.Text, nullable=False),
    sa.Column("first_broken", sa.Text),
    sa.Column("baseline", sa.Text, nullable=False),
    sa.Column("candidate", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index(None, "service", "created_at"),
)

gate_version: Final = sa.Table(
    "gate_version",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("component", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, primary_key=True),
    sa.Index(None, "component", "version"),
)


release: Final = sa.Table(
    "release",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("component", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, primary_key=True),
    sa.Column("first_seen_at", sa.BigInteger),
    sa.Column("recorded_at", sa.BigInteger),
)

source: Final = sa.Table(
    "source",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("first_reported_at", sa.BigInteger, nullable=False),
)

source_report: Final = sa.Table(
    "source_report",
    metadata,
    sa.Column("report_id", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("reported_at", sa.BigInteger, nullable=False),
    sa.Column("documents", sa.BigInteger),
    sa.Column("newest_at", sa.BigInteger),
    sa.Column("delay_seconds", sa.Double),
    sa.Index(None, "service", "source", "reported_at"),
)
for _field in ("documents", "newest_at", "delay_seconds"):  # each report may leave them out
    _given = sa.text(f"{_field} IS NOT NULL")
    _order = [source_report.c[name] for name in ("service", "source", "reported_at", "report_id")]
    sa.Index(f"ix_source_report_{_field}", *_order, sqlite_where=_given, postgresql_where=_given)

chunk_identity: Final = sa.Table(
    "chunk_identity",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("chunk_id", sa.Text, primary_key=True),
    sa.Column("index_version", sa.Text, primary_key=True),
    sa.Column("content_hash", sa.Text, nullable=False),
    sa.Column("kind", sa.Text),
    sa.Column("previous_version", sa.Text),
    sa.Column("previous_id", sa.Text),
    sa.Index(None, "service", "content_hash"),
    sa.Index(None, "service", "index_version"),
)

gold: Final = sa.Table(
    "gold",
    metadata,
    sa.Column("service", sa.Text, primary_key=True),
    sa.Column("question_hash", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("question", sa.Text),
    sa.Column("query_class", sa.Text),
    sa.Column("chunk_ids", sa.Text),  # JSON
    sa.Column("facets", sa.Text),  # JSON
)


erased: Final = sa.Table(
    "erased",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
)

tenant_service: Final = sa.Table(  # which services the spans of a tenant named
    "tenant_service",
    metadata,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, primary_key=True),
    sa.Index(None, "service"),
)

audit: Final = sa.Table(  # what people had deleted
    "audit",
    metadata,
    sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),  # JSON
    sa.Column("rows", sa.Text, nullable=False),  # JSON
)

attribution_share: Final = sa.Table(
    "attribution_share",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("chunk_id", sa.Text, nullable=False),
    sa.Column("share", sa.Double, nullable=False),
    sa.Column("share_error", sa.Double),
)

index_probe: Final = sa.Table(  # of several chunks the one that names the cause
    "index_probe",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("asked_at", sa.BigInteger, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("cause", sa.Text),
    sa.Column("chunk_id", sa.Text),
    sa.Column("depth", sa.BigInteger, nullable=False),
    sa.Column("depth_asked", sa.BigInteger, nullable=False),
    sa.Column("rank", sa.BigInteger),
    sa.Column("exact_rank", sa.BigInteger),
    sa.Column("by_gold", sa.Boolean, nullable=False),
    sa.Column("drawn", sa.Boolean, nullable=False),
    sa.Column("index_version", sa.Text),
)

drawing: Final = sa.Table(  # which requests were to be labeled: a window, one set of versions, and how they were drawn
    "drawing",
    metadata,
    sa.Column("drawing_id", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("since", sa.BigInteger, nullable=False),
    sa.Column("until", sa.BigInteger, nullable=False),
    sa.Column("versions", sa.Text, nullable=False),  # JSON
    sa.Column("judge", sa.Text, nullable=False),
    sa.Column("drawn_at", sa.BigInteger, nullable=False),
    sa.Column("uniform", sa.Double, nullable=False),
    sa.Column("population", sa.BigInteger, nullable=False),  # requests that could be drawn, when they were
    sa.Column("rates", sa.Text),  # JSON: what was computed last, for the exporter
    sa.Index(None, "service", "drawn_at"),
)

drawn: Final = sa.Table(
    "drawn",
    metadata,
    sa.Column("drawing_id", sa.Text, primary_key=True),
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("place", sa.BigInteger, nullable=False),
    sa.Column("stratum", sa.Text, nullable=False),
    sa.Column("probability", sa.Double, nullable=False),
    sa.Index(None, "request_id"),
)

request_label: Final = sa.Table(
    "request_label",
    metadata,
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("labeler", sa.Text, primary_key=True),
    sa.Column("labeled_at", sa.BigInteger, nullable=False),
    sa.Column("first_broken", sa.Text, nullable=False),
    sa.Column("stages", sa.Text, nullable=False),  # JSON
    sa.Column("needed", sa.Text),  # JSON; null: not told
    sa.Column("note", sa.Text),
    sa.Column("verdict", sa.Text),  # these three as they were then
    sa.Column("judge", sa.Text),
    sa.Column("analyzer_version", sa.Text),
)

calibration: Final = sa.Table(  # by which lines a service is judged: one in use and one in shadow for each judge
    "calibration",
    metadata,
    sa.Column("calibration_id", sa.Text, primary_key=True),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("judge", sa.Text, nullable=False),  # of rules and models alone
    sa.Column("state", sa.Text, nullable=False),  # shadow, active, retired
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("accepted_at", sa.BigInteger),
    sa.Column("fitted", sa.Text, nullable=False),  # JSON: the lines, and what they were fitted on
    sa.Column("shadow_requests", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("named", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("shadow_named", sa.BigInteger, nullable=False, server_default="0"),
    sa.Index(None, "service", "judge"),
)

search_entry: Final = sa.Table(  # which requests the index of words holds, and their words, to take them out again
    "search_entry",
    metadata,
    sa.Column("id", _ID, primary_key=True, autoincrement=False),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("words", sa.LargeBinary().with_variant(sa.Text(), "postgresql")),
    sa.UniqueConstraint("request_id"),
)
