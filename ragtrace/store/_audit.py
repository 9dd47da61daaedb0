"""The audit log of deletions: when, who, what of, and how many rows; written in the transaction that deletes.

An entry outlives what it is about. So one of an erasure says what kind of subject it was of, and not whose: the name
of a person or a tenant would stand in the store again.
"""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Collection, Mapping
from typing import Final

import sqlalchemy as sa

from ragtrace.store.database import insert
from ragtrace.store.rows import DeletionRecord
from ragtrace.store.tables import audit

__all__ = ["AuditEntry", "find", "forget_services"]

_ERASED: Final = {"kind": "service of an erased tenant"}


class AuditEntry:
    """What one run deletes, in one or several transactions: each of them saves the rows until then with it."""

    def __init__(self, action: str, subject: Mapping[str, str | None], now_ns: int) -> None:
        self._action = action
        self._subject = {name: value for name, value in subject.items() if value is not None}
        self._at = now_ns
        self._number: int | None = None

    def save(self, connection: sa.Connection, rows: Mapping[str, int]) -> None:
        """Write down how many rows went by now, by table; nothing where there were none."""
        counts = json.dumps({name: number for name, number in rows.items() if number})
        if self._number is None and counts != "{}":
            same = sa.select(sa.func.count()).select_from(audit).where(audit.c["at"] == self._at)
            self._number = connection.scalar(same) or 0
            key = {"at": self._at, "number": self._number}
            said = {"actor": _actor(), "action": self._action, "subject": json.dumps(self._subject)}
            connection.execute(insert(connection, audit).values(**key, **said, rows=counts))
        elif self._number is not None:
            own = audit.c["at"] == self._at, audit.c.number == self._number
            connection.execute(sa.update(audit).where(*own).values(rows=counts))


def forget_services(connection: sa.Connection, tenant: str, kept: Collection[str]) -> None:
    """Take the names of a tenant's services out of what was written down, but for those that are kept."""
    for row in connection.execute(sa.select(audit)).mappings().all():
        service = json.loads(row["subject"]).get("service", "")
        if service.startswith(f"{tenant}/") and service not in kept:
            own = audit.c["at"] == row["at"], audit.c.number == row["number"]
            connection.execute(sa.update(audit).where(*own).values(subject=json.dumps(_ERASED)))


def find(connection: sa.Connection, since_ns: int = 0, action: str | None = None) -> list[DeletionRecord]:
    """What was deleted since a time, earliest first."""
    query = sa.select(audit).where(audit.c["at"] >= since_ns).order_by(audit.c["at"], audit.c.number)
    if action is not None:
        query = query.where(audit.c.action == action)
    rows = connection.execute(query).mappings()
    return [
        DeletionRecord(row["at"], row["actor"], row["action"], json.loads(row["subject"]), json.loads(row["rows"]))
        for row in rows
    ]


def _actor() -> str:
    """Who runs this, and where."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
