"""Search in questions and answers: each request once, of one's own tenant alone, and nothing of what is gone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragtrace.errors import StoreError
from ragtrace.store import Listing, Position, Store, Subject, _search as search
from ragtrace.store.tables import request, search_entry
from ragtrace.types import Addendum, GenerateRun, Generation, Query, RequestRecord

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def asked(number: int, question: str, answer: str | None = None, **fields: object) -> RequestRecord:
    """A request of one second after another."""
    given = {"service": "shop", "started_at": START + number * SECOND, "query": Query(original=question), **fields}
    stages = (GenerateRun(generation=Generation(answer=answer)),)
    return RequestRecord(request_id=f"r{number}", stages=stages, **given)  # type: ignore[arg-type]  # fields of it


def found(store: Store, words: str, **more: object) -> list[str]:
    """The ids of what matches, by pages of two."""
    wanted = Listing(search=words, **more)  # type: ignore[arg-type]  # fields of it
    ids: list[str] = []
    before: Position | None = None
    while True:
        page = store.list_requests(wanted, before, limit=2, scan=3)
        ids += [row.request_id for row in page.rows]
        if page.after is None:
            return ids
        before = page.after


@pytest.fixture
def searched(store: Store) -> Store:
    """An empty store whose search is on."""
    store.search_on()
    return store


def test_a_store_without_index_says_how_to_get_one(store: Store) -> None:
    """Off is the default: nothing is kept for it, and the message names the command."""
    store.write([asked(1, "where is the harbor")])
    assert not store.can_search()
    assert store.counts()["search_entry"] == 0
    with pytest.raises(StoreError, match="ragtrace db search on"):
        store.list_requests(Listing(search="harbor"))


def test_what_was_stored_before_and_after_is_found_newest_first(store: Store) -> None:
    """By any of its words in any order, without case and accents, in the question or the answer, page by page."""
    store.write([asked(number, "Where is the Café?", "At the harbor.") for number in range(5)])
    state = store.search_on()
    assert (state.is_on, state.indexed, state.requests, state.unreadable) == (True, 5, 5, 0)
    store.write([asked(number, "東京の港は?", f"Near the café, number_{number}") for number in range(5, 9)])
    assert found(store, "cafe") == [f"r{number}" for number in range(8, -1, -1)]
    assert found(store, "HARBOR café") == [f"r{number}" for number in range(4, -1, -1)]
    assert found(store, "number_7") == ["r7"]
    assert found(store, "港") == ["r8", "r7", "r6", "r5"]
    assert found(store, "airport") == []
    assert found(store, "cafe", since=START + 2 * SECOND, until=START + 4 * SECOND) == ["r3", "r2"]
    assert found(store, "cafe", status="error") == []


def test_many_requests_of_one_moment_are_all_found(searched: Store) -> None:
    """A file of evaluations has one time for all; pages repeat none and miss none."""
    same = [replace_start(asked(number, "harbor"), START) for number in range(150)]
    searched.write(same)
    ids = found(searched, "harbor")
    assert sorted(ids) == sorted(record.request_id for record in same)


def replace_start(record: RequestRecord, started_at: int) -> RequestRecord:
    """The same at another time."""
    return RequestRecord(
        request_id=record.request_id, service="shop", started_at=started_at, query=record.query, stages=record.stages
    )


def test_a_request_that_is_written_again_is_indexed_once(searched: Store) -> None:
    """By its newest words: those of an earlier revision find nothing, those of an addendum do."""
    searched.write([asked(1, "old question")])
    searched.write([asked(1, "old question")])
    searched.write([asked(1, "new question", record_revision=2)])
    late = GenerateRun(generation=Generation(answer="it came late"))
    searched.write([Addendum(request_id="r1", service="shop", addendum_id="x", stages=(late,))])
    assert searched.counts()["search_entry"] == 1
    assert found(searched, "old") == []
    assert found(searched, "new late") == ["r1"]


def test_a_search_meets_no_other_tenants_requests(searched: Store) -> None:
    """Neither in its rows nor in how far it looked; and no text can pretend to be of another tenant."""
    with searched._database.read() as connection:
        (sign, _) = search._owners("b", "shop")
        del connection
    searched.write([asked(0, "secret harbor", tenant_id="a"), asked(1, f"secret {sign} t={sign}", tenant_id="b")])
    searched.write([asked(number, f"secret {sign}", tenant_id="c") for number in range(2, 9)])
    page = searched.list_requests(Listing(search="secret", tenant_id="a"), limit=2, scan=3)
    assert ([row.request_id for row in page.rows], page.after, page.scanned_to) == (["r0"], None, None)
    assert found(searched, "secret", tenant_id="b") == ["r1"]
    assert found(searched, sign, tenant_id="a") == []
    assert found(searched, "harbor", tenant_id="b") == []
    assert found(searched, "secret", service="other") == []


def test_a_position_tells_of_no_other_tenants_request(searched: Store) -> None:
    """Whoever writes one by hand sees the same for a request of another tenant as for one that there is not."""
    searched.write([asked(number, "harbor", tenant_id="b" if number == 1 else "a") for number in range(4)])
    for wanted in (Listing(search="harbor", tenant_id="a"), Listing(search="harbor", tenant_id="a", service="shop")):
        for moment in (START, START + 3 * SECOND, START + 9 * SECOND):
            foreign, unknown = (
                searched.list_requests(wanted, Position(moment, name), limit=9).rows for name in ("r1", "never")
            )
            assert foreign == unknown
        own = searched.list_requests(wanted, Position(START, "r2"), limit=9).rows
        assert [row.request_id for row in own] == ["r0"]


def test_what_came_after_the_window_uses_up_no_scan(searched: Store) -> None:
    """However much came just behind it: a page that looks at three finds the one that was within."""
    searched.write([asked(number, "harbor") for number in range(9)])
    page = searched.list_requests(Listing(search="harbor", until=START + SECOND), limit=2, scan=3)
    assert [row.request_id for row in page.rows] == ["r0"]
    assert page.after is None


def test_frequent_and_rare_words_are_found_alike(searched: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far apart matches lie, and however few of the newest requests are looked through before the index is
    asked: page by page each comes once, newest first, also to a tenant between whose requests others' lie."""
    monkeypatch.setattr(search, "_WALKED", 8)
    monkeypatch.setattr(search, "_OFTEN", 2)
    said = {number: f"harbor{' crane' * (number % 7 == 0)}{' tide' * (number < 9)}" for number in range(40)}
    searched.write([asked(number, text, tenant_id="ab"[number % 2]) for number, text in said.items()])
    for words in ("harbor", "crane", "harbor tide", "crane tide", "gull"):
        for tenant in (None, "a", "b"):
            wanted = Listing(search=words, tenant_id=tenant)
            before, rows = None, []
            for _ in range(60):
                page = searched.list_requests(wanted, before, limit=1, scan=5)
                rows += [row.request_id for row in page.rows]
                if (before := page.after) is None:
                    break
            holding = [number for number, text in said.items() if set(words.split()) <= set(text.split())]
            expected = [f"r{number}" for number in reversed(holding) if tenant in (None, "ab"[number % 2])]
            assert rows == expected, (words, tenant)


