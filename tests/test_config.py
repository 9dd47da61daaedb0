"""Settings: argument, then environment, then default; a value that cannot be used is refused with a remedy."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ragtrace.config import Config, load
from ragtrace.errors import ConfigurationError
from ragtrace.privacy import Capture


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in fields(Config):
        for variable in setting.metadata["env"]:
            monkeypatch.delenv(variable, raising=False)


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
