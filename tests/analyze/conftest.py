"""Tiny models of the engines' tests, and a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrace.store import Store
from tests.engines.conftest import byte_level_lm, model_server, tiny_causal_lm, tiny_chat_lm, tiny_cross_encoder

__all__ = ["byte_level_lm", "model_server", "store", "tiny_causal_lm", "tiny_chat_lm", "tiny_cross_encoder"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An open SQLite store with nothing in it."""
    with Store.open(f"sqlite:///{tmp_path}/r.db") as opened:
        yield opened
