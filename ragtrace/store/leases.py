"""Owns named leases: one holder at a time over all processes, such as the exporter."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ragtrace.store.database import insert
from ragtrace.store.tables import lease

__all__ = ["acquire", "release"]

_LONGEST: Final = 3600.0  # seconds; one that ends later is what a clock left that was set back


def acquire(connection: sa.Connection, name: str, owner: str, seconds: float, now: float) -> bool:
    """Take or prolong the lease `name`. False when another owner holds it."""
    statement = insert(connection, lease).values(name=name, owner=owner, expires_at=now + seconds)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["name"],
            set_={"owner": owner, "expires_at": now + seconds},
            where=sa.or_(lease.c.owner == owner, lease.c.expires_at <= now, lease.c.expires_at > now + _LONGEST),
        )
    )
    return connection.scalar(sa.select(lease.c.owner).where(lease.c.name == name)) == owner


def release(connection: sa.Connection, name: str, owner: str) -> None:
    """Give the lease back; nothing happens when another owner holds it."""
    connection.execute(sa.delete(lease).where(lease.c.name == name, lease.c.owner == owner))
