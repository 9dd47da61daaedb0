"""What the release gate needs: the traits of each request that tell who can be compared, and the gate's own runs.

The traits of requests that are stored are read out of their payloads, page by page.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
import zstandard
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_PAGE = 500
_LARGEST = 2**63 - 1


def upgrade() -> None:
    """Create the tables, and fill the one of traits."""
    op.create_table(
        "trait",
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text()),
        sa.Column("versions", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger()),
        sa.Column("output_tokens", sa.BigInteger()),
        sa.Column("replay", sa.Text()),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("request_id", name=op.f("pk_trait")),
    )
    where = sa.text("replay IS NOT NULL")
    op.create_index(
        "ix_trait_replay", "trait", ["replay", "question"], unique=False, sqlite_where=where, postgresql_where=where
    )
    op.create_table(
        "gate_run",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("first_broken", sa.Text()),
        sa.Column("baseline", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_gate_run")),
    )
    op.create_index("ix_gate_run_service_created_at", "gate_run", ["service", "created_at"], unique=False)
    op.create_table(
        "gate_version",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "component", "version", name=op.f("pk_gate_version")),
    )
    op.create_index("ix_gate_version_component_version", "gate_version", ["component", "version"], unique=False)
    _fill()


def _fill() -> None:
    columns = ("request_id", "question", "cluster", "versions", "input_tokens", "output_tokens", "attempt")
    trait = sa.table("trait", *map(sa.column, columns))
    for page in _pages(op.get_bind()):
        op.get_bind().execute(sa.insert(trait), [_trait(*row) for row in page])


def _pages(connection: sa.Connection) -> Iterator[list[Any]]:
    request = sa.table("request", sa.column("request_id", sa.Text()), sa.column("payload", sa.LargeBinary()))
    ordered = sa.select(request).order_by(request.c.request_id).limit(_PAGE)
    page = list(connection.execute(ordered))
    while page:
        yield page
        page = list(connection.execute(ordered.where(request.c.request_id > page[-1].request_id)))


def _trait(request_id: str, payload: bytes) -> dict[str, Any]:
    """What a payload tells; nothing where it is damaged."""
    try:
        record = json.loads(zstandard.decompress(payload))["record"]
    except (zstandard.ZstdError, ValueError, KeyError, TypeError):
        record = {}
    usages = [run.get("generation", {}).get("usage") or {} for run in record.get("stages", ())]
    return {
        "request_id": request_id,
        "question": _hash(record.get("query", {}).get("original", "")),
        "cluster": _clean(record.get("session_id")),
        "versions": json.dumps({_clean(name): _clean(value) for name, value in record.get("versions", {}).items()}),
        "input_tokens": _total(usages, "input_tokens"),
        "output_tokens": _total(usages, "output_tokens"),
        "attempt": 1,
    }


def _hash(question: str) -> str:
    words = " ".join(unicodedata.normalize("NFKC", question).casefold().split())
    return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest() if words else ""


def _clean(text: str | None) -> str | None:
    if text is None:
        return None
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _total(usages: list[Mapping[str, Any]], kind: str) -> int | None:
    known = [usage[kind] for usage in usages if usage.get(kind) is not None]
    return max(0, min(_LARGEST, sum(known))) if known else None
