"""Results of libraries through the stages of a request: ids stay the same from one to the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ragtrace
from ragtrace.types import PackRun, RerankRun, RetrieveRun
from tests.frameworks.look_alikes import build

if TYPE_CHECKING:
    from tests.record.conftest import Recorded

FOLDER = Path(__file__).parents[2] / "frameworks" / "recorded"


def _recorded(library: str, case: str) -> Any:
    return build(json.loads((FOLDER / f"{library}.json").read_text(encoding="utf-8"))["cases"][case]["value"])


def test_a_cross_encoder_names_places_among_its_inputs(recorded: Recorded) -> None:
    """The places are brought back to the retriever's ids, also when two inputs have one text."""
    text = "the same text twice"

    @ragtrace.retrieve
    def search(query: str) -> list[dict[str, Any]]:
        return [{"id": "a", "text": text, "score": 0.9}, {"id": "b", "text": text, "score": 0.8}]

    @ragtrace.rerank
    def rerank(query: str, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"corpus_id": 1, "score": np.float32(0.5), "text": text}, {"corpus_id": 0, "score": 0.25, "text": text}]

    with ragtrace.request(query="q"):
        rerank("q", search("q"))
    moves = [(move.chunk_id, move.rank_before, move.rank_after) for move in recorded.run(RerankRun).moves]
    assert moves == [("b", 2, 1), ("a", 1, 2)]


def test_arrays_with_an_id_map(recorded: Recorded) -> None:
    """What is found by FAISS is packed under the map's ids."""

    @ragtrace.retrieve
    def search(query: str) -> tuple[Any, Any, list[str]]:
        return np.array([[0.9, 0.5]]), np.array([[1, 0]]), ["a", "b"]

    @ragtrace.pack
    def pack(hits: Any) -> list[str]:
        return ["b"]

    with ragtrace.request(query="q"):
        pack(search("q"))
    assert [(found.chunk_id, found.score) for found in recorded.run(RetrieveRun).candidates] == [("b", 0.9), ("a", 0.5)]
    packing = recorded.run(PackRun).packing
    assert [chunk.chunk_id for chunk in packing.chunks] == ["b"]
    assert [chunk.chunk_id for chunk in packing.dropped] == ["a"]


def test_one_library_s_result_handed_on_to_the_next_stage(recorded: Recorded) -> None:
    """A reranker that is given the retriever's own result knows its inputs."""
    found = _recorded("chroma", "query")

    @ragtrace.retrieve
    def search(query: str) -> Any:
        return found

    @ragtrace.rerank
    def rerank(query: str, candidates: Any) -> list[str]:
        return ["b", "a"]

    with ragtrace.request(query="q"):
        rerank("q", search("q"))
    moves = [(move.chunk_id, move.rank_before, move.rank_after) for move in recorded.run(RerankRun).moves]
    assert moves == [("b", 2, 1), ("a", 1, 2)]


def test_rows_of_two_queries_in_one_request(recorded: Recorded) -> None:
    """Rows of one class and different columns stand in one record with their own meaning."""
    near, ids = _recorded("pgvector", "columns"), _recorded("pgvector", "ids")

    @ragtrace.retrieve
    def search(query: str, rows: Any) -> Any:
        return rows

    with ragtrace.request(query="q"):
        search("q", near)
        search("q", ids)
        search("q", near)
    runs = [run for run in recorded.record.stages if isinstance(run, RetrieveRun)]
    assert [[found.chunk_id for found in run.candidates] for run in runs] == [["1", "2"]] * 3
    assert [[found.score for found in run.candidates] for run in runs] == [[0.0, -1.0], [None, None], [0.0, -1.0]]


def test_a_result_that_is_changed_later_changes_no_record(recorded: Recorded) -> None:
    """What was returned is what is recorded."""
    found = _recorded("langchain", "documents")

    @ragtrace.retrieve
    def search(query: str) -> Any:
        return found

    with ragtrace.request(query="q"):
        for document in search("q"):
            document.page_content = "changed"
            document.metadata["source"] = "changed"
    (first, _) = recorded.run(RetrieveRun).candidates
    assert (first.text, first.source, first.metadata["source"]) == ("alpha is the first letter", "greek.md", "greek.md")
