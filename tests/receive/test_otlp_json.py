"""JSON is read as protobuf's own reader reads it, and counted before it is decoded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict, ParseError
from hypothesis import given, strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ragtrace.receive._limits import DecodingBudget, ReceiverLimits, TooLarge
from ragtrace.receive._otlp_json import check, parse_message, requests

scalars: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, 0, -1, 7, 2**31, 2**53 + 1, 2**63, -(2**63), 2**70, 0.5, 1e300, float("nan"), float("inf")),
        *("", "7", "-7", "007", " 7", "7.0", "٣", "a", "\ud800", "YWI=", "YWI", "-_-_", "Y", "NaN", "true", [], {}),
    ]
)
kinds = st.sampled_from(
    ["stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "string_value", "int_value", "other"]
)
values = st.recursive(
    st.dictionaries(kinds, scalars, max_size=2),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"arrayValue": st.fixed_dictionaries({"values": st.lists(inner, max_size=2)})}),
        st.fixed_dictionaries({"array_value": st.fixed_dictionaries({}, optional={"values": st.lists(inner)})}),
        st.fixed_dictionaries(
            {"kvlistValue": st.fixed_dictionaries({"values": st.lists(st.fixed_dictionaries({"value": inner}))})}
        ),
    ),
    max_leaves=3,
)
attributes = st.lists(
    st.fixed_dictionaries({}, optional={"key": scalars, "value": values, "x": scalars}), max_size=2
) | st.sampled_from([None, "text", [7], [None]])
events = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": scalars,
            "timeUnixNano": scalars,
            "attributes": attributes,
            "droppedAttributesCount": scalars,
        },
    ),
    max_size=2,
)


@given(
    st.fixed_dictionaries(
        {}, optional={"name": scalars, "attributes": attributes, "events": events, "flags": scalars, "kind": scalars}
    )
)
def test_as_protobuf_reads_it(sent: dict[str, Any]) -> None:
    """Whatever is in a span: the same message, or refused by both."""
    expected: bytes | None
    try:
        expected = ParseDict(sent, Span(), ignore_unknown_fields=True).SerializeToString()
    except (ParseError, SystemError, OverflowError):
        expected = None
    found, span = None, Span()
    try:
        parse_message(sent, span, DecodingBudget())
        found = span.SerializeToString()
    except ValueError:
        pass

    assert found == expected


def count(value: Any) -> int:
    """How many members and elements a value has; each list and object counts once more where it is empty."""
    if not isinstance(value, dict | list):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    return max(len(inner), 1) + sum(map(count, inner))


marked = st.text('\\"{[,]}:é\u2028', max_size=12)


@given(
    st.recursive(
        marked | st.none(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(marked, inner, max_size=4),
        max_leaves=20,
    ),
    st.sampled_from([1, 2, 3, 7, 64]),
)
def test_values(value: Any, step: int) -> None:
    """They are counted without being made: what stands in texts is none, wherever the bytes are cut."""
    body, expected = json.dumps(value, ensure_ascii=False).encode(), count(value)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ragtrace.receive._otlp_json._STEP", step)
        check(body, DecodingBudget(ReceiverLimits(values=expected)))
        if expected and len(body) > expected - 1:
            with pytest.raises(TooLarge):
                check(body, DecodingBudget(ReceiverLimits(values=expected - 1)))


def test_many_lines() -> None:
    """Each line is a request: there may be as many as there may be records."""
    lines = b'{"resourceSpans": []}\n' * 5

    assert len(list(requests(lines, "resourceSpans", "traces", DecodingBudget(ReceiverLimits(records=5))))) == 5
    with pytest.raises(TooLarge, match="more than 4 lines"):
        list(requests(lines, "resourceSpans", "traces", DecodingBudget(ReceiverLimits(records=4))))
