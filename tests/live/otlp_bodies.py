"""Bodies of OTLP as no sender should make them: those of real senders, changed in their structure and in their bytes.

A body follows from a seed and its number alone, so that a failure can be made again:
`python -m tests.live.otlp_bodies SEED NUMBER > body`.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import zlib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from ragtrace.record import conventions as names
from tests.live.otlp_protobuf import protobuf_of, scalar
from tests.receive.server.batches import KINDS, NAMES

__all__ = ["GROUP", "JSON", "PROTOBUF", "TRACES", "Body", "body_of", "model_of"]

_RECORDED: Final = Path(__file__).parents[1] / "receive" / "recorded"
_REQUEST_ID: Final = "the request's own id"
GROUP: Final = 4
"""Bodies in a row that may bring the spans of one trace, each some of them."""

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_Json: TypeAlias = dict[str, Any]


class Body(NamedTuple):
    """One request. encoding: its Content-Encoding over HTTP; over gRPC the call's compression. kind: what was done to
    it, for a table."""

    number: int
    kind: str
    is_grpc: bool
    signal: str
    path: str
    content_type: str
    encoding: str
    payload: bytes


class _Span(NamedTuple):
    """A span of a trace that somebody sent, as texts of JSON. place, parent: of it and of its parent in the trace."""

    resource: str
    scope: str
    span: str
    place: int
    parent: int | None


def _any(value: Any) -> _Json:
    """A value as OTLP's JSON has it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _pairs(value)}}
    return {"stringValue": value}


def _pairs(given: _Json) -> list[_Json]:
    return [{"key": key, "value": _any(value)} for key, value in given.items()]


def _written(scope: str, *spans: _Json) -> list[_Span]:
    """A trace of spans with these attributes, all below the first."""
    resource = json.dumps({"attributes": _pairs({"service.name": "fuzzed"})})
    said = []
    for place, attributes in enumerate(spans):
        events = [
            {"name": name, "timeUnixNano": "1795308174018522049", "attributes": _pairs(given)}
            for name, given in attributes.pop("events", ())
        ]
        times = {
            "startTimeUnixNano": str(1795308174018522049 + place),
            "endTimeUnixNano": str(1795308174118522049 - place),
        }
        given = {"name": f"span {place}", **times, "attributes": _pairs(attributes), "events": events, "status": {}}
        said.append(_Span(resource, json.dumps({"name": scope}), json.dumps(given), place, None if place == 0 else 0))
    return said


