"""An empty database is migrated once, an older one on request, a newer one never."""

from __future__ import annotations

import json
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

from ragtrace import installation
from ragtrace.errors import SchemaMismatch
from ragtrace.explanations import Explanation, GeneratorAttribution
from ragtrace.store import (
    ATTRIBUTION,
    Delta,
    Exemplar,
    Finished,
    FollowUp,
    GateRun,
    Release,
    RequestFilter,
    SchemaState,
    SourceState,
    Store,
    _content as content,
    check,
    migrate,
    totals,
)
from ragtrace.store._content import compress
from ragtrace.store._records import Batch
from ragtrace.store._schema import VERSION_TABLE
from ragtrace.store.address import Address
from ragtrace.store.database import Database
from ragtrace.store.populations import traits_of
from ragtrace.store.tables import metadata
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
from tests.schemas import SchemaReplay

HEAD = "0023"


@pytest.fixture(autouse=True)
def _all_migrations_run(schema_replay: SchemaReplay, monkeypatch: pytest.MonkeyPatch) -> None:
    """On empty databases, too."""
    monkeypatch.setattr("alembic.command.upgrade", schema_replay.migrate)


NEXT = '''
"""One table more."""
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "0023"


def upgrade():
    op.create_table("later", sa.Column("id", sa.Integer, primary_key=True))
    if {fails}:
        raise RuntimeError("power cut")
'''

