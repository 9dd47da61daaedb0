"""Many values at once; and what is wrong with a store is said in one line that names the remedy."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.errors import CorruptStore, SchemaMismatch, StoreError, StoreUnavailable
from ragtrace.store import Store, check, migrate
from ragtrace.store.database import insert_new, look_up, pages
from ragtrace.store.tables import bundle, content, counted, request
from ragtrace.types import RequestRecord


@pytest.mark.parametrize("count", [0, 1, 1_234])
def test_what_is_there_is_found(store: Store, count: int) -> None:
    """However many values are asked for; those that are not there, and those given twice, add nothing."""
    rows = [(number.to_bytes(16, "big"), 7, number, 9) for number in range(count)]
    with store._database.write() as connection:
        assert insert_new(connection, (content.c.hash, *list(content.c)[1:]), rows) == count
        digests = [digest for digest, *_ in rows]
        found = look_up(connection, (content.c.hash, content.c.place), [*digests, *digests[:3], b"\xff" * 16])
        assert sorted(set(found)) == [(digest, place) for digest, _, place, _ in rows]


def test_words_are_found_as_well(store: Store) -> None:
    """With every row that has them."""
    rows = [("a", "x", 1), ("a", "y", 2), ("ü%s", "x", 3)]
    with store._database.write() as connection:
        insert_new(connection, tuple(counted.c), rows)
        found = look_up(connection, tuple(counted.c), ["a", "ü%s", "?"])
        assert sorted(found) == rows


def test_postgresql_sends_bytes_as_they_are(url: str) -> None:
    """In text they would be twice as many; what SQLAlchemy asks of the catalogs it wants as text."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite sends nothing")
    formats: list[int] = []
    with Store.open(url) as store:
        engine = store._database._engine
        sa.event.listen(engine, "after_cursor_execute", lambda _connection, cursor, *_: formats.append(cursor.format))
        with store._database.read() as connection:
            assert list(look_up(connection, (bundle.c.id, bundle.c.body), [7])) == []
            assert sa.inspect(connection).has_table("bundle")
    assert (formats[0], set(formats[1:])) == (1, {0})


MakeRecord = Callable[..., RequestRecord]
Python = Callable[..., Popen[str]]


def _one_line(caught: pytest.ExceptionInfo[StoreError], *parts: str) -> None:
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize("attempt", [Store.open, check, migrate])
@pytest.mark.parametrize("body", [b"this is no database " * 400, b"SQLite format 3\x00" + b"\x07" * 8_000])
def test_a_file_of_garbage_is_refused_and_left_alone(
    tmp_path: Path, attempt: Callable[[str], object], body: bytes
) -> None:
    """The file is named, what to do with it too, and its bytes stay."""
    path = tmp_path / "bad.db"
    path.write_bytes(body)
    with pytest.raises(CorruptStore) as caught:
        attempt(f"sqlite:///{path}")
    _one_line(caught, f"restore a copy of {path}, move it away", "RAGTRACE_STORE")
    assert path.read_bytes() == body


def test_a_damaged_page_is_found_when_it_is_read(tmp_path: Path, make_record: MakeRecord) -> None:
    """A database that broke after it was opened is corrupt, not a crash of the driver."""
    path = tmp_path / "ragtrace.db"
    with Store.open(f"sqlite:///{path}") as store:
        store.write([make_record(f"r{number}") for number in range(200)])
    body = bytearray(path.read_bytes())
    body[4096 * 2 :] = b"\xff" * (len(body) - 4096 * 2)
    path.write_bytes(body)
    with pytest.raises(CorruptStore) as caught, Store.open(f"sqlite:///{path}") as store:
        store.get_records([f"r{number}" for number in range(200)])
    _one_line(caught, str(path))


def test_a_damaged_payload_is_named(tmp_path: Path, make_record: MakeRecord) -> None:
    """A record that cannot be unpacked says which one it is."""
    path = tmp_path / "ragtrace.db"
    with Store.open(f"sqlite:///{path}") as store:
        store.write([make_record()])
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE request SET payload = x'00ff'")
        connection.close()
        with pytest.raises(CorruptStore) as caught:
            store.get_record("r1")
    _one_line(caught, "record 'r1' cannot be read", "restore the database from a copy")


@pytest.mark.parametrize(
    ("below", "said"),
    [
        ("missing/ragtrace.db", "does not exist or cannot be entered: create it"),
        ("file/ragtrace.db", "is not a folder"),
        ("folder", "is a folder: name a file in it"),
        ("n" * 300, "takes no file"),
    ],
)
@pytest.mark.parametrize("attempt", [Store.open, migrate])
def test_a_place_where_no_file_can_be(tmp_path: Path, attempt: Callable[[str], object], below: str, said: str) -> None:
    """The message says what stands in the way."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreUnavailable) as caught:
        attempt(f"sqlite:///{tmp_path / below}")
    _one_line(caught, said, "RAGTRACE_STORE")


def test_a_store_that_is_opened_read_only_can_be_read(tmp_path: Path, make_record: MakeRecord) -> None:
    """Reading works; writing is unavailable and says why."""
    path = tmp_path / "ragtrace.db"
    with Store.open(f"sqlite:///{path}") as store:
        store.write([make_record()])
    with Store.open(f"sqlite:///file:{path}?mode=ro&uri=true") as store:
        assert store.get_record("r1") is not None
        for write in (lambda: store.write([make_record("r2")]), lambda: store.claim("w")):
            with pytest.raises(StoreUnavailable) as caught:
                write()
            _one_line(caught, "readonly database", "writable")


READ_ONLY = """
import sys
from ragtrace.errors import StoreUnavailable
from ragtrace.store import Store
from ragtrace.types import RequestRecord
try:
    with Store.open(sys.argv[1]) as store:
        print(len(store.find_requests()))
        store.write([RequestRecord(request_id="r2", service="s")])
