"""A host's own pydantic models, which no adapter knows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ragtrace.record.coercion import Chunk, read_chunks

TEXT = "the text of a chunk"

pydantic = pytest.importorskip("pydantic")


class Passage(pydantic.BaseModel):  # type: ignore[misc, name-defined]
    """A chunk of a host."""

    id: str | None = None
    text: str = TEXT
    score: Any = None
    metadata: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it


class Found(pydantic.BaseModel):  # type: ignore[misc, name-defined]
    """A result of a host."""

    hits: list[Any]


def test_models() -> None:
    """Read by their attributes, with and without an id, alone and in a result that is a model too."""
    passages = [Passage(id="a", score=Decimal("0.5"), metadata={"page": 1}), Passage(score=float("nan"))]
    expected = [(1, Chunk("a", TEXT, 0.5, metadata={"page": 1})), (2, Chunk(None, TEXT))]
    assert read_chunks(passages).ranked == expected
    assert read_chunks(Found(hits=passages)).ranked == expected


def test_fields_of_the_host_s_own() -> None:
    """A model that takes further fields is read all the same."""

    class Open(Passage):
        """Takes all."""

        model_config = pydantic.ConfigDict(extra="allow")

    assert read_chunks([Open(id="a", year=2024), Open(id="b")]).ranked == [(1, Chunk("a", TEXT)), (2, Chunk("b", TEXT))]
