"""Replays of small applications into a SQLite store."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import ragtrace
from ragtrace.gate.replay import ReplaySummary, replay
from ragtrace.gate.replay_inputs import Question
from ragtrace.store import Store
from ragtrace.types import RequestRecord

APPLICATIONS = "tests.gate.replay.applications"
Run: TypeAlias = Callable[..., ReplaySummary]


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """Where a replay records."""
    return f"sqlite:///{tmp_path / 'replays.db'}"


@pytest.fixture
def applications(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of applications, as new as in a process of its own; recording ends with the test."""
    import importlib

    monkeypatch.delenv("RAGTRACE_ENABLED", raising=False)
    monkeypatch.delitem(sys.modules, APPLICATIONS, raising=False)
    yield importlib.import_module(APPLICATIONS)
    ragtrace.shutdown()
    sys.modules.pop(APPLICATIONS, None)


@pytest.fixture
def run(store_url: str, applications: Any) -> Run:
    """Replay these questions through an application."""

    def replayed(application: str, *texts: str, name: str = "a", **given: Any) -> ReplaySummary:
        questions = [Question(f"q{number}", text) for number, text in enumerate(texts or ("Is theft covered?",))]
        options: dict[str, Any] = {"service": "assistant", "analyze": False, "backoff": 0.01} | given
        return replay(options.pop("questions", questions), f"{APPLICATIONS}:{application}", name, store_url, **options)

    return replayed


def stored(store_url: str, name: str = "a") -> list[RequestRecord]:
    """The requests of a run, by question and attempt."""
    with Store.open(store_url) as store:
        rows = store.replayed(name)
        records = store.get_records([row.request_id for row in rows])
    return [records[row.request_id] for row in rows]


def lines(*rows: dict[str, Any]) -> str:
    """JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)
