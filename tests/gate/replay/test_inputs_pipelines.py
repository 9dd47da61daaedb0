"""`module:function` finds the application's function, or says what is wrong with the name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay_inputs import load_pipeline
from tests.gate.replay.conftest import APPLICATIONS


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, from which modules are found; sys.path is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_module_in_the_current_folder(here: Path) -> None:
    """Needs no installation."""
    (here / "an_application.py").write_text("def answer(question, k=5): return question + '!'\n")
    assert load_pipeline("an_application:answer")("a") == "a!"


WRONG = {
    "answer": "'answer' is not usable; give module:function",
    "a b:c": "is not usable; give module:function",
    "app:": "is not usable",
    ":answer": "is not usable",
    "no_such_module:answer": "no module 'no_such_module' in .* or among the installed packages",
    "tests.no_such.module:answer": "no module 'tests.no_such'",
    f"{APPLICATIONS}:answer": r"module tests.gate.replay.applications \(.*applications.py\) has no 'answer'",
    f"{APPLICATIONS}:constant": "is of type int and no function",
    f"{APPLICATIONS}:Application": "is class Application and no function",
    f"{APPLICATIONS}:of_two": r"takes \(question: 'str', user: 'str'\) -> 'str' \(missing .* argument: 'user'\)",
    f"{APPLICATIONS}:make": r"takes \(\).*too many positional arguments",
    f"{APPLICATIONS}:of_two()": "failed: TypeError",
}


@pytest.mark.parametrize(("name", "said"), WRONG.items(), ids=list(WRONG))
def test_wrong_names(here: Path, name: str, said: str) -> None:
    """Say what was found and what to give."""
    with pytest.raises(ConfigurationError, match=said):
        load_pipeline(name)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_package", "cannot be imported: ModuleNotFoundError: No module named 'no_such_package'"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero; RAGTRACE_DEBUG=1"),
        ("raise SystemExit(1)", "cannot be imported: SystemExit: 1"),
        ("def f(:", "cannot be imported: SyntaxError"),
    ],
)
def test_a_module_that_is_broken(here: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str) -> None:
    """Its own error is shown: what is missing is not the module that was asked for."""
    (here / "broken_application.py").write_text(code)
    monkeypatch.delitem(sys.modules, "broken_application", raising=False)
    with pytest.raises(ConfigurationError, match=said):
        load_pipeline("broken_application:answer")
