"""The types of columns that are other values to us than to the database."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

__all__ = ["MINUTE", "Digest", "Digests", "Moment"]

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
