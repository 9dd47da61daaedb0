"""An empty database is migrated once, an older one on request, a newer one never."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from ragtrace import resources
from ragtrace.errors import SchemaMismatch
from ragtrace.explanations import Explanation, GeneratorAttribution
from ragtrace.store import (
    ATTRIBUTION,
    Finished,
    FollowUp,
    GateRun,
    Release,
    SchemaState,
    SourceState,
    Store,
    Wanted,
    bundles,
    check,
    migrate,
)
from ragtrace.store.address import Address
from ragtrace.store.compression import compress
from ragtrace.store.database import Database
from ragtrace.store.schema import VERSION_TABLE
from ragtrace.store.tables import metadata
from ragtrace.store.traits import traits_of
from ragtrace.types import (
    Addendum,
    Analysis,
    Facet,
    Feedback,
    GenerateRun,
    Generation,
    Gold,
    Query,
    RequestRecord,
    SourceReport,
    TokenUsage,
)

HEAD = "0012"

NEXT = '''
"""One table more."""
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "0012"


def upgrade():
    op.create_table("later", sa.Column("id", sa.Integer, primary_key=True))
    if {fails}:
        raise RuntimeError("power cut")
'''

OPEN = """
import sys
from ragtrace.store import Store
sys.stdin.readline()
with Store.open(sys.argv[1]) as store:
    print(store.counts()["request"])
"""


def _run(url: str, statement: str) -> None:
    database = Database(Address.parse(url))
    with database.write() as connection:
        connection.exec_driver_sql(statement)
    database.close()


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this ragtrace one that has a migration more."""

    def install(*, fails: bool = False) -> None:
        folder = tmp_path / "migrations"
        if not folder.exists():
            shutil.copytree(resources.folder("migrations"), folder)
        (folder / "versions" / "9999_next.py").write_text(NEXT.format(fails=fails))
        monkeypatch.setattr(resources, "folder", lambda name: folder)

    return install


def test_an_empty_database_gets_its_schema(url: str) -> None:
    """Opening migrates to the newest revision; checking does not."""
    assert check(url) == SchemaState(None, HEAD)
    assert check(url) == SchemaState(None, HEAD)
    Store.open(url).close()
    assert check(url) == SchemaState(HEAD, HEAD)
    assert migrate(url) == HEAD


def test_checking_creates_no_file(tmp_path: Path) -> None:
    """A SQLite file that is missing is still missing afterwards."""
    assert check(f"sqlite:///{tmp_path}/none.db").current is None
    assert list(tmp_path.iterdir()) == []


def test_the_migrations_make_the_tables_of_the_code(url: str) -> None:
    """Alembic finds no difference between the migrated database and `tables.py`."""
    migrate(url)
    database = Database(Address.parse(url))
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []
        indexes = {index["name"] for table in metadata.tables for index in sa.inspect(connection).get_indexes(table)}
    database.close()
    assert indexes >= {index.name for table in metadata.tables.values() for index in table.indexes}


def test_an_older_schema_is_upgraded_on_request_only(
    url: str, later: Callable[..., None], make_record: Callable[..., RequestRecord]
) -> None:
    """Opening names the command; `migrate` keeps what is there."""
    with Store.open(url) as store:
        store.write([make_record()])
    later()
    with pytest.raises(SchemaMismatch, match=r"has schema 0012, this ragtrace needs 9999; ragtrace db upgrade --store"):
        Store.open(url)
    assert check(url) == SchemaState(HEAD, "9999")
    assert migrate(url) == "9999"
    with Store.open(url) as store:
        assert store.get_record("r1") is not None


