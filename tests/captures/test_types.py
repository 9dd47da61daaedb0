"""Values of a host's own types on their way through the stages, in every mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from ragtrace.record.coercion import Chunk
from tests.captures.matrix import TABLES
from tests.captures.pipelines import check_stages

TEXTS = ("alpha is the first letter", "beta is the second letter", "gamma is the third letter")
META = {"page": 1}


@dataclass
class Hit:
    """A dataclass of a host."""

    id: str
    text: str
    score: Any
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SlottedHit:
    """One without a `__dict__`."""

    id: str
    text: str
    score: Any
    metadata: dict[str, Any] = field(default_factory=dict)


class Row(NamedTuple):
    """A named tuple."""

    id: str
    text: str
    score: float


class Entry(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Any:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class Passage:
    """A plain object, whose attributes are set one by one."""

    def __init__(self, id: str, text: str, score: Any, metadata: dict[str, Any]) -> None:
        self.id, self.text, self.score, self.metadata = id, text, score, metadata


class Computed:
    """An object whose parts are properties."""

    def __init__(self, id: str, text: str, score: Any, metadata: dict[str, Any]) -> None:
        self._parts = (id, text, score, metadata)

    @property
    def chunk_id(self) -> str:
        """The id."""
        return str(self._parts[0])

    @property
    def content(self) -> str:
        """The text."""
        return str(self._parts[1])

    @property
    def similarity(self) -> Any:
        """The score."""
        return self._parts[2]

    @property
    def meta(self) -> Any:
        """The metadata."""
        return self._parts[3]


class Slotted:
    """An object with slots."""

    __slots__ = ("id", "metadata", "score", "text")

    def __init__(self, id: str, text: str, score: Any, metadata: dict[str, Any]) -> None:
        self.id, self.text, self.score, self.metadata = id, text, score, metadata


def as_dict(id: str, text: str, score: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    """A dict."""
    return {"id": id, "text": text, "score": score, "metadata": metadata}


def as_model(id: str, text: str, score: Any, metadata: dict[str, Any]) -> Any:
    """A pydantic model."""
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed (pip install pydantic)")
    kinds = {"id": (str, ...), "text": (str, ...), "score": (float, ...), "metadata": (dict, ...)}
    return pydantic.create_model("Found", **kinds)(id=id, text=text, score=score, metadata=metadata)


MAKERS: dict[str, Any] = {
    "dict": as_dict,
    "mapping": lambda id, text, score, metadata: Entry(id=id, text=text, score=score, metadata=metadata),
    "tuple": lambda id, text, score, metadata: (id, text, score, metadata),
    "dataclass": Hit,
    "dataclass with slots": SlottedHit,
    "pydantic model": as_model,
    "object with attributes": Passage,
    "object with properties": Computed,
    "object with slots": Slotted,
    "`Decimal` scores": lambda id, text, score, metadata: as_dict(id, text, Decimal(str(score)), metadata),
    "NumPy scores": lambda id, text, score, metadata: SimpleNamespace(**as_dict(id, text, np.float32(score), metadata)),
}
ALL = ("ids", "scores", "texts", "metadata", "moves", "packed")


def cases() -> list[Any]:
    """Each type with the cells that it claims."""
    return [
        pytest.param(make, id=where.strip("`"), marks=pytest.mark.captures(*ALL, where=where))
        for where, make in MAKERS.items()
    ]


@pytest.mark.parametrize("make", cases())
def test_a_type_goes_through_all_stages(make: Any) -> None:
    """Ids, scores, texts and metadata of what is returned; the same chunks when it is reranked and packed."""
    parts = [(f"c{place}", text, 1 - place / 4, {"page": place}) for place, text in enumerate(TEXTS)]
    expected = [Chunk(id, text, score, metadata=dict(metadata)) for id, text, score, metadata in parts]
    check_stages([make(*each) for each in parts], expected)


@pytest.mark.captures("ids", "scores", "texts", "moves", "packed", where="named tuple")
def test_named_tuples() -> None:
    """Read by their names."""
    rows = [Row(f"c{place}", text, 1 - place / 4) for place, text in enumerate(TEXTS)]
    check_stages(rows, [Chunk(*row) for row in rows])


@pytest.mark.captures("ids", "texts", "moves", "packed", where="text")
def test_texts() -> None:
    """A text is its own id, by its hash."""
    check_stages(list(TEXTS), [Chunk(text=text) for text in TEXTS])


@pytest.mark.captures(*ALL[:-1], where="one list per query", mode=("sync", "async"))
def test_one_list_per_query() -> None:
    """The best of each query first; a chunk that several queries found stands once."""
    first, second, third = (as_dict(f"c{place}", text, 0.5, META) for place, text in enumerate(TEXTS))
    expected = [Chunk(f"c{place}", TEXTS[place], 0.5, metadata=META) for place in (0, 2, 1)]
    check_stages([[first, second], [third, first]], expected, ("sync", "async"), packed=False)


def test_every_type_of_the_host_is_tried() -> None:
    """A row of the table without a test here would stay empty."""
    table = next(table for table in TABLES if table.title == "Types")
    own = table.rows[table.rows.index("dict") :]
    assert {*MAKERS, "named tuple", "text", "one list per query"} == set(own)
