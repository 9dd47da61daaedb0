"""Counters stay monotone and nothing counts twice: over restarts, a second exporter, retention, outages of Prometheus,
migrations of the store, and clocks that jump."""

from __future__ import annotations

import json
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from ragtrace import installation
from ragtrace.analyze import worker
from ragtrace.export import exposition, serve
from ragtrace.store import Store, _job_queue as job_queue, check, migrate, totals
from ragtrace.types import (
    Candidate,
    Fault,
    Feedback,
    GenerateRun,
    Generation,
    Item,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
)
from tests.live.prometheus import Prometheus, await_

if TYPE_CHECKING:
    from tests.conftest import PostgresServer

TEXT = "The limit in France in 2024 is 30 days."
WORK = ("ragtrace_analyses_total", "ragtrace_analysis_seconds_total")  # work that was done again counts again
TABLES = ("score", "diagnosis", "analysis", "job", "feedback", "content", "request")
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def _record(request_id: str, segment: str = "limits") -> RequestRecord:
    now = time.time_ns()
    return RequestRecord(
        request_id=request_id,
        service="shop",
        segment=segment,
        trace_id="0af7651916cd43dd8448eb211c80319c",
        started_at=now,
        ended_at=now,
        query=Query(original="What is the limit in France in 2024?"),
        versions={"index": "v1"},
        stages=(
            RetrieveRun(candidates=(Candidate(chunk_id="c1", rank=1, text=TEXT),)),
            PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="c1", position=1, text=TEXT, tokens=9),))),
            GenerateRun(generation=Generation(answer="The limit in France in 2024 is 30 days [1].")),
        ),
    )


def _analyze(url: str, *items: Item) -> None:
    with Store.open(url) as store:
        store.write(items)
        worker.run(store)


def _read(text: str) -> Values:
    """Every counter and every series of a histogram."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


def _exposed(url: str) -> Values:
    with Store.open(url) as store:
        return _read(exposition(store).decode())


def _scraped(port: int) -> Values:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return _read(answer.read().decode())


def _grew(before: Values, after: Values) -> None:
    """No series is gone, and none is smaller."""
    assert before.keys() <= after.keys()
    assert {key for key in before if after[key] < before[key]} == set()


def _requests(values: Values) -> float:
    return sum(value for (name, _), value in values.items() if name == "ragtrace_requests_total")


def _execute(url: str, *statements: str) -> None:
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once in SQLite and once in PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ragtrace.db"
    fresh: str = request.getfixturevalue("postgres_server").new_database()
    return fresh


def test_retention_takes_requests_and_no_counts(url: str) -> None:
    """After all that belongs to counted requests is deleted, every counter is as it was; and the same requests, sent
    again by a host that was away, are analyzed again and count nowhere again."""
    records = [_record(f"r{number}") for number in range(5)]
    said = Feedback(request_id="r1", feedback_id="f", label="task_success", created_at=1)
    fault = Fault(service="shop", where="sink.queue", kind="full", count=2, at=1)
    _analyze(url, *records, said, fault)
    before = _exposed(url)
    assert _requests(before) == 5.0
    _execute(url, *(f"DELETE FROM {table}" for table in TABLES))
    assert _exposed(url) == before
    _analyze(url, *records, said, fault)
    with Store.open(url) as store:
        assert store.queue_depth()["done"] == 5
    after = {key: value for key, value in _exposed(url).items() if key[0] not in WORK}
    assert after == {key: value for key, value in before.items() if key[0] not in WORK}
    _analyze(url, _record("new"))
    _grew(before, _exposed(url))
    assert _requests(_exposed(url)) == 6.0


def test_postgresql_reads_no_done_job(postgres_server: PostgresServer) -> None:
    """With many done jobs its plans take the partial indexes, as SQLite's do."""
    url = postgres_server.new_database()
    _analyze(url, _record("r1"))
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO job (request_id, kind, analyzer_version, record_revision, service, flagged, priority, state,"
            " attempts, available_at, created_at)"
            " SELECT 'x' || n, 'coverage', 'v', 1, 'shop', false, 0, 'done', 1, 1, 1"
            " FROM generate_series(1, 20000) AS n"
        )
        connection.exec_driver_sql("ANALYZE job")
        for name, query in job_queue.backlog_queries(1.0).items():
            written = query.compile(dialect=engine.dialect, compile_kwargs={"literal_binds": True})
            plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {written}").scalars())
            index = {"pending": "ix_job_(waiting|pending)", "leased": "ix_job_leased", "dead": "ix_job_dead"}[name]
            assert re.search(index, plan), plan
            assert "Seq Scan" not in plan
    engine.dispose()


