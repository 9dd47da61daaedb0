"""Attribution of a document's grade by a judge of relevance, and how far grades rest on the names both texts share.

The players are the tokens of a classifier that reads both texts together, the separator between them among these, and
Integrated Gradients of the same model stand beside; of any other judge they are words, which it is given or not. The
tree joins them to words, sentences and the two sides, so that a side is told apart from the other as a whole. Owen
values of the grade follow, for any judge, since nothing but its answers is asked.

An evaluator that looks for shared names alone grades a document about the right person CORRECT, whatever it says of
them. Of each request the candidate that decides its action is explained (`explain_grade`). How much of what speaks for
it stands on names that both sides have, how much of what speaks against it on names that the document lacks, and how
much on the separator, is a share with a bootstrap interval over requests. Then a name that both have is exchanged for
another request's: in the document alone, after which it speaks of something else and its grade should fall; and on both
sides, after which nothing should change. Source: the reproduction of Corrective RAG, which saw this in nine samples.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution import OwenValues, PartitionTree, WeightedSpan, balanced_tree, merged_into_words, owen_values
from ragtrace.attribution.spans import Span, Unit, split
from ragtrace.coverage import ReadEntities, extract_facets
from ragtrace.coverage.text import is_function_word, words
from ragtrace.coverage.verifier import RelevanceJudge
from ragtrace.errors import ConfigurationError
from ragtrace.grading import ACTIONS, Action, GradeThresholds, document_action, grade_of, question_entity
from ragtrace.store import Store

if TYPE_CHECKING:
    from ragtrace.engines.pair_classifier import PairToken, PairTokens

__all__ = [
    "ActionAlignment",
    "EntityAlignmentReport",
    "Exchange",
    "GradeAttribution",
    "GradedPair",
    "GradientWeights",
    "Interval",
    "alignment_report",
    "deciding_pairs",
    "explain_grade",
    "names_of",
    "token_tree",
]

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


_DRAWS: Final = 2000
_PAGE: Final = 20
_POSSESSIVE: Final = re.compile(r"['’]s?\Z")


@dataclass(frozen=True, slots=True)
class GradedPair:
    """A question, and the candidate whose grade decides the action of its request."""

    question: str
    document: str
    grade: float
    action: Action
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over requests with its 95 % interval by bootstrap."""

    value: float
    low: float
    high: float
    requests: int


@dataclass(frozen=True, slots=True)
class ActionAlignment:
    """What the grades of one action rest on. unnamed: requests whose question has no name that rules can read.

    shared: of what speaks for the grade, the share on names that both sides have; missing: of what speaks against it,
    the share on names of the question that the document lacks; separator: of both together, the share on what stands
    between the texts. None where no request has such weights.
    """

    action: Action
    requests: int
    unnamed: int
    shared: Interval | None
    missing: Interval | None
    separator: Interval | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """What becomes of the grades of one action when a shared name is exchanged: by how much they fall, and in which
    share of the requests the document alone would still say the same action."""

    action: Action
    requests: int
    in_document: Interval | None
    kept: Interval | None
    on_both: Interval | None


@dataclass(frozen=True, slots=True)
class EntityAlignmentReport:
    """What grades rest on, by action."""

    judge: str
    alignments: tuple[ActionAlignment, ...]
    exchanges: tuple[Exchange, ...]


def deciding_pairs(
    store: Store,
    service: str,
    judge: RelevanceJudge,
    thresholds: GradeThresholds,
    *,
    since: int,
    until: int,
    each: int,
    limit: int,
) -> list[GradedPair]:
    """Up to `each` requests of every action, of about `limit` analyzed ones of the window's random stratum, with the
    candidate that decides. Raises: StoreError, and what the judge raises."""
    rows = store.sample(service, None, since, until, (), limit).rows
    found: dict[Action, list[GradedPair]] = {action: [] for action in ACTIONS}
    for start in range(0, len(rows), _PAGE):
        if all(len(pairs) >= each for pairs in found.values()):
            break
        records = store.get_records([row.request_id for row in rows[start : start + _PAGE]])
        asked = [
            (record.query.original, candidate.text, key)
            for key, record in records.items()
            for candidate in record.candidates
            if record.query.original and candidate.text and candidate.text.strip()
        ]
        grades = [grade_of(float(share)) for share in judge.relevant([(q, text) for q, text, _ in asked])]
        best: dict[str, GradedPair] = {}
        for (question, text, key), grade in zip(asked, grades, strict=True):
            if key not in best or grade > best[key].grade:
                best[key] = GradedPair(question, text, grade, document_action(grade, thresholds), key)
        for pair in best.values():
            if len(found[pair.action]) < each:
                found[pair.action].append(pair)
    return [pair for action in ACTIONS for pair in found[action]]


