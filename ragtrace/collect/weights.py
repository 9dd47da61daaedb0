"""How many bytes an item holds in memory, roughly: of all that a host can make long, its length."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ragtrace.types import (
    Addendum,
    GenerateRun,
    Item,
    PackRun,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageRun,
    replace,
)

__all__ = ["weigh"]

_BASE: Final = 900  # bytes of an item without what JSON shows of it
_CHUNK: Final = 400
_PART: Final = 150
_encode: Final = msgspec.json.Encoder().encode


def weigh(item: Item) -> int:
    """The bytes of an item."""
    if not isinstance(item, RequestRecord | Addendum):
        return _BASE + _length(item)
    return _BASE + _length(replace(item, stages=())) + sum(map(_of_run, item.stages))


def _of_run(run: StageRun) -> int:
    if isinstance(run, RetrieveRun):
        texts = sum([len(found.text) for found in run.candidates if found.text])
        metadata = [found.metadata for found in run.candidates if found.metadata]
        return texts + _CHUNK * len(run.candidates) + _length((run.query, run.error, metadata))
    if isinstance(run, RerankRun):
        return _PART * len(run.moves) + _length(run.error)
    if isinstance(run, PackRun):
        texts = sum([len(chunk.text) for chunk in run.packing.chunks if chunk.text])
        return texts + _CHUNK * (len(run.packing.chunks) + len(run.packing.dropped)) + _length(run.error)
    if isinstance(run, GenerateRun):
        return _PART * len(run.generation.citations) + _length(run)
    return 0


def _length(value: Any) -> int:
    """The length as JSON, which is C's work; of what JSON refuses, as Python shows it."""
    try:
        return len(_encode(value))
    except Exception:
        return len(repr(value))
