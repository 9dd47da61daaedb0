"""URLs are read strictly and shown without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.store.address import Address, from_anywhere


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_postgres_scheme_takes_psycopg(scheme: str) -> None:
    """Whatever the scheme, the driver is the one that ragtrace depends on."""
    address = Address.parse(f"{scheme}://u:p@h/d")
    assert address.url.drivername == "postgresql+psycopg"
    assert not address.is_sqlite


def test_a_url_leads_to_its_store_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative file is made absolute; a server's password stays in it, since it is for another process."""
    folder = tmp_path / "two words"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert Address.parse(from_anywhere("sqlite:///r.db")).file == folder / "r.db"
    for url in ("postgresql://u:p@h/d", "sqlite:////r.db", "sqlite:///file:r.db?mode=ro&uri=true"):
        assert from_anywhere(url) == url


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///ragtrace.db", "ragtrace.db"),
        ("sqlite:////var/ragtrace.db", "/var/ragtrace.db"),
        ("sqlite:///file:/var/ragtrace.db?mode=ro&uri=true", "/var/ragtrace.db"),
    ],
)
def test_a_sqlite_url_names_its_file(url: str, file: str) -> None:
    """Relative, absolute and URI forms all give the file."""
    assert Address.parse(url).file == Path(file)


def test_a_password_is_never_shown() -> None:
    """Neither the password of the URL nor one among its options appears."""
    address = Address.parse("postgresql://u:hush@h:5432/d?sslpassword=quiet&sslmode=require")
    assert "hush" not in address.shown
    assert "quiet" not in address.shown
    assert "sslmode=require" in address.shown
    assert address.url.password == "hush"
    assert address.hide("it said 'hush', not hushed") == "it said '***', not hushed"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ragtrace.db",
        "mysql://u:hush@h/d",
        "postgresql+asyncpg://u:hush@h/d",
        "postgresql://u:hush@h:port/d",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
    ],
)
def test_what_cannot_be_a_store_is_refused(url: str) -> None:
    """The message says what is allowed, in one line, and keeps the password to itself."""
    with pytest.raises(ConfigurationError) as caught:
        Address.parse(url)
    message = str(caught.value)
    assert "sqlite:///FILE or postgresql://" in message
    assert "\n" not in message
    assert "hush" not in message
