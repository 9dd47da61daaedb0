"""Rankings of documents, best first: what counts as one, how scores become one, and rank correlation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ragtrace.errors import ConfigurationError
from ragtrace.numeric import is_real, real_array

__all__ = ["Ranked", "Ranking", "positions", "rank_by_score", "same_documents", "spearman"]

Ranking: TypeAlias = Sequence[Hashable]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Documents by descending score. `ties`: neighbors whose order the score left open."""

    documents: tuple[Hashable, ...]
    ties: int


def positions(ranking: Ranking, name: str = "ranking") -> dict[Hashable, int]:
    """The 0-based rank of each document.

    Raises: ConfigurationError for what is no sequence of hashable ids (a set has no order), for an empty ranking, and
        for a document that stands in it twice.
    """
    if isinstance(ranking, str | bytes) or not isinstance(ranking, Sequence | np.ndarray):
        raise ConfigurationError(f"{name} is {ranking!r}; give a sequence of document ids, best first")
    try:
        found = {document: rank for rank, document in enumerate(ranking)}
    except TypeError as error:
        raise ConfigurationError(f"{name} holds what is no document id: {error}; give hashable ids") from error
    if not found:
        raise ConfigurationError(f"{name} is empty; give at least one document id")
    if len(found) < len(ranking):
        twice = next(document for document, times in Counter(ranking).items() if times > 1)
        raise ConfigurationError(f"{name} holds {twice!r} more than once; give each document one rank")
    return found


def same_documents(retriever: Ranking, generator: Ranking) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """The ranks in two rankings of the same documents.

    Raises: ConfigurationError when one ranking holds a document that the other lacks.
    """
    first, second = positions(retriever, "retriever"), positions(generator, "generator")
    if first.keys() != second.keys():
        odd = next(document for document in (*first, *second) if document not in first or document not in second)
        raise ConfigurationError(
            f"{odd!r} stands in one of the two rankings only; restrict both to the documents of the prompt"
        )
    return first, second


def rank_by_score(documents: Ranking, scores: ArrayLike, *, tolerance: float = 1e-9) -> Ranked:
    """The generator's ranking: documents by descending score, ties in the order of `documents`.

    documents: `k` ids in the retriever's order. scores: `(k,)`, or `(k, m)` with one column per output token, whose
    mean counts. Neighbors whose scores differ by no more than `tolerance` tie.

    Raises: ConfigurationError for scores that are not finite, or not one per document, and a negative tolerance.
    """
    positions(documents, "documents")
    if not (is_real(tolerance) and tolerance >= 0):
        raise ConfigurationError(f"tolerance is {tolerance!r}; give a number of 0 or more")
    values = real_array(scores, "scores", ConfigurationError)
    if values.ndim not in (1, 2) or len(values) != len(documents) or values.size == 0:
        raise ConfigurationError(f"scores have the shape {values.shape}; give one row for each of {len(documents)} ids")
    means = values.reshape(len(documents), -1).mean(axis=1)
    if not np.isfinite(means).all():
        raise ConfigurationError(f"the score of {documents[int(np.argmin(np.isfinite(means)))]!r} is not finite")
    order = np.argsort(-means, kind="stable")
    tied = -np.diff(means[order]) <= tolerance
    group = np.concatenate([[0], np.cumsum(~tied)])
    return Ranked(tuple(documents[i] for i in order[np.lexsort((order, group))]), int(tied.sum()))


def spearman(first: Ranking, second: Ranking) -> float | None:
    """Spearman's rank correlation of two rankings of the same documents, in [-1, 1]; None for a single document.

    Raises: ConfigurationError when the rankings hold different documents.
    """
    a, b = same_documents(first, second)
    k = len(a)
    if k < 2:
        return None
    squares = sum((a[document] - b[document]) ** 2 for document in a)
    return 1 - 6 * squares / (k * (k * k - 1))
