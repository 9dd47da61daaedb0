"""Single values and chunks, copied: numbers, ids, metadata, facets. What a host changes later changes no record.

In the host's own thread a value is read within an allowance: so many items, for so long; the rest is counted. An
attribute that loads lazily may wait for a server, a list may have a hundred thousand rich items, and `range(10**12)` is
a sequence as well.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import count, islice, repeat
from time import perf_counter
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar, get_args

import msgspec

from ragtrace.record.guard import attempt, let_through
from ragtrace.types import (
    Candidate,
    Facet,
    FacetKind,
    Grade,
    HostGrades,
    Metadata,
    RetrievalAction,
    SampledRanking,
    content_hash,
)

__all__ = [
    "LONGEST",
    "Allowance",
    "Chunk",
    "Get",
    "PlainChunks",
    "Unreadable",
    "candidates_of",
    "cut",
    "first",
    "label",
    "names",
    "number",
    "plain",
    "read_facets",
    "read_grades",
    "read_sampled_ranking",
    "size",
    "text",
    "whole",
    "within",
]

LONGEST: Final = 16_384
"""Characters of a text in metadata and attributes; content has fields of its own."""

Get: TypeAlias = Any  # Callable[[Any, str], Any]: how a part is taken; getattr's overloads do not fit into that

_DEPTH: Final = 4
_TEXTUAL: Final = "text"  # the modality of chunks that name none
_ITEMS: Final = 64  # longer sequences in metadata (embeddings, token lists) are cut
_LENGTH: Final = 2000
_YES: Final = {"yes": 1.0, "true": 1.0, "relevant": 1.0, "no": -1.0, "false": -1.0, "irrelevant": -1.0}
_RANKING: Final = ("alpha", "log_probability", "places")
_VALUE: Final = 50  # bytes of a value without what is in it, roughly
_FACETS: Final = 'give a list of {"kind": ..., "value": ...}; kinds are ' + ", ".join(get_args(FacetKind))


class Unreadable(Exception):
    """A host's value that cannot be understood; `kind` is its type's name. remedy: what to give in its place."""

    def __init__(self, value: object, remedy: str = "") -> None:
        self.kind, self.has_remedy = type(value).__name__, bool(remedy)
        kind = type(value)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        told = "None cannot be read" if value is None else f"a value of type {name} cannot be read"
        super().__init__(f"{told}; {remedy}" if remedy else told)


class Chunk(msgspec.Struct, gc=False):
    """What one item says about itself. `index` is a position among a reranker's inputs, given instead of an id."""

    chunk_id: str | None = None
    text: str | None = None
    score: float | None = None
    doc_id: str | None = None
    source: str | None = None
    modality: str = _TEXTUAL
    metadata: dict[str, Any] = {}
    index: int | None = None

    @property
    def identity(self) -> str:
        """The host's id, else a hash of the text, else the position that stands for it."""
        if self.chunk_id is not None:
            return self.chunk_id
        return str(self.index) if self.text is None else content_hash(self.text)

    def candidate(self, rank: int, source: str | None = None) -> Candidate:
        """This chunk as a candidate; `source` is where it comes from when it does not say so."""
        return candidates_of([(rank, self)], source, hashed=False)[0]


