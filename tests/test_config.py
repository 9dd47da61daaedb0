"""Settings: argument, then environment, then default; a value that cannot be used is refused with a remedy."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import ragtrace
from ragtrace.cli import app
from ragtrace.config import PREFIX, SETTINGS, Config, load, set_variables, unknown_variables, variable
from ragtrace.errors import ConfigurationError
from ragtrace.privacy import Capture


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in fields(Config):
        for name in setting.metadata["env"]:
            monkeypatch.delenv(name, raising=False)


def test_defaults() -> None:
    """Nothing needs to be set."""
    assert load() == Config()
    assert (load().service, load().store, load().sample_rate) == ("default", "sqlite:///ragtrace.db", 1.0)


def test_an_argument_wins_over_the_environment_wins_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """None and an empty variable mean "not given"."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-otel")
    assert load().service == "from-otel"
    monkeypatch.setenv("RAGTRACE_SERVICE", "from-ragtrace")
    assert load(service=None).service == "from-ragtrace"
    assert load(service="given").service == "given"
    monkeypatch.setenv("RAGTRACE_SAMPLE_RATE", "")
    assert load().sample_rate == 1.0


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("RAGTRACE_SAMPLE_RATE", "0.25", "sample_rate", 0.25),
        ("RAGTRACE_CAPTURE_CONTENT", "prompt=hash", "capture_content", Capture(prompt="hash")),
        ("RAGTRACE_REDACT", "ip,email", "redact", ("email", "ip")),
        ("RAGTRACE_SPAN_VOCABULARIES", "openinference", "span_vocabularies", ("openinference",)),
        ("RAGTRACE_SPAN_CONTENT", "on", "span_content", True),
        ("RAGTRACE_BAGGAGE", "session_id", "baggage", ("session_id",)),
        ("RAGTRACE_SAMPLE_FLOOR", "3", "sample_floor", 3),
        ("RAGTRACE_SCREEN", "0", "screen", 0.0),
        ("RAGTRACE_LOW_SCORE", "-0.5", "low_score", -0.5),
        ("RAGTRACE_RECENT_BYTES", "0", "recent_bytes", 0),
        ("RAGTRACE_REQUEST_TTL", "1.5", "request_ttl", 1.5),
        ("RAGTRACE_VERSIONS", "model=v2, index=v7", "versions", {"model": "v2", "index": "v7"}),
        ("RAGTRACE_CITES", "false", "cites", False),
        ("RAGTRACE_CITES", "true", "cites", True),
        ("RAGTRACE_CITES", "", "cites", None),
        ("RAGTRACE_PROBE", "app.search:probe", "probe", "app.search:probe"),
        ("RAGTRACE_QUEUE_BYTES", "1000", "queue_bytes", 1000),
        ("RAGTRACE_RAISE_ERRORS", "yes", "raise_errors", True),
        ("RAGTRACE_ENABLED", "0", "enabled", False),
        ("RAGTRACE_SPOOL", "/var/spool/x", "spool", "/var/spool/x"),
        ("RAGTRACE_STORE", "postgresql://h/d", "store", "postgresql://h/d"),
    ],
)
def test_the_environment(monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, value: Any) -> None:
    """Every setting has a variable, read as its type."""
    monkeypatch.setenv(variable, text)
    assert getattr(load(), name) == value


def test_a_version_that_is_not_known() -> None:
    """None is no version, and not the text of one."""
    assert load(versions={"model": "v2", "index": None}).versions == {"model": "v2"}


def test_every_setting_is_described() -> None:
    """Variable and doc stand beside the default; only a function has no variable."""
    assert all(setting.metadata["doc"].endswith((".", "…")) for setting in fields(Config))
    assert [setting.name for setting in fields(Config) if not setting.metadata["env"]] == ["redactor"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_rate": 1.5}, "sample_rate 1.5 is not usable; give a number from 0 to 1"),
        ({"sample_rate": "often"}, "number from 0 to 1"),
        ({"sample_rate": float("nan")}, "number from 0 to 1"),
        ({"sample_rate": True}, "number from 0 to 1"),
        ({"service": " "}, "a text that is not empty"),
        ({"service": 5}, "a text that is not empty"),
        ({"capture_content": "some"}, "'full', 'redacted', 'hash' or 'off'"),
        ({"queue_bytes": 0}, "whole number of bytes"),
        ({"queue_bytes": 1.5}, "whole number of bytes"),
        ({"queue_bytes": "x"}, "whole number of bytes"),
        ({"sample_floor": -1}, "a whole number from 0 on"),
        ({"sample_floor": 1.5}, "a whole number from 0 on"),
        ({"recent_bytes": True}, "a whole number from 0 on"),
        ({"screen": 1.1}, "a number from 0 to 1"),
        ({"low_score": "low"}, "a finite number"),
        ({"low_score": float("nan")}, "a finite number"),
        ({"recent_seconds": -1}, "a number of seconds from 0 on"),
        ({"request_ttl": float("inf")}, "a finite number"),
        ({"enabled": "maybe"}, "true or false"),
        ({"versions": "model"}, "component and version pairs"),
        ({"versions": 5}, "component and version pairs"),
        ({"probe": 5}, r"the methods probe\(query, depth, exact\) and has\(id or text\), or module:attribute"),
        ({"probe": " "}, "a text that is not empty"),
        ({"store": "mysql://h/d"}, "sqlite:///FILE or postgresql"),
        ({"store": "ragtrace.db"}, "sqlite:///FILE or postgresql"),
        ({"store": "sqlite://"}, "no worker would find a database in memory"),
        ({"store": "sqlite:///:memory:"}, "no worker would find a database in memory"),
    ],
)
def test_bad_values_are_refused(arguments: dict[str, Any], message: str) -> None:
    """The message gives the value and what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        load(**arguments)


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which variable to mend."""
    monkeypatch.setenv("RAGTRACE_SAMPLE_RATE", "often")
    with pytest.raises(ConfigurationError, match="RAGTRACE_SAMPLE_RATE 'often'"):
        load()


