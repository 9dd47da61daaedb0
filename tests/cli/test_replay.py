"""`ragtrace replay`: what it prints, how it ends, and the one line that bad input gets."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragtrace.store import Store

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

APPLICATION = """
import os
import ragtrace

ragtrace.configure(service="assistant", versions={"model": "m-1"}, store="sqlite:////nowhere/production.db")

@ragtrace.retrieve
def search(query):
    print("searching")
    return [{"id": "c1", "text": "Theft is covered."}]

@ragtrace.generate
def write(question, hits):
    if question in os.environ.get("FAILS_AT", ""):
        raise ValueError("no answer")
    return "Theft is covered [1]."

def answer(question):
    return write(question, search(question))

def bare(question):
    return "Yes."
"""
QUESTIONS = [
    {"id": "q1", "question": "Is theft covered?", "segment": "exception", "gold": ["c1"]},
    {"id": "q2", "question": "Is fire covered?", "segment": "exception"},
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with an application and questions."""
    (tmp_path / "application.py").write_text(APPLICATION)
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    return tmp_path


REPLAY = ("replay", "--questions", "questions.jsonl", "--pipeline", "application:answer", "--store", "sqlite:///r.db")


def test_a_replay_is_recorded_analyzed_and_told(cli: Cli, here: Path) -> None:
    """The counts and the next command, with everything in the store that was named and nothing waiting."""
    done = cli(*REPLAY, "--name", "a")
    assert done.returncode == 0, done.stderr
    assert "run a of service assistant: 2 questions, 2 answered, 0 failed" in done.stdout
    next_line = "next: ragtrace gate run --baseline replay:NAME --candidate replay:NAME --store sqlite:///r.db"
    assert f"{next_line}, where replay:a is this run" in done.stdout
    (note,) = done.stderr.splitlines()
    assert note.startswith("note: 2 questions are too few to pass any candidate by this policy")
    with Store.open(f"sqlite:///{here}/r.db") as store:
        rows = store.replayed("a")
        assert [(row.question, row.attempt, row.service, row.status) for row in rows] == [
            ("q1", 1, "assistant", "ok"),
            ("q2", 1, "assistant", "ok"),
        ]
        assert {analysis.reference for _, analysis in store.analyses()} == {"oracle", "proxy"}
        assert store.queue_depth()["pending"] == 0
    assert "note:" not in cli(*REPLAY, "--name", "b").stderr  # said once


def test_json_is_all_that_stdout_carries(cli: Cli, here: Path) -> None:
    """What the application prints is on stderr."""
    done = cli(*REPLAY, "--name", "a", "--json", "--no-analyze", "--retries", "0", FAILS_AT="Is fire covered?")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["answered"], told["failed"], told["unanalyzed"]) == (1, 1, None)
    assert told["failures"] == {"q2": "ValueError: no answer"}
    assert "searching" in done.stderr


def test_failures_are_told_and_resume_mends_them(cli: Cli, here: Path) -> None:
    """A failed question leaves exit code 0 while others are answered; when none is, it is 1."""
    done = cli(*REPLAY, "--name", "a", "--retries", "0", FAILS_AT="Is fire covered? Is theft covered?")
    assert done.returncode == 1
    assert "  q1: ValueError: no answer" in done.stdout
    done = cli(*REPLAY, "--name", "a", "--retries", "0", "--resume", FAILS_AT="Is fire covered?")
    assert done.returncode == 0
    assert "2 questions, 1 answered, 1 failed" in done.stdout
    done = cli(*REPLAY, "--name", "a", "--resume")
    assert "2 questions, 1 answered, 0 failed, 1 answered before" in done.stdout
    done = cli(*REPLAY, "--name", "a", "--resume")
    assert "2 questions, 0 answered, 0 failed, 2 answered before" in done.stdout
    assert done.returncode == 0


BAD = {
    "no file": (["--questions", "missing.jsonl"], "questions 'missing.jsonl' cannot be read: No such file"),
    "a broken line": (["--questions", "broken.jsonl"], "broken.jsonl line 2 is no JSON"),
    "a doubled id": (["--questions", "doubled.jsonl"], "doubled.jsonl line 2 has the id 'q1' of line 1"),
    "no module": (["--pipeline", "nothing:answer"], "no module 'nothing'"),
    "no function": (["--pipeline", "application:nothing"], "has no 'nothing'"),
    "no stage": (["--pipeline", "application:bare"], "recorded no stage; decorate its functions"),
    "a name with a space": (["--name", "a b"], "name 'a b' is not usable"),
    "no timeout": (["--timeout", "0"], "timeout 0.0 is not usable"),
    "no such field": (["--segment-field", "klass"], "has no field 'klass' for the segment"),
    "an older schema": (["--store", "sqlite:///old.db"], "has schema 0005, this ragtrace needs"),
}


@pytest.mark.parametrize(("options", "said"), BAD.values(), ids=list(BAD))
def test_bad_input_is_one_line_and_exit_code_2(cli: Cli, here: Path, options: list[str], said: str) -> None:
    """Whatever is wrong."""
    row = json.dumps(QUESTIONS[0])
    (here / "broken.jsonl").write_text(f"{row}\n{row[:-1]}\n")
    (here / "doubled.jsonl").write_text(f"{row}\n{row}\n")
    Store.open(f"sqlite:///{here}/old.db").close()
    with sqlite3.connect(here / "old.db") as old:
        old.execute("UPDATE ragtrace_version SET version_num = '0005'")
    done = cli(*REPLAY, "--name", "a", *options)
    assert done.returncode == 2, done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("ragtrace: ")]
    assert said in line
    assert "Traceback" not in done.stderr


def test_a_run_that_is_there_is_one_line_as_well(cli: Cli, here: Path) -> None:
    """With the ways to go on."""
    assert cli(*REPLAY, "--name", "a").returncode == 0
    done = cli(*REPLAY, "--name", "a")
    assert done.returncode == 2
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ragtrace: run 'a' is in store sqlite:///r.db already, with 2 questions; go on with")