OPEN = """
import sys
from ragtrace.store import Store
print("ready", flush=True)
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
            shutil.copytree(installation.folder("migrations"), folder)
        (folder / "versions" / "9999_next.py").write_text(NEXT.format(fails=fails))
        monkeypatch.setattr(installation, "folder", lambda name: folder)

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
    with pytest.raises(SchemaMismatch, match=r"has schema 0023, this ragtrace needs 9999; ragtrace db upgrade --store"):
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
        found = list(store.measured(RequestFilter("shop"), ()))
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


SLI = "ragtrace_sli_requests_total"
GOOD = "ragtrace_sli_good_requests_total"
DIAGNOSES = "ragtrace_diagnoses_total"
BEFORE = {  # series of version 7, and what they are called now
    (SLI, "metric=qc", "scope=all"): (SLI, "judge=before-8", "scope=all", "stage=retrieval"),
    (GOOD, "metric=eo", "scope=conditional"): (GOOD, "judge=before-8", "scope=conditional", "stage=ranking"),
    (SLI, "metric=ac", "scope=all"): (SLI, "judge=before-8", "scope=all", "stage=generation"),
    (SLI, "metric=cc", "scope=all"): (SLI, "judge=before-8", "scope=all", "stage=citation"),
    (SLI, "metric=contradiction", "scope=all"): None,
    (DIAGNOSES, "stage=none", "verdict=undetermined"): (DIAGNOSES, "stage=none", "verdict=no_break_found"),
    (DIAGNOSES, "stage=none", "verdict=healthy"): (DIAGNOSES, "stage=none", "verdict=healthy"),
    ("ragtrace_undefined_total", "metric=qc"): ("ragtrace_undefined_total", "metric=qc"),
}
VERDICTS = {  # of version 7, with their causes, and what they are now
    "open": ("undetermined", None, "no_break_found"),
    "raised": ("undetermined", "error", "error"),
    "fine": ("healthy", None, "healthy"),
    "broken": ("recall_failure", "absent_from_index", "recall_failure"),
}


def _pairs(series: tuple[str, ...]) -> list[list[str]]:
    return [["service", "shop"], *(each.split("=") for each in series[1:])]


def _fill_before_states(url: str, make_record: Callable[..., RequestRecord]) -> None:
    """What version 7 wrote into a database of its schema: diagnoses, bodies and totals."""
    database = Database(Address.parse(url))
    with database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE request ADD COLUMN stated_at BIGINT")  # which `Batch` fills today
        Batch([make_record(name) for name in VERDICTS]).write(connection)
        connection.exec_driver_sql("ALTER TABLE request DROP COLUMN stated_at")
        for number, (name, (verdict, cause, _)) in enumerate(VERDICTS.items()):
            found = {"verdict": verdict, "cause": cause, "missing": ["query_coverage"]}
            body = {"request_id": name, "analyzer_version": "coverage-7", "diagnosis": found}
            key = {"request_id": name, "kind": "coverage", "analyzer_version": "coverage-7", "record_revision": 0}
            rows = {
                "analysis": {
                    **key,
                    "reference": "none",
                    "computed_at": number,
                    "body": compress(json.dumps(body).encode()),
                },
                "diagnosis": {**key, "started_at": 1_000, "verdict": verdict, "cause": cause, "reference": "none"},
            }
            for table, row in rows.items():
                connection.execute(sa.insert(sa.table(table, *map(sa.column, row))).values(row))
        for number, series in enumerate(BEFORE, 1):
            labels = json.dumps(sorted(_pairs(series)), separators=(",", ":"))
            row = {"name": series[0], "labels": labels, "value": float(number), "first_at": float(number)}
            row |= {"exemplar_trace_id": "t", "exemplar_value": 1.0, "exemplar_at": 2.0}
            connection.execute(sa.insert(metadata.tables["total"]).values(row))
    database.close()


def test_a_store_of_version_7_gets_states(
    url: str, tmp_path: Path, make_record: Callable[..., RequestRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verdicts and totals get the names of today, with their exemplars; the states of what was judged are not known.

    Bodies stay as they were, and are read as if they were new.
    """
    with monkeypatch.context() as patched:
        up_to(tmp_path, "0012_counted_day", patched)
        migrate(url)
    _fill_before_states(url, make_record)
    assert migrate(url) == HEAD
    with Store.open(url) as store:
        rows = {row.request_id: row for row in store.find_requests()}
        for name, (_, cause, verdict) in VERDICTS.items():
            analysis = store.get_analysis(name)
            assert analysis is not None
            assert (analysis.diagnosis.verdict, analysis.diagnosis.cause) == (verdict, cause)
            assert (rows[name].verdict, rows[name].states) == (verdict, {})
            assert (analysis.diagnosis.stages, analysis.diagnosis.judge) == ((), None)
        assert [(row.states, row.doubted) for row in store.scored(list(VERDICTS), ())] == [({}, frozenset())] * 4
        with store._database.read() as connection:
            assert set(connection.scalars(sa.text("SELECT doubted FROM v_diagnosis"))) == {None}
        assert store.inspect(sample=None).problems == ()
        expected = [(after, float(value)) for value, after in enumerate(BEFORE.values(), 1) if after is not None]
        counted = [each for each in store.totals() if each.exemplar == Exemplar("t", 1.0, 2.0)]
        assert [((each.name, dict(each.labels)), each.value) for each in counted] == [
            ((after[0], dict(_pairs(after))), value) for after, value in expected
        ]
        same = Delta(SLI, (("service", "shop"), ("stage", "retrieval"), ("scope", "all"), ("judge", "before-8")), 1.0)
        with store._database.write() as connection:
            totals.add(connection, [same])
        assert store.totals()[0].value == 2.0  # it is the same series
        store.drop_jobs(state="pending")
        assert store.redo() == len(VERDICTS)