def test_a_password_is_never_shown() -> None:
    """Of a URL with an unknown scheme only the scheme is repeated."""
    with pytest.raises(ConfigurationError) as caught:
        load(store="mysql://me:s3cret@h/d")
    assert "s3cret" not in str(caught.value)


def test_an_unknown_setting_is_a_type_error() -> None:
    """With the settings that there are."""
    with pytest.raises(TypeError, match=r"'colour' is no setting; the settings are service, store"):
        load(colour="red")


def test_a_path_may_be_given_for_the_spool(tmp_path: Path) -> None:
    """Path objects are paths."""
    assert load(spool=tmp_path).spool == str(tmp_path)


ROOT = Path(ragtrace.__file__).parents[1]
VARIABLES = {name for setting in SETTINGS.values() for name in setting.variables}
OTHERS = {"RAGTRACE_DATABASE_PASSWORD", "RAGTRACE_WHOLE_DEMO"}  # of collectors/compose.yaml, and of tests


def test_the_arguments_of_configure_are_the_settings() -> None:
    """Each once, and one that is no setting: the provider of spans."""
    arguments = set(inspect.signature(ragtrace.configure).parameters)
    assert arguments == {setting.name for setting in fields(Config)} | {"tracer_provider"}


def _literals(path: Path) -> Iterator[str]:
    """The texts in a module's code; its docstrings are documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_variables_are_named_in_the_table_alone() -> None:
    """Code that reads a variable, or names it in a message, asks the table for its name."""
    modules = [path for path in (ROOT / "ragtrace").rglob("*.py") if path.name != "config.py"]
    named = {path.name: [text for text in _literals(path) if PREFIX in text] for path in modules}
    assert len(modules) > 300
    assert {name: texts for name, texts in named.items() if texts} == {}


def test_what_documents_name_is_a_setting() -> None:
    """Pages and docstrings name no variable that nothing reads."""
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "ragtrace").rglob("*.py")]
    named = {name for file in files for name in re.findall(r"RAGTRACE_[A-Z_]*[A-Z]", file.read_text(encoding="utf-8"))}
    assert variable("store") in named
    assert named - VARIABLES - OTHERS == set()


def _options(command: Any) -> Iterator[Any]:
    yield from (parameter for parameter in command.params if parameter.param_type_name == "option")
    for inner in getattr(command, "commands", {}).values():
        yield from _options(inner)


def test_options_have_variable_default_and_help_of_their_setting() -> None:
    """What an option repeats of a setting is what the table says."""
    by_variable = {setting.variables: setting for setting in SETTINGS.values()}
    seen = set()
    for option in _options(get_command(app)):
        if option.envvar:
            setting = by_variable[tuple(option.envvar)]
            seen.add(setting.name)
            assert option.opts == [f"--{setting.name.replace('_', '-')}"]
            assert (option.help or "").startswith(setting.doc)
            assert option.default == setting.default
    assert {name for name, setting in SETTINGS.items() if "`analyze --" in setting.given} <= seen


def test_the_environment_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts of it, what is empty, and what is misspelled."""
    for name in ("OTEL_SERVICE_NAME", "RAGTRACE_SAMPEL_RATE", "RAGTRACE_WORKERS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("RAGTRACE_SERVICE", " ")
    given = set_variables()
    assert (given["service"], given["workers"]) == ("OTEL_SERVICE_NAME", "RAGTRACE_WORKERS")
    assert "RAGTRACE_SAMPEL_RATE" in unknown_variables()
    assert "RAGTRACE_WORKERS" not in unknown_variables()
