"""`opentelemetry-instrument python application.py`: real applications that know nothing of ragtrace."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import pytest

from ragtrace.record.instrumentation import FRAMEWORKS
from ragtrace.store import Store
from ragtrace.types import RequestRecord, to_builtins

DISTRIBUTIONS = ("opentelemetry-instrumentation",)
ROOT: Final = Path(__file__).parents[2]
APPLICATIONS: Final = Path(__file__).parent / "applications"
LAUNCHER: Final = Path(sys.executable).with_name("opentelemetry-instrument")
QUESTION: Final = "How many days of leave are there?"
STAGES: Final = {
    "langchain": ["retrieve", "pack", "generate"],
    "llama_index": ["retrieve", "pack", "generate"],
    "haystack": ["retrieve", "pack", "generate"],
    "openai": ["retrieve", "generate"],
    "sentence_transformers": ["retrieve"],
}


def is_installed(framework: str) -> bool:
    """Whether its distribution is in this environment."""
    try:
        version(FRAMEWORKS[framework].distribution)
    except PackageNotFoundError:
        return False
    return LAUNCHER.exists()


needs = {
    name: pytest.mark.skipif(not is_installed(name), reason=f"{name} and opentelemetry-instrument: make frameworks")
    for name in FRAMEWORKS
}
pytestmark = pytest.mark.parametrize("framework", [pytest.param(name, marks=needs[name]) for name in FRAMEWORKS])


def launch(framework: str, folder: Path, **settings: str) -> tuple[str, list[RequestRecord]]:
    """What the application printed, and the records in its store."""
    store = f"sqlite:///{folder / 'ragtrace.db'}"
    ours = {"RAGTRACE_STORE": store, "RAGTRACE_SERVICE": "assistant", "PYTHONPATH": str(ROOT)}
    others = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    done = subprocess.run(
        [LAUNCHER, sys.executable, APPLICATIONS / f"{framework}_app.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **ours, **others, **settings},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    if not (folder / "ragtrace.db").exists():
        return done.stdout, []
    with Store.open(store) as opened:
        ids = [row.request_id for row in opened.find_requests()]
        return done.stdout, list(opened.get_records(ids).values())


def test_an_application_is_recorded(framework: str, tmp_path: Path) -> None:
    """Settings come from the environment; all is stored when the process ends."""
    printed, records = launch(framework, tmp_path)
    assert printed.strip() in ("Twenty days.", "2")
    (record,) = records
    assert (record.service, record.query.original, record.status) == ("assistant", QUESTION, "ok")
    assert [str(to_builtins(run)["stage"]) for run in record.stages] == STAGES[framework]
    assert len(record.candidates) == 2
    assert all(candidate.score is not None for candidate in record.candidates)
    if "generate" in STAGES[framework]:
        assert record.generation is not None
        assert record.generation.answer == "Twenty days."


@pytest.mark.parametrize("setting", ["OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "RAGTRACE_ENABLED"])
def test_an_application_is_not_recorded(framework: str, tmp_path: Path, setting: str) -> None:
    """The entry point's name disables it, RAGTRACE_ENABLED=0 everything of ours; the application runs on."""
    value = "0" if setting == "RAGTRACE_ENABLED" else f"some_other,ragtrace_{framework}"
    printed, records = launch(framework, tmp_path, **{setting: value})
    assert printed.strip() in ("Twenty days.", "2")
    assert records == []