@pytest.mark.parametrize(
    "words",
    [
        *('"', "'", '" OR "1', "a AND", "NEAR(a b)", "harbor*", "words:harbor", "^x -y", "(", "\\'", "!&|", ""),
        *("a\0b", "\ud800", "\U0001f4a5 \u202e", "x" * 100_000, "harbor " * 20_000, " ".join(map(str, range(20_000)))),
    ],
    ids=lambda words: repr(words[:12]),
)
def test_no_words_are_a_query(words: str, searched: Store) -> None:
    """Neither asked for nor stored: what a person types is words, whatever it says."""
    searched.write([asked(1, words.replace("\ud800", ""), words), asked(2, "the harbor")])
    assert set(found(searched, words)) <= {"r1", "r2"}
    assert found(searched, "the harbor") == ["r2"]
    if list(search.words_of(words)):
        assert "r1" in found(searched, words)


def test_erased_words_are_on_no_page(tmp_path: Path) -> None:
    """Of erased and of pruned requests, after revisions and in several segments: no file of the store has them."""
    store = Store.open(f"sqlite:///{tmp_path}/erased.db")
    store.search_on()
    for number in range(40):  # each transaction is a segment of the index
        store.write([asked(number, f"kept{number} zebra{number:02d}finch", tenant_id="a" if number % 2 else "b")])
    store.write([asked(1, "quokkawords", record_revision=2, tenant_id="a")])
    store.erase(Subject(tenant="a"))
    with pytest.raises(AssertionError):
        lacks(tmp_path, b"zebra00finch")  # what is looked for is found where it is
    assert [number for number in range(1, 40, 2) if found(store, f"zebra{number:02d}finch")] == []
    lacks(tmp_path, *(f"{number:02d}finch".encode() for number in range(1, 40, 2)), b"quokka")
    assert found(store, "kept2") == ["r2"]
    store.prune({"all": 1.0}, now=START / SECOND + 31)
    assert found(store, "kept2") == []
    assert found(store, "kept30") == ["r30"]
    store._database.close()
    words = {term for (term,) in indexed_terms(tmp_path / "erased.db")}
    assert {word for word in words if word.startswith("kept")} == {f"kept{number}" for number in range(30, 40, 2)}
    pages = b"".join(block for (block,) in blocks(tmp_path / "erased.db"))
    assert b"kept3" in pages
    assert b"kept2" not in pages
    store.close()