@pytest.mark.parametrize("old", ["0001_spine", "0003_spending", "0005_exporter", "0007_spans"])
def test_a_database_of_an_old_schema_keeps_what_it_holds(
    url: str,
    old: str,
    tmp_path: Path,
    make_record: Callable[..., RequestRecord],
    make_finished: Callable[..., Finished],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records, releases, results, totals and the queue are there after the upgrade, and go on."""
    generated = GenerateRun(generation=Generation(answer="Yes.", usage=TokenUsage(input_tokens=7, output_tokens=2)))
    query = Query(original="  What\u00a0IS it?")
    whose = {"session_id": "s\x00", "tenant_id": "t"}
    asked = make_record(versions={"index": "v1"}, query=query, stages=(generated,), **whose)
    with Store.open(f"sqlite:///{tmp_path}/filled.db") as filled:
        filled.write([asked, make_record("r2"), Feedback(request_id="r1", score=1.0)])
        for done in [make_finished(job) for job in filled.claim("w", limit=1)]:
            filled.finish([replace(done, follow_up=FollowUp(ATTRIBUTION, "v", False))])
        shares = GeneratorAttribution(chunk_ids=("c1", "c\x002"), shares=(0.75, 0.25), share_errors=(0.1, None))
        explained = Analysis(
            request_id="r1", kind=ATTRIBUTION, analyzer_version="v", explanation=Explanation(generator=shares)
        )
        filled.finish([Finished(job, explained) for job in filled.claim("w", kinds=(ATTRIBUTION,), limit=1)])
        filled.put_gold(
            [Gold(service="shop", question="Why\x00?", chunk_ids=("ü",), facets=(Facet(kind="time", value="1"),))]
        )
        narrow = _narrow(filled)
        held, totals = filled.get_records(["r1", "r2"]), filled.totals()
        analysis, depth = filled.get_analysis("r1"), filled.queue_depth()
        with monkeypatch.context() as patched:
            up_to(tmp_path, old, patched)
            assert migrate(url) == old[:4]
        _copy(filled, url)
    with pytest.raises(SchemaMismatch, match=rf"has schema {old[:4]}, this ragtrace needs {HEAD}; ragtrace db upgrade"):
        Store.open(url)
    assert migrate(url) == HEAD
    with Store.open(url) as store:
        assert store.get_records(["r1", "r2"]) == held
        assert (store.totals(), store.get_analysis("r1"), store.queue_depth()) == (totals, analysis, depth)
        assert _narrow(store) == narrow
        with store._database.read() as connection:  # it is not known when they began: today at the latest
            days = set(connection.scalars(sa.select(metadata.tables["counted"].c.day)))
        assert [abs(day - time.time() // 86_400) <= 1 for day in days] == [True]
        found = list(store.measured(Wanted("shop"), ()))
        assert [(each.request_id, each.traits) for each in found] == [(each, traits_of(held[each])) for each in held]
        store.add_gate_run(GateRun("g", "shop", 1, "pass", "a", "b"), b"{}")
        store.write([make_record(), Addendum(request_id="r1", service="shop", addendum_id="a", flags=("late",))])
        assert [(row.request_id, row.flags) for row in store.find_requests()] == [("r2", ()), ("r1", ("late",))]
        assert store.drift() == []
        assert store.releases() == [Release("shop", "index", "v1", 1_000)]
        store.record_release("shop", "index", "v1", 500)
        store.record_release("shop", "model", "m", 2_000)
        assert store.releases() == [
            Release("shop", "index", "v1", 1_000, 500),
            Release("shop", "model", "m", None, 2_000),
        ]
        store.write([SourceReport(service="shop", source="wiki", reported_at=1, documents=3)])
        assert store.sources() == [SourceState("shop", "wiki", 1, documents=3)]


def _narrow(store: Store) -> list[list[tuple[Any, ...]]]:
    """What was filled in columns and tables that older schemas lack; the bodies of gold sets are as they were."""
    whose = sa.select(*(metadata.tables["request"].c[name] for name in ("request_id", "tenant_id", "session_id")))
    queries = [whose, sa.select(metadata.tables["attribution_share"]), sa.select(metadata.tables["gold"])]
    with store._database.read() as connection:
        return [sorted(tuple(row) for row in connection.execute(query)) for query in queries]


def up_to(folder: Path, newest: str, patched: pytest.MonkeyPatch) -> None:
    """Make this ragtrace one that knows no later migration."""
    old = folder / "old"
    shutil.copytree(resources.folder("migrations"), old, ignore=shutil.ignore_patterns("__pycache__"))
    for version in (old / "versions").glob("[0-9]*.py"):
        if version.stem > newest:
            version.unlink()
    patched.setattr(resources, "folder", lambda name: old)


def _copy(filled: Store, url: str) -> None:
    """Copy all rows of a store into the tables that a database has."""
    target = Database(Address.parse(url))
    with filled._database.read() as source, target.write() as connection:
        for name in set(sa.inspect(connection).get_table_names()) & set(metadata.tables):
            columns: list[sa.ColumnClause[Any]] = [
                sa.column(column["name"]) for column in sa.inspect(connection).get_columns(name)
            ]
            rows = _rows(source, name, [column.name for column in columns])
            if rows:
                connection.execute(sa.insert(sa.table(name, *columns)), rows)
    target.close()


def _rows(source: sa.Connection, name: str, columns: list[str]) -> list[dict[str, Any]]:
    """The rows of a table, with the columns that it had once."""
    table = metadata.tables[name]
    if name == "content" and "body" in columns:  # each text stood by itself
        texts = bundles.fetch(source, source.scalars(sa.select(table.c.hash)).all())
        bodies = [{"hash": digest, "body": compress(text.encode())} for digest, text in texts.items()]
        return [row | ({"touched_at": 1} if "touched_at" in columns else {}) for row in bodies]
    return [dict(row) for row in source.execute(sa.select(*(table.c[each] for each in columns))).mappings()]


def test_a_migration_that_fails_changes_nothing(url: str, later: Callable[..., None]) -> None:
    """Schema changes are rolled back with the rest, in SQLite too."""
    migrate(url)
    later(fails=True)
    with pytest.raises(RuntimeError, match="power cut"):
        migrate(url)
    assert check(url) == SchemaState(HEAD, "9999")
    later(fails=False)
    assert migrate(url) == "9999"


def test_a_newer_schema_is_refused(url: str) -> None:
    """Neither opening nor migrating touches a database that a newer ragtrace made."""
    migrate(url)
    _run(url, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    for attempt in (Store.open, migrate):
        with pytest.raises(SchemaMismatch, match=r"9999, which is newer .* pip install --upgrade ragtrace") as caught:
            attempt(url)
        assert "\n" not in str(caught.value)
    assert check(url) == SchemaState("9999", HEAD)


def test_tables_of_another_application_are_left_alone(url: str) -> None:
    """A database where our names are taken is refused; one with other tables is shared."""
    _run(url, "CREATE TABLE customer (id INTEGER)")
    _run(url, "CREATE TABLE job (id INTEGER)")
    with pytest.raises(SchemaMismatch, match=r"another application \(job\); give ragtrace a database of its own"):
        Store.open(url)
    _run(url, "DROP TABLE job")
    with Store.open(url) as store:
        assert store.counts()["job"] == 0


def test_many_processes_open_an_empty_database_at_once(url: str, python: Callable[..., Popen[str]]) -> None:
    """One migrates, the others wait for it, and all can read."""
    processes = [python(OPEN, url) for _ in range(8)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.close()
    for process in processes:
        assert process.stderr is not None
        assert process.stdout is not None
        assert (process.wait(timeout=120), process.stdout.read(), process.stderr.read()) == (0, "0\n", "")
    assert check(url) == SchemaState(HEAD, HEAD)


def test_the_logging_of_the_host_is_left_alone(url: str) -> None:
    """A migration adds no handler and changes no level."""
    root, alembic = logging.getLogger(), logging.getLogger("alembic")
    before = list(root.handlers), root.level, list(alembic.handlers), alembic.level, alembic.disabled
    migrate(url)
    assert (list(root.handlers), root.level, list(alembic.handlers), alembic.level, alembic.disabled) == before


def test_revisions_are_those_that_alembic_reads() -> None:
    """They are read from the names of the files, in this order, since loading alembic takes long."""
    config = Config()
    config.set_main_option("script_location", str(resources.folder("migrations")))
    read = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions("base", "heads")]
    files = sorted(path.name for path in (resources.folder("migrations") / "versions").glob("*.py"))
    assert [name.partition("_")[0] for name in files] == read[::-1]
    assert read[0] == HEAD