def _vocabularies() -> list[list[_Span]]:
    """What nobody's recording speaks: GenAI's conventions, the Vercel AI SDK, Cohere's reranker, ragtrace itself."""
    question, texts = (
        "What is the tariff?",
        [f"The tariff of {year} is {year % 7} percent." for year in range(2019, 2024)],
    )
    documents = [{"id": f"c{place}", "score": 0.9 - place / 9, "content": text} for place, text in enumerate(texts)]
    ids = [each["id"] for each in documents]
    asked = [{"role": "user", "parts": [{"type": "text", "content": f"{texts[0]}\n\n{texts[2]}\n{question}"}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "0 [1]."}], "finish_reason": "stop"}]
    chat = {names.OPERATION_NAME: "chat", "gen_ai.provider.name": "openai", names.REQUEST_MODEL: "tiny"}
    messages = {names.INPUT_MESSAGES: asked, names.OUTPUT_MESSAGES: said, names.FINISH_REASONS: ["stop"]}
    retrieval = {
        names.OPERATION_NAME: "retrieval",
        names.RETRIEVAL_QUERY: question,
        names.RETRIEVAL_DOCUMENTS: documents,
    }
    judged = {names.EVALUATION_NAME: "judge", names.EVALUATION_VALUE: 0.5, names.EVALUATION_LABEL: "fair"}
    judgment = (names.EVALUATION_EVENT, judged | {names.EVALUATION_EXPLANATION: "so"})
    old = [
        ("gen_ai.system.message", {"content": texts[1]}),
        ("gen_ai.user.message", {"content": question}),
        ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "It is."}}),
    ]
    reranker: _Json = {"llm.request.type": "rerank", "gen_ai.system": "Cohere", names.REQUEST_MODEL: "rerank-v3.5"}
    for place, text in enumerate([*texts, question]):
        reranker[f"gen_ai.prompt.{place}.role"] = "system" if place < len(texts) else "user"
        reranker[f"gen_ai.prompt.{place}.content"] = text
    reranker["gen_ai.completion.0.content"] = f"Doc 3, Score: 0.9\n{texts[3]}"
    openinference: _Json = {"openinference.span.kind": "RETRIEVER", "input.value": question}
    for place, text in enumerate(texts):
        openinference[f"retrieval.documents.{place}.document.id"] = f"c{place}"
        openinference[f"retrieval.documents.{place}.document.content"] = text
    vercel = {"ai.operationId": "ai.generateText", "ai.prompt": json.dumps({"prompt": question})}
    call = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": json.dumps(asked)}
    own = {names.REQUEST_ID: _REQUEST_ID, names.REQUEST_SERVICE: "shop", names.INPUT_VALUE: question}
    own_facts = {names.REQUEST_FLAGS: ["late"], names.REQUEST_HEAD_PROBABILITY: 0.1, "ragtrace.version.index": "i1"}
    found = {names.RETRIEVAL_IDS: ids, names.RETRIEVAL_SCORES: [0.9] * len(ids), names.RETRIEVAL_QUERY: question}
    moved = {names.RERANK_IDS: ids[2:], names.RERANK_RANKS_BEFORE: [3, 4, 5], names.RERANK_DROPPED_IDS: ids[:2]}
    packing = {names.PACK_IDS: ids[3:], names.PACK_TOKENS: [7, 9], names.PACK_DROPPED_IDS: ids[2:3]}
    reasons = {names.PACK_DROPPED_REASONS: ["probably budget"], names.PACK_BUDGET: 100}
    return [
        _written("any", {"http.method": "POST", "events": [judgment]}, retrieval, chat | messages),
        _written(
            "any",
            {names.OPERATION_NAME: "invoke_agent", "gen_ai.conversation.id": "c-1", "events": [judgment]},
            retrieval | {names.RETRIEVAL_DOCUMENTS: json.dumps(documents)},
            chat | {key: json.dumps(value) for key, value in messages.items()},
            {"gen_ai.system": "openai", "events": old},
        ),
        _written("any", {"traceloop.span.kind": "workflow"}, openinference, reranker, chat | messages),
        _written("ai", vercel | {"ai.response.text": "0."}, openinference, call | {"ai.response.text": "0."}),
        _written(names.TRACER, own | own_facts, found, moved, packing | reasons, chat | messages),
    ]


