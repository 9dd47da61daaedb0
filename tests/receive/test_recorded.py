"""What real instrumentations send of the tiny pipelines of `senders/` becomes the record that the pipelines deserve."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ragtrace.types import RequestRecord, RerankRun
from tests.receive.conftest import RECORDED

Recorded = Callable[[str], list[RequestRecord]]

QUESTION = "What is the 2024 tariff for exporters in Ireland?"
ANSWER = "The tariff is 4.5 percent [1]."
TEXTS = [
    "The tariff of 2024 for exporters in Ireland is 4.5 percent.",
    "The tariff of 2023 for exporters in Ireland was 3.9 percent.",
    "Dublin and Cork are the largest ports of Ireland.",
]
IDS = ["doc-tariff-2024", "doc-tariff-2023", "doc-ports"]
CHAINS = ["openinference", "openllmetry", "langfuse", "trulens"]


@pytest.mark.parametrize("name", CHAINS)
def test_question_and_answer(recorded: Recorded, name: str) -> None:
    """Every request has its question, and those of LangChain the answer that the chain gave."""
    records = recorded(name)

    assert [record.query.original for record in records] == [QUESTION] * len(records)
    assert ANSWER in [record.generation and record.generation.answer for record in records]


@pytest.mark.parametrize("name", CHAINS)
def test_candidates(recorded: Recorded, name: str) -> None:
    """All candidates in the retriever's order, once, though spans of one call may be nested."""
    for record in recorded(name):
        assert [each.text for each in record.candidates] == TEXTS
        assert [each.rank for each in record.candidates] == [1, 2, 3]
        assert record.is_retrieved


@pytest.mark.parametrize("name", ["openinference", "langfuse"])
def test_ids(recorded: Recorded, name: str) -> None:
    """The sender's own ids, wherever its span has them."""
    for record in recorded(name):
        assert [each.chunk_id for each in record.candidates] == IDS


@pytest.mark.parametrize("name", ["openinference", "openllmetry"])
def test_reranking(recorded: Recorded, name: str) -> None:
    """LlamaIndex's postprocessor turned the first two around and dropped the third."""
    runs = [run for record in recorded(name) for run in record.stages if isinstance(run, RerankRun)]

    assert [(each.chunk_id, each.rank_before, each.rank_after) for each in runs[0].moves] == [
        ("doc-tariff-2023", 2, 1),
        ("doc-tariff-2024", 1, 2),
        ("doc-ports", 3, None),
    ]
    assert len(runs) == 1


@pytest.mark.parametrize("name", CHAINS)
def test_packing(recorded: Recorded, name: str) -> None:
    """What stood in the prompt is found there, in its order."""
    by_packing = {
        tuple(TEXTS.index(each.text or "") for each in record.packing.chunks)
        for record in recorded(name)
        if record.packing is not None
    }

    assert by_packing <= {(0, 1, 2), (1, 0), (0,)}
    assert (0, 1, 2) in by_packing


def test_langfuse_session(recorded: Recorded) -> None:
    """The session of Langfuse's own observations, and what the model counted."""
    record = next(each for each in recorded("langfuse") if each.session_id is not None)

    assert record.session_id == "session-1"
    assert record.versions == {"model": "tiny-llm"}
    assert record.generation is not None
    assert record.generation.usage is not None
    assert (record.generation.usage.input_tokens, record.generation.usage.output_tokens) == (30, 7)


def test_service(recorded: Recorded) -> None:
    """TruLens names its application on its spans, the others their service on the resource."""
    assert {each.service for each in recorded("trulens")} == {"tariff-assistant", "tariff-chain"}
    assert {each.service for each in recorded("openinference")} == {"tariff-assistant"}


@pytest.mark.parametrize("name", CHAINS)
def test_versions_are_written_down(name: str) -> None:
    """A recording says which packages it was made with."""
    packages = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))["packages"]

    assert all(version[0].isdigit() for version in packages.values())
    assert packages
