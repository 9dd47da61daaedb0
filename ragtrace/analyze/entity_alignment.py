"""Alignment of grades with entities: whether they rest on the names that question and document share, over many
requests of each action and by exchanging names.

An evaluator that looks for shared names alone grades a document about the right person CORRECT, whatever it says of
them. Of each request the candidate that decides its action is explained (`explain_grade`). How much of what speaks for
it stands on names that both sides have, how much of what speaks against it on names that the document lacks, and how
much on the separator, is a share with a bootstrap interval over requests. Then a name that both have is exchanged for
another request's: in the document alone, after which it speaks of something else and its grade should fall; and on both
sides, after which nothing should change.

Source: the reproduction of Corrective RAG, which saw this alignment in nine samples.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze.grade_attribution import GradeAttribution, explain_grade
from ragtrace.coverage import ReadEntities, extract_facets
from ragtrace.coverage.text import is_function_word, words
from ragtrace.coverage.verifier import RelevanceJudge
from ragtrace.grading import ACTIONS, Action, GradeThresholds, document_action, grade_of, question_entity
from ragtrace.store import Store

__all__ = [
    "ActionAlignment",
    "EntityAlignmentReport",
    "Exchange",
    "GradedPair",
    "Interval",
    "alignment_report",
    "deciding_pairs",
    "names_of",
]

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
