"""OpenInference's kinds of spans that are no stage."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from ragtrace.receive._spans import ReceivedSpan
from ragtrace.receive.dialects import openinference
from tests.receive.spans import assembled, retriever, span
from tests.receive.test_assembly import TEXTS


def other(kind: str) -> ReceivedSpan:
    """A span of this kind that was given something and returned something."""
    given = {"openinference.span.kind": kind, "input.value": "is this safe?", "output.value": "said 42"}
    return span(2, 1, attributes=given)


@pytest.mark.parametrize("kind", ["TOOL", "GUARDRAIL", "EVALUATOR", "PROMPT"])
def test_what_does_not_speak_for_the_request(kind: str) -> None:
    """Under a root that says nothing, what a tool or a judge was given is not the question, its result no answer."""
    record = assembled([span(1, ended_at=9_000), other(kind), retriever(3, 1, TEXTS)])

    assert record.query.original == "What is the tariff?"
    assert record.generation is None


@pytest.mark.parametrize("kind", ["CHAIN", "AGENT"])
def test_what_speaks_for_the_request(kind: str) -> None:
    """Chains and agents do, also below a root that is none."""
    record = assembled([span(1, ended_at=9_000), other(kind), retriever(3, 1, TEXTS)])

    assert record.generation is not None
    assert (record.query.original, record.generation.answer) == ("is this safe?", "said 42")


def test_a_tool_that_is_the_root() -> None:
    """It is the request: an assistant that another one calls."""
    record = assembled([span(1, attributes=other("TOOL").attributes), retriever(3, 1, TEXTS)])

    assert record.query.original == "is this safe?"


METADATA = (
    '{"source": "manual.pdf", "page": 3}',
    '{"source": 7, "doc_id": 12}',
    '{"doc_id": null, "chunk_id": "other", "score": 0.25}',
    "{}",
    '{"nested": {"deep": [1, 2]}}',
    '{"big": 123456789012345678901234567890}',
    '{"float": 1.5, "bool": true}',
    '{"long": "' + "word " * 4_000 + '"}',
    '{"half": "\\ud83d"}',
    ' {"blank": "before"}',
    '{"cut": "off',
    "no JSON",
    "[1, 2]",
    4,
)
PARTS: dict[str, tuple[Any, ...]] = {
    "document.id": ("a", "b", "file", "", 7, True, None),
    "document.content": ("First text of a manual.", "Another text.", "", "__REDACTED__", 5, None),
    "document.score": (0.5, 0.0, -1.25, 3, "0.5", float("nan"), float("inf"), True, None),
    "document.metadata": METADATA,
}


@pytest.mark.parametrize("seed", range(40))
def test_documents_by_columns_are_those_that_are_read_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of like documents are read by columns; what comes out is what each would give alone."""
    draw = random.Random(seed)
    attributes: dict[str, Any] = {"openinference.span.kind": "RETRIEVER", "input.value": "Which?"}
    usual = draw.random() < 0.5
    names = draw.sample(list(PARTS), draw.randint(2, len(PARTS))) if not usual else list(PARTS)
    for place, name in itertools.product(range(draw.randint(1, 6)), names):
        value = draw.choice(PARTS[name][:2] if draw.random() < (0.97 if usual else 0.6) else PARTS[name])
        if usual or draw.random() < 0.95:
            attributes[f"retrieval.documents.{place}.{name}"] = f"{value}{place}" if name == "document.id" else value
    spans = [span(0, attributes={"openinference.span.kind": "CHAIN"}), span(1, 0, attributes=attributes)]
    quick = assembled(spans)
    monkeypatch.setattr(openinference, "_plain_chunks", lambda attributes, prefix: None)
    assert assembled(spans) == quick


@pytest.mark.parametrize("metadata", METADATA)
def test_metadata_of_like_documents(metadata: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of each kind of metadata, and of documents without any."""
    attributes: dict[str, Any] = {"openinference.span.kind": "RETRIEVER", "input.value": "Which?"}
    for place in range(3):
        start = f"retrieval.documents.{place}.document"
        attributes |= {f"{start}.id": f"c{place}", f"{start}.content": f"Text {place}", f"{start}.score": 1.0 - place}
        attributes |= {f"{start}.metadata": metadata if place else json.dumps({"source": "a.pdf"})}
    bare = {name: value for name, value in attributes.items() if "metadata" not in name}
    for given in (attributes, bare):
        spans = [span(0, attributes={"openinference.span.kind": "CHAIN"}), span(1, 0, attributes=given)]
        with monkeypatch.context() as patched:
            patched.setattr(openinference, "_plain_chunks", lambda attributes, prefix: None)
            slow = assembled(spans)
        assert assembled(spans) == slow


def test_like_documents_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty of them take as many steps of Python as two."""
    found = retriever(1, 0, [f"Text {place}" for place in range(50)])
    found.attributes.update({f"retrieval.documents.{place}.document.score": 0.5 for place in range(50)})
    monkeypatch.delattr(openinference, "documents")
    record = assembled([span(0, attributes={"openinference.span.kind": "CHAIN"}), found])
    assert [each.chunk_id for each in record.candidates] == [f"chunk-{place}" for place in range(50)]