except StoreUnavailable as error:
    print(error)
"""


@pytest.fixture
def bound() -> list[str]:
    """The words before a command that make permissions hold for root as they do for anybody else."""
    if os.geteuid() != 0:
        return []
    words = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    if shutil.which("setpriv") is None or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("root ignores permissions, and setpriv (util-linux) cannot change that here")
    return words


def test_a_folder_without_the_right_to_write(tmp_path: Path, bound: list[str], python: Python) -> None:
    """A user who may not write there is told so, and no file appears."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    output, _ = python(READ_ONLY, f"sqlite:///{folder}/ragtrace.db", before=bound).communicate()
    assert f"folder {folder} is not writable: mend its permissions" in output
    assert output.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_a_folder_without_the_right_to_enter(tmp_path: Path, bound: list[str], python: Python) -> None:
    """A user who may not even look into it gets the same kind of answer."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o000)
    output, errors = python(READ_ONLY, f"sqlite:///{folder}/below/ragtrace.db", before=bound).communicate()
    assert errors == ""
    assert f"folder {folder}/below does not exist or cannot be entered" in output


def test_a_file_without_the_right_to_write(
    tmp_path: Path, bound: list[str], python: Python, make_record: MakeRecord
) -> None:
    """A user who may read the file reads it, and is told why writing fails."""
    path = tmp_path / "ragtrace.db"
    with Store.open(f"sqlite:///{path}") as store:
        store.write([make_record()])
    path.chmod(0o444)
    output, errors = python(READ_ONLY, f"sqlite:///{path}", before=bound).communicate()
    assert errors == ""
    found, said = output.splitlines()
    assert found == "1"
    assert said.endswith(f"make {path} writable, or give another store (--store URL or RAGTRACE_STORE)")


def test_a_store_whose_tables_are_gone(tmp_path: Path) -> None:
    """A database that was replaced under an open store names the command that mends it."""
    path = tmp_path / "ragtrace.db"
    with Store.open(f"sqlite:///{path}") as store:
        with sqlite3.connect(path) as connection:
            connection.execute("DROP TABLE request")
        connection.close()
        with pytest.raises(SchemaMismatch) as caught:
            store.find_requests()
    _one_line(caught, "no such table: request", f"ragtrace db upgrade --store sqlite:///{path}")


@pytest.mark.parametrize(("query", "idle"), [("", "15"), ("?keepalives_idle=60", "60")])
def test_a_network_that_is_cut_off_holds_nobody_for_long(postgres_server: Any, query: str, idle: str) -> None:
    """The system is told to give up a connection whose other end answers no more; what the URL says counts."""
    with Store.open(postgres_server.new_database() + query) as store, store._database.driver() as connection:
        given = connection.driver_connection.info.get_parameters()
    assert (given["keepalives_idle"], given["tcp_user_timeout"]) == (idle, "30000")


def test_pages_of_rows(store: Store, make_record: MakeRecord) -> None:
    """Each row comes once, in the order of the key, in pages of which none is empty, whatever their size."""
    store.write([make_record(request_id=f"r{number}") for number in range(6)])
    query, key = sa.select(request.c.request_id), [request.c.started_at, request.c.request_id]
    query = query.add_columns(request.c.started_at)
    for size, lengths in ((2, [2, 2, 2]), (4, [4, 2]), (6, [6]), (9, [6])):
        found = list(pages(store._database.read, query, key, size))
        assert [len(page) for page in found] == lengths
        assert [row.request_id for page in found for row in page] == [f"r{number}" for number in range(6)]
    assert list(pages(store._database.read, query.where(request.c.request_id == "none"), key, 2)) == []


def test_pages_beside_a_deletion(store: Store, make_record: MakeRecord) -> None:
    """What is deleted while a page is worked on moves no other row out of the next page."""
    store.write([make_record(request_id=f"r{number}") for number in range(6)])
    key = [request.c.request_id]
    seen: list[str] = []
    for page in pages(store._database.read, sa.select(*key), key, 2):
        seen += [row.request_id for row in page]
        with store._database.write() as connection:
            connection.execute(sa.delete(request).where(request.c.request_id.in_(seen)))
    assert seen == [f"r{number}" for number in range(6)]


def test_a_snapshot_is_one_state_of_the_store(store: Store, make_record: MakeRecord) -> None:
    """What another thread writes meanwhile is not in it; all that is asked is one transaction, ended with its block."""
    store.write([make_record(request_id="before")])
    begun: list[object] = []
    sa.event.listen(store._database._engine, "begin", begun.append)
    with store.snapshot():
        assert store.services() == ["shop"]
        writer = threading.Thread(target=store.write, args=([make_record(request_id="after", service="later")],))
        writer.start()
        writer.join()
        begun.clear()
        with store.snapshot():
            assert store.services() == ["shop"]
        assert store.get_record("after") is None
        assert begun == []
    assert store.services() == ["later", "shop"]


def test_a_failure_ends_the_snapshot(store: Store) -> None:
    """The next read has a transaction of its own, and what failed inside is explained as elsewhere."""
    with pytest.raises(StoreError), store.snapshot(), store._database.read() as connection:
        connection.exec_driver_sql("SELECT nothing FROM nowhere")
    assert store.services() == []
