"""Two failures of a retriever and a generator that disagree about their best document."""

from __future__ import annotations

from ragtrace.alignment.rankings import Ranking, same_documents
from ragtrace.errors import ConfigurationError
from ragtrace.numeric import is_integer

__all__ = ["check_cutoff", "noise_distraction", "wasted_retrieval"]


def wasted_retrieval(retriever: Ranking, generator: Ranking, cutoff: int = 2) -> bool | None:
    """Whether the generator hardly used the retriever's best document: its 0-based generator rank is above `cutoff`.

    None (undefined) for k <= cutoff + 1 documents, of which none can be ranked so low.

    Raises: ConfigurationError for a negative cutoff, or rankings of different documents. Source: RAG-E, §5.2.
    """
    return _ranked_low(retriever, generator, cutoff)


def noise_distraction(retriever: Ranking, generator: Ranking, cutoff: int = 2) -> bool | None:
    """Whether the generator rests on a document that the retriever ranked low: its 0-based rank is above `cutoff`.

    None (undefined) for k <= cutoff + 1 documents. Raises: as `wasted_retrieval`. Source: RAG-E, §5.2.
    """
    return _ranked_low(generator, retriever, cutoff)


def check_cutoff(cutoff: int) -> None:
    """Raises: ConfigurationError unless `cutoff` is a rank: an integer of 0 or more."""
    if not is_integer(cutoff) or cutoff < 0:
        raise ConfigurationError(f"cutoff is {cutoff!r}; give a 0-based rank, an integer of 0 or more")


def _ranked_low(best_of: Ranking, ranked_by: Ranking, cutoff: int) -> bool | None:
    check_cutoff(cutoff)
    _, ranks = same_documents(best_of, ranked_by)
    return None if len(ranks) <= cutoff + 1 else bool(ranks[best_of[0]] > cutoff)