def test_names_that_have_counted_keep_their_series(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each service, however many they are; of segments those that were shown, and as many more as have a place. What
    was shown as `other` becomes that, with the sum, the earliest time and the newest exemplar."""
    with monkeypatch.context() as patched:
        up_to(tmp_path, "0016_stated_start", patched)
        migrate(url)
    segments = [f"s{number:02}" for number in range(53)]
    row = {"name": "n", "exemplar_value": 1.0}
    rows = [
        {
            **row,
            "labels": json.dumps([["segment", segment], ["service", "shop"]], separators=(",", ":")),
            "value": 1.0,
            "first_at": float(number),
            "exemplar_at": float(number),
            "exemplar_trace_id": segment,
        }
        for number, segment in enumerate([*segments, "other"])
    ]
    services = [f"acme/{number:03}" for number in range(250)]
    plain = {**row, "value": 2.0, "first_at": 99.0, "exemplar_at": None, "exemplar_trace_id": None}
    rows += [{**plain, "labels": json.dumps([["service", name]], separators=(",", ":"))} for name in services]
    database = Database(Address.parse(url))
    with database.write() as connection:
        connection.execute(sa.insert(metadata.tables["total"]), rows)
        shown = {"label": "segment", "service": '"shop"', "value": '"s52"', "place": 0}
        connection.execute(sa.insert(metadata.tables["exposed"]).values(shown))
    database.close()
    assert migrate(url) == HEAD
    with Store.open(url) as store:
        found = {total.labels: total for total in store.totals()}
        places = store.exposed()
    assert places["segment", "shop"] == ("s52", *segments[:49])
    assert (places["service", "acme"], places["service", ""]) == (tuple(services), ("shop",))
    assert places["tenant", ""] == ("acme",)
    assert [found[("service", name),].value for name in services] == [2.0] * 250
    other = found[("segment", "other"), ("service", "shop")]
    assert (other.value, other.exemplar) == (4.0, Exemplar("other", 1.0, 53.0))
    assert {dict(labels).get("segment") for labels in found} == {None, "s52", *segments[:49], "other"}


def test_views_keep_the_rights_that_were_granted(
    postgres_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyst who might read the views of PostgreSQL before the upgrade may read them afterwards."""
    fresh: str = postgres_server.new_database()
    with monkeypatch.context() as patched:
        up_to(tmp_path, "0012_counted_day", patched)
        migrate(fresh)
    role = f"analyst_{time.time_ns()}"
    _run(fresh, f"CREATE ROLE {role}")
    _run(fresh, f"GRANT SELECT ON v_request, v_diagnosis TO {role}")
    migrate(fresh)
    database = Database(Address.parse(fresh))
    with database.read() as connection:
        for view in ("v_request", "v_diagnosis"):
            granted = sa.text("SELECT has_table_privilege(:role, :view, 'SELECT')")
            assert connection.scalar(granted, {"role": role, "view": view})
    database.close()
    _run(fresh, f"DROP OWNED BY {role}")
    _run(fresh, f"DROP ROLE {role}")


def _narrow(store: Store) -> list[list[tuple[Any, ...]]]:
    """What was filled in columns and tables that older schemas lack; the bodies of gold sets are as they were."""
    whose = sa.select(*(metadata.tables["request"].c[name] for name in ("request_id", "tenant_id", "session_id")))
    queries = [whose, sa.select(metadata.tables["attribution_share"]), sa.select(metadata.tables["gold"])]
    with store._database.read() as connection:
        return [sorted(tuple(row) for row in connection.execute(query)) for query in queries]


def up_to(folder: Path, newest: str, patched: pytest.MonkeyPatch) -> None:
    """Make this ragtrace one that knows no later migration."""
    old = folder / "old"
    shutil.copytree(installation.folder("migrations"), old, ignore=shutil.ignore_patterns("__pycache__"))
    for version in (old / "versions").glob("[0-9]*.py"):
        if version.stem > newest:
            version.unlink()
    patched.setattr(installation, "folder", lambda name: old)


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
        texts = content.fetch_texts(source, source.scalars(sa.select(table.c.hash)).all())
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
        with pytest.raises(SchemaMismatch, match=r"9999, which is newer .* the ragtrace that made it") as caught:
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
    processes = [python(OPEN, url) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
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
    config.set_main_option("script_location", str(installation.folder("migrations")))
    read = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions("base", "heads")]
    files = sorted(path.name for path in (installation.folder("migrations") / "versions").glob("*.py"))
    assert [name.partition("_")[0] for name in files] == read[::-1]
    assert read[0] == HEAD
