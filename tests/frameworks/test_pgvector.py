"""Rows of a real PostgreSQL with pgvector, as SQLAlchemy and psycopg return them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrace.probe import CallableProbe, ask, cause_of, compare
from ragtrace.record.coercion import Chunk, read_chunks
from ragtrace.types import Query, RequestRecord, RetrieveRun
from tests.captures.pipelines import check_stages
from tests.frameworks.conftest import Reads

DISTRIBUTIONS = ("pgvector", "SQLAlchemy", "psycopg")
REASON = "pgvector, SQLAlchemy and pgserver are not installed: make frameworks"

sa = pytest.importorskip("sqlalchemy", reason=REASON)
orm = pytest.importorskip("sqlalchemy.orm", reason=REASON)
pgserver = pytest.importorskip("pgserver", reason=REASON)
pgvector = pytest.importorskip("pgvector.sqlalchemy", reason=REASON)
psycopg = pytest.importorskip("psycopg", reason=REASON)

ALPHA, BETA = "alpha is the first letter", "beta is the second letter"
NEAR = [Chunk("1", ALPHA, 0.0, source="greek.md"), Chunk("2", BETA, -1.0)]


class Base(orm.DeclarativeBase):  # type: ignore[misc, name-defined]
    """The host's tables."""


class Item(Base):
    """A chunk with its vector."""

    __tablename__ = "item"
    id = orm.mapped_column(sa.Integer, primary_key=True)
    content = orm.mapped_column(sa.Text)
    source = orm.mapped_column(sa.Text)
    embedding = orm.mapped_column(pgvector.Vector(2))


NEARNESS = Item.embedding.cosine_distance([1, 0])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with two chunks."""
    folder: Path = tmp_path_factory.mktemp("postgresql")
    server = pgserver.get_server(folder)
    try:
        server.psql("create extension vector")
        engine = sa.create_engine(server.get_uri().replace("postgresql:", "postgresql+psycopg:"))
        Base.metadata.create_all(engine)
        with orm.Session(engine) as session:
            session.add(Item(id=1, content=ALPHA, source="greek.md", embedding=[1, 0]))
            session.add(Item(id=2, content=BETA, embedding=[0, 1]))
            session.commit()
        engine.dispose()
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.fixture
def session(address: str) -> Iterator[Any]:
    """A session of the host's."""
    engine = sa.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    with orm.Session(engine) as found:
        yield found
    engine.dispose()


@pytest.mark.captures("ids", "scores", "texts", "moves", "packed", where="pgvector: SQLAlchemy's rows")
def test_rows_of_columns(reads: Reads, session: Any) -> None:
    """Labels name the parts; queries with other columns in between change nothing."""
    labeled = sa.select(Item.id, Item.content, Item.source, NEARNESS.label("distance")).order_by(NEARNESS)
    named = sa.select(Item.id, Item.content, Item.source, NEARNESS.label("cosine_distance")).order_by(NEARNESS)
    reads("columns", session.execute(labeled).all(), NEAR)
    check_stages(session.execute(labeled).all(), NEAR)
    reads("ids", session.execute(sa.select(Item.id).order_by(Item.id)).all(), [Chunk("1"), Chunk("2")])
    reads("named_distance", session.execute(named).all(), NEAR)
    reads("mappings", session.execute(named).mappings().all(), NEAR)


@pytest.mark.captures("ids", "scores", "texts", "moves", "packed", where="pgvector: mapped objects")
def test_rows_of_objects(reads: Reads, session: Any) -> None:
    """A mapped object beside pgvector's expression, which has no label and is a distance; objects alone."""
    query = sa.select(Item, NEARNESS).order_by(NEARNESS)
    reads("objects_and_distances", session.execute(query).all(), NEAR)
    check_stages(session.execute(query).all(), NEAR)
    reads("object_mappings", session.execute(query).mappings().all(), NEAR)
    alone = [Chunk("1", ALPHA, source="greek.md"), Chunk("2", BETA)]
    reads("objects", session.scalars(sa.select(Item).order_by(Item.id)).all(), alone)


def test_nothing_is_loaded(reads: Reads, session: Any) -> None:
    """What has expired is not asked for again: the host's session would run a query for each object."""
    found = session.scalars(sa.select(Item).order_by(Item.id)).all()
    session.commit()
    asked: list[str] = []
    sa.event.listen(session.get_bind(), "before_cursor_execute", lambda *args: asked.append(args[2]))
    reads("expired", found, [Chunk("1"), Chunk("2")])
    session.expunge_all()
    reads("detached", found, [Chunk("1"), Chunk("2")])
    assert asked == []


@pytest.mark.captures("ids", "scores", "texts", "moves", "packed", where="pgvector: psycopg's rows")
def test_rows_of_the_driver(reads: Reads, address: str) -> None:
    """Tuples: their last number is the score, and a distance when it rises; mappings by their keys."""
    query = "select id, content, embedding <=> '[1,0]' as distance from item order by 3"
    tuples = [Chunk("1", ALPHA, 0.0), Chunk("2", BETA, -1.0)]
    with psycopg.connect(address) as connection:
        reads("driver_tuples", connection.execute(query).fetchall(), tuples)
        check_stages(connection.execute(query).fetchall(), tuples)
        rows = psycopg.rows
        reads("driver_mappings", connection.cursor(row_factory=rows.dict_row).execute(query).fetchall(), tuples)
        named = connection.cursor(row_factory=rows.namedtuple_row).execute(query).fetchall()
        assert [chunk for _, chunk in read_chunks(named).ranked] == tuples


def test_a_probe_of_a_table(address: str) -> None:
    """The example of docs/how-to/probe.md: a filtered search, and the same query without filter and index."""
    question = BETA
    query = "select id, content, embedding <=> %s::vector as distance from item order by distance limit %s"
    with psycopg.connect(address) as connection:

        def search(asked: str, depth: int) -> list[Any]:
            filtered = query.replace("from item", "from item where id <> 2")
            return list(connection.execute(filtered, ("[0,1]", depth)).fetchall())

        def exact(asked: str, depth: int) -> list[Any]:
            with connection.transaction():
                connection.execute("set local enable_indexscan = off")
                return list(connection.execute(query, ("[0,1]", depth)).fetchall())

        probe = CallableProbe(
            search=search,
            exact=exact,
            contains=lambda chunk: bool(
                connection.execute("select 1 from item where id::text = %s", (chunk,)).fetchone()
            ),
            passes=lambda chunk_id: chunk_id != "2",
        )
        found = tuple(chunk.candidate(1) for _, chunk in read_chunks(probe.probe(question, 1, False)).ranked)
        stages = (RetrieveRun(top_k=1, candidates=found),)
        record = RequestRecord(request_id="r", service="s", query=Query(original=question), stages=stages)
        answers = ask(probe, record)
        assert [cause_of(probe, name, answers).cause for name in ("2", "9")] == ["filtered", "not_indexed"]
        assert compare(probe, record, answers).chunks[0].exact_rank == 1
