"""Retrieval grading: what an evaluator's scores of retrieved documents say to do, and how often that is right.

Everything here is arithmetic on scores; the evaluator is any model of the role `relevant`. It scores each document for
the question, in [−1, 1]. The best score decides: CORRECT (go on with it), AMBIGUOUS (go on, and search as well),
INCORRECT (search instead). What is kept is cut into strips of a few sentences, and those that speak of the question
stay, in the order of the document. Outcomes by action and by type of question tell how often each was right; the type
is the relation that a question asks of an entity, as the templates of PopQA word it.

Source: Yan et al. (2024), "Corrective Retrieval Augmented Generation", sections 4.2 to 4.4, and its reproduction,
Tables 3 and 4, whose thresholds for PopQA stand here; the templates: Mallen et al. (2023), "When Not to Trust Language
Models", whose sixteen relations the reproduction tells apart in its Table 4.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import erfc, isfinite, sqrt
from typing import Final, TypeAlias, get_args

from ragtrace.errors import ConfigurationError
from ragtrace.numeric import is_integer, is_real
from ragtrace.sample_statistics import TWO_SIDED_95, effective_size, holm, share_and_size, wilson
from ragtrace.types import RetrievalAction

__all__ = [
    "ACTIONS",
    "LEAST_GAP",
    "LOWEST_GRADE",
    "PARTS_KEPT",
    "POPQA",
    "STRIP_FLOOR",
    "STRIP_SENTENCES",
    "Action",
    "ActionOutcome",
    "FittedThreshold",
    "GradeThresholds",
    "GradedRequest",
    "action_of",
    "confidently_wrong",
    "document_action",
    "fit_upper",
    "given_thresholds",
    "grade_of",
    "outcomes",
    "question_entity",
    "question_type",
    "refine",
    "strips",
]

Action: TypeAlias = RetrievalAction
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
"""The best first."""
LOWEST_GRADE: Final = -1.0
"""Of a blank text, which no evaluator is asked about, and of no text at all."""

STRIP_SENTENCES: Final = 3
STRIP_FLOOR: Final = -0.5
PARTS_KEPT: Final = 5


@dataclass(frozen=True, slots=True)
class GradeThresholds:
    """From which score on a document is CORRECT, and from which at least AMBIGUOUS. Both in [−1, 1], lower ≤ upper.

    Raises: ConfigurationError for others.
    """

    upper: float
    lower: float

    def __post_init__(self) -> None:
        for name, value in (("upper", self.upper), ("lower", self.lower)):
            if not (is_real(value) and -1 <= value <= 1):
                raise ConfigurationError.of(f"the {name} threshold", value, "a number from -1 to 1")
        if self.lower > self.upper:
            raise ConfigurationError(
                f"the lower threshold, {self.lower:g}, is above the upper one, {self.upper:g}; give lower <= upper"
            )


POPQA: Final = GradeThresholds(upper=0.59, lower=-0.99)
"""Those that the reproduction uses for PopQA, of its own evaluator: another one, or other questions, needs others."""


def given_thresholds(upper: float | None, lower: float | None) -> GradeThresholds | None:
    """Those that somebody gave, PopQA's in place of one that was not; None where neither was given."""
    if upper is None and lower is None:
        return None
    return GradeThresholds(POPQA.upper if upper is None else upper, POPQA.lower if lower is None else lower)


def grade_of(probability: float) -> float:
    """A score in [−1, 1] of the probability that a document is relevant: 2p − 1.

    Raises: ConfigurationError for what is no probability.
    """
    if not (is_real(probability) and 0 <= probability <= 1):
        raise ConfigurationError.of("probability", probability, "a number from 0 to 1")
    return 2 * probability - 1


def document_action(score: float, thresholds: GradeThresholds) -> Action:
    """What one document alone would say."""
    if not (is_real(score) and isfinite(score)):
        raise ConfigurationError.of("score", score, "a finite number")
    if score >= thresholds.upper:
        return "CORRECT"
    return "AMBIGUOUS" if score >= thresholds.lower else "INCORRECT"


def action_of(scores: Sequence[float], thresholds: GradeThresholds) -> Action:
    """What to do with these documents: the best one decides; nothing retrieved is INCORRECT."""
    return min((document_action(score, thresholds) for score in scores), key=ACTIONS.index, default="INCORRECT")


def strips(sentences: Sequence[tuple[int, int]], size: int = STRIP_SENTENCES) -> list[tuple[int, int]]:
    """Parts of a document: `size` sentences each, the last one of what is left.

    sentences: (start, end) of each in the document, in its order. Returns: (start, end) of each strip.
    """
    if not is_integer(size) or size < 1:
        raise ConfigurationError.of("size", size, "an integer of at least 1")
    groups = [sentences[at : at + size] for at in range(0, len(sentences), size)]
    return [(group[0][0], group[-1][1]) for group in groups]


