"""Owns which values of a label are exported by name: the first ones of each service, for good.

The exporter writes them, one at a time under its lease. No clock and no order of arrival can move a series into `other`
afterwards, or out of it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ragtrace.store.database import insert
from ragtrace.store.tables import exposed

__all__ = ["add", "read"]


def read(connection: sa.Connection) -> dict[tuple[str, str], tuple[str, ...]]:
    """The values in their order, by label and service."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in connection.execute(sa.select(exposed).order_by(exposed.c.place, exposed.c.value)):
        found[row.label, _read(row.service)].append(_read(row.value))
    return {key: tuple(values) for key, values in found.items()}


def add(connection: sa.Connection, new: Mapping[tuple[str, str], Sequence[str]]) -> None:
    """Put these values behind those that are known."""
    known = read(connection)
    rows = [row for key, values in sorted(new.items()) for row in _rows(key, values, known.get(key, ()))]
    if rows:
        connection.execute(insert(connection, exposed), rows)


def _rows(key: tuple[str, str], values: Iterable[str], known: Sequence[str]) -> list[dict[str, Any]]:
    fresh = [value for value in dict.fromkeys(values) if value not in known]
    label, service = key
    return [
        {"label": label, "service": _written(service), "value": _written(value), "place": place}
        for place, value in enumerate(fresh, start=len(known))
    ]


def _written(text: str) -> str:
    """As the totals' labels are written: PostgreSQL takes no NUL, and neither database a lone surrogate."""
    return json.dumps(text, ensure_ascii=True)


def _read(written: str) -> str:
    text: str = json.loads(written)
    return text
