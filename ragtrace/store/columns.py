"""The types of columns that are other values to us than to the database."""

from __future__ import annotations

import sqlalchemy as sa

__all__ = ["Digest", "Digests"]


class Digest(sa.TypeDecorator[str]):
    """A hash, in hexadecimal digits to us and in bytes to the database."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> bytes | None:
        """Raises: ValueError when it is no hexadecimal number."""
        return None if value is None else bytes.fromhex(value)

    def process_result_value(self, value: bytes | None, dialect: sa.Dialect) -> str | None:
        """Lower-case digits."""
        return None if value is None else value.hex()


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