def lacks(folder: Path, *needles: bytes) -> None:
    """No file holds any of these."""
    for file in folder.iterdir():
        body = file.read_bytes()
        assert not [needle for needle in needles if needle in body], file


def blocks(file: Path) -> list[tuple[bytes]]:
    """The pages of the index."""
    with sqlite3.connect(file) as connection:
        return connection.execute("SELECT block FROM search_word_data").fetchall()


def indexed_terms(file: Path) -> list[tuple[str]]:
    """What the index holds."""
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, search_word, row)")
        return connection.execute("SELECT term FROM temp.terms").fetchall()


def test_filling_leaves_time_to_writers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each page as much as the page took: SQLite's lock is free in between alone."""
    store.write([asked(number, "harbor") for number in range(201)])
    slept: list[float] = []
    monkeypatch.setattr("ragtrace.store._named_leases.time.sleep", slept.append)
    assert store.search_on().indexed == 201
    assert len(slept) >= 3
    assert min(slept) >= 0.01


def test_erased_requests_have_no_row(searched: Store) -> None:
    """In both databases; the others are found still."""
    searched.write([asked(1, "harbor", tenant_id="a"), asked(2, "harbor", tenant_id="b")])
    assert searched.find_subject(Subject(tenant="a")).rows["search_entry"] == 1
    assert searched.erase(Subject(tenant="a")).rows["search_entry"] == 1
    with searched._database.read() as connection:
        assert connection.scalars(sa.select(search_entry.c.request_id)).all() == ["r2"]
    assert found(searched, "harbor") == ["r2"]


def test_off_takes_the_index_away_and_on_makes_it_anew(searched: Store) -> None:
    """Writers of another process know at once; what came meanwhile is filled in, and a second `on` changes nothing."""
    with Store.open(searched.full_url) as other:
        other.write([asked(1, "harbor")])
        searched.search_off()
        other.write([asked(2, "harbor")])
        assert other.counts()["search_entry"] == 0
        assert not other.can_search()
        other.search_on()
        assert other.search_on().indexed == 2
    assert found(searched, "harbor") == ["r2", "r1"]


def test_a_record_that_cannot_be_read_keeps_no_other_out(store: Store) -> None:
    """It is counted, and the rest is found."""
    store.write([asked(1, "harbor"), asked(2, "harbor")])
    with store._database.write() as connection:
        connection.execute(sa.update(request).where(request.c.request_id == "r1").values(payload=b"damaged"))
    state = store.search_on()
    assert (state.indexed, state.unreadable) == (1, 1)
    assert found(store, "harbor") == ["r2"]


def damage(store: Store, statement: str, *values: object) -> None:
    """Change what no writer of the store would."""
    with store._database.write() as connection:
        connection.exec_driver_sql(statement, values)


def test_damaged_words_of_a_request_stop_no_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither of it nor of others, nor pruning and erasing: the log says how to make the index anew."""
    store = Store.open(f"sqlite:///{tmp_path}/damaged.db")
    store.search_on()
    store.write([asked(number, "harbor", tenant_id="a" if number == 3 else "b") for number in range(4)])
    damage(store, "UPDATE search_entry SET words = ? WHERE request_id <> 'r0'", b"damaged")
    store.write([asked(1, "airport", record_revision=2, tenant_id="b"), asked(9, "airport", tenant_id="b")])
    assert "ragtrace db search off, then ragtrace db search on" in caplog.text
    assert found(store, "airport") == ["r9", "r1"]
    assert store.erase(Subject(tenant="a")).rows["search_entry"] == 1
    store.prune({"all": 1.0}, now=START / SECOND + 4)
    assert found(store, "harbor") == []
    assert store.list_requests(Listing()).rows[0].request_id == "r9"
    store.close()


def test_a_damaged_index_stops_no_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be indexed is stored, pruned and erased all the same; off and on find it again."""
    store = Store.open(f"sqlite:///{tmp_path}/damaged.db")
    store.search_on()
    store.write([asked(number, "harbor", tenant_id="a" if number else "b") for number in range(3)])
    damage(store, "UPDATE search_word_data SET block = x'ff'")
    store._database.close()  # what a connection knows of the index goes with it
    store.write([asked(8, "airport"), asked(9, "airport")])
    assert "ragtrace db search off, then ragtrace db search on" in caplog.text
    store.erase(Subject(tenant="a"))
    store.prune({"all": 1.0}, now=START / SECOND + 4)
    assert [row.request_id for row in store.list_requests(Listing()).rows] == ["r9", "r8"]
    store.search_off()
    assert store.search_on().indexed == 2
    assert found(store, "airport") == ["r9", "r8"]
    store.close()