def alignment_report(
    pairs: Sequence[GradedPair],
    judge: RelevanceJudge,
    thresholds: GradeThresholds,
    *,
    budget: int,
    seed: int = 0,
    entities: ReadEntities | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> EntityAlignmentReport:
    """Explain each pair, and exchange its names. budget: pairs that the judge reads for one explanation, about.

    Raises: ConfigurationError for texts without words, and what the judge raises.
    """
    names = [names_of(pair.question, entities) for pair in pairs]
    shares: dict[Action, list[_Shares]] = {action: [] for action in ACTIONS}
    for at, (pair, own) in enumerate(zip(pairs, names, strict=True)):
        if own:
            found = explain_grade(judge, pair.question, pair.document, budget, gradients=False)
            shares[pair.action].append(_shares(found, own))
        if on_progress is not None:
            on_progress(at + 1, len(pairs))
    actions = [action for action in ACTIONS if any(pair.action == action for pair in pairs)]
    alignments = []
    for action in actions:
        every = sum(pair.action == action for pair in pairs)
        known = shares[action]
        alignments.append(
            ActionAlignment(
                action,
                every,
                every - len(known),
                *(_interval([value for one in known if (value := one[at]) is not None], seed) for at in range(3)),
            )
        )
    exchanges = _exchanges(pairs, names, judge, thresholds, seed)
    return EntityAlignmentReport(judge.name, tuple(alignments), tuple(exchanges))


def names_of(question: str, entities: ReadEntities | None = None) -> tuple[str, ...]:
    """The names, dates and values of a question, as it writes them: what rules (and a model that reads names) find, and
    the entity of a question of PopQA's forms."""
    found = [question[facet.start : facet.end] for facet in extract_facets(question, entities=entities)]
    if (entity := question_entity(question)) is not None and entity not in found:
        found.append(entity)
    return tuple(dict.fromkeys(name for name in found if _terms(name)))


def _terms(text: str) -> set[str]:
    """Its words in small letters, without the s of a possessive."""
    read = (_POSSESSIVE.sub("", word.casefold()) for word in words(text))
    return {word for word in read if not is_function_word(word)}


_Shares = tuple[float | None, float | None, float | None]


def _shares(found: GradeAttribution, names: Sequence[str]) -> _Shares:
    """On shared names of what is positive, on missing names of what is negative, on the separator of all."""
    named = set[str]().union(*map(_terms, names))
    held = _terms(found.texts[1])
    between = found.separator or 0.0
    positive, negative, shared, missing = max(between, 0.0), max(-between, 0.0), 0.0, 0.0
    for side, weighed in enumerate((found.question, found.document)):
        for word in weighed:
            terms = _terms(word.text) & named
            positive += max(word.weight, 0.0)
            negative += max(-word.weight, 0.0)
            shared += max(word.weight, 0.0) if terms & held else 0.0
            missing += max(-word.weight, 0.0) if side == 0 and terms - held else 0.0
    whole = positive + negative
    return (
        shared / positive if positive > 0 else None,
        missing / negative if negative > 0 else None,
        abs(between) / whole if whole > 0 and found.separator is not None else None,
    )


def _exchanges(
    pairs: Sequence[GradedPair],
    names: Sequence[Sequence[str]],
    judge: RelevanceJudge,
    thresholds: GradeThresholds,
    seed: int,
) -> list[Exchange]:
    """Pairs whose document has a name of the question in full; the other one is of another pair of the sample."""
    draw = random.Random(seed)
    others = list(dict.fromkeys(name for own in names for name in own))
    asked: list[tuple[GradedPair, str, str]] = []
    for pair, own in zip(pairs, names, strict=True):
        shared = [name for name in own if _in(name, pair.document)]
        known = f"{pair.question} {pair.document}"
        possible = [name for name in others if not _in(name, known)]
        if shared and possible:
            changed, question = pair.document, pair.question
            for name in shared:
                other = draw.choice(possible)
                changed, question = _put(name, other, changed), _put(name, other, question)
            asked.append((pair, changed, question))
    texts = [(pair.question, changed) for pair, changed, _ in asked]
    texts += [(question, changed) for _, changed, question in asked]
    said = [grade_of(float(share)) for share in judge.relevant(texts)] if texts else []
    found = []
    for action in ACTIONS:
        places = [at for at, (pair, _, _) in enumerate(asked) if pair.action == action]
        falls = [asked[at][0].grade - said[at] for at in places]
        both = [asked[at][0].grade - said[at + len(asked)] for at in places]
        kept = [float(document_action(said[at], thresholds) == action) for at in places]
        if any(pair.action == action for pair in pairs):
            found.append(Exchange(action, len(places), *(_interval(values, seed) for values in (falls, kept, both))))
    return found


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)


def _in(name: str, text: str) -> bool:
    return _pattern(name).search(text) is not None


def _put(name: str, other: str, text: str) -> str:
    return _pattern(name).sub(lambda _: other, text)


def _interval(values: Sequence[float], seed: int) -> Interval | None:
    """The mean, and the interval in which those of resampled requests lie; None without any."""
    if not values:
        return None
    each: NDArray[np.float64] = np.array(values, dtype=np.float64)
    draws = np.random.default_rng(seed).choice(each, (_DRAWS, len(each))).mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return Interval(float(each.mean()), float(low), float(high), len(each))
