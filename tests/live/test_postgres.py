"""What only a real PostgreSQL server shows: logins, rights, restarts and row locks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from ragtrace.errors import StoreUnavailable
from ragtrace.registry.instruments import OUTCOMES
from ragtrace.store import Store, check, migrate
from ragtrace.store._records import Batch
from ragtrace.store.address import Address
from ragtrace.store.database import Database
from ragtrace.store.tables import job
from ragtrace.types import Feedback, Item, RequestRecord

if TYPE_CHECKING:
    from tests.conftest import PostgresServer


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    """The URL of an empty database."""
    return postgres_server.new_database()


def _message(caught: pytest.ExceptionInfo[StoreUnavailable], server: PostgresServer) -> str:
    message = str(caught.value)
    assert "\n" not in message
    assert server.password not in message
    assert "wrong words" not in message
    return message


def test_a_wrong_password_is_said_but_not_shown(postgres_server: PostgresServer) -> None:
    """The server's answer and the remedy, without either password."""
    for attempt in (Store.open, check, migrate):
        with pytest.raises(StoreUnavailable) as caught:
            attempt(postgres_server.url("postgres", password="wrong words"))
        message = _message(caught, postgres_server)
        assert "password authentication failed" in message
        assert "check that the server runs and takes this user and database" in message


def test_a_database_that_does_not_exist(postgres_server: PostgresServer) -> None:
    """Its name is given."""
    with pytest.raises(StoreUnavailable) as caught:
        Store.open(postgres_server.url("nowhere"))
    assert 'database "nowhere" does not exist' in _message(caught, postgres_server)


def test_a_role_that_may_only_read(postgres_server: PostgresServer, url: str) -> None:
    """It reads; writing says which right is missing."""
    with Store.open(url) as store:
        store.write([RequestRecord(request_id="r1", service="s")])
    name = url.rpartition("/")[2]
    postgres_server.run(f"CREATE ROLE reader_{name} LOGIN PASSWORD 'r'")
    postgres_server.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader_{name}", name)
    with Store.open(postgres_server.url(name, user=f"reader_{name}", password="r")) as store:
        assert store.get_record("r1") is not None
        with pytest.raises(StoreUnavailable) as caught:
            store.write([RequestRecord(request_id="r2", service="s")])
    assert "permission denied" in _message(caught, postgres_server)
    assert "grant the role the right to write" in str(caught.value)


def test_a_store_outlives_a_restart_of_its_server(postgres_server: PostgresServer, url: str) -> None:
    """While the server is down the store is unavailable; when it is back the same store goes on."""
    with Store.open(url) as store:
        store.write([RequestRecord(request_id="r1", service="s")])
        postgres_server.stop()
        try:
            with pytest.raises(StoreUnavailable) as caught:
                store.write([RequestRecord(request_id="r2", service="s")])
        finally:
            postgres_server.start()
        assert "check that the server runs" in _message(caught, postgres_server)
        store.write([RequestRecord(request_id="r2", service="s")])
        assert store.counts()["request"] == 2


def test_a_claim_passes_by_the_rows_that_another_has_locked(url: str) -> None:
    """Workers do not queue up behind each other: locked jobs are skipped, expired ones too."""
    with Store.open(url) as store:
        store.write([RequestRecord(request_id=f"r{number}", service="s") for number in range(3)])
        store.claim("gone", limit=1, lease_seconds=-1)
        other = Database(Address.parse(url))
        with other.write() as connection:
            locked = sa.select(job.c.id).where(job.c.request_id.in_(["r0", "r1"])).with_for_update()
            connection.execute(locked)
            assert [claimed.request_id for claimed in store.claim("w")] == ["r2"]
        other.close()
        assert [claimed.request_id for claimed in store.claim("w")] == ["r0", "r1"]


@pytest.mark.parametrize("first", ["record", "feedback"])
def test_a_judgment_and_its_request_that_are_written_at_once_count(url: str, first: str) -> None:
    """Neither sees the other before it is committed: the second waits for the first, and then counts the judgment."""
    items: dict[str, Item] = {
        "record": RequestRecord(request_id="r1", service="s"),
        "feedback": Feedback(request_id="r1", score=1.0, feedback_id="f1"),
    }
    second = next(item for name, item in items.items() if name != first)
    database = Database(Address.parse(url))
    with Store.open(url) as store, ThreadPoolExecutor(1) as pool:
        with database.write() as connection:
            Batch([items[first]]).write(connection)
            written = pool.submit(store.write, [second])
            with pytest.raises(TimeoutError):
                written.result(timeout=1)
        written.result(timeout=30)
        counts = {dict(each.labels)["result"]: each.value for each in store.totals() if each.name == OUTCOMES.name}
    database.close()
    assert counts == {"good": 1.0, "bad": 0.0}


def test_tables_may_live_in_a_schema_of_their_own(postgres_server: PostgresServer, url: str) -> None:
    """A search path in the URL keeps ragtrace's tables apart from those of the application."""
    name = url.rpartition("/")[2]
    postgres_server.run("CREATE TABLE job (id int); CREATE SCHEMA ragtrace", name)
    with Store.open(f"{url}?options=-csearch_path%3Dragtrace") as store:
        store.write([RequestRecord(request_id="r1", service="s")])
        assert store.counts()["job"] == 1
