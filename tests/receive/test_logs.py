"""Evaluation events in OTLP logs: which are judgments, which are something else, and which are rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from ragtrace import config
from ragtrace.errors import RecordError
from ragtrace.receive._logs import ReceivedJudgments, parse_logs_json, parse_logs_protobuf, read_logs
from ragtrace.record.content import ContentPolicy

TRACE = "5b8efff798038103d269b633813fc60c"


def attribute(name: str, value: Any) -> dict[str, Any]:
    """An attribute in OTLP's JSON."""
    kind = {str: "stringValue", float: "doubleValue", int: "intValue"}[type(value)]
    return {"key": name, "value": {kind: value}}


EVALUATION: dict[str, Any] = {
    "timeUnixNano": "1544712660000000000",
    "eventName": "gen_ai.evaluation.result",
    "traceId": TRACE,
    "spanId": "eee19b7ec3c1b174",
    "attributes": [
        attribute("gen_ai.evaluation.name", "relevance"),
        attribute("gen_ai.evaluation.score.value", 0.25),
        attribute("gen_ai.evaluation.score.label", "fail"),
        attribute("gen_ai.evaluation.explanation", "It answers another question."),
        attribute("gen_ai.response.id", "chatcmpl-1"),
    ],
    "unknownField": 1,
}


def logs(*records: dict[str, Any], scope: str = "judge") -> bytes:
    """A request of these log records, as JSON."""
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"scope": {"name": scope}, "logRecords": records}]}]}).encode()


def read(body: bytes, tenant: str = "", **settings: Any) -> ReceivedJudgments:
    """What is read of it, the same way in JSON and in protobuf."""
    message, rejected = parse_logs_json(body)
    policy = ContentPolicy(config.load(**({"capture_content": "full"} | settings)))
    found = read_logs(message, tenant, policy, rejected)
    again = read_logs(parse_logs_protobuf(message.SerializeToString()), tenant, policy, rejected)
    assert (again.judgments, again.ignored, again.rejected) == (found.judgments, found.ignored, found.rejected)
    return found


def test_evaluation() -> None:
    """A judgment of the trace's request, with all that it says."""
    (found,) = read(logs(EVALUATION), tenant="alpha").judgments
    said = found.said
    assert (found.tenant, found.trace_id, said.request_id, said.feedback_id) == ("alpha", TRACE, "", "")
    assert (said.source, said.score, said.label) == ("relevance", 0.25, "fail")
    assert (said.comment, said.created_at) == ("It answers another question.", 1544712660000000000)


def test_event_as_an_attribute() -> None:
    """Older senders name the event in an attribute; the time may be that of the collector."""
    older = {name: value for name, value in EVALUATION.items() if name not in ("eventName", "timeUnixNano")}
    older["attributes"] = [*EVALUATION["attributes"], attribute("event.name", "gen_ai.evaluation.result")]
    (found,) = read(logs(older | {"observedTimeUnixNano": "1544712660000000007"})).judgments
    assert (found.said.source, found.said.created_at) == ("relevance", 1544712660000000007)


def test_content_policy() -> None:
    """An explanation may quote content: it is kept as comments of feedback are."""
    (found,) = read(logs(EVALUATION), capture_content="hash").judgments
    assert (found.said.comment, found.said.label) == (None, "fail")


def test_others_are_ignored() -> None:
    """Other logs, other events, and the scores that ragtrace itself sends: accepted, and no judgments."""
    other = {"body": {"stringValue": "listening"}}
    found = read(logs(other, EVALUATION | {"eventName": "gen_ai.choice"}, EVALUATION))
    assert (len(found.judgments), found.ignored, found.rejected) == (1, 2, [])
    assert read(logs(EVALUATION, scope="ragtrace")).ignored == 1
    assert not found.answer.HasField("partial_success")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"traceId": ""}, "it has no trace id"),
        ({"traceId": "0" * 32}, "it has no trace id"),
        ({"traceId": "abcd"}, "its trace id has 2 bytes, and needs 16"),
        ({"traceId": "xyz"}, "traceId is 'xyz', and should be 32 hex digits"),
        ({"traceId": 7}, "traceId is int"),
        ({"attributes": [attribute("gen_ai.evaluation.name", "relevance")]}, "neither a score nor a label"),
        ({"attributes": [attribute("gen_ai.evaluation.score.value", "many")]}, "neither a score nor a label"),
        ({"timeUnixNano": "soon"}, "soon"),
    ],
)
def test_rejected(changes: dict[str, Any], reason: str) -> None:
    """One that cannot be used, with the reason; the others of the request are taken."""
    found = read(logs(EVALUATION | changes, EVALUATION))
    assert len(found.judgments) == 1
    assert reason in found.rejected[0]
    told = found.answer.partial_success
    assert told.rejected_log_records == 1
    assert reason in told.error_message


@pytest.mark.parametrize("body", [b"{", b"[]x", b"7", b'{"resourceSpans": []}', b"\xff"])
def test_no_json_of_logs(body: bytes) -> None:
    """What is something else is refused as a whole."""
    with pytest.raises(RecordError):
        parse_logs_json(body)


def test_no_objects() -> None:
    """What is of another shape than it should be is counted, with the reason; what stands beside it is taken."""
    record = json.loads(logs(EVALUATION))["resourceLogs"]
    body = {"resourceLogs": [7, {"scopeLogs": {}}, {"scopeLogs": [{"logRecords": [None]}]}, *record]}
    message, rejected = parse_logs_json(json.dumps(body))

    assert rejected == [
        "one of `resourceLogs` is int, and should be an object",
        "`scopeLogs` is dict, and should be a list",
        "one of `logRecords` is NoneType, and should be an object",
    ]
    assert len(read_logs(message, "", ContentPolicy(config.load())).judgments) == 1


@given(st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    """Bytes are a request of logs, or refused."""
    try:
        message = parse_logs_protobuf(body)
    except RecordError:
        return
    assert isinstance(message, ExportLogsServiceRequest)
    read_logs(message, "", ContentPolicy(config.load()))