def _recorded(path: Path) -> list[list[_Span]]:
    """The traces of what a package sent."""
    by_trace: dict[str, list[tuple[str, str, _Json]]] = {}
    for resource in json.loads(path.read_text(encoding="utf-8"))["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                own = json.dumps(resource["resource"]), json.dumps(scope.get("scope") or {}), span
                by_trace.setdefault(span["traceId"], []).append(own)
    found = []
    for given in by_trace.values():
        places = {span["spanId"]: place for place, (_, _, span) in enumerate(given)}
        found.append(
            [
                _Span(resource, scope, json.dumps(span), place, places.get(span.get("parentSpanId", "")))
                for place, (resource, scope, span) in enumerate(given)
            ]
        )
    return found


TRACES: Final = [trace for path in sorted(_RECORDED.glob("*.json")) for trace in _recorded(path)] + _vocabularies()
_ATTRIBUTES: Final = [
    json.dumps(each) for trace in TRACES for span in trace for each in json.loads(span.span)["attributes"]
]
_JUDGED: Final = {
    names.EVALUATION_NAME: "judge",
    names.EVALUATION_VALUE: 0.25,
    names.EVALUATION_LABEL: "poor",
    names.EVALUATION_EXPLANATION: "the answer names another year",
}

# ---- odd values

_TEXTS: Final = [
    "", " ", "\x00", "a\x00b", "\ud800", "x\udfff\ud83d", "\U0010ffff", "a\u2028b\u0085", "\u202etxt", "e\u0301" * 40,
    "NaN", "null", "true", "-0", "1e999", "[", "{", '"', '{"role": "user"', '[{"content":', '{"a":' * 60, "[" * 3_000,
    '"\\ud83d"', '[{"id": "a", "content": "\\udc00"}]', '[null, 1, [[]], {"content": {"text": []}}]', "{}", "[]",
    '{"messages": [{"role": 5, "content": {"a": NaN}}]}', '[{"document": {"id": 1e308, "content": [1]}}]',
    "Doc 99999999999999999999, Score: 1e999", "Doc -1, Score: nan\n", "Document(page_content='a\\'b\", metadata={",
    "content='" + "\\" * 999, "%s%n{0}{x}", "</script><b>", "'; DROP TABLE trace; --", "../../etc/passwd", "=1+1",
    names.EVALUATION_EVENT, *KINDS,
]  # fmt: skip
_NUMBERS: Final = [
    0, 1, -1, 2, 255, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63),
    -(2**63) - 1, 10**30, 0.5, -0.0, 1e308, -1e308, 5e-324, 1e400, -1e400, float("nan"),
]  # fmt: skip
_ODD: Final[list[Any]] = [
    None, True, False, *_NUMBERS, *_TEXTS, [], {}, [None], [[]], {"": None}, {"stringValue": 1}, [{}, 1],
]  # fmt: skip
_TIMES: Final = [
    0, 1, "0", "1", 999, 1_700_000_000_000_000_000, "1700000000000000000", 2**63 - 1, 2**63, 2**64 - 1, str(2**64 - 1),
    2**64, -1, "-1", -(10**18), 9_223_372_036_854_775_807, "253402300800000000000", 1e18, 1.7e18, "1e18", "soon", None,
    "2026-11-23T00:00:00Z", "0x1", " 5", 0.5,
]  # fmt: skip
_IDS: Final = [
    "",
    "0" * 32,
    "0" * 16,
    "ab",
    "f" * 31,
    "f" * 33,
    "f" * 64,
    "xyz",
    "a b",
    " " * 32,
    5,
    None,
    [],
    True,
    "W47/95A=",
]


def _odd(draw: random.Random) -> Any:
    """Anything, as one of its own: what is changed further must be no other body's."""
    return deepcopy(draw.choice(_ODD))


def _odd_value(draw: random.Random, depth: int = 3) -> Any:
    """The value of an attribute, of any kind, also of none or of several."""
    chosen = draw.random()
    if chosen < 0.4:
        return {"stringValue": draw.choice(_TEXTS)}
    if chosen < 0.55:
        return {"intValue": draw.choice([draw.choice(_NUMBERS), str(draw.choice(_NUMBERS))])}
    if chosen < 0.65:
        return {"doubleValue": draw.choice([*_NUMBERS, "NaN", "Infinity", "-Infinity", "abc", "1e5"])}
    if chosen < 0.7:
        return {draw.choice(["boolValue", "bytesValue", "string_value", "x"]): _odd(draw)}
    if chosen < 0.85 and depth:
        values = [_odd_value(draw, depth - 1) for _ in range(draw.randrange(4))]
        return {"arrayValue": {"values": values}}
    if chosen < 0.95 and depth:
        keys = ["id", "content", "role", "parts", "text", "type", "score", "", "a"]
        values = [{"key": draw.choice(keys), "value": _odd_value(draw, depth - 1)} for _ in range(draw.randrange(4))]
        return {"kvlistValue": {"values": values}}
    if chosen < 0.97:
        return {"stringValue": "a", "intValue": "1"}
    return _odd(draw)


