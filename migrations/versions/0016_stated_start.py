"""What the sender of a request says of its start, where it cannot have begun then.

Requests that are stored already and lie in the future, or before 1970, begin now: they would outlive every retention,
or be the first to go.

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_DAY = 86_400 * 1_000_000_000


def upgrade() -> None:
    """Add the column; neither database writes its rows anew for that, but for those that lie."""
    op.add_column("request", sa.Column("stated_at", sa.BigInteger()))
    now = time.time_ns()
    request, diagnosis = (
        sa.table(name, *(sa.column(each, sa.BigInteger()) for each in columns))
        for name, columns in (("request", ("started_at", "ended_at", "stated_at")), ("diagnosis", ("started_at",)))
    )
    for table in (diagnosis, request):
        lies = sa.or_(table.c.started_at > now + _DAY, table.c.started_at < 0)
        new = {"started_at": now}
        if table is request:
            new |= {"stated_at": table.c.started_at, "ended_at": now}
        op.execute(sa.update(table).where(lies).values(new))
