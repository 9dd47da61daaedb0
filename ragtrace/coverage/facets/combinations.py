"""Which facets one chunk can meet together: a comparison of two years needs a chunk for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.types import Facet

__all__ = ["facet_combinations"]

_EXCLUSIVE: Final = ("time", "version", "jurisdiction")  # kinds of which a chunk commonly has one
_MOST: Final = 8
_PAIRED: Final = 4


def facet_combinations(
    facets: Sequence[Facet], matrix: NDArray[np.float64], *, names_apart: bool = False
) -> list[tuple[int, ...]]:
    """Rows of `facets` that are asked of one chunk together, one tuple for each side of a comparison.

    Times, versions and places of a question that no candidate meets together are alternatives; everything else is
    asked of every chunk. As many times as versions are taken as pairs, those together that some candidate meets best
    ("edition 3 of 2022, edition 4 of 2024"). names_apart: so are names that were read from the question, since several
    may belong to several parts of it. matrix: `facet_matrix`, shape (n_facets, n_candidates), without unknown cells.
    One combination holds all facets when there is nothing to compare, or more than eight would result.
    """
    kinds: dict[str, list[int]] = {}
    for row, facet in enumerate(facets):
        kinds.setdefault(facet.kind, []).append(row)
    groups: list[list[tuple[int, ...]]] = [
        [(row,) for row in rows] if kind in _EXCLUSIVE and _apart(matrix[rows]) else [tuple(rows)]
        for kind, rows in kinds.items()
    ]
    if names_apart and "entity" in kinds and all(facets[row].source == "query" for row in kinds["entity"]):
        groups[list(kinds).index("entity")] = _names_apart(kinds["entity"], matrix)
    choices: list[tuple[tuple[int, ...], ...]] = list(product(*_paired(groups, matrix)))
    combinations = [tuple(row for rows in choice for row in rows) for choice in choices]
    return combinations if len(combinations) <= _MOST else [tuple(range(len(facets)))]


def _paired(groups: list[list[tuple[int, ...]]], matrix: NDArray[np.float64]) -> list[list[tuple[int, ...]]]:
    """The groups, those with equally many sides as one group of their best pairs."""
    paired: list[list[tuple[int, ...]]] = []
    for group in groups:
        place = next((at for at, other in enumerate(paired) if 1 < len(group) == len(other) <= _PAIRED), None)
        if place is None:
            paired.append(group)
        else:
            orders = [[(*one, *other) for one, other in zip(paired[place], order, strict=True)]
                      for order in permutations(group)]  # fmt: skip
            paired[place] = max(orders, key=lambda sides: sum(_together(matrix[list(rows)]) for rows in sides))
    return paired


def _together(matches: NDArray[np.float64]) -> float:
    """How well the best candidate meets all of these facets."""
    return float(matches.mean(axis=0).max(initial=0.0))


def _names_apart(rows: Sequence[int], matrix: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Each name that some candidate has by itself, where none has all of these; with the names that none has."""
    found = [row for row in rows if matrix[row].max(initial=0.0) > 0]
    absent = tuple(row for row in rows if row not in found)
    return [(row, *absent) for row in found] if _apart(matrix[found]) else [tuple(rows)]


def _apart(matches: NDArray[np.float64]) -> bool:
    """Whether there are several facets and no candidate meets them all."""
    return len(matches) > 1 and not (matches.shape[1] and matches.min(axis=0).max() > 0)
