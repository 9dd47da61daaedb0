"""The public face: its names, and configure, flush, feedback and shutdown against a real SQLite store."""

from __future__ import annotations

import inspect
import logging
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace.config import Config
from ragtrace.errors import ConfigurationError
from ragtrace.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a new SQLite store; recording ends with the test."""
    monkeypatch.delenv("RAGTRACE_ENABLED", raising=False)
    monkeypatch.setenv("RAGTRACE_RAISE_ERRORS", "1")
    yield f"sqlite:///{tmp_path / 'ragtrace.db'}"
    ragtrace.shutdown()


@ragtrace.retrieve
def search(query: str) -> list[dict[str, Any]]:
    """A retriever."""
    return [{"id": "a", "text": "the text of chunk a", "score": 0.5}]


@ragtrace.request
def ask(question: str) -> str:
    """A pipeline."""
    search(question)
    return ragtrace.current_request().request_id


def test_all_names_are_public() -> None:
    """__all__ is what the namespace holds, apart from submodules and what the module itself imports."""
    held = {
        name
        for name, value in vars(ragtrace).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "").startswith("ragtrace")
    }
    internal = {"ContentPolicy", "Recorder", "active", "close_overdue", "held_settings", "install", "load", "scrub"}
    internal |= {"follow_thread_pools", "take_request", "unfollow_thread_pools"}
    assert held - internal == set(ragtrace.__all__)
    assert all(getattr(ragtrace, name).__doc__ for name in ragtrace.__all__)


def test_configure_takes_every_setting() -> None:
    """Its arguments are the settings of Config and the tracer provider."""
    assert set(inspect.signature(ragtrace.configure).parameters) == {
        *(setting.name for setting in fields(Config)),
        "tracer_provider",
    }


def test_a_decorated_pipeline_reaches_the_store(store: str) -> None:
    """configure, call, flush: the record is in the database."""
    ragtrace.configure(service="assistant", store=store, versions={"index": "7"})
    request_id = ask("when?")
    assert ragtrace.flush()
    with Store.open(store) as opened:
        record = opened.get_record(request_id)
    assert record is not None
    assert (record.service, record.versions, record.query.original) == ("assistant", {"index": "7"}, "when?")
    assert [(chunk.chunk_id, chunk.text) for chunk in record.candidates] == [("a", "the text of chunk a")]


def test_feedback_may_arrive_later(store: str) -> None:
    """In another run of the application, days later, it joins its request."""
    ragtrace.configure(store=store)
    request_id = ask("when?")
    assert ragtrace.shutdown()
    ragtrace.configure(store=store)
    ragtrace.feedback(request_id, score=-1, label="wrong", source="user", comment="no")
    assert ragtrace.shutdown()
    with Store.open(store) as opened:
        record = opened.get_record(request_id)
    assert record is not None
    (feedback,) = record.feedback
    assert (feedback.score, feedback.label, feedback.comment) == (-1.0, "wrong", "no")
    assert len(feedback.feedback_id) == 32


def test_a_report_on_a_source_reaches_the_store(store: str) -> None:
    """By the way that feedback goes; what cannot be used is counted there."""
    ragtrace.configure(service="assistant", store=store, raise_errors=False)
    ragtrace.source_report("wiki", documents=12, newest=1.7e9, delay_seconds=30)
    ragtrace.source_report("wiki", documents=-1)
    assert ragtrace.flush()
    with Store.open(store) as opened:
        (state,) = opened.sources()
        (fault,) = opened.faults()
    assert (state.service, state.source, state.documents) == ("assistant", "wiki", 12)
    assert (state.newest_at, state.delay_seconds) == (1_700_000_000_000_000_000, 30.0)
    assert (fault.where, fault.message) == (
        "source_report",
        "documents -1 is not usable; give how many there are, 0 or more",
    )


def test_bad_feedback_does_not_raise(store: str, caplog: pytest.LogCaptureFixture) -> None:
    """A score that is no number is counted and named."""
    ragtrace.configure(store=store, raise_errors=False)
    ragtrace.feedback("r", score="good")  # type: ignore[arg-type]
    assert ragtrace.flush()
    with Store.open(store) as opened:
        assert [(fault.where, fault.kind) for fault in opened.faults()] == [("feedback", "ValueError")]


def test_feedback_without_configure_warns(caplog: pytest.LogCaptureFixture) -> None:
    """It says what to do."""
    with caplog.at_level(logging.WARNING, "ragtrace"):
        ragtrace.feedback("r", score=1)
    assert "call ragtrace.configure() first" in caplog.text


def test_a_coercion_miss_is_named_in_the_store(store: str) -> None:
    """The fault reaches the writer, for `doctor` to name."""
    ragtrace.configure(store=store, service="assistant")
    ragtrace.retrieve(lambda query: 5)("q")
    assert ragtrace.flush()
    with Store.open(store) as opened:
        (fault,) = opened.faults()
    assert (fault.service, fault.where, fault.kind, fault.count) == ("assistant", "coerce.retrieve", "int", 1)


def test_configuring_again_flushes_the_former(store: str, tmp_path: Path) -> None:
    """Nothing that was recorded before is lost, and what follows goes to the new store."""
    other = f"sqlite:///{tmp_path / 'other.db'}"
    ragtrace.configure(store=store)
    first = ask("one")
    ragtrace.configure(store=other)
    second = ask("two")
    assert ragtrace.shutdown()
    with Store.open(store) as opened, Store.open(other) as replaced:
        assert list(opened.get_records([first, second])) == [first]
        assert list(replaced.get_records([first, second])) == [second]


def test_a_wrong_setting_leaves_the_former_in_use(store: str) -> None:
    """The caller's mistake is raised before anything changes."""
    ragtrace.configure(store=store)
    with pytest.raises(ConfigurationError, match="sample_rate"):
        ragtrace.configure(store=store, sample_rate=7)
    assert ask("still here")


def test_disabled_means_pass_through(store: str, tmp_path: Path) -> None:
    """Neither database nor spool is made."""
    ragtrace.configure(store=store, enabled=False)
    assert ask("q") == ""
    assert list(tmp_path.iterdir()) == []


def test_without_configure_flush_and_shutdown_are_true() -> None:
    """Nothing waits."""
    assert ragtrace.flush()
    assert ragtrace.shutdown()


def test_the_store_says_what_is_wrong_and_the_records_wait(
    store: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A corrupt database stops nobody; once it is moved away, the next start stores what waited."""
    (tmp_path / "ragtrace.db").write_bytes(b"this is no database, " * 500)
    ragtrace.configure(store=store)
    request_id = ask("q")
    assert not ragtrace.shutdown()
    assert "records cannot be stored, they wait in the spool" in caplog.text
    (tmp_path / "ragtrace.db").unlink()
    ragtrace.configure(store=store)
    assert ragtrace.flush(timeout=30)
    with Store.open(store) as opened:
        assert opened.get_record(request_id) is not None


def test_the_interpreters_end_flushes(store: str) -> None:
    """A script that ends right after its last request loses nothing."""
    program = "import ragtrace; ragtrace.configure()\nwith ragtrace.request(query='q', request_id='last'): pass\n"
    environment = {**os.environ, "RAGTRACE_STORE": store, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    with Store.open(store) as opened:
        assert opened.get_record("last") is not None
