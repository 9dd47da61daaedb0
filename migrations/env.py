"""Runs the migrations on the connection that `ragtrace.store` hands over, inside the transaction that it has begun.

It configures no logging: the host's logging is the host's.
"""

from __future__ import annotations

from alembic import context

from ragtrace.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=context.config.attributes["version_table"],
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
