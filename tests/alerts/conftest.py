"""Policies of the shipped settings, or of settings that a test writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from ragtrace.alerts._policy import AlertPolicy, known_registry, policy
from ragtrace.alerts.settings import read_settings

Written: TypeAlias = Callable[..., Path]
Made: TypeAlias = Callable[..., AlertPolicy]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write settings into a file, as a user does."""

    def write(**settings: Any) -> Path:
        path = tmp_path / "own.yaml"
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        return path

    return write


@pytest.fixture
def made(written: Written) -> Made:
    """The policy of the shipped settings with those that are given in their place."""

    def make(*, time_scale: float = 1.0, **settings: Any) -> AlertPolicy:
        config = written(**settings) if settings else None
        return policy(known_registry(), read_settings(config, time_scale=time_scale))

    return make
