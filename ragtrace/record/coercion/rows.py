"""Rows: bare lists and tuples, as stores, drivers and functions return them (`(document, 0.2)`, `(7, text, 0.2)`),
parallel lists, one list per query, and what stands beside a list (`(documents, total)`).

Higher is better in the record, so a distance is written as its negative. A number that is called a distance is one. A
number without a name is judged by the order that it stands in: a list of results is best first, so numbers that rise
from its first item to its last are distances. No distance is turned into a similarity: how depends on the metric,
which the result does not tell.

Of several queries in one call the best of each comes first, then the second of each, ...; a chunk that several found
keeps its first place. The rank is the place in the merged list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest
from numbers import Integral
from typing import Any, Final

from ragtrace.record.coercion.allowance import within
from ragtrace.record.coercion.chunks import items_of, read_chunk
from ragtrace.record.coercion.values import Unreadable, number

__all__ = [
    "distances",
    "is_array",
    "is_distance_name",
    "is_listing",
    "listed_in",
    "lists_of_chunks",
    "merge",
    "negative",
    "nested",
    "rises",
    "rows_in",
]

_MISSING: Final = object()
_ARRAYS: Final = ("numpy", "torch", "cupy")


def distances(rows: Sequence[Any]) -> Iterable[Any] | None:
    """The tuples with negative scores when those are distances, which only their order tells; None when they are not.

    The score is a tuple's last number, if that is no integer.
    """
    best, worst = rows[0], rows[-1]
    place = next((at for at in range(len(best) - 1, -1, -1) if _is_score(best[at])), None)
    if place is None or _falls(best, worst, place):  # the usual case costs nothing
        return None
    if not all(type(row) is tuple and len(row) > place for row in rows) or not rises(row[place] for row in rows):
        return None
    return [(*row[:place], _opposite(row[place]), *row[place + 1 :]) for row in rows]


def _falls(best: tuple[Any, ...], worst: Any, place: int) -> bool:
    """Whether the last row's number shows that the numbers do not rise."""
    score = number(worst[place]) if type(worst) is tuple and len(worst) > place else None
    highest = number(best[place])
    return score is not None and highest is not None and score <= highest


def _is_score(part: Any) -> bool:
    return not isinstance(part, Integral) and number(part) is not None


def _opposite(distance: Any) -> Any:
    score = negative(distance)
    return distance if score is None else score


def rows_in(value: tuple[Any, ...]) -> Iterable[Any] | None:
    """The rows of parallel lists: chunks and scores, or ids, texts and scores. None where no column holds numbers, or
    all do but the ids of a pair, and where they are of different lengths."""
    if len(value) < 2 or not any(type(part) is list for part in value):
        return None
    columns = [part.tolist() if is_array(part) else part for part in value]
    if not all(isinstance(column, list | tuple) for column in columns) or len(set(map(len, columns))) > 1:
        return None
    are_scores = [all(number(each) is not None for each in column) for column in columns]
    if not columns[0] or not any(are_scores) or (all(are_scores) and len(columns) > len(("ids", "scores"))):
        return None
    rows = list(zip(*columns, strict=True))
    return distances(rows) or rows


def listed_in(value: tuple[Any, ...]) -> Iterable[Any] | None:
    """The items of the list beside something else, such as a total, a query or a page token; of several lists of
    chunks, all. None where no list is one of chunks or texts."""
    found = lists_of_chunks(value)
    if found:
        return nested(found) if len(found) > 1 else items_of(found[0])
    lists = [part for part in value if type(part) is list]
    full = [part for part in lists if part] or lists[:1]  # an empty list beside a total is a result without chunks
    are_texts = len(value) > 1 and len(full) == 1 and all(isinstance(item, str) for item in full[0])
    return full[0] if are_texts else None


def lists_of_chunks(value: tuple[Any, ...]) -> list[list[Any]]:
    """The parts that are lists of chunks."""
    return [part for part in value if type(part) is list and part and _holds_chunks(part)]


def _holds_chunks(part: list[Any]) -> bool:
    """Whether a list holds chunks or lists of them, and is no row of texts and numbers itself."""
    return is_listing(part) and (type(part[0]) is not list or not part[0] or _holds_chunks(part[0]))


def nested(value: list[Any]) -> Iterable[Any] | None:
    """The items of a list of one list per query; None for a list whose items are chunks written as lists."""
    if not all(type(part) is list and is_listing(part) for part in value):
        return None
    return merge([items_of(part) for part in value])


def is_listing(part: list[Any]) -> bool:
    """Whether a list holds chunks, and is no chunk written as a list."""
    return not part or (_may_be_chunk(part[0]) and _may_be_chunk(part[-1]))


def _may_be_chunk(item: Any) -> bool:
    """Whether this can be a result and no part of one: no text, no number."""
    return item is not None and not isinstance(item, str | bytes | bool) and number(item) is None


def merge(results: Sequence[Iterable[Any]]) -> Iterable[Any]:
    """The items of all results, in turn, each chunk once."""
    if len(results) == 1:
        return results[0]
    places: set[str] = set()
    found: list[Any] = []
    for turn in within(zip_longest(*results, fillvalue=_MISSING)):
        for item in turn:
            if item is not _MISSING:
                _add(item, places, found)
    return found


def _add(item: Any, places: set[str], found: list[Any]) -> None:
    try:
        chunk = read_chunk(item)
    except Unreadable:
        found.append(item)
        return
    if chunk.identity not in places:
        places.add(chunk.identity)
        found.append(chunk)


def is_distance_name(name: str) -> bool:
    """Whether a field of this name holds a distance: `distance`, `cosine_distance`, `dist`."""
    return name == "dist" or name.endswith("distance")


def negative(value: Any) -> float | None:
    """A distance as a score. None stays None, and zero keeps no sign."""
    distance = number(value)
    return None if distance is None else -distance or 0.0


def rises(values: Iterable[Any]) -> bool | None:
    """True when the numbers rise and never fall, False when they fall; None when that cannot be told."""
    numbers = [found for value in values if (found := number(value)) is not None]
    if any(later < earlier for earlier, later in pairwise(numbers)):
        return False
    return True if any(later > earlier for earlier, later in pairwise(numbers)) else None


def is_array(value: Any) -> bool:
    """Whether this is an array or tensor of one of the libraries that retrievers use."""
    return type(value).__module__.partition(".")[0] in _ARRAYS and hasattr(value, "tolist")
