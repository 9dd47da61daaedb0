"""The adapter of a type: decided by its name and its bases' names, once."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from ragtrace.record import adapters
from ragtrace.record.coercion import Chunk, Unreadable, dispatch, read_chunks
from ragtrace.record.coercion.dispatch import Adapter, adapter_of

TEXT = "the text of a chunk"

Install = Callable[[dict[str, Any]], None]


class Hit:
    """A host's object that generic coercion reads as well."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.text = TEXT


class NearHit(Hit):
    """One of its subclasses."""


@pytest.fixture(autouse=True)
def nothing_decided(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test decides anew."""
    monkeypatch.setattr(dispatch, "_adapters", {})
    dispatch._others.cache_clear()
    yield
    dispatch._others.cache_clear()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts adapters behind entry points, by the qualified name of their type."""

    def put(targets: dict[str, Any]) -> None:
        module = ModuleType("adapters_of_others")
        points = []
        for place, (name, target) in enumerate(targets.items()):
            setattr(module, f"target{place}", target)
            points.append(EntryPoint(name, f"{module.__name__}:target{place}", dispatch.GROUP))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(
            importlib.metadata, "entry_points", lambda group: points if group == "ragtrace.adapters" else []
        )

    return put


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _read(value: Any) -> list[Chunk]:
    return [chunk for _, chunk in read_chunks(value).ranked]


def test_an_entry_point_reads_a_type_of_others(install: Install) -> None:
    """It is called by the type's qualified name, and reads its subclasses too."""
    install({_name(Hit): lambda hit: Chunk(f"theirs-{hit.id}")})
    assert _read([Hit("a"), NearHit("b")]) == [Chunk("theirs-a"), Chunk("theirs-b")]


def test_an_entry_point_may_give_a_whole_adapter(install: Install) -> None:
    """A value that holds items is read by `items`, a list of such objects by `listed`."""
    install({_name(Hit): Adapter(items=lambda hit: [hit.id], listed=lambda hits: [hit.id for hit in reversed(hits)])})
    assert _read(Hit("a")) == [Chunk("a")]
    assert _read([Hit("a"), Hit("b")]) == [Chunk("b"), Chunk("a")]


def test_the_nearest_base_decides(install: Install) -> None:
    """A subclass may have an adapter of its own."""
    install({_name(Hit): lambda hit: Chunk("base"), _name(NearHit): lambda hit: Chunk("near")})
    assert _read([Hit("a"), NearHit("b")]) == [Chunk("base"), Chunk("near")]


def test_entry_points_come_before_the_built_in_ones(install: Install) -> None:
    """A host may read a library's type in its own way."""
    document = type("Document", (), {"__module__": "langchain_core.documents.base", "page_content": TEXT, "id": "a"})
    install({"langchain_core.documents.base.Document": lambda item: Chunk("theirs")})
    assert _read([document()]) == [Chunk("theirs")]


def test_an_adapter_that_gives_none_leaves_the_item_to_generic_reading(install: Install) -> None:
    """None means: not known."""
    install({_name(Hit): lambda hit: None})
    assert _read([Hit("a")]) == [Chunk("a", TEXT)]


def test_an_adapter_that_fails_hurts_nothing(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and its items are read as any other object."""
    install({_name(Hit): lambda hit: {}[hit.text]})
    assert _read([Hit("a"), Hit("b")]) == [Chunk("a", TEXT), Chunk("b", TEXT)]
    assert len(caplog.records) == 1
    assert "KeyError" in caplog.text
    assert TEXT not in caplog.text  # an exception's message may be content


def test_an_adapter_that_cannot_be_loaded_hurts_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A broken package beside the host's is logged."""
    point = EntryPoint(_name(Hit), "nowhere.to.be.found:read", dispatch.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    assert _read([Hit("a")]) == [Chunk("a", TEXT)]
    assert len(caplog.records) == 1


def test_an_adapter_may_call_an_item_unreadable(install: Install) -> None:
    """The others keep their places."""

    def read(hit: Hit) -> Chunk:
        if hit.id == "a":
            raise Unreadable(hit)
        return Chunk(hit.id)

    install({_name(Hit): read})
    chunks = read_chunks([Hit("a"), Hit("b")])
    assert chunks.ranked == [(2, Chunk("b"))]
    assert chunks.unread == ["Hit"]


def test_a_type_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty items of one type cost one look at its bases."""
    asked: list[type] = []
    decide = dispatch._decide

    def count(kind: type) -> Adapter:
        asked.append(kind)
        return decide(kind)

    monkeypatch.setattr(dispatch, "_decide", count)
    read_chunks([Hit("a")] * 50)
    read_chunks([Hit("b")] * 50)
    assert asked.count(Hit) == 1


def test_the_types_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that makes classes without end does not fill the memory."""
    monkeypatch.setattr(dispatch, "_TYPES", 3)
    for _ in range(10):
        assert adapter_of(type("Hit", (), {})) == Adapter()
    assert len(dispatch._adapters) == 3


def test_named_tuples_and_own_lists_are_no_bare_containers() -> None:
    """Only a bare tuple, list or dict is judged by its parts."""

    class Pair(NamedTuple):
        id: str
        score: float

    class Hits(list[Any]):
        """A host's."""

    assert _read([Pair("a", 0.25), Pair("b", 0.5)]) == [Chunk("a", score=0.25), Chunk("b", score=0.5)]
    assert adapter_of(Hits) == Adapter()


def test_every_built_in_adapter_is_there() -> None:
    """Each entry of the table names one."""
    for target in dispatch._BUILT_IN.values():
        found = getattr(adapters, target)
        assert isinstance(found, Adapter)
        assert found != Adapter()


def test_no_adapter_imports_its_library() -> None:
    """They know the names only."""
    script = (
        "import sys, ragtrace.record.adapters\n"
        "names = ('langchain_core', 'llama_index', 'haystack', 'chromadb', 'qdrant_client', 'faiss', 'sqlalchemy',\n"
        "         'pgvector', 'sentence_transformers', 'torch', 'numpy')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
