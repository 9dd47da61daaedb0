"""Settings that win over what the application gives to `configure`: where a replay records, and that it records all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

__all__ = ["held", "held_settings"]

_held: Mapping[str, Any] = MappingProxyType({})


@contextmanager
def held(**settings: Any) -> Iterator[None]:
    """In the block, every `configure()` of this process takes these settings, whatever the application says."""
    global _held
    before = _held
    _held = MappingProxyType({**before, **settings})
    try:
        yield
    finally:
        _held = before


def held_settings() -> Mapping[str, Any]:
    """What is held now."""
    return _held
