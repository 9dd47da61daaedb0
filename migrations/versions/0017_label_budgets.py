"""Values of labels have budgets where they are counted; what people have deleted is written down.

Services, segments and sources that have counted keep their names, services however many they are. Of segments and
sources that was so up to the exporter's limit, which showed the others as `other`: their totals become that now.

Revision ID: 0017
Revises: 0016
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_LIMIT = 50
_OTHER = "other"
_PAGE = 500
_EXEMPLAR = ("exemplar_trace_id", "exemplar_value", "exemplar_at")


def upgrade() -> None:
    """Create the table, give places, and unite the totals of values that have none."""
    op.create_table(
        "audit",
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("rows", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("at", "number", name=op.f("pk_audit")),
    )
    connection = op.get_bind()
    total = sa.table("total", *map(sa.column, ("name", "labels", "value", "first_at", *_EXEMPLAR)))
    exposed = sa.table("exposed", *map(sa.column, ("label", "service", "value", "place")))
    rows = connection.execute(sa.select(total).order_by(total.c.first_at, total.c.name, total.c.labels)).all()
    places: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for row in connection.execute(sa.select(exposed).order_by(exposed.c.place)).all():
        places[row.label, row.service][row.value] = row.place
    before = {key: set(values) for key, values in places.items()}
    united: dict[tuple[str, str], Any] = {}
    gone: list[dict[str, str]] = []
    for row in rows:
        labels = dict(json.loads(row.labels))
        renamed = dict(labels)
        if "service" in labels:
            tenant, slash, _ = labels["service"].partition("/")
            if slash and tenant:
                _place(places["tenant", _written("")], tenant, None)
            _place(places["service", _written(tenant if slash else "")], labels["service"], None)
            for label in ("segment", "source"):
                if label in labels and not _place(places[label, _written(labels["service"])], labels[label], _LIMIT):
                    renamed[label] = _OTHER
        if renamed != labels:
            gone.append({"its_name": row.name, "its_labels": row.labels})
            key = (row.name, json.dumps(sorted(renamed.items()), ensure_ascii=True, separators=(",", ":")))
            united[key] = _sum(united.get(key), row)
    new = [
        {"label": label, "service": of, "value": value, "place": place}
        for (label, of), values in places.items()
        for value, place in values.items()
        if value not in before.get((label, of), ())
    ]
    if new:
        connection.execute(sa.insert(exposed), new)
    if not gone:
        return
    connection.execute(
        sa.delete(total).where(total.c.name == sa.bindparam("its_name"), total.c.labels == sa.bindparam("its_labels")),
        gone,
    )
    known = {(row.name, row.labels): row for row in rows}
    for (name, labels), summed in united.items():
        same = sa.and_(total.c.name == name, total.c.labels == labels)
        if (name, labels) in known:
            both = _sum(summed, known[name, labels])
            connection.execute(sa.update(total).where(same).values(**both))
        else:
            connection.execute(sa.insert(total).values(name=name, labels=labels, **summed))


def _place(values: dict[str, int], value: str, limit: int | None) -> bool:
    """Whether a value has a place, one that it gets now included."""
    written = _written(value)
    if written in values or value == _OTHER:
        return written in values
    if limit is not None and len(values) >= limit:
        return False
    values[written] = max(values.values(), default=-1) + 1
    return True


def _sum(known: dict[str, Any] | None, row: Any) -> dict[str, Any]:
    """Two totals as one, with the newer exemplar."""
    own = {name: getattr(row, name) for name in ("value", "first_at", *_EXEMPLAR)}
    if known is None:
        return own
    newer = max((known, own), key=lambda each: each["exemplar_at"] or 0.0)
    both = {"value": known["value"] + own["value"], "first_at": min(known["first_at"], own["first_at"])}
    return both | {name: newer[name] for name in _EXEMPLAR}


def _written(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)
