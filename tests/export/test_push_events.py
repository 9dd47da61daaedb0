"""Scores as `gen_ai.evaluation.result` events, in memory and over real OTLP on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from ragtrace.analyze import examine, worker
from ragtrace.errors import ConfigurationError
from ragtrace.export.push import EvaluationEvents
from ragtrace.store import Store
from ragtrace.types import Analysis, Diagnosis, GenerateRun, RequestRecord, Score, StageFinding, replace
from tests.export.receiver import Receiver, receiving

TRACE, ROOT, FIRST, LAST = (
    "0af7651916cd43dd8448eb211c80319c",
    "b7ad6b7169203331",
    "00f067aa0ba902b7",
    "00f067aa0ba902b8",
)
RECORD = RequestRecord(
    request_id="r1",
    service="support",
    trace_id=TRACE,
    span_id=ROOT,
    stages=(GenerateRun(span_id=FIRST), GenerateRun(span_id=LAST)),
)
ANALYSIS = Analysis(
    request_id="r1",
    analyzer_version="7",
    scores=(
        Score(metric="query_coverage", value=0.5, reference="proxy"),
        Score(metric="answer_coverage", value=0.25),
        Score(metric="citation_coverage", reason="language"),
    ),
    diagnosis=Diagnosis(verdict="grounding_failure", cause="unsupported claim", evidence=("secret claim",)),
    computed_at=1_700_000_000_000_000_000,
)


@pytest.fixture
def exporter() -> InMemoryLogRecordExporter:
    """Keeps what is sent."""
    return InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]


@pytest.fixture
def events(exporter: InMemoryLogRecordExporter) -> EvaluationEvents:
    """Events that go there at once."""
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    return EvaluationEvents(provider)


def sent(exporter: InMemoryLogRecordExporter) -> dict[str, Any]:
    """The log records by the evaluation's name."""
    records = [each.log_record for each in exporter.get_finished_logs()]
    return {str(record.attributes["gen_ai.evaluation.name"]): record for record in records if record.attributes}


def test_a_score_is_an_event_of_the_span_that_it_judges(
    events: EvaluationEvents, exporter: InMemoryLogRecordExporter
) -> None:
    """Scores of the answer belong to the last generation, others to the request."""
    events.emit(RECORD, ANALYSIS)
    found = sent(exporter)
    assert {record.event_name for record in found.values()} == {"gen_ai.evaluation.result"}
    assert {record.trace_id for record in found.values()} == {int(TRACE, 16)}
    assert {name: f"{record.span_id:016x}" for name, record in found.items()} == {
        "query_coverage": ROOT,
        "answer_coverage": LAST,
        "citation_coverage": LAST,
        "ragtrace.diagnosis": ROOT,
    }
    coverage = found["query_coverage"]
    assert coverage.timestamp == ANALYSIS.computed_at
    assert dict(coverage.attributes) == {
        "gen_ai.evaluation.name": "query_coverage",
        "gen_ai.evaluation.score.value": 0.5,
        "ragtrace.reference": "proxy",
        "ragtrace.request.id": "r1",
        "ragtrace.service": "support",
        "ragtrace.analyzer_version": "7",
    }


def test_an_undefined_score_has_a_label_and_no_value(
    events: EvaluationEvents, exporter: InMemoryLogRecordExporter
) -> None:
    """Undefined is not zero; the explanation says why."""
    events.emit(RECORD, ANALYSIS)
    undefined = sent(exporter)["citation_coverage"].attributes
    assert undefined["gen_ai.evaluation.score.label"] == "undefined"
    assert undefined["gen_ai.evaluation.explanation"] == "language"
    assert "gen_ai.evaluation.score.value" not in undefined


def test_the_diagnosis_says_its_cause_and_no_evidence(
    events: EvaluationEvents, exporter: InMemoryLogRecordExporter
) -> None:
    """Evidence may quote content."""
    events.emit(RECORD, ANALYSIS)
    diagnosis = sent(exporter)["ragtrace.diagnosis"].attributes
    assert diagnosis["gen_ai.evaluation.score.label"] == "grounding_failure"
    assert diagnosis["gen_ai.evaluation.explanation"] == "unsupported claim"
    assert "secret" not in str(dict(diagnosis))