class PlainChunks(NamedTuple):
    """Chunks that are just an id, a text and a score each, by columns: most are, and nothing has to be made of them."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    scores: tuple[float, ...]

    @property
    def are_distinct(self) -> bool:
        """Whether each has an id of its own."""
        return len(set(self.ids)) == len(self.ids)

    def chunks(self) -> list[tuple[int, Chunk]]:
        """The chunks with their places, from 1."""
        empty: dict[str, Any] = {}  # one for all: one of each would keep the garbage collector busy
        chunks = map(Chunk, *self, repeat(None), repeat(None), repeat(_TEXTUAL), repeat(empty))
        return list(enumerate(chunks, 1))

    def candidates(self, source: str | None, *, hashed: bool) -> list[Candidate]:
        """As candidates, as `candidates_of`."""
        hashes: Iterable[str | None] = map(content_hash, self.texts) if hashed else repeat(None)
        empty: Iterable[Metadata] = repeat({})
        rest = repeat(source), repeat(_TEXTUAL), empty, hashes, self.texts
        return list(map(Candidate, self.ids, count(1), self.scores, repeat(None), *rest))


def candidates_of(ranked: Iterable[tuple[int, Chunk]], source: str | None, *, hashed: bool) -> list[Candidate]:
    """Chunks as candidates; `source` is where they come from when they do not say so.

    hashed: with the hashes of their texts, so that nobody has to make each candidate anew to add it.
    """
    return [
        Candidate(
            chunk_id=chunk.identity if chunk.chunk_id is None else chunk.chunk_id,
            rank=rank,
            score=chunk.score,
            doc_id=chunk.doc_id,
            source=chunk.source or source,
            modality=chunk.modality,
            metadata=chunk.metadata,
            content_hash=None if chunk.text is None or not hashed else content_hash(chunk.text),
            text=chunk.text,
        )
        for rank, chunk in ranked
    ]


def number(value: Any) -> float | None:
    """A finite float of a float, int, Decimal or NumPy scalar; None for all else."""
    if type(value) is not float:
        if value is None or isinstance(value, str | bytes | bool) or not hasattr(value, "__float__"):
            return None
        value = attempt(float, value, math.nan)
    return value if math.isfinite(value) else None


def whole(value: Any) -> int | None:
    """An int of an integral number; None for all else."""
    if type(value) is int:
        return value
    found = number(value)
    return int(found) if found is not None and found.is_integer() else None


def text(value: Any) -> str | None:
    """A plain `str` of a text; None for all else."""
    if type(value) is str:
        return value
    return str.__str__(value) if isinstance(value, str) else None


def label(value: Any) -> str:
    """A value that serves as a label, as text: of a member of an enumeration, its value."""
    if type(value) is str:
        return value
    said = value.value if isinstance(value, Enum) else value
    return str.__str__(said) if isinstance(said, str) else str(said)


def names(value: Any, *keys: str) -> str | None:
    """The first of these entries or attributes that can serve as a name: a text, a number or a UUID."""
    found = first(value, *keys)
    return None if found is None or isinstance(found, Mapping | list | tuple | set) else str(found)


def first(value: Any, *keys: str) -> Any:
    """The first of these entries (of a mapping) or attributes (of an object) that is there and not None."""
    if type(value) is dict or isinstance(value, Mapping):
        return next((found for key in keys if (found := value.get(key)) is not None), None)
    for key in keys:
        found = getattr(value, key, None)
        if found is not None and not callable(found):
            return found
    return None


def plain(value: Any, depth: int = _DEPTH) -> Any:
    """A JSON-ready copy of `value`, bounded in depth and length; what JSON lacks becomes its text."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}... ({len(value) - LONGEST} more characters)"
    if kind is bool or value is None:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else _shown(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is dict or isinstance(value, Mapping):
        if not depth:
            return None
        return {key if type(key) is str else _shown(key): plain(item, depth - 1) for key, item in within(value.items())}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth - 1) for item in islice(value, _ITEMS)] if depth else None
    if isinstance(value, Enum):
        return plain(value.value, depth - 1) if depth else None
    found = number(value)
    return found if found is not None else _shown(value)


def _shown(value: Any) -> str:
    """The text of a value, cut; of one that cannot be shown, its type."""
    beginning = value[:_LENGTH] if isinstance(value, bytes | bytearray) else value
    return attempt(lambda value: str(value)[:_LENGTH], beginning, f"({type(value).__name__})")


def size(value: Any) -> int:
    """Roughly how many bytes a value of `plain` holds."""
    kind = type(value)
    if kind is str:
        return _VALUE + len(value)
    if kind is dict:
        return _VALUE + sum([_VALUE + len(key) + size(item) for key, item in value.items()])
    if kind is list or kind is tuple:
        return _VALUE + sum([size(item) for item in value])
    return _VALUE


def read_sampled_ranking(value: SampledRanking | Mapping[str, Any]) -> SampledRanking:
    """How the ranking was drawn, of such a value or a mapping of its fields.

    Raises: Unreadable for a field that is missing, or no number in its range.
    """
    given = value if isinstance(value, Mapping) else {name: getattr(value, name, None) for name in _RANKING}
    alpha, log, places = number(given.get("alpha")), number(given.get("log_probability")), whole(given.get("places"))
    if alpha is None or log is None or places is None or alpha < 0 or log > 0 or places < 1:
        raise Unreadable(value)
    return SampledRanking(alpha=alpha, log_probability=log, places=places)


