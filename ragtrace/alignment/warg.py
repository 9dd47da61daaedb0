"""WARG: how far the generator's use of the documents is from the retriever's ranking, with its floor and its chance.

WARG of a finite ranking is not normalized: its least value, and the value of a random order, depend on k and p. So a
raw value means something only beside these two, and two values compare only at equal k and p; alerts and gates use
`warg_adjusted`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment.overlap import check_persistence, discounted, overlaps
from ragtrace.alignment.rankings import Ranking, same_documents
from ragtrace.errors import ConfigurationError
from ragtrace.numeric import is_integer

__all__ = ["warg", "warg_adjusted", "warg_chance", "warg_floor", "warg_normalized"]


def warg(retriever: Ranking, generator: Ranking, p: float = 0.9) -> float:
    """Weighted Attribution-Relevance Gap 1 - RBO, in [p^k, 1].

    retriever, generator: document ids, best first; the retriever's restricted to the documents of the prompt.

    Raises: as `rbo`. Source: RAG-E, eq. 12.
    """
    check_persistence(p)
    disagreement = _disagreement(retriever, generator)
    return min(1.0, warg_floor(len(disagreement), p) + (1 - p) * discounted(disagreement, p))  # but for rounding


def warg_floor(k: int, p: float) -> float:
    """WARG of two equal rankings of `k` documents: p^k.

    Raises: ConfigurationError for k < 1 or a p outside of (0, 1).
    """
    _check_size(k)
    check_persistence(p)
    return float(p**k)


def warg_chance(k: int, p: float) -> float:
    """Exact mean of WARG over all orders of `k` documents: 1 - (1-p)/k Σ_{d=1..k} d p^(d-1).

    Two random prefixes of length d share d²/k documents on average. Raises: as `warg_floor`.
    """
    _check_size(k)
    check_persistence(p)
    depth = np.arange(1, k + 1)
    return float(1 - (1 - p) / k * np.sum(depth * p ** (depth - 1)))


def warg_normalized(retriever: Ranking, generator: Ranking, p: float = 0.9) -> float:
    """(WARG - floor) / (1 - floor), in [0, 1]; 0 means equal rankings.

    Raises: ConfigurationError as `rbo`, and when the rankings hold different documents.
    """
    check_persistence(p)
    same_documents(retriever, generator)
    disagreement = _disagreement(retriever, generator)
    return discounted(disagreement, p) / discounted(np.ones(len(disagreement)), p)


def warg_adjusted(retriever: Ranking, generator: Ranking, p: float = 0.9) -> float | None:
    """(WARG - floor) / (chance - floor): 0 means equal rankings, 1 no better than a random order, more means opposed.

    None for a single document, whose only order is both. Raises: as `warg_normalized`.
    """
    check_persistence(p)
    same_documents(retriever, generator)
    disagreement = _disagreement(retriever, generator)
    k = len(disagreement)
    return discounted(disagreement, p) / discounted(1 - np.arange(1, k + 1) / k, p) if k > 1 else None


def _disagreement(retriever: Ranking, generator: Ranking) -> NDArray[np.float64]:
    """`(k,)`: which part of the prefixes of each length the rankings do not share.

    WARG is its floor and (1 - p) of the discounted sum of these, a factor that every ratio above the floor loses. So
    equal rankings have the floor exactly, and ratios stay right where p is so close to 1 that p^k rounds to 1.
    """
    shared = overlaps(retriever, generator)
    return 1 - shared / np.arange(1, len(shared) + 1)


def _check_size(k: int) -> None:
    if not is_integer(k) or k < 1:
        raise ConfigurationError(f"k is {k!r}; give the number of ranked documents, at least 1")
