"""How similar two responses are, in [0, 1] for texts: the comparisons of model-agnostic explanations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["SIMILARITIES", "cosine", "jaro_winkler", "levenshtein", "ngram_jaccard"]


def cosine(a: ArrayLike, b: ArrayLike) -> float:
    """The cosine of two vectors, in [-1, 1]; 0 where one of them is zero."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    return min(1.0, max(-1.0, float(x @ y) / norms)) if norms else 0.0


def levenshtein(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """1 - edit distance / length of the longer one; 1 for two empty ones. Takes texts, and rankings of ids."""
    if not len(a) and not len(b):
        return 1.0
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return 1 - row[-1] / max(len(a), len(b))


def jaro_winkler(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """Jaro's similarity with Winkler's bonus of 0.1 per item (at most 4) of the common prefix; 1 for two empty ones."""
    jaro = _jaro(a, b)
    prefix = 0
    for x, y in zip(a[:4], b[:4], strict=False):
        if x != y:
            break
        prefix += 1
    return jaro + 0.1 * prefix * (1 - jaro)


def ngram_jaccard(a: Sequence[Hashable], b: Sequence[Hashable], n: int = 3) -> float:
    """Shared n-grams of items (of characters for texts) among all; a shorter sequence is one n-gram by itself."""
    grams = [{tuple(each[i : i + n]) for i in range(max(1, len(each) - n + 1))} for each in (a, b)]
    return len(grams[0] & grams[1]) / len(grams[0] | grams[1])


def _jaro(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    if not len(a) or not len(b):
        return float(len(a) == len(b))
    reach = max(0, max(len(a), len(b)) // 2 - 1)
    taken = [False] * len(b)
    matched_a: list[Hashable] = []
    for i, x in enumerate(a):
        for j in range(max(0, i - reach), min(len(b), i + reach + 1)):
            if not taken[j] and b[j] == x:
                taken[j] = True
                matched_a.append(x)
                break
    if not matched_a:
        return 0.0
    matched_b = [y for y, used in zip(b, taken, strict=True) if used]
    transposed = sum(x != y for x, y in zip(matched_a, matched_b, strict=True)) / 2
    m = len(matched_a)
    return (m / len(a) + m / len(b) + (m - transposed) / m) / 3


SIMILARITIES: Final[dict[str, Callable[[Any, Any], float]]] = {
    "cosine": cosine,
    "levenshtein": levenshtein,
    "jaro-winkler": jaro_winkler,
    "ngram-jaccard": ngram_jaccard,
}
