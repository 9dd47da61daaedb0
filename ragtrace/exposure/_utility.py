"""The utility of an answer beside a reference answer, as numbers in [0, 1]: exact match, token F1, ROUGE-L.

Words are compared in lower case and without punctuation, for exact match and F1 without articles, as SQuAD has it. A
sentence of a script without spaces is one word. The worth of a document is what the answer is worth with it alone less
what it is worth with none; a document is useful where that is above 0.

Source: Rajpurkar et al. (2016), "SQuAD", for exact match and F1; Lin (2004), "ROUGE", for the longest common
subsequence; Kim and Diaz, "Towards Fair RAG", section 3.1, for the worth of an item.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["UTILITIES", "exact_match", "rouge_l", "token_f1"]

_ARTICLES: Final = frozenset(("a", "an", "the"))


def exact_match(answer: str, reference: str) -> float:
    """1 where both have the same words in the same order, but for articles, else 0."""
    return float(_without_articles(answer) == _without_articles(reference))


def token_f1(answer: str, reference: str) -> float:
    """The harmonic mean of the shares of words, but for articles, in any order, that the other one has: in [0, 1]."""
    said, wanted = _without_articles(answer), _without_articles(reference)
    return _f1((Counter(said) & Counter(wanted)).total(), len(said), len(wanted))


def rouge_l(answer: str, reference: str) -> float:
    """The harmonic mean of the shares that the longest common subsequence of words has of both: in [0, 1]."""
    said, wanted = _words(answer), _words(reference)
    return _f1(_longest_common(said, wanted), len(said), len(wanted))


def _words(text: str) -> list[str]:
    """Letters, digits and the marks on them; everything else is between words."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = (letter if letter.isalnum() or unicodedata.category(letter)[0] == "M" else " " for letter in folded)
    return "".join(kept).split()


def _without_articles(text: str) -> list[str]:
    return [word for word in _words(text) if word not in _ARTICLES]


def _f1(common: int, said: int, wanted: int) -> float:
    """Two texts without a word are alike."""
    return 2 * common / (said + wanted) if said + wanted else 1.0


def _longest_common(first: list[str], second: list[str]) -> int:
    """How many words the longest common subsequence has; time: the product of the lengths."""
    lengths = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, 1):
            above = lengths[place]
            lengths[place] = before + 1 if word == other else max(above, lengths[place - 1])
            before = above
    return lengths[-1]


UTILITIES: Final[Mapping[str, Callable[[str, str], float]]] = {
    "rouge-l": rouge_l,
    "token-f1": token_f1,
    "exact-match": exact_match,
}
"""The measures by name."""