def refine(scores: Sequence[float], *, floor: float = STRIP_FLOOR, most: int = PARTS_KEPT) -> list[int]:
    """Which strips to keep: those from `floor` on, of these the `most` best; ties go to the earlier one.

    scores: of each strip, in the order of the document. Returns: their places, in that order.
    """
    if not is_integer(most) or most < 1:
        raise ConfigurationError.of("most", most, "an integer of at least 1")
    fitting = [place for place, score in enumerate(scores) if score >= floor]
    return sorted(sorted(fitting, key=lambda place: -scores[place])[:most])


_TEMPLATES: Final[tuple[tuple[str, str], ...]] = (
    ("occupation", r"what (?:is|was) .+?(?:'s|’s) (?:occupation|profession|job)"),
    ("place of birth", r"(?:in what (?:city|town|place|country)|where) was .+? born"),
    ("genre", r"what (?:genre|kind of (?:music|book|film|movie)) (?:is|are|was|were) .+?"),
    ("father", r"who (?:is|was) (?:the father of .+?|.+?(?:'s|’s) father)"),
    ("mother", r"who (?:is|was) (?:the mother of .+?|.+?(?:'s|’s) mother)"),
    ("country", r"(?:in )?(?:what|which) country (?:is|was) .+?(?: in| from| located in)?"),
    ("producer", r"who (?:is|was|were) the producers? (?:of|for) .+?|who produced .+?"),
    ("director", r"who (?:is|was|were) the directors? (?:of|for) .+?|who directed .+?"),
    ("screenwriter", r"who (?:is|was|were) the screenwriters? (?:of|for) .+?"),
    ("composer", r"who (?:is|was|were) the composers? (?:of|for) .+?|who composed .+?"),
    ("author", r"who (?:is|was|were) the (?:author|writer)s? (?:of|for) .+?|who wrote .+?"),
    ("capital of", r"what is .+? the capital of"),
    ("capital", r"what (?:is|was) the capital(?: city)? of .+?|what is .+?(?:'s|’s) capital"),
    ("color", r"(?:what|which) colou?r (?:is|are|was|were) .+?"),
    ("religion", r"what (?:is|was) (?:the religion of .+?|.+?(?:'s|’s) religion)"),
    ("sport", r"(?:what|which) sport (?:does|do|did) .+? play"),
)
_ENTITY: Final = ".+?"  # where it stands in a template
_PATTERNS: Final = tuple(
    (name, re.compile(form.replace(_ENTITY, f"({_ENTITY})"), re.IGNORECASE)) for name, form in _TEMPLATES
)
_LONGEST: Final = 500  # characters: a longer question has no such form, and anybody may send one


def question_type(question: str) -> str | None:
    """The relation that the whole question asks for, white space and marks at its end apart; None for one of another
    form, and of more than 500 characters."""
    found = _matched(question)
    return None if found is None else found[0]


def question_entity(question: str) -> str | None:
    """Of what the question asks it, in the question's own letters; None for one of another form."""
    found = _matched(question)
    return None if found is None else next(group for group in found[1].groups() if group is not None)


def _matched(question: str) -> tuple[str, re.Match[str]] | None:
    said = " ".join(question.split()).rstrip(" ?.!")
    if len(said) > _LONGEST:
        return None
    found = ((name, pattern.fullmatch(said)) for name, pattern in _PATTERNS)
    return next(((name, match) for name, match in found if match is not None), None)


_ENOUGH: Final = 10  # requests of a cell below which nothing is said of it
_LEVEL: Final = 0.05  # the chance that any of equal kinds is named
LEAST_GAP: Final = 0.15
"""By how much a kind's share of right answers lies below the others', at least: that of the alert of the same name."""


@dataclass(frozen=True, slots=True)
class FittedThreshold:
    """The least score from which CORRECT is right often enough, with the share that was, its 95 % interval, and the
    requests at or above it. threshold: None where no score will do, with the reason."""

    threshold: float | None
    share: float | None
    low: float | None
    high: float | None
    requests: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class GradedRequest:
    """One request: its action, whether its answer was right, the kind of its question, and for how many requests it
    stands: one over the probability with which it was drawn."""

    action: Action
    is_right: bool
    kind: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """How many requests got an action, and the share of that traffic whose answer was right, with its 95 %
    interval."""

    action: Action
    kind: str
    requests: int
    right: float
    low: float
    high: float