def read_grades(value: HostGrades | Mapping[str, Any]) -> HostGrades:
    """The grades of a host's own evaluator by chunk id, of such a value or of a mapping of `grades` and `action`.

    A grade is a number in [−1, 1], or a yes or no. Raises: Unreadable for another one, and for another action.
    """
    if isinstance(value, HostGrades):
        return value
    grades, action = value.get("grades"), value.get("action")
    if grades is not None and not isinstance(grades, Mapping):
        raise Unreadable(grades)
    said = None if action is None else str(action).strip().upper()
    taken = next((each for each in get_args(RetrievalAction) if each == said), None)
    if said is not None and taken is None:
        raise Unreadable(action)
    return HostGrades(
        grades=tuple(Grade(chunk_id=label(key), grade=_grade(each)) for key, each in within((grades or {}).items())),
        action=taken,
    )


def _grade(value: Any) -> float:
    found = _YES.get(str(value).strip().lower()) if isinstance(value, str | bool) else number(value)
    if found is None or not -1 <= found <= 1:
        raise Unreadable(value)
    return found


def read_facets(value: Iterable[Facet | Mapping[str, Any]]) -> tuple[Facet, ...]:
    """Facets from `Facet`s or mappings. Raises: Unreadable for anything else."""
    if not isinstance(value, Iterable):
        raise Unreadable(value, _FACETS)
    return tuple(_facet(item) for item in within(value))


def _facet(item: Facet | Mapping[str, Any]) -> Facet:
    if isinstance(item, Facet):
        return item
    try:
        return msgspec.convert(dict(item, value=str(item["value"])), Facet)
    except (msgspec.ValidationError, TypeError, ValueError, KeyError) as error:
        raise Unreadable(item, _FACETS) from error


T = TypeVar("T")

_MOST: Final = 2**31 - 1  # items that are counted as left out of one value
_here: Final = threading.local()


class Allowance:
    """What may be read of one value while this is entered. `left_out`: how many items were not, as far as can be told.

    items: of each list or mapping in it. seconds: of the wall clock, since a host that waits is no faster for a
    processor that does not. One attribute that takes longer is not broken off, and the first that takes more than half
    of the seconds counts as half: a machine without a free processor stalls any thread once.
    """

    __slots__ = ("_before", "_ends", "_is_forgiven", "_last", "items", "left_out", "seconds")

    def __init__(self, items: int, seconds: float) -> None:
        self.items = items
        self.seconds = seconds
        self.left_out = 0

    def __enter__(self) -> Self:
        self._before: Allowance | None = getattr(_here, "now", None)
        self._last = perf_counter()
        self._ends = self._last + self.seconds
        self._is_forgiven = False
        _here.now = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.now = self._before

    def leave_out(self, count: int) -> None:
        """Count items that are not read."""
        self.left_out = min(_MOST, self.left_out + count)

    def part(self, items: Iterable[T]) -> Iterator[T]:
        """The items that may be read."""
        for number, item in enumerate(items):
            now = perf_counter()
            if number >= self.items or (now > self._ends and not self._forgives(now - self._last)):
                self.leave_out(_length(items, number + 1) - number)
                return
            self._last = now
            yield item

    def _forgives(self, pause: float) -> bool:
        """Whether the time is over for one pause alone, the first one."""
        if self._is_forgiven or pause <= self.seconds / 2:
            return False
        self._is_forgiven = True
        self._ends += pause - self.seconds / 2
        return perf_counter() <= self._ends


def within(items: Iterable[T]) -> Iterable[T]:
    """The items that may be read here; all of them where nothing is said, as in the background."""
    allowance: Allowance | None = getattr(_here, "now", None)
    return items if allowance is None else allowance.part(items)


def cut(value: Any) -> Any:
    """A list or tuple, for what reads all of it at once, without the items that may not be read here; all else as it
    is."""
    allowance: Allowance | None = getattr(_here, "now", None)
    if allowance is None or not isinstance(value, list | tuple) or len(value) <= allowance.items:
        return value
    allowance.leave_out(len(value) - allowance.items)
    return value[: allowance.items]


def _length(items: Iterable[Any], least: int) -> int:
    """How many there are; `least` where they do not say."""
    try:
        return max(least, min(_MOST + least, len(items)))  # type: ignore[arg-type]
    except OverflowError:
        return _MOST + least
    except BaseException as error:
        let_through(error)
        return least