@pytest.fixture
def former(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of the third schema: a request that was counted, its totals, and what an explanation took."""
    folder = tmp_path / "former"
    shutil.copytree(installation.folder("migrations"), folder)
    for revision in (folder / "versions").glob("[0-9]*.py"):
        if revision.name[:4] > "0003":
            revision.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(installation, "folder", lambda name: folder)
        assert migrate(url) == "0003"
    labels = {"segment": "limits", "service": "shop", "status": "ok", "stratum": "random"}
    totals = [
        ("ragtrace_requests_total", labels, 41.0, 10.0),
        ("ragtrace_late_evaluations_total", {"segment": "limits", "service": "shop"}, 3.0, 11.0),
        ("ragtrace_attribution_cost_seconds_total", {"resource": "gpu"}, 12.5, 12.0),
    ]
    _execute(
        url,
        "INSERT INTO request (request_id, service, segment, started_at, ended_at, status, flags, head_sampled,"
        " head_probability, record_revision, payload) VALUES ('old', 'shop', 'limits', 1, 1, 'ok', '[]', true, 1.0, 1,"
        " '')",
        "INSERT INTO job (request_id, kind, analyzer_version, record_revision, service, flagged, priority, state,"
        " attempts, available_at, created_at) VALUES ('old', 'coverage', 'coverage-1', 1, 'shop', false, 0, 'dead', 5,"
        " 1.0, 1.0)",
        *(
            "INSERT INTO total (name, labels, value, first_at) VALUES"
            f" ('{name}', '{json.dumps(sorted(given.items()), separators=(',', ':'))}', {value}, {first})"
            for name, given, value, first in totals
        ),
    )
    return url


def test_a_migration_keeps_every_count(former: str) -> None:
    """Totals of a database of an earlier schema go on where they were, under the names of today; a request that was
    counted before the upgrade counts no second time after retention took it."""
    assert check(former).current == "0003"
    migrate(former)
    before = _exposed(former)
    assert _requests(before) == 41.0
    cost = frozenset({"job_kind": "attribution", "resource": "gpu"}.items())
    assert before["ragtrace_analysis_seconds_total", cost] == 12.5
    assert "ragtrace_attribution_cost_seconds_total" not in {name for name, _ in before}
    with Store.open(former) as store:
        assert store.backlog()["coverage"].dead == 1
    _execute(former, "DELETE FROM request")
    _analyze(former, _record("old"), _record("new"))
    with Store.open(former) as store:
        store.spend({"gpu": 1.0})
    after = _exposed(former)
    _grew(before, after)
    assert _requests(after) == 42.0
    assert after["ragtrace_analysis_seconds_total", cost] == 13.5


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds by which this process's clock is wrong."""
    wrong = [0.0]
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + wrong[0])
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(wrong[0] * 1e9))
    return wrong