def fit_upper(
    best_scores: Sequence[float], is_right: Sequence[bool], wanted: float, weights: Sequence[float] | None = None
) -> FittedThreshold:
    """The least threshold from which on the retrieval was right in at least `wanted` of the requests, surely.

    best_scores: `(requests,)`, each request's best document. is_right: whether the evidence was really there, by a
    label or an outcome. wanted: a share in (0, 1). weights: for how many requests each stands, above 0; None: all
    alike. Sure: the lower end of the 95 % interval reaches it. Every score is tried, so of many that barely reach it
    the least one is a little lucky: judge it on other requests.
    Raises: ConfigurationError.
    """
    weights = [1.0] * len(best_scores) if weights is None else weights
    if not len(best_scores) == len(is_right) == len(weights):
        raise ConfigurationError(
            f"{len(best_scores)} scores, {len(is_right)} labels and {len(weights)} weights; give one of each a request"
        )
    if not (is_real(wanted) and 0 < wanted < 1):
        raise ConfigurationError.of("wanted", wanted, "a share above 0 and below 1")
    if not all(is_real(each) and each > 0 for each in weights):
        raise ConfigurationError("weights must be numbers above 0")
    ordered = sorted(zip(best_scores, is_right, weights, strict=True), key=lambda each: -each[0])
    found: FittedThreshold | None = None
    above = _Running()
    for count, (score, is_one, weight) in enumerate(ordered, 1):
        above.add(is_one, weight)
        if count < len(ordered) and ordered[count][0] == score:
            continue  # a threshold parts no equal scores
        low, high = wilson(above.share * above.size, above.size, TWO_SIDED_95)
        if low >= wanted:
            found = FittedThreshold(score, above.share, low, high, count)
    if found is not None:
        return found
    reason = f"no threshold is right in {wanted:.0%} for sure on {len(ordered)} requests: label more, or want less"
    return FittedThreshold(None, None, None, None, 0, reason)


@dataclass(slots=True)
class _Running:
    """Sums of weights and of their squares, of all and of the right ones: `share_and_size` without a second look."""

    whole: float = 0.0
    right: float = 0.0
    squares: float = 0.0
    right_squares: float = 0.0

    def add(self, is_right: bool, weight: float) -> None:
        self.whole += weight
        self.squares += weight**2
        if is_right:
            self.right += weight
            self.right_squares += weight**2

    @property
    def share(self) -> float:
        return self.right / self.whole

    @property
    def size(self) -> float:
        share, wrong_squares = self.share, self.squares - self.right_squares
        variance = ((1 - share) ** 2 * self.right_squares + share**2 * wrong_squares) / self.whole**2
        return effective_size(share, variance, self.whole**2 / self.squares)


def outcomes(requests: Iterable[GradedRequest], *, by_kind: bool = False) -> list[ActionOutcome]:
    """The share of right answers by action (and by the kind of question), most requests first."""
    cells: defaultdict[tuple[Action, str], list[tuple[bool, float]]] = defaultdict(list)
    for request in requests:
        cells[request.action, request.kind if by_kind else ""].append((request.is_right, request.weight))
    found = []
    for (action, kind), right in cells.items():
        share, size = share_and_size(right)
        found.append(ActionOutcome(action, kind, len(right), share, *wilson(share * size, size, TWO_SIDED_95)))
    return sorted(found, key=lambda cell: (-cell.requests, cell.kind, cell.action))


def confidently_wrong(requests: Sequence[GradedRequest]) -> list[ActionOutcome]:
    """Kinds of questions whose retrieval is mostly called CORRECT and whose answers are then worse than usual.

    Usual is the share of right answers under CORRECT over the other kinds. Worse: by `LEAST_GAP`, and surely: of kinds
    that are alike any is named with a chance of 5 % at most (Holm). Kinds of fewer than ten such requests are left out.
    The worst first.
    """
    tested = [
        (cell, (cell.right, share_and_size(own)[1]), share_and_size(others))
        for cell in outcomes(requests, by_kind=True)
        if cell.action == "CORRECT" and cell.requests >= _ENOUGH and _is_trusted(requests, cell.kind)
        for own, others in [_parted(requests, cell.kind)]
        if others
    ]
    adjusted = holm([_chance_of_less(own, others) for _, own, others in tested])
    found = [
        cell
        for (cell, _, (usual, _)), p_value in zip(tested, adjusted, strict=True)
        if p_value <= _LEVEL and usual - cell.right >= LEAST_GAP
    ]
    return sorted(found, key=lambda cell: cell.right)


_Weighed: TypeAlias = list[tuple[bool, float]]


def _is_trusted(requests: Sequence[GradedRequest], kind: str) -> bool:
    """Whether most of the kind's requests are called CORRECT."""
    return share_and_size([(each.action == "CORRECT", each.weight) for each in requests if each.kind == kind])[0] > 0.5


def _parted(requests: Sequence[GradedRequest], kind: str) -> tuple[_Weighed, _Weighed]:
    """Which answers under CORRECT are right: of a kind, and of all others."""
    own: _Weighed = []
    others: _Weighed = []
    for each in requests:
        if each.action == "CORRECT":
            (own if each.kind == kind else others).append((each.is_right, each.weight))
    return own, others


def _chance_of_less(own: tuple[float, float], others: tuple[float, float]) -> float:
    """The one-sided p-value of two shares, each with its size, that the first is not below the second."""
    (share, size), (usual, usual_size) = own, others
    pooled = (share * size + usual * usual_size) / (size + usual_size)
    error = sqrt(pooled * (1 - pooled) * (1 / size + 1 / usual_size))
    return erfc((usual - share) / error / sqrt(2)) / 2 if error > 0 else 1.0
