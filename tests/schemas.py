"""Empty databases that get their schema from the statements of the first one: most tests begin with one, and alembic
takes a fifth of a second for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

__all__ = ["SchemaReplay"]

Statement = tuple[str, Any, bool]

_READS: Final = ("SELECT", "PRAGMA", "WITH", "SHOW")


class SchemaReplay:
    """Takes the place of `alembic.command.upgrade`. Only an empty database is filled by what was recorded; all others
    are migrated, and so is the first of each kind."""

    def __init__(self) -> None:
        self.migrate: Callable[..., Any] = command.upgrade  # alembic's own
        self._recorded: dict[tuple[str, ...], list[Statement]] = {}

    def upgrade(self, config: Config, revision: str, *arguments: Any, **options: Any) -> None:
        """Migrate the database of `config.attributes["connection"]`."""
        connection: sa.Connection = config.attributes["connection"]
        if sa.inspect(connection).get_table_names():
            self.migrate(config, revision, *arguments, **options)
            return
        migrations = config.get_main_option("script_location") or ""
        key = (migrations, revision, connection.dialect.name, str(config.attributes.get("version_table")))
        if key not in self._recorded:
            self._recorded[key] = self._record(connection, config, revision, *arguments, **options)
            return
        for statement, parameters, is_many in self._recorded[key]:
            if is_many or parameters:
                connection.exec_driver_sql(statement, parameters)
            else:
                connection.exec_driver_sql(statement)

    def _record(self, connection: sa.Connection, *arguments: Any, **options: Any) -> list[Statement]:
        recorded: list[Statement] = []

        def executed(_: Any, __: Any, statement: str, parameters: Any, ___: Any, is_many: bool) -> None:
            if not statement.lstrip().upper().startswith(_READS):
                recorded.append((statement, parameters, is_many))

        sa.event.listen(connection, "before_cursor_execute", executed)
        try:
            self.migrate(*arguments, **options)
        finally:
            sa.event.remove(connection, "before_cursor_execute", executed)
        return recorded
