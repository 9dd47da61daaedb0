"""Reads a store's URL: which databases are allowed, and how the URL is shown without its password."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from ragtrace.errors import ConfigurationError

__all__ = ["Address", "from_anywhere", "masked"]

_ALLOWED: Final = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
_DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_SECRET: Final = re.compile(r"password|secret|token", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is: the URL for the driver, and how it is shown in messages."""

    url: sa.URL
    shown: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read a URL. Raises: ConfigurationError when it names no database that ragtrace can use."""
        try:
            url = sa.make_url(text)
        except (ArgumentError, ValueError) as error:
            raise ConfigurationError(f"store {masked(text)!r} is no database URL; give {_ALLOWED}") from error
        if "@" in (url.host or ""):
            raise ConfigurationError(f"store {masked(text)!r} has an @ in its user or password; write it as %40")
        shown = _shown(url)
        driver = _DRIVERS.get(url.drivername)
        if driver is None:
            raise ConfigurationError(f"store {shown!r}: {url.drivername!r} is not supported; give {_ALLOWED}")
        address = cls(url.set(drivername=driver), shown)
        if address.is_sqlite and _in_memory(url):
            raise ConfigurationError(f"store {shown!r} is in memory, where no worker would find it; give {_ALLOWED}")
        return address

    @property
    def is_sqlite(self) -> bool:
        """Whether the store is a SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def file(self) -> Path:
        """The SQLite file."""
        name = self.url.database or ""
        return Path(name.removeprefix("file:") if "uri" in self.url.query else name)

    def hide(self, message: str) -> str:
        """`message` without the password, should a driver have repeated it."""
        password = self.url.password
        return re.sub(rf"(?<!\w){re.escape(password)}(?!\w)", "***", message) if password else message


def masked(url: str) -> str:
    """A URL, be it one or not, without what stands before its host."""
    return re.sub(r"//.*@", "//***@", url)


def from_anywhere(text: str) -> str:
    """A store's URL, with its password, as it leads to the store from any folder."""
    address = Address.parse(text)
    if not address.is_sqlite or "uri" in address.url.query or address.file.is_absolute():
        return text
    return address.url.set(database=str(address.file.absolute())).render_as_string(hide_password=False)


def _in_memory(url: sa.URL) -> bool:
    return not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"


def _shown(url: sa.URL) -> str:
    secrets = {name: "***" for name in url.query if _SECRET.search(name)}
    return url.update_query_dict(secrets).render_as_string(hide_password=True)