def test_a_clock_that_jumps_moves_no_series(url: str, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Forwards and backwards by days, with segments that come at each time, more of them than have a place: no series
    falls, none moves into `other`, and each request counts once."""
    monkeypatch.setattr(totals, "LIMITS", {**totals.LIMITS, "segment": 2})
    with serve(url) as exporter:
        seen = _scraped(exporter.port)
        for number, wrong in enumerate((0.0, 5 * 86400.0, -5 * 86400.0, -400 * 86400.0, 0.0, 3600.0, -60.0)):
            clock[0] = wrong
            _analyze(url, _record(f"r{number}", f"segment {number}"), _record(f"s{number}", "segment 1"))
            now = _scraped(exporter.port)
            _grew(seen, now)
            assert _requests(now) == 2 * (number + 1)
            seen = now
    segments = {dict(labels)["segment"] for name, labels in seen if name == "ragtrace_requests_total"}
    assert segments == {"segment 0", "segment 1", "other"}
    with serve(url) as exporter:
        assert _scraped(exporter.port) == seen


def test_a_request_analyzed_before_its_end_takes_nothing_away(url: str, clock: list[float]) -> None:
    """A host whose clock is ahead of the worker's: the lag of its requests is 0, not a step back."""
    _analyze(url, _record("r1"))
    before = _exposed(url)
    clock[0] = 3600.0
    with Store.open(url) as store:
        store.write([_record("r2")])
    clock[0] = 0.0
    with Store.open(url) as store:
        worker.run(store)
    after = _exposed(url)
    _grew(before, after)
    count = ("ragtrace_analyzer_lag_seconds_count", frozenset({("service", "shop")}))
    assert (before[count], after[count]) == (1.0, 2.0)


def _is_serving(port: int) -> bool:
    try:
        return bool(_scraped(port))
    except urllib.error.HTTPError as error:
        return error.code != 503


@pytest.mark.parametrize("jump", [86400.0, -86400.0])
def test_one_exporter_serves_when_the_clock_jumps(url: str, clock: list[float], jump: float) -> None:
    """Whoever has the lease after a jump, the other one serves nothing; and the lease of one that died before a clock
    was set back is no obstacle for a day."""
    _analyze(url, _record("r1"))
    with serve(url) as first, serve(url) as second:
        assert (_is_serving(first.port), _is_serving(second.port)) == (True, False)
        clock[0] = jump
        for _ in range(3):
            assert _is_serving(first.port) != _is_serving(second.port)
    with Store.open(url) as store:
        assert store.acquire("exporter", "dead", 30.0)
    clock[0] = jump - 86400.0
    with serve(url) as third:
        assert _is_serving(third.port)


@contextmanager
def _running(prometheus: Prometheus) -> Iterator[Prometheus]:
    prometheus.start()
    try:
        yield prometheus
    finally:
        prometheus.stop()


TOTAL = "sum(ragtrace_requests_total)"
GOOD = 'sum(ragtrace_sli_good_requests_total{stage="retrieval",scope="all"})'
GROWING = ("_total", "_bucket", "_sum", "_count")


def _fell(prometheus: Prometheus) -> list[str]:
    """The counters and series of histograms that Prometheus ever saw fall."""
    names = [name for name in prometheus.api("label/__name__/values") if name.endswith(GROWING)]
    assert names
    return [name for name in names if prometheus.query(f"resets({name}[1h]) > 0")]


def test_prometheus_sees_no_reset(tmp_path: Path) -> None:
    """A real Prometheus that scrapes an exporter that restarts, and a second one that was started by mistake, and that
    is away for a while itself: one set of series, no reset, each request once."""
    url = f"sqlite:///{tmp_path}/ragtrace.db"
    _analyze(url, _record("r1"))
    with serve(url) as exporter:
        port = exporter.port
    with serve(url, port=port) as exporter, serve(url) as second:
        prometheus = Prometheus(tmp_path / "prometheus", [port, second.port])
        with _running(prometheus):
            await_(lambda: prometheus.value(TOTAL) == 1.0)
            await_(lambda: prometheus.query(f'up{{instance="127.0.0.1:{second.port}"}} == 0'))
            assert len(prometheus.query('ragtrace_build_info{job="ragtrace"}')) == 1
            second.close()
            exporter.close()
            await_(lambda: prometheus.query(f'up{{instance="127.0.0.1:{port}"}} == 0'))
            _analyze(url, _record("r2"))
            with serve(url, port=port):
                await_(lambda: prometheus.value(TOTAL) == 2.0)
                prometheus.stop()
                _analyze(url, _record("r3"), _record("r4"))
                prometheus.start()
                await_(lambda: prometheus.value(TOTAL) == 4.0)
                assert prometheus.value(GOOD) == 4.0
                assert _fell(prometheus) == []
                span = {"start": time.time() - 3600, "end": time.time() + 60, "step": 1}
                [series] = prometheus.api("query_range", query=TOTAL, **span)["result"]
                values = [float(value) for _, value in series["values"]]
                assert values == sorted(values)


def test_remote_write_goes_on_after_an_outage(tmp_path: Path) -> None:
    """Pushed to a real Prometheus: the same series as a scrape gives, with exemplars; while it is away nothing is lost
    that it would not get afterwards; an exporter that restarts and a second one make no further series."""
    pytest.importorskip("cramjam", reason="pip install ragtrace[remote-write]")
    from ragtrace.export.push import RemoteWriteTarget

    url = f"sqlite:///{tmp_path}/ragtrace.db"
    _analyze(url, _record("r1"))
    prometheus = Prometheus(tmp_path / "prometheus")
    address = f"{prometheus.url}/api/v1/write"
    with _running(prometheus):
        with (
            serve(url, push_to=[RemoteWriteTarget(address)], push_seconds=0.2) as exporter,
            serve(url, push_to=[RemoteWriteTarget(address)], push_seconds=0.2),
        ):
            await_(lambda: prometheus.value(TOTAL) == 1.0)
            pushed = {
                (one["metric"].pop("__name__"), frozenset(one["metric"].items()))
                for one in prometheus.query('{job="ragtrace"}')
                if one["metric"].pop("job")
            }
            assert set(_present(_scraped(exporter.port))) <= pushed
            _is_exemplar_there(prometheus)
            prometheus.stop()
            _analyze(url, _record("r2"))
            time.sleep(1.0)
            prometheus.start()
            await_(lambda: prometheus.value(TOTAL) == 2.0)
        _analyze(url, _record("r3"))
        with serve(url, push_to=[RemoteWriteTarget(address)], push_seconds=0.2):
            await_(lambda: prometheus.value(TOTAL) == 3.0)
        assert prometheus.value("count(ragtrace_build_info)") == 1.0
        assert _fell(prometheus) == []


def _present(values: Values) -> Iterator[tuple[str, frozenset[tuple[str, str]]]]:
    """Series as Prometheus has them: without empty labels."""
    for name, labels in values:
        yield name, frozenset(label for label in labels if label[1])


def _is_exemplar_there(prometheus: Prometheus) -> None:
    span = {"start": time.time() - 3600, "end": time.time() + 3600}
    found = prometheus.api("query_exemplars", query="ragtrace_query_coverage_ratio_bucket", **span)
    traces = {one["labels"]["trace_id"] for series in found for one in series["exemplars"]}
    assert traces == {"0af7651916cd43dd8448eb211c80319c"}
