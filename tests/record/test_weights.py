"""What a request weighs while it waits to be read: all that a host can make long counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import ragtrace
from ragtrace.record import Draft

LONG = "x" * 100_000
CUT = 16_000  # of a single value in attributes and metadata


@dataclass
class Hit:
    """As a framework's."""

    id: str
    text: str
    metadata: dict[str, Any]


def search(hits: list[Any], query: str = "q") -> None:
    """In a retriever."""
    ragtrace.retrieve(lambda query: hits)(query)


def answer(value: Any) -> None:
    """In a generator."""
    ragtrace.generate(lambda prompt: value)("p")


def fill(**values: Any) -> None:
    """In the request."""
    ragtrace.current_request().set(**values)


HEAVY: dict[str, tuple[int, Callable[[], object]]] = {
    "query": (100_000, lambda: fill(query=LONG)),
    "rewritten": (100_000, lambda: fill(rewritten=LONG)),
    "facets": (100_000, lambda: fill(facets=[{"kind": "custom", "value": LONG}])),
    "aliases": (100_000, lambda: fill(facets=[{"kind": "custom", "value": "v", "aliases": [LONG]}])),
    "attributes": (CUT * 10, lambda: fill(attributes={str(number): [{"a": LONG}] for number in range(10)})),
    "versions": (CUT, lambda: fill(versions={"model": LONG})),
    "session": (100_000, lambda: fill(session_id=LONG)),
    "retriever's query": (100_000, lambda: search([], LONG)),
    "text": (100_000, lambda: search([{"id": "a", "text": LONG, "score": 1.0}])),
    "metadata, taken": (100_000, lambda: search([{"id": "a", "text": "t", "metadata": {"full": LONG}}])),
    "metadata of an object": (100_000, lambda: search([Hit("a", "t", {"full": LONG})])),
    "metadata, read": (CUT, lambda: search([{"id": "a", "text": "t", "metadata": {"full": LONG, "other": object()}}])),
    "citations": (100_000, lambda: answer({"answer": "a", "citations": [{"chunk_id": "c", "marker": LONG}]})),
    "many citations": (100_000, lambda: answer({"answer": "a", "citations": list(range(1000))})),
    "answer": (100_000, lambda: answer(LONG)),
}


@pytest.mark.parametrize(("least", "do"), HEAVY.values(), ids=HEAVY)
def test_whatever_is_long_is_weighed(
    configure: Any, monkeypatch: pytest.MonkeyPatch, least: int, do: Callable[[], object]
) -> None:
    """No field is a way around the queue's bound."""
    recorded = configure()
    drafts: list[Draft] = []
    monkeypatch.setattr(recorded, "submit", lambda item, durable=False: drafts.append(item))
    with ragtrace.request(query="q"):
        do()
    assert least <= drafts[0].weight <= 10 * least + 10_000
    drafts[0].discard()


def test_a_long_value_in_attributes_and_metadata_is_cut(recorded: Any) -> None:
    """It says how much is missing; content has fields of its own, which are not cut."""
    with ragtrace.request(query=LONG) as request:
        request.set(attributes={"a": LONG, "b": "short"})
        search([{"id": "a", "text": LONG, "metadata": {"full": LONG}}])
    record = recorded.record
    (found,) = record.candidates
    cut = "x" * 16_384 + "... (83616 more characters)"
    assert (record.attributes, found.metadata) == ({"a": cut, "b": "short"}, {"full": cut})
    assert (record.query.original, found.text) == (LONG, LONG)
