"""The spool: segments, who owns them, and folders that cannot be used."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from ragtrace.collect.spool import Spool, default_folder, encode_entry, fallback_folder
from ragtrace.types import RequestRecord

ENTRY = encode_entry(RequestRecord(request_id="r", service="s"))
STORE = "postgresql://me:word@host/db"


def test_a_living_owners_segments_are_left_alone(folder: Path) -> None:
    """Only what a dead or closed process left is adopted, and by one process only."""
    owner, other, third = (Spool.open(folder, STORE) for _ in range(3))
    owner.durable.append(ENTRY)
    assert other.adopt() == 0
    assert not owner.close()
    assert other.adopt() == 1
    assert third.adopt() == 0
    (segment,) = other.pending
    assert [entry.raw for entry in segment.entries()] == [ENTRY]
    other.remove(segment)
    assert list(folder.iterdir()) == []


def test_a_full_segment_is_followed_by_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file grows without end."""
    monkeypatch.setattr("ragtrace.collect.spool.SEGMENT_BYTES", len(ENTRY) * 2)
    spool = Spool.open(folder, STORE)
    for _ in range(5):
        spool.durable.append(ENTRY)
    assert spool.size == 5 * len(ENTRY)
    spool.durable.seal()
    assert [segment.size // len(ENTRY) for segment in spool.pending] == [2, 2, 1]
    spool.close()


def test_a_failed_write_leaves_no_part_of_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk costs the entry that did not fit, not those before and after it."""
    spool = Spool.open(folder, STORE)
    spool.durable.append(ENTRY)
    write = os.write

    def fill_up(descriptor: int, data: bytes) -> int:
        if len(data) < len(ENTRY):
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:10])

    monkeypatch.setattr("os.write", fill_up)
    with pytest.raises(OSError, match="No space"):
        spool.durable.append(ENTRY)
    monkeypatch.undo()
    spool.durable.append(ENTRY)
    spool.durable.seal()
    assert [entry.raw for entry in spool.pending[0].entries()] == [ENTRY, ENTRY]
    spool.close()


def test_a_batch_is_written_in_pieces_and_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large it is, no piece is all of it; where one does not fit, none is left."""
    segment, write, sizes = Spool.open(folder, STORE).new_segment(), os.write, []
    entries = [encode_entry(RequestRecord(request_id=f"r{number}", service="s" * 5_000)) for number in range(40)]

    def note(descriptor: int, data: bytes) -> int:
        sizes.append(len(data))
        if len(sizes) == 12:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr("os.write", note)
    segment.append(*entries)
    assert len(sizes) > 3
    assert max(sizes) < 50_000
    whole = sum(map(len, entries))
    with pytest.raises(OSError, match="No space"):
        segment.append(*entries)
    assert segment.path.stat().st_size == segment.size == whole
    monkeypatch.undo()
    segment.append(*entries)
    assert [entry.raw for entry in segment.entries()] == [*entries, *entries]
    segment.release()


def test_a_folder_that_vanishes_is_made_again(folder: Path) -> None:
    """Somebody's clean-up job does not end recording."""
    spool = Spool.open(folder, STORE)
    folder.rmdir()
    spool.durable.append(ENTRY)
    assert spool.size == len(ENTRY)
    spool.close()


def test_files_are_for_us_alone(folder: Path) -> None:
    """They hold questions and answers."""
    spool = Spool.open(folder, STORE)
    spool.durable.append(ENTRY)
    assert folder.stat().st_mode & 0o077 == 0
    assert next(folder.iterdir()).stat().st_mode & 0o077 == 0
    spool.close()


def test_an_unusable_folder_falls_back_to_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that names both."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "ragtrace"):
        spool = Spool.open(tmp_path / "file" / "spool", STORE)
    assert spool.folder is not None
    assert spool.folder.parent == tmp_path
    assert "cannot be used" in caplog.text
    assert str(spool.folder) in caplog.text
    spool.durable.append(ENTRY)
    spool.close()


def test_what_waits_in_the_temporary_folder_is_adopted_once_the_own_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that had to fall back and died is replayed by the next one, which need not."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "own").write_text("")
    fallen_back = Spool.open(tmp_path / "own", STORE)
    fallen_back.durable.append(ENTRY)
    fallen_back.close()
    (tmp_path / "own").unlink()
    spool = Spool.open(tmp_path / "own", STORE)
    assert spool.adopt() == 1
    assert spool.pending[0].path.parent == fallen_back.folder
    spool.remove(spool.pending[0])
    spool.close()


def test_without_any_folder_appending_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A read-only container still starts; what is flagged waits in memory."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING, "ragtrace"):
        spool = Spool.open(tmp_path / "file" / "spool", STORE)
    assert (
        "waits in memory only; name a folder that this process can write with configure(spool=) or RAGTRACE_SPOOL"
        in (caplog.text)
    )
    with pytest.raises(OSError, match="no spool folder"):
        spool.durable.append(ENTRY)


def test_where_a_spool_lies() -> None:
    """Beside the SQLite file; else by the database, whatever user and password are."""
    assert default_folder("sqlite:///data/x.db") == Path("data/x.db.spool")
    assert default_folder("sqlite:////data/x.db?mode=rw") == Path("/data/x.db.spool")
    here = default_folder(STORE)
    assert here == default_folder("postgresql://you:other@host/db")
    assert here != default_folder("postgresql://me:word@host/db2")
    assert default_folder(STORE, "/spool").parent == Path("/spool")


@pytest.mark.parametrize(
    "same",
    [
        (
            "postgresql://me:word@host/db",
            "postgres://HOST:5432/db/",
            "postgresql+psycopg://you@host/db?sslmode=require",
        ),
        ("postgresql://me@/db?host=/var/run", "postgresql:///db?host=%2Fvar%2Frun&port=5432"),
        ("postgresql://me@[::1]/db", "postgresql://[::1]:5432/db", "postgresql:///?host=::1&dbname=db"),
        ("postgresql://me@host", "postgresql://me:word@host/me", "postgresql://host/me?connect_timeout=3"),
        ("postgresql:///db?host=a:1&host=b:2", "postgresql:///db?host=a,b&port=1,2"),
        ("sqlite:////data/x.db", "sqlite:////data/../data/./x.db?mode=rw", "sqlite+pysqlite:////data/x.db"),
    ],
)
def test_one_database_has_one_folder(same: tuple[str, ...]) -> None:
    """However its address is spelled: what one process left there, another one finds."""
    assert len({default_folder(url, "/spool") for url in same}) == 1


def test_each_database_has_a_folder_of_its_own() -> None:
    """Another server, port, name, user where none is named, or search path; nobody adopts what is another's."""
    urls = [
        "host/db",
        "host2/db",
        "host:5433/db",
        "host/db2",
        "me@host",
        "you@host",
        "host/db?options=-csearch_path%3Da",
    ]
    urls += ["host/db?service=s", "/db?host=/var/run", "/db?host=/var/run2"]
    assert len({default_folder(f"postgresql://{url}") for url in urls}) == len(urls)
    assert fallback_folder("sqlite:///x.db") == fallback_folder(f"sqlite:///{Path('x.db').absolute()}")
    assert fallback_folder("sqlite:///x.db") != fallback_folder("sqlite:////elsewhere/x.db")


def test_small_files_of_this_process_become_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, up to a full one; what a dead process left may end in the midst of an entry and stays apart."""
    monkeypatch.setattr("ragtrace.collect.spool.SEGMENT_BYTES", len(ENTRY) * 2)
    dead = Spool.open(folder, STORE)
    dead.durable.append(ENTRY)
    dead.close()
    spool = Spool.open(folder, STORE)
    spool.adopt()
    for _ in range(3):
        spool.durable.append(ENTRY)
        spool.durable.seal()
    spool.join()
    assert [[entry.raw for entry in segment.entries()] for segment in spool.pending] == [[ENTRY], [ENTRY] * 2, [ENTRY]]
    assert len(list(folder.iterdir())) == 3
    spool.close()


def test_nothing_is_brought_into_a_file_that_was_deleted(folder: Path) -> None:
    """Somebody's clean-up job takes one file, not those behind it."""
    spool = Spool.open(folder, STORE)
    for _ in range(2):
        spool.durable.append(ENTRY)
        spool.durable.seal()
    spool.pending[0].path.unlink()
    spool.join()
    assert [entry.raw for entry in spool.pending[1].entries()] == [ENTRY]
    spool.close()


def test_a_full_disk_leaves_the_files_as_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written whole is not written, and its own file stays."""
    spool = Spool.open(folder, STORE)
    for _ in range(2):
        spool.durable.append(ENTRY)
        spool.durable.seal()

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(OSError, match="No space"):
        spool.join()
    assert [[entry.raw for entry in segment.entries()] for segment in spool.pending] == [[ENTRY], [ENTRY]]
    spool.close()
