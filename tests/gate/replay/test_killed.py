"""A replay that is killed has lost no answer that was given, and goes on with the rest."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.gate.replay.conftest import lines, stored

APPLICATION = """
import os, signal
import ragtrace

@ragtrace.retrieve
def search(query):
    return [{"id": "c1", "text": "Theft is covered."}]

async def answer(question):
    return say(question)

def say(question):
    search(question)
    with open("asked", "a") as file:
        print(question, file=file)
    if question == os.environ.get("DIES_AFTER"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "Yes."
"""
NUMBER = 40


def _replay(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ragtrace", "replay", "--questions", "questions.jsonl", "--name", "a",
               "--store", "sqlite:///kept.db", "--no-analyze", "--pipeline", *options]  # fmt: skip
    return subprocess.run(
        command, cwd=folder, env=environment(**variables), capture_output=True, text=True, check=False
    )


def _prepare(folder: Path) -> list[str]:
    questions = [f"Is theft {number} covered?" for number in range(NUMBER)]
    (folder / "application.py").write_text(APPLICATION)
    rows = [{"id": f"q{number:02}", "question": text} for number, text in enumerate(questions)]
    (folder / "questions.jsonl").write_text(lines(*rows))
    return questions


@pytest.mark.parametrize("function", ["say", "answer"])
def test_no_answer_is_lost_to_a_kill(tmp_path: Path, function: str) -> None:
    """Killed at three places, one of them in the middle of a question: each question is stored once, and only those in
    whose middle the kill came were asked twice."""
    questions = _prepare(tmp_path)
    kills = (questions[7], questions[8], questions[25])
    for number, at in enumerate(kills):
        done = _replay(tmp_path, f"application:{function}", *(["--resume"] if number else []), DIES_AFTER=at)
        assert done.returncode == -signal.SIGKILL, done.stderr
    done = _replay(tmp_path, f"application:{function}", "--resume")
    assert done.returncode == 0, done.stderr
    assert f"{NUMBER} questions, {NUMBER - 25} answered, 0 failed, 25 answered before" in done.stdout
    records = stored(f"sqlite:///{tmp_path}/kept.db")
    assert [record.query.original for record in records] == questions
    assert {(record.status, len(record.stages)) for record in records} == {("ok", 1)}
    asked = (tmp_path / "asked").read_text().splitlines()
    assert sorted(asked) == sorted([*questions, *kills])


def test_no_answer_is_lost_where_several_are_asked(tmp_path: Path) -> None:
    """The same with four at once: each question is stored once, and none but those that ran at a kill are asked
    twice."""
    questions = _prepare(tmp_path)
    kills = (questions[10], questions[27])
    options = ("application:answer", "--concurrency", "4")
    for number, at in enumerate(kills):
        done = _replay(tmp_path, *options, *(["--resume"] if number else []), DIES_AFTER=at)
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert _replay(tmp_path, *options, "--resume").returncode == 0
    records = stored(f"sqlite:///{tmp_path}/kept.db")
    assert [record.query.original for record in records] == questions
    asked = (tmp_path / "asked").read_text().splitlines()
    assert set(asked) == set(questions)
    assert len(asked) <= NUMBER + 4 * len(kills)


def test_ctrl_c_stops_and_resume_goes_on(tmp_path: Path) -> None:
    """The question that runs is not recorded, those before it are."""
    questions = _prepare(tmp_path)
    kind = (tmp_path / "application.py").read_text().replace("signal.SIGKILL", "signal.SIGINT")
    (tmp_path / "application.py").write_text(kind + "    \n")
    done = _replay(tmp_path, "application:say", DIES_AFTER=questions[3])
    assert done.returncode == 130
    assert "--resume goes on with run 'a'" in done.stderr
    assert len(stored(f"sqlite:///{tmp_path}/kept.db")) == 3
    assert _replay(tmp_path, "application:say", "--resume").returncode == 0
    assert [record.query.original for record in stored(f"sqlite:///{tmp_path}/kept.db")] == questions
