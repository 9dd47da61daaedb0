"""Attribution of a document's grade by a judge of relevance: what each word of question and document adds to it.

The players are the tokens of a classifier that reads both texts together, the separator between them among these, and
Integrated Gradients of the same model stand beside; of any other judge they are words, which it is given or not. The
tree joins them to words, sentences and the two sides, so that a side is told apart from the other as a whole. Owen
values of the grade follow, for any judge, since nothing but its answers is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution import OwenValues, PartitionTree, WeightedSpan, balanced_tree, merged_into_words, owen_values
from ragtrace.attribution.spans import Span, Unit, split
from ragtrace.coverage.verifier import RelevanceJudge
from ragtrace.errors import ConfigurationError
from ragtrace.grading import grade_of

if TYPE_CHECKING:
    from ragtrace.engines.pair_classifier import PairToken, PairTokens

__all__ = ["GradeAttribution", "GradientWeights", "explain_grade", "token_tree"]

_BUDGET: Final = 512
_WORD: Final = 3  # letters from which a word is compared between the sides


@dataclass(frozen=True, slots=True)
class GradientWeights:
    """Integrated Gradients of the same grade, before calibration, from the same hidden tokens on. separator: of what
    stands between both texts. completeness_delta: by how much they miss the grade less the empty one."""

    question: tuple[WeightedSpan, ...]
    document: tuple[WeightedSpan, ...]
    separator: float
    completeness_delta: float


@dataclass(frozen=True, slots=True)
class GradeAttribution:
    """A grade, and what each word of question and document adds to it from the grade of two empty texts on.

    texts: question and document as the judge read them, to which the words' places belong: of a long document a window.
    separator: what the tokens between both add; None where words were the players. shared: the share of the positive
    weights that stands on words that both sides have; missing: the share of the negative ones that stands on words of
    the question that the document lacks; None where there are no such weights.
    evaluations: pairs that the judge read. is_exact: all of what the tree asks for, else parts that were not looked
    into share their worth evenly. completeness_delta: by how much the weights miss the grade less the empty one.
    """

    judge: str
    grade: float
    empty: float
    texts: tuple[str, str]
    question: tuple[WeightedSpan, ...]
    document: tuple[WeightedSpan, ...]
    separator: float | None
    shared: float | None
    missing: float | None
    evaluations: int
    is_exact: bool
    completeness_delta: float
    gradients: GradientWeights | None = None


class _ReadsTokens(Protocol):
    def tokens_of(self, question: str, chunk: str) -> PairTokens: ...


def explain_grade(
    judge: RelevanceJudge, question: str, document: str, budget: int = _BUDGET, *, gradients: bool = True
) -> GradeAttribution:
    """The words behind a grade. budget: about the most pairs that the judge reads. gradients: also Integrated
    Gradients, where the judge is a classifier.

    Raises: ConfigurationError where a text has no words; what the judge raises.
    """
    if not all(split(text, "word") for text in (question, document)):
        raise ConfigurationError("the question or the document has no words, so no grade can be explained")
    reads: _ReadsTokens | None = judge if hasattr(judge, "tokens_of") else None  # type: ignore[assignment]
    if reads is None:
        return _by_words(judge, question, document, budget)
    return _by_tokens(judge.name, reads.tokens_of(question, document), budget, gradients=gradients)


def _by_words(judge: RelevanceJudge, question: str, document: str, budget: int) -> GradeAttribution:
    sides = (split(question, "word"), split(document, "word"))
    asked = len(sides[0])
    tree: PartitionTree = (_tree(question, sides[0], 0), _tree(document, sides[1], asked))

    def game(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        pairs = [(_kept(question, sides[0], row[:asked]), _kept(document, sides[1], row[asked:])) for row in coalitions]
        return np.array([[grade_of(float(share))] for share in judge.relevant(pairs)])

    found = owen_values(game, tree, budget)
    weights = found.values[:, 0]
    weighed = (_weighed(sides[0], weights[:asked]), _weighed(sides[1], weights[asked:]))
    return _attribution(judge.name, found, (question, document), weighed, None, None)


def _by_tokens(judge: str, read: PairTokens, budget: int, *, gradients: bool) -> GradeAttribution:
    players = [read.tokens[at] for at in read.players]
    texts = (read.question, read.document)

    def game(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        return read.grades(coalitions)[:, None]

    found = owen_values(game, token_tree(texts, players), budget)
    *weighed, separator = _by_side(texts, players, found.values[:, 0])
    beside = None
    if gradients:
        path = read.integrated_gradients()
        *sides, between = _by_side(texts, players, path.values)
        beside = GradientWeights(sides[0], sides[1], between, abs(path.completeness_delta))
    return _attribution(judge, found, texts, (weighed[0], weighed[1]), separator, beside)


def _attribution(
    judge: str,
    found: OwenValues,
    texts: tuple[str, str],
    weighed: tuple[tuple[WeightedSpan, ...], tuple[WeightedSpan, ...]],
    separator: float | None,
    gradients: GradientWeights | None,
) -> GradeAttribution:
    weights = np.array([word.weight for side in weighed for word in side])
    between = separator or 0.0
    return GradeAttribution(
        judge=judge,
        grade=float(found.full[0]),
        empty=float(found.empty[0]),
        texts=texts,
        question=weighed[0],
        document=weighed[1],
        separator=separator,
        shared=_share(np.maximum(weights, 0), _is_shared(*weighed), max(between, 0.0)),
        missing=_share(np.maximum(-weights, 0), _is_missing(*weighed), max(-between, 0.0)),
        evaluations=found.evaluations,
        is_exact=found.is_exact,
        completeness_delta=found.completeness_delta,
        gradients=gradients,
    )


def token_tree(texts: tuple[str, str], players: Sequence[PairToken]) -> PartitionTree:
    """The tokens joined to words, sentences and sides; the separator stands with the question."""
    parts: dict[str, PartitionTree] = {}
    for side, text in zip(("question", "document"), texts, strict=True):
        numbers = [at for at, token in enumerate(players) if token.side == side]
        if numbers:
            parts[side] = _tree(text, [players[at] for at in numbers], numbers[0])
    if between := [at for at, token in enumerate(players) if token.side == "separator"]:
        parts["separator"] = balanced_tree(between)
    return _joined([parts[side] for side in ("question", "separator", "document") if side in parts])


def _by_side(
    texts: tuple[str, str], players: Sequence[PairToken], values: NDArray[np.float64]
) -> tuple[tuple[WeightedSpan, ...], tuple[WeightedSpan, ...], float]:
    """The words of question and document with what their tokens add, and what the separator adds."""
    found = []
    for side, text in zip(("question", "document"), texts, strict=True):
        numbers = [at for at, token in enumerate(players) if token.side == side]
        found.append(tuple(merged_into_words(text, [players[at] for at in numbers], values[numbers])))
    between = [at for at, token in enumerate(players) if token.side == "separator"]
    return found[0], found[1], float(values[between].sum())


def _tree(text: str, parts: Sequence[Span | PairToken], first: int) -> PartitionTree:
    """The parts of a text, joined within its words and these within its sentences before these are joined; numbered
    from `first` on."""

    def places(unit: Unit) -> list[int]:
        ends = [each.end for each in split(text, unit)][:-1]
        return [sum(part.start >= end for end in ends) for part in parts]

    of_word, of_sentence = places("word"), places("sentence")
    sentences = []
    for sentence in dict.fromkeys(of_sentence):
        own = [at for at, place in enumerate(of_sentence) if place == sentence]
        words = [[first + at for at in own if of_word[at] == word] for word in dict.fromkeys(of_word[at] for at in own)]
        sentences.append(_joined([balanced_tree(word) for word in words]))
    return _joined(sentences)


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


def _share(weights: NDArray[np.float64], chosen: Sequence[bool], beside: float) -> float | None:
    whole = float(weights.sum()) + beside
    return float(weights[list(chosen)].sum()) / whole if whole > 0 else None


def _names(words: Sequence[WeightedSpan]) -> set[str]:
    return {word.text.casefold() for word in words if len(word.text) >= _WORD}


def _is_shared(question: Sequence[WeightedSpan], document: Sequence[WeightedSpan]) -> list[bool]:
    """By word, those of the question first: whether both sides have it."""
    both = _names(question) & _names(document)
    return [word.text.casefold() in both for word in (*question, *document)]


def _is_missing(question: Sequence[WeightedSpan], document: Sequence[WeightedSpan]) -> list[bool]:
    """By word: whether it is one of the question that the document lacks."""
    lacked = _names(question) - _names(document)
    return [*(word.text.casefold() in lacked for word in question), *(False for _ in document)]
