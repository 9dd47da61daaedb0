"""Owns what people had deleted: when, who, what of, and how many rows; written in the transaction that deletes."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Mapping

import sqlalchemy as sa

from ragtrace.store.database import insert
from ragtrace.store.rows import Deed
from ragtrace.store.tables import audit

__all__ = ["find", "note"]


def note(
    connection: sa.Connection, action: str, subject: Mapping[str, str | None], rows: Mapping[str, int], now_ns: int
) -> None:
    """Write down that somebody had this deleted."""
    number = connection.scalar(sa.select(sa.func.count()).select_from(audit).where(audit.c["at"] == now_ns)) or 0
    said = {name: value for name, value in subject.items() if value is not None}
    row = {"action": action, "subject": json.dumps(said), "rows": json.dumps(dict(rows))}
    connection.execute(insert(connection, audit).values(at=now_ns, number=number, actor=_actor(), **row))


def find(connection: sa.Connection, since_ns: int = 0, action: str | None = None) -> list[Deed]:
    """What was deleted since a time, earliest first."""
    query = sa.select(audit).where(audit.c["at"] >= since_ns).order_by(audit.c["at"], audit.c.number)
    if action is not None:
        query = query.where(audit.c.action == action)
    rows = connection.execute(query).mappings()
    return [
        Deed(row["at"], row["actor"], row["action"], json.loads(row["subject"]), json.loads(row["rows"]))
        for row in rows
    ]


def _actor() -> str:
    """Who runs this, and where."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