def test_each_stage_has_its_state_and_reason(events: EvaluationEvents, exporter: InMemoryLogRecordExporter) -> None:
    """With what judged; the evidence, which may quote content, stays in the store."""
    stages = (
        StageFinding(stage="retrieval", state="suspected", reason="low_match", evidence=("secret",)),
        StageFinding(stage="generation", state="sound"),
    )
    diagnosis = Diagnosis(verdict="no_break_found", stages=stages, judge="j-1")
    events.emit(RECORD, replace(ANALYSIS, diagnosis=diagnosis))
    found = sent(exporter)
    retrieval, generation = (found[f"ragtrace.stage.{name}"] for name in ("retrieval", "generation"))
    assert dict(retrieval.attributes) == {
        "gen_ai.evaluation.name": "ragtrace.stage.retrieval",
        "gen_ai.evaluation.score.label": "suspected",
        "gen_ai.evaluation.explanation": "low_match",
        "ragtrace.reference": "none",
        "ragtrace.judge": "j-1",
        "ragtrace.request.id": "r1",
        "ragtrace.service": "support",
        "ragtrace.analyzer_version": "7",
    }
    assert generation.attributes["gen_ai.evaluation.score.label"] == "sound"
    assert "gen_ai.evaluation.explanation" not in generation.attributes
    assert [f"{one.span_id:016x}" for one in (retrieval, generation)] == [ROOT, LAST]


def test_a_request_without_a_trace(events: EvaluationEvents, exporter: InMemoryLogRecordExporter) -> None:
    """Its events have its id and no span."""
    events.emit(RequestRecord(request_id="r1", service="s"), ANALYSIS)
    assert {record.span_id for record in sent(exporter).values()} == {0}
    assert {record.attributes["ragtrace.request.id"] for record in sent(exporter).values()} == {"r1"}


def test_the_worker_tells_each_committed_result_once(cli_store: str) -> None:
    """A result that cannot be passed on stays committed, and the work goes on."""
    told: list[str] = []

    def tell(record: RequestRecord, analysis: Analysis) -> None:
        told.append(record.request_id)
        assert analysis.scores
        raise RuntimeError("no endpoint")

    assert worker.run(cli_store, on_result=tell).done == 2
    assert sorted(told) == ["r1", "r2"]
    assert worker.run(cli_store, on_result=tell).done == 0
    assert len(told) == 2


def test_a_worker_that_lost_its_lease_tells_nothing(cli_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another worker commits is told by that one."""
    whole = examine
    told: list[str] = []

    def overtaken(record: RequestRecord, *arguments: Any, **named: Any) -> Any:
        if record.request_id == "r1":
            with Store.open(cli_store) as other:
                other.heartbeat(other.claim("other", limit=2, now=1e12), 60.0)
        return whole(record, *arguments, **named)

    monkeypatch.setattr(worker, "examine", overtaken)
    summary = worker.run(cli_store, on_result=lambda record, analysis: told.append(record.request_id))
    assert summary.lost > 0
    assert len(told) == summary.done


@pytest.fixture
def cli_store(tmp_path: Any) -> str:
    """A store with two requests that wait."""
    url = f"sqlite:///{tmp_path}/events.db"
    with Store.open(url) as store:
        store.write([RequestRecord(request_id=name, service="support", trace_id=TRACE) for name in ("r1", "r2")])
    return url


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver on a free loopback port."""
    with receiving() as server:
        yield server


def test_over_otlp(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard variables say where to; what waits is sent at the end."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{receiver.server_port}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "scores")
    opened = EvaluationEvents.open()
    opened.emit(RECORD, ANALYSIS)
    opened.close()
    (resource,) = [logs for request in receiver.requests for logs in request.resource_logs]
    service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
    found = {
        next(each.value.string_value for each in record.attributes if each.key == "gen_ai.evaluation.name"): record
        for scope in resource.scope_logs
        for record in scope.log_records
    }
    assert service == "scores"
    assert set(found) == {"query_coverage", "answer_coverage", "citation_coverage", "ragtrace.diagnosis"}
    answer = found["answer_coverage"]
    assert (answer.event_name, answer.trace_id.hex(), answer.span_id.hex()) == ("gen_ai.evaluation.result", TRACE, LAST)
    values = {each.key: each.value for each in answer.attributes}
    assert values["gen_ai.evaluation.score.value"].double_value == 0.25


def test_an_unknown_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ones that there are."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "udp")
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_PROTOCOL 'udp' is not usable; give http/protobuf"):
        EvaluationEvents.open()


def test_grpc_is_chosen_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable for logs wins over the one for all signals."""
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter

    from ragtrace.export import push

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    exporter = push._exporter()
    assert isinstance(exporter, OTLPLogExporter)
    exporter.shutdown()
