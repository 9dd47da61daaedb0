"""An address is read strictly and shown without secrets; a store that is replaced while it is open is noticed."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ragtrace.errors import ConfigurationError, CorruptStore, StoreUnavailable
from ragtrace.store import Store, address
from ragtrace.store.address import Address, from_anywhere
from tests.store.conftest import MakeRecord


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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a store is."""
    return tmp_path / "ragtrace.db"


def _url(file: Path) -> str:
    return f"sqlite:///{file}"


def _ids(url: str) -> set[str]:
    with Store.open(url) as store:
        return {row.request_id for row in store.find_requests()}


def _copy(url: str, to: Path) -> Path:
    """A whole copy of a store, in one file."""
    with Store.open(url) as store, store._database.driver() as connection:
        connection.execute("VACUUM INTO ?", (str(to),))
    return to


def test_a_write_to_a_deleted_file_is_refused(file: Path, make_record: MakeRecord) -> None:
    """It would go to a file without a name, where nobody reads it."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
        file.unlink()
        with pytest.raises(StoreUnavailable, match="was deleted while it was open"):
            store.write([make_record("r2")])


def test_a_write_to_a_replaced_file_is_refused_once(file: Path, tmp_path: Path, make_record: MakeRecord) -> None:
    """The next one goes to the file that stands there now."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
        _copy(_url(file), tmp_path / "copy.db").replace(file)
        with pytest.raises(StoreUnavailable, match="was replaced by another file"):
            store.write([make_record("r2")])
        store.write([make_record("r2")])
        assert {row.request_id for row in store.find_requests()} == {"r1", "r2"}
    assert _ids(_url(file)) == {"r1", "r2"}


def test_reading_tells_that_the_file_is_gone(file: Path, make_record: MakeRecord) -> None:
    """So that a receiver is not ready without a store."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
        file.unlink()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="was deleted"):
                store.find_requests()
        assert not file.exists()


def test_an_empty_store_takes_the_place_of_a_file_that_stays_away(
    file: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever deletes a store wants a new one; whoever puts a copy back needs a moment."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
        file.unlink()
        with pytest.raises(StoreUnavailable):
            store.write([make_record("r2")])
        monkeypatch.setattr(address, "ABSENT", 0.0)
        store.write([make_record("r2")])
        assert {row.request_id for row in store.find_requests()} == {"r2"}


def test_a_file_that_is_replaced_during_a_transaction_confirms_nothing(
    file: Path, tmp_path: Path, make_record: MakeRecord
) -> None:
    """The commit went to the old file."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
        copy = _copy(_url(file), tmp_path / "copy.db")
        with pytest.raises(StoreUnavailable, match="replaced"), store._database.write():
            copy.replace(file)


def test_the_log_of_the_old_file_is_not_applied_to_the_new_one(
    file: Path, tmp_path: Path, make_record: MakeRecord
) -> None:
    """SQLite takes whatever log lies beside a file for its own; the old one is set aside, and kept."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
        copy = _copy(_url(file), tmp_path / "copy.db")
        store.write([make_record(f"later-{number}") for number in range(20)])
        assert Path(f"{file}-wal").stat().st_size
        copy.replace(file)
        with pytest.raises(StoreUnavailable):
            store.write([make_record("r2")])
        store.write([make_record("r2")])
    assert _ids(_url(file)) == {"r1", "r2"}
    assert sqlite3.connect(file).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert list(tmp_path.glob("ragtrace.db-wal.orphan-*"))


def test_a_new_connection_notices_that_the_file_was_replaced(
    file: Path, tmp_path: Path, make_record: MakeRecord
) -> None:
    """While another one is in use, which leads to the old file: its log is set aside before the new file is read."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
        copy = _copy(_url(file), tmp_path / "copy.db")
        store.write([make_record(f"later-{number}") for number in range(20)])
        with store._database.read():
            copy.replace(file)
            with pytest.raises(StoreUnavailable, match="was replaced by another file"):
                store.find_requests()
        assert {row.request_id for row in store.find_requests()} == {"r1"}
        store.write([make_record("r2")])
    assert _ids(_url(file)) == {"r1", "r2"}
    assert sqlite3.connect(file).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_log_of_the_new_file_is_not_set_aside(file: Path, tmp_path: Path, make_record: MakeRecord) -> None:
    """A transaction that began in the old file ends when others have written to the new one: their log stays."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
        copy = _copy(_url(file), tmp_path / "copy.db")
        old = store._database.write()
        old.__enter__()
        copy.replace(file)
        with pytest.raises(StoreUnavailable, match="replaced"):
            store.find_requests()
        with Store.open(_url(file)) as other:
            other.write([make_record("r2")])
            assert {row.request_id for row in store.find_requests()} == {"r1", "r2"}
            log = Path(f"{file}-wal").stat()
            with pytest.raises(StoreUnavailable, match="replaced"):
                old.__exit__(None, None, None)
            assert Path(f"{file}-wal").stat().st_ino == log.st_ino
            assert {row.request_id for row in other.find_requests()} == {"r1", "r2"}


def test_a_copy_without_a_log_gets_one(file: Path, tmp_path: Path, make_record: MakeRecord) -> None:
    """VACUUM INTO writes a file in which readers and writers wait for each other; it stays so while it is read."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
    copy = _copy(_url(file), tmp_path / "copy.db")
    mode = "PRAGMA journal_mode"
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM request").fetchall()
        assert _ids(_url(copy)) == {"r1"}
        assert connection.execute(mode).fetchone() == ("delete",)
    assert _ids(_url(copy)) == {"r1"}
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute(mode).fetchone() == ("wal",)


def test_a_damaged_successor_is_told_from_a_whole_one(file: Path, make_record: MakeRecord) -> None:
    """It is looked at before it is used."""
    with Store.open(_url(file)) as store:
        store.write([make_record("r1")])
        other = file.with_name("other.db")
        other.write_bytes(b"SQLite format 3\x00" + b"\xff" * 8_000)
        shutil.move(other, file)
        with pytest.raises(StoreUnavailable):
            store.write([make_record("r2")])
        with pytest.raises(CorruptStore, match="took the place of the open one is damaged"):
            store.write([make_record("r2")])


def test_another_database_by_the_same_name_is_noticed(postgres_server: object, make_record: MakeRecord) -> None:
    """A server that was rebuilt has none of what was confirmed; the store's tables are made anew."""
    import psycopg
    import sqlalchemy as sa

    url = postgres_server.new_database()  # type: ignore[attr-defined]
    address = sa.make_url(url)
    admin = address.set(drivername="postgresql", database="postgres").render_as_string(hide_password=False)
    with Store.open(url) as store:
        store.write([make_record("r1")])
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{address.database}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{address.database}"')
        with pytest.raises(StoreUnavailable, match="now has another database by this name"):
            store.write([make_record("r2")])
        store.write([make_record("r2")])
        assert {row.request_id for row in store.find_requests()} == {"r2"}