def _deep(draw: random.Random) -> _Json:
    """A value in a value in a value. Some 46 lists are as many messages as may be."""
    value: _Json = {"stringValue": "deep"}
    for _ in range(draw.choice([3, 15, 16, 17, 30, 33, 44, 45, 46, 47, 48, 60])):
        if draw.random() < 0.5:
            value = {"arrayValue": {"values": [value]}}
        else:
            value = {"kvlistValue": {"values": [{"key": "a", "value": value}]}}
    return value


# ---- changes of the structure: each takes the spans (or log records) of a body, and the body

_Change: TypeAlias = Callable[[random.Random, list[_Json], _Json], None]


def _attributes(draw: random.Random, spans: list[_Json]) -> list[Any]:
    """Those of one of the spans; another change may have put something else there."""
    span = draw.choice(spans)
    found = span.get("attributes")
    if not isinstance(found, list):
        found = span["attributes"] = []
    return found


def _drop_field(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    span = draw.choice(spans)
    if span:
        del span[draw.choice(list(span))]


def _retype_field(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    span = draw.choice(spans)
    named = ["kind", "traceState", "flags", "droppedAttributesCount", "status", "events", "links", "name", "attributes"]
    span[draw.choice([*span, *named])] = _odd(draw)


def _shift_times(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    for span in spans if draw.random() < 0.3 else [draw.choice(spans)]:
        for name in ("startTimeUnixNano", "endTimeUnixNano", "timeUnixNano"):
            if draw.random() < 0.6:
                span[name] = draw.choice(_TIMES)
        if draw.random() < 0.3:  # ends before it starts
            span["startTimeUnixNano"], span["endTimeUnixNano"] = (
                span.get("endTimeUnixNano"),
                span.get("startTimeUnixNano"),
            )


def _break_ids(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    draw.choice(spans)[draw.choice(["traceId", "spanId", "parentSpanId", "trace_id"])] = draw.choice(_IDS)


def _tangle_parents(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    ids = [span.get("spanId") for span in spans]
    for span in spans:
        if draw.random() < 0.7:
            span["parentSpanId"] = draw.choice(ids)


def _replace_values(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    given = _attributes(draw, spans)
    for _ in range(draw.randrange(1, 4)):
        if given and isinstance(each := draw.choice(given), dict):
            each["value"] = _odd_value(draw)


def _damage_text(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    """JSON within a text, cut off or with a mark changed; numbers made large."""
    given = [each for each in _attributes(draw, spans) if isinstance(each, dict)]
    texts = [each["value"] for each in given if isinstance(each.get("value"), dict) and "stringValue" in each["value"]]
    if not texts:
        return
    value = draw.choice(texts)
    said = value["stringValue"]
    if not isinstance(said, str) or not said:
        return
    at = draw.randrange(len(said))
    chosen = draw.randrange(4)
    if chosen == 0:
        value["stringValue"] = said[:at]
    elif chosen == 1:
        value["stringValue"] = (
            said[:at] + draw.choice(['"', "\\", "[", "}", "\x00", "\ud800", ",", "1e999"]) + said[at + 1 :]
        )
    elif chosen == 2:
        value["stringValue"] = said * draw.choice([2, 3, 20])
    else:
        value["stringValue"] = json.dumps([said, {"content": said, "id": draw.choice(_NUMBERS)}])


def _change_attributes(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    given = _attributes(draw, spans)
    chosen = draw.randrange(5)
    if chosen == 0:
        draw.shuffle(given)
    elif chosen == 1:
        del given[draw.randrange(len(given) + 1) :]
    elif chosen == 2 and given:  # the same name again, with another value
        again = draw.choice(given)
        if isinstance(again, dict):
            given.append({"key": again.get("key"), "value": _odd_value(draw)})
    elif chosen == 3 and given:
        del given[draw.randrange(len(given))]
    elif given and isinstance(each := draw.choice(given), dict):
        key = str(each.get("key"))
        numbers = ["9" * 7, "9" * 8, "-1", "00", "1.5", "\u0663", "\u00b2", ""]
        each["key"] = draw.choice(
            [key.replace(".0.", f".{draw.choice(numbers)}."), key.upper(), key + ".", "", key[:-1]]
        )


def _splice_vocabularies(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    given = _attributes(draw, spans)
    given += map(json.loads, draw.sample(_ATTRIBUTES, draw.choice([1, 2, 5, 20])))
    given += [{"key": draw.choice(NAMES), "value": _odd_value(draw)} for _ in range(draw.randrange(3))]


def _nest(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    key = draw.choice([names.RETRIEVAL_DOCUMENTS, names.INPUT_MESSAGES, names.RETRIEVAL_IDS, "a"])
    _attributes(draw, spans).append({"key": key, "value": _deep(draw)})


def _lengthen(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    size = draw.choice([1_000, 1_000, 1_000, 4_000, 70_000])
    said = draw.choice(["x", "word ", "\u00e9", "[", '{"a":', "\U0001f600", "\\", "a.0."]) * (size // 2)
    where = draw.randrange(4)
    if where == 0:
        draw.choice(spans)["name"] = said
    elif where == 1:
        _attributes(draw, spans).append({"key": said[:3_000], "value": {"stringValue": "a"}})
    else:
        _attributes(draw, spans).append({"key": draw.choice(NAMES), "value": {"stringValue": said}})


def _add_events(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    kinds = [
        names.EVALUATION_EVENT,
        "exception",
        "gen_ai.choice",
        "gen_ai.user.message",
        "gen_ai.content.prompt",
        "",
        None,
    ]
    keys = [*_JUDGED, "exception.type", "exception.message", "content", "message", "role", "gen_ai.prompt"]
    events = draw.choice(spans).setdefault("events", [])
    if not isinstance(events, list):
        return
    for _ in range(draw.choice([1, 1, 2, 60])):
        said = [{"key": draw.choice(keys), "value": _odd_value(draw)} for _ in range(draw.randrange(4))]
        events.append({"name": draw.choice(kinds), "timeUnixNano": draw.choice(_TIMES), "attributes": said})


def _change_status(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    span = draw.choice(spans)
    codes = [0, 1, 2, 3, -1, 2**31, "STATUS_CODE_ERROR", "2", None, 1.5]
    span["status"] = {"code": draw.choice(codes), "message": draw.choice(_TEXTS)}
    span[draw.choice(["droppedAttributesCount", "droppedEventsCount", "flags", "kind"])] = draw.choice(
        [0, 1, 2**32 - 1, 2**32, -1, "7", 1.0]
    )


def _change_resources(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    """Other services, several of them, none, and a resource that is none."""
    held = next(iter(whole.values()))
    names_ = ["other", "", " ", "x" * 300, "a/b", "acme:b", "\x00", "\ud800", 5, None]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": draw.choice(names_)}}]}
    chosen = draw.randrange(6)
    if chosen == 0:
        held[0]["resource"] = _odd(draw)
    elif chosen == 1:
        resource["attributes"].append({"key": draw.choice(["service.name", names.CITES]), "value": _odd_value(draw)})
        held[0]["resource"] = resource
    elif chosen == 2:  # the same spans again, of another service
        held.append({**held[0], "resource": resource})
    elif chosen == 3:
        held.append({"resource": resource})
    elif chosen == 4:
        held[0].pop("resource", None)
    else:
        held[0]["resource"] = resource


def _change_frame(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    """What stands around the spans."""
    (name,) = whole
    held = whole[name]
    inner = "scopeSpans" if name == "resourceSpans" else "scopeLogs"
    chosen = draw.randrange(8)
    inside = held[0].get(inner)
    scopes = inside if isinstance(inside, list) else []  # a change before this one may have taken them out
    if chosen == 0:
        held.append(_odd(draw))
    elif chosen == 1:
        held[0][inner] = draw.choice([None, {}, "x", [], 5, [None, *scopes]])
    elif chosen == 2:
        held[0][draw.choice(["schemaUrl", "unknown", "instrumentationLibrarySpans"])] = _odd(draw)
    elif chosen == 3:
        held[0][inner] = scopes * 2
    elif chosen == 4 and isinstance(held[0].get(inner), list) and held[0][inner] and held[0][inner][0]:
        held[0][inner][0]["scope"] = draw.choice([_odd(draw), {"name": draw.choice(_TEXTS)}, {"attributes": 5}])
    elif chosen == 5:
        spans.append(draw.choice(spans))
    elif chosen == 6:
        record = "spans" if name == "resourceSpans" else "logRecords"
        held[0][inner] = [{record: [*spans, _odd(draw), _odd(draw)]}]
    else:
        draw.shuffle(spans)


def _multiply(draw: random.Random, spans: list[_Json], whole: _Json) -> None:
    """Hundreds of spans of one trace, in one row of parents."""
    first = {key: value for key, value in draw.choice(spans).items() if key != "attributes"}
    said = [{"key": names.SPAN_KIND, "value": {"stringValue": draw.choice(["CHAIN", "RETRIEVER", "LLM"])}}]
    base, parent = str(first.get("spanId"))[:10].ljust(10, "0"), None
    for place in range(draw.choice([20, 200])):
        span_id = f"{base}{0x800000 + place:06x}"
        spans.append({**first, "spanId": span_id, "attributes": said} | ({"parentSpanId": parent} if parent else {}))
        parent = span_id


_CHANGES: Final[list[tuple[_Change, int]]] = [
    (_drop_field, 6), (_retype_field, 8), (_shift_times, 10), (_break_ids, 6), (_tangle_parents, 5),
    (_replace_values, 14), (_damage_text, 12), (_change_attributes, 10), (_splice_vocabularies, 10), (_nest, 3),
    (_lengthen, 1), (_add_events, 6), (_change_status, 4), (_change_resources, 6), (_change_frame, 5), (_multiply, 1),
]  # fmt: skip
_CHOICES: Final = [change for change, weight in _CHANGES for _ in range(weight)]

# ---- changes of the bytes


def _stray_fields(draw: random.Random, body: bytes) -> bytes:
    """The same message with what OTLP has no field for, or has it in another form."""
    stray = [
        scalar(draw.choice([3, 15, 99, 2**28]), "varint", 2**64 - 1),
        scalar(draw.choice([1, 2, 3]), "fixed32", 5),
        b"\x0b\x0c",  # a group
        b"\x0a\x00",  # a resource without anything
        b"\x0a\x80\x80\x80\x80\x00",  # the same, its length in more digits than it needs
        b"\x0a" + b"\xff" * 10,
        b"\x00\x00",
        b"\x0a\xff\xff\xff\xff\x0f",  # 4 GB, as it says
        b"\x0a\x02\x12\x00" * draw.choice([1, 20, 2_000]),
    ]
    extra = draw.choice(stray)
    return body + extra if draw.random() < 0.5 else extra + body


def _damaged(draw: random.Random, body: bytes) -> bytes:
    """Bits changed, bytes put in, left out, or said twice; cut off."""
    changed = bytearray(body)
    for _ in range(draw.choice([1, 1, 2, 5, 30])):
        if not changed:
            break
        at = draw.randrange(len(changed))
        chosen = draw.randrange(6)
        if chosen == 0:
            changed[at] ^= 1 << draw.randrange(8)
        elif chosen == 1:
            changed[at] = draw.choice([0x00, 0x7F, 0x80, 0xFF, 0xC3, 0x22, 0x5B, 0x7D])
        elif chosen == 2:
            changed[at:at] = draw.choice([b"\x80", b"\xff" * 11, b"\x00", b"\xed\xa0\x80", b'"', b"\\", b"]}", b"1e9"])
        elif chosen == 3:
            del changed[at : at + draw.choice([1, 2, 9])]
        elif chosen == 4:
            end = at + draw.randrange(200)
            changed[at:at] = changed[at:end]
        elif draw.random() < 0.4:
            del changed[at:]
    return bytes(changed)


def _packed(draw: random.Random, body: bytes) -> tuple[str, bytes, str]:
    """A body within a content encoding, what it says of that, and what was done."""
    chosen = draw.random()
    if chosen < 0.5:
        return "", body, ""
    if chosen < 0.96:
        return "gzip", zlib.compress(body, 1, 31), ""
    kind = "encoding"
    odd: list[Callable[[], tuple[str, bytes]]] = [
        lambda: ("gzip", body),
        lambda: ("", zlib.compress(body, 1, 31)),
        lambda: ("deflate", zlib.compress(body)),
        lambda: ("gzip", _damaged(draw, zlib.compress(body, 1, 31))),
        lambda: ("gzip", zlib.compress(body, 1, 31)[: draw.randrange(40)]),
        lambda: ("gzip", zlib.compress(body[:99], 1, 31) + zlib.compress(body[99:], 1, 31)),
        lambda: ("gzip", zlib.compress(b"", 1, 31) * draw.choice([3, 1_001])),
        lambda: ("gzip", zlib.compress(body, 1, 31) + b"rest"),
        lambda: ("GZIP", zlib.compress(body, 1, 31)),
        lambda: ("identity", body),
        lambda: ("gzip, gzip", zlib.compress(zlib.compress(body, 1, 31), 1, 31)),
        lambda: ("br", body),
    ]
    encoding, payload = draw.choice(odd)()
    return encoding, payload, kind


_LARGE: Final = [
    gzip.compress(mark * (4 << 20), 1) for mark in (b"\x00\x00\x00\x00\x00", b"[[],]", b"     ")
]  # each more than a body may swell to


# ---- bodies


def _trace_id(seed: int, base: int, ordinal: int = 0) -> str:
    return f"f255{seed & 0xFFFFFFFF:08x}{base:012x}{ordinal:08x}"


def _span_id(base: int, place: int) -> str:
    return f"{base:010x}{place + 1:06x}"


def _spans(draw: random.Random, seed: int, number: int) -> tuple[str, list[_Span], int]:
    """Which spans a body brings: some of a trace in a row, or each nth of one that bodies share. Returns what was done,
    the spans, and the number that their ids begin with."""
    group = number - number % GROUP
    shared = random.Random(seed * 2_000_003 + group)
    if shared.random() < 0.15:
        trace = shared.choice(TRACES)
        mine = trace[number % GROUP :: GROUP]
        if mine:
            return "shared trace", mine, group
    trace = draw.choice(TRACES)
    count = draw.choice([1, 1, 1, 1, 2, 2, 3]) if draw.random() < 0.985 else len(trace)
    at = draw.randrange(max(1, len(trace) - count + 1))
    return "", trace[at : at + count], number


def model_of(seed: int, base: int, given: list[_Span]) -> tuple[_Json, list[_Json]]:
    """A body of these spans under fresh ids."""
    held: list[_Json] = []
    mine: list[_Json] = []
    last: tuple[str, str] | None = None
    spans: list[_Json] = []
    trace_id = _trace_id(seed, base)
    for each in given:
        span = json.loads(each.span.replace(_REQUEST_ID, f"{_REQUEST_ID} {base}"))
        span["traceId"], span["spanId"] = trace_id, _span_id(base, each.place)
        if each.parent is None:
            span.pop("parentSpanId", None)
        else:
            span["parentSpanId"] = _span_id(base, each.parent)
        if last != (each.resource, each.scope):
            last, spans = (each.resource, each.scope), []
            scope = {"scope": json.loads(each.scope), "spans": spans}
            held.append({"resource": json.loads(each.resource), "scopeSpans": [scope]})
        spans.append(span)
        mine.append(span)
    return {"resourceSpans": held}, mine if len(held) > 1 else spans


def _judgments(draw: random.Random, seed: int, number: int) -> tuple[_Json, list[_Json]]:
    """A body of judgments, and records that are none."""
    records: list[_Json] = []
    for place in range(draw.choice([1, 1, 2, 5])):
        records.append(
            {
                "timeUnixNano": "1795308174018522049",
                "traceId": _trace_id(seed, number, place),
                "spanId": _span_id(number, place),
                "eventName": names.EVALUATION_EVENT if draw.random() < 0.9 else draw.choice(_TEXTS),
                "attributes": _pairs(_JUDGED),
                "body": {"stringValue": "it is judged"},
            }
        )
    held = [{"resource": {}, "scopeLogs": [{"scope": {"name": "judge"}, "logRecords": records}]}]
    return {"resourceLogs": held}, records


def body_of(seed: int, number: int) -> Body:
    """The body of this number."""
    draw = random.Random(seed * 1_000_003 + number)
    is_logs = draw.random() < 0.08
    if is_logs:
        signal, kind = "logs", "judgments"
        whole, spans = _judgments(draw, seed, number)
    else:
        signal = "traces"
        kind, given, base = _spans(draw, seed, number)
        whole, spans = model_of(seed, base, given)
    changes = draw.choice([0, 1, 1, 1, 2, 2, 3, 5]) if spans else 0
    for _ in range(changes):
        draw.choice(_CHOICES)(draw, spans, whole)
    kind = kind or ("changed" if changes else "as sent")
    is_grpc = draw.random() < 0.1
    is_json = not is_grpc and draw.random() < 0.5
    whole_body = _encoded(draw, whole, is_json)
    chosen = draw.random()
    if chosen < 0.12:
        kind, whole_body = "damaged bytes", _damaged(draw, whole_body)
    elif chosen < 0.13:
        kind, whole_body = "noise", draw.randbytes(draw.choice([0, 1, 2, 30, 3_000]))
    content_type = JSON if is_json else PROTOBUF
    path = f"/v1/{signal}"
    if draw.random() < 0.02:
        kind, content_type = (
            "content type",
            draw.choice(
                [
                    PROTOBUF,
                    JSON,
                    "application/json; charset=utf-16",
                    "APPLICATION/JSON",
                    "text/plain",
                    "",
                    "application/protobuf",
                ]
            ),
        )
    if draw.random() < 0.01:
        kind, path = (
            "path",
            draw.choice(["/v1/traces", "/v1/logs", "/v1/metrics", "/v1/traces/", "/", "/v1/traces?a=%00"]),
        )
    if is_grpc:
        encoding, payload = ("gzip" if draw.random() < 0.5 else ""), whole_body
    else:
        encoding, payload, was = _packed(draw, whole_body)
        kind = was or kind
        if draw.random() < 0.0005:
            kind, encoding, payload = "bomb", "gzip", draw.choice(_LARGE)
    return Body(number, kind, is_grpc, signal, path, content_type, encoding, payload)


def _encoded(draw: random.Random, whole: Any, is_json: bool) -> bytes:
    if not is_json:
        body = protobuf_of(whole)
        return _stray_fields(draw, body) if draw.random() < 0.06 else body
    chosen = draw.random()
    if chosen < 0.9:
        return json.dumps(whole).encode()
    said = json.dumps(whole, ensure_ascii=chosen < 0.93)
    if chosen < 0.93:
        return f"\n {said}\r\n\n{{}}\n".encode()
    if chosen < 0.96:
        return f"[{said}, {{}}]".encode("utf-8", "surrogatepass")
    if chosen < 0.98:
        return said.encode("utf-8", "surrogatepass")
    return said.encode(draw.choice(["utf-16", "utf-8-sig", "utf-8"]), "surrogatepass")


if __name__ == "__main__":
    made = body_of(int(sys.argv[1]), int(sys.argv[2]))
    print(made._replace(payload=b""), file=sys.stderr)
    sys.stdout.buffer.write(made.payload)
