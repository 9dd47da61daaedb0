"""Reads bare tuples: rows, as stores and drivers return them (`(document, 0.2)`, `(7, text, 0.2)`), parallel lists, and
what functions return beside their list (`(documents, total)`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

from ragtrace.record.adapters.faiss import is_array
from ragtrace.record.adapters.nearness import rises
from ragtrace.record.adapters.several import is_listing, nested
from ragtrace.record.coercion.items import items_of
from ragtrace.record.coercion.values import number

__all__ = ["distances", "listed_in", "lists_of_chunks", "rows_in"]


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
    found = number(distance)
    return distance if found is None else -found or 0.0


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
