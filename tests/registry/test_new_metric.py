"""A new metric of one entry and one function, added in a copy of the checkout, is seen wherever metrics are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragtrace import installation

ENTRY = """
  - id: packed_share
    type: metric
    metric_name: ragtrace_packed_share_ratio
    brief: Share of the retrieved candidates that stand in the prompt.
    instrument: histogram
    unit: "1"
    formula: '|E ∩ C| / |C|'
    source: a test
    stage: ranking
    owner: ranking-context
    attributes: [{ref: service}, {ref: segment}, {ref: stratum}]
    buckets: [0, 0.25, 0.5, 0.75, 1]
    better: higher
    objective: 0.75
    analysis: coverage
    computed_by: ragtrace.analyze.scores:packed_share
    gate: {margin: 0.05}
    triage: true
    flag: low_packing
"""

FUNCTION = '''

def packed_share(source: ScoreInput) -> float | str:
    """The share of the candidates that stand in the prompt."""
    ids = {candidate.chunk_id for candidate in source.candidates}
    return len(ids & set(source.packed)) / len(ids) if ids else "no_candidates"
'''

PIPELINE = """
import json, sys, time
import ragtrace
from ragtrace import gate
from ragtrace.analyze import worker
from ragtrace.export import exposition
from ragtrace.store import Store
from ragtrace.triage import Window, triage_segment

url = sys.argv[1]
TEXTS = {"a": "The warranty lasts 24 months.", "b": "Batteries are covered for 12 months."}


@ragtrace.retrieve
def search(query):
    return [{"id": name, "text": text, "score": 1.0} for name, text in TEXTS.items()]


@ragtrace.pack
def pack(candidates):
    return candidates


@ragtrace.generate
def generate(prompt):
    return "The warranty lasts 24 months."


@ragtrace.request
def ask(question):
    generate(pack(search(question)[:kept]))


for version, kept in (("1", 2), ("2", 1)):
    ragtrace.configure(service="shop", store=url, versions={"packer": version})
    for _ in range(30):
        ask("How long does the warranty of a phone last?")
    ragtrace.shutdown()
worker.run(url)
with Store.open(url) as store:
    text = exposition(store).decode()
    now = time.time_ns() + 1
    report = triage_segment(store, "shop", None, Window.of(now - 3600 * 10**9, now))
    flags = {flag for row in store.find_requests(limit=100) for flag in row.flags}
judged = gate.run("version:packer=1", "version:packer=2", store=url, service="shop")
print(json.dumps({
    "exposed": [line for line in text.splitlines() if line.startswith("ragtrace_packed_share_ratio_count")],
    "triage": {value.metric: value.now for check in report.checks for value in check.values},
    "objectives": {value.metric: value.objective for check in report.checks for value in check.values},
    "gate": {cell.metric: [cell.baseline, cell.candidate, cell.margin, cell.outcome, cell.stage]
             for cell in judged.cells if cell.segment is None},
    "flags": sorted(flags),
}))
"""


def _python(folder: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with one metric more: an entry in the registry, a function, and what is generated."""
    root = installation.checkout()
    if root is None:
        pytest.skip("ragtrace runs installed; a metric is added in a checkout")
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("ragtrace", "metrics", "alerts", "dashboards", "migrations"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "docs" / "reference").mkdir(parents=True)
    shutil.copy(root / "pyproject.toml", folder)
    for path, text in (("metrics/coverage.yaml", ENTRY), ("ragtrace/analyze/scores.py", FUNCTION)):
        with (folder / path).open("a", encoding="utf-8") as file:
            file.write(text)
    _python(folder, "-m", "ragtrace.derive")
    return folder


@pytest.fixture(scope="module")
def seen(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What is seen of the metric in 30 requests of each of two versions, of which the second packs half as much."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'ragtrace.db'}"
    return json.loads(_python(copy, "-c", PIPELINE, url).splitlines()[-1])


def test_it_is_exposed(seen: Any) -> None:
    """Each request observes it, under the labels of its entry."""
    (line,) = seen["exposed"]
    assert 'service="shop"' in line
    assert line.endswith(" 60.0")


def test_the_gate_compares_it(seen: Any) -> None:
    """By the rule of its entry, in the direction that is better, for its stage."""
    assert seen["gate"]["packed_share"] == [1.0, 0.5, 0.05, "fail", "ranking"]


def test_triage_shows_it(seen: Any) -> None:
    """Its mean stands beside the state of its stage, with its objective."""
    assert seen["triage"]["packed_share"] == 0.75
    assert seen["objectives"]["packed_share"] == ">= 0.75"


def test_its_flag_keeps_requests(seen: Any) -> None:
    """A request that misses the objective is flagged, by a name that only the entry has."""
    assert "low_packing" in seen["flags"]


def test_a_dashboard_shows_it(copy: Path) -> None:
    """A panel of its stage asks for it, and no other dashboard has a new section."""
    folder = copy / "dashboards" / "generated"
    shown = {path.name for path in folder.iterdir() if "ragtrace_packed_share_ratio_sum" in path.read_text("utf-8")}
    assert shown == {"ragtrace-ranking.json"}
    others = {path.name for path in folder.iterdir() if "Other scores" in path.read_text("utf-8")}
    assert others == shown


def test_the_reference_has_it(copy: Path) -> None:
    """The page of metrics has its row, with what reads it."""
    page = (copy / "docs" / "reference" / "metrics.md").read_text("utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith("| `packed_share` |"))
    assert "| higher | >= 0.75 | ranking | gate, triage, flag `low_packing` |" in row
