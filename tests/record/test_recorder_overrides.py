"""Settings that are held win over what the application gives to `configure`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ragtrace
from ragtrace.errors import ConfigurationError
from ragtrace.record import active, held, held_settings


@pytest.fixture(autouse=True)
def _ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("RAGTRACE_ENABLED", raising=False)
    yield
    ragtrace.shutdown()


def test_what_is_held_wins(tmp_path: Path) -> None:
    """Over arguments, however often the application configures itself; all else is the application's."""
    url = f"sqlite:///{tmp_path}/held.db"
    with held(store=url, sample_rate=1.0, enabled=True):
        for service in ("first", "second"):
            ragtrace.configure(service=service, store="sqlite:////nowhere/a.db", sample_rate=0.0, enabled=False)
            recorder = active()
            assert recorder is not None
            config = recorder.config
            assert (config.service, config.store, config.sample_rate) == (service, url, 1.0)


def test_it_ends_with_the_block(tmp_path: Path) -> None:
    """Inner blocks add to outer ones; an exception ends a block as well."""
    with held(service="outer", screen=0.0):
        with held(service="inner"):
            assert dict(held_settings()) == {"service": "inner", "screen": 0.0}
        with pytest.raises(ZeroDivisionError), held(service="inner"):
            raise ZeroDivisionError
        assert dict(held_settings()) == {"service": "outer", "screen": 0.0}
    assert dict(held_settings()) == {}
    ragtrace.configure(service="own", store=f"sqlite:///{tmp_path}/own.db")
    recorder = active()
    assert recorder is not None
    assert recorder.config.service == "own"


def test_a_held_value_is_checked_like_any_other() -> None:
    """A wrong one is refused by `configure`."""
    with held(store="mysql://somewhere"), pytest.raises(ConfigurationError, match="store"):
        ragtrace.configure()
