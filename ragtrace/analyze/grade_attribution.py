"""Why a judge of relevance gave a document its grade: what each word of question and document adds to it.

Words are the players; a judge reads the texts with the words that are there. The tree joins words to sentences and
these to the two sides, so that a side is told apart from the other as a whole. Owen values of the grade follow, for any
judge, since nothing but its answers is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution import PartitionTree, WeightedSpan, balanced_tree, owen_values
from ragtrace.attribution.spans import Span, split
from ragtrace.coverage.verifier import RelevanceJudge
from ragtrace.errors import ConfigurationError
from ragtrace.grading import grade_of

__all__ = ["GradeAttribution", "explain_grade"]

_BUDGET: Final = 512
_WORD: Final = 3  # letters from which a word is compared between the sides


@dataclass(frozen=True, slots=True)
class GradeAttribution:
    """A grade, and what each word of question and document adds to it from the grade of two empty texts on.

    shared: the share of the positive weights that stands on words that both sides have; missing: the share of the
    negative ones that stands on words of the question that the document lacks; None where there are no such weights.
    evaluations: pairs that the judge read. is_exact: all of what the tree asks for, else parts that were not looked
    into share their worth evenly. completeness_delta: by how much the weights miss the grade less the empty one.
    """

    judge: str
    grade: float
    empty: float
    question: tuple[WeightedSpan, ...]
    document: tuple[WeightedSpan, ...]
    shared: float | None
    missing: float | None
    evaluations: int
    is_exact: bool
    completeness_delta: float


def explain_grade(judge: RelevanceJudge, question: str, document: str, budget: int = _BUDGET) -> GradeAttribution:
    """The words behind a grade. budget: about the most pairs that the judge reads.

    Raises: ConfigurationError where a text has no words; what the judge raises.
    """
    sides = (split(question, "word"), split(document, "word"))
    if not all(sides):
        raise ConfigurationError("the question or the document has no words, so no grade can be explained")
    asked = len(sides[0])
    tree: PartitionTree = (balanced_tree(range(asked)), _by_sentence(document, sides[1], asked))

    def game(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        pairs = [(_kept(question, sides[0], row[:asked]), _kept(document, sides[1], row[asked:])) for row in coalitions]
        return np.array([[grade_of(float(share))] for share in judge.relevant(pairs)])

    found = owen_values(game, tree, budget)
    weights = found.values[:, 0]
    return GradeAttribution(
        judge=judge.name,
        grade=float(found.full[0]),
        empty=float(found.empty[0]),
        question=_weighed(sides[0], weights[:asked]),
        document=_weighed(sides[1], weights[asked:]),
        shared=_share(np.maximum(weights, 0), _is_shared(*sides)),
        missing=_share(np.maximum(-weights, 0), _is_missing(*sides)),
        evaluations=found.evaluations,
        is_exact=found.is_exact,
        completeness_delta=found.completeness_delta,
    )


def _by_sentence(text: str, words: Sequence[Span], first: int) -> PartitionTree:
    """The words of a document, joined within its sentences before these are joined; numbered from `first` on."""
    ends = [sentence.end for sentence in split(text, "sentence")][:-1]
    places = [sum(word.start >= end for end in ends) for word in words]
    groups = [[first + at for at, place in enumerate(places) if place == each] for each in dict.fromkeys(places)]
    return _joined([balanced_tree(group) for group in groups])


def _joined(trees: Sequence[PartitionTree]) -> PartitionTree:
    if len(trees) == 1:
        return trees[0]
    middle = (len(trees) + 1) // 2
    return _joined(trees[:middle]), _joined(trees[middle:])


def _kept(text: str, words: Sequence[Span], is_there: NDArray[np.bool_]) -> str:
    """The text with these words alone; the text itself where all are there."""
    if is_there.all():
        return text
    parts, at = [], 0
    for word, there in zip(words, is_there, strict=True):
        parts += [text[at : word.start], word.text if there else ""]
        at = word.end
    return " ".join("".join([*parts, text[at:]]).split())


def _weighed(words: Sequence[Span], weights: NDArray[np.float64]) -> tuple[WeightedSpan, ...]:
    return tuple(
        WeightedSpan(word.start, word.end, word.text, float(weight))
        for word, weight in zip(words, weights, strict=True)
    )


def _share(weights: NDArray[np.float64], chosen: Sequence[bool]) -> float | None:
    whole = float(weights.sum())
    return float(weights[list(chosen)].sum()) / whole if whole > 0 else None


def _names(words: Sequence[Span]) -> set[str]:
    return {word.text.casefold() for word in words if len(word.text) >= _WORD}


def _is_shared(question: Sequence[Span], document: Sequence[Span]) -> list[bool]:
    """By word, those of the question first: whether both sides have it."""
    both = _names(question) & _names(document)
    return [word.text.casefold() in both for word in (*question, *document)]


def _is_missing(question: Sequence[Span], document: Sequence[Span]) -> list[bool]:
    """By word: whether it is one of the question that the document lacks."""
    lacked = _names(question) - _names(document)
    return [*(word.text.casefold() in lacked for word in question), *(False for _ in document)]
