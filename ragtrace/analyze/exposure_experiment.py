"""The experiment of fair exposure: a host's own pipeline under sampled rankings, and what even exposure costs answers.

Each question is retrieved once. For each alpha, rankings of its candidates are drawn from the Plackett–Luce
distribution; the pipeline answers from the first k documents, once for each distinct list of them. Measured are the
unevenness of exposure, how far exposure goes to the useful documents, what the answers are worth, which documents they
use, and how even that use is.

Source: Kim and Diaz, "Towards Fair RAG", sections 4 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze._exposures import provider_of
from ragtrace.coverage import SUPPORTED
from ragtrace.coverage.answer import judge_claims
from ragtrace.errors import ConfigurationError
from ragtrace.exposure import (
    UTILITIES,
    Curve,
    IntervalDifference,
    Measure,
    attributed_exposure,
    attribution_rate,
    check_alpha,
    disparity,
    disparity_curve,
    expected_utility,
    exposure,
    group_sums,
    interval_differences,
    relevance,
    sample_rankings,
    seed_of,
    target_exposure,
)
from ragtrace.numeric import check_seed
from ragtrace.record.coercion import Unreadable, read_answer, read_chunks, told_apart
from ragtrace.types import Candidate, PackedChunk

__all__ = [
    "MEASURES",
    "AlphaMeans",
    "ExperimentQuestion",
    "ExperimentReport",
    "ExperimentSettings",
    "Finding",
    "Mean",
    "run_experiment",
]

Retrieve = Callable[[str], Any]
Answer = Callable[[str, list[Any]], Any]

MEASURES: Final = ("disparity", "relevance", "utility", "attribution", "consumption")
"""EE-D, EE-R, EU, EAR and EAE-D, each normalized to [0, 1]."""

_ITEM: Final = "item"
_DRAWS: Final = 2_000  # bootstrap samples of questions
_LEVEL: Final = 0.05
_FEWEST: Final = 10  # questions of an interval of which a finding speaks
_BELOW: Final = 0.2  # of normalized disparity: by how much a ranking is more even than that of the scores
_MARGIN: Final = 0.02  # of an answer's worth, which lies in [0, 1]: less counts as no loss

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExperimentQuestion:
    """A question with its reference answer; gold: the ids of the chunks that answer it, empty where nobody knows."""

    id: str
    text: str
    answer: str
    gold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSettings:
    """How rankings are drawn and answers are judged.

    alphas: of the draws; the order of the scores, without chance, is always looked at. samples: rankings of a question
    at each alpha. candidates: how many of the best enter a ranking; k: how many of them are read. by: what is made
    even, `item` or a provider as `provider_of` takes it. useful: `gold` where a question has it, else by utility;
    `utility`: always by what an answer from the document alone is worth above one from none.
    """

    alphas: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 8.0)
    samples: int = 100
    k: int = 5
    candidates: int = 10
    by: str = _ITEM
    utility: str = "rouge-l"
    useful: Literal["gold", "utility"] = "gold"
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        for alpha in self.alphas:
            check_alpha(alpha)
        if not self.alphas or len(set(self.alphas)) < len(self.alphas):
            raise ConfigurationError.of("alpha", list(self.alphas), "one or more numbers, each once")
        for name in ("samples", "k", "candidates"):
            if getattr(self, name) < 1:
                raise ConfigurationError.of(name, getattr(self, name), "1 or more")
        if self.utility not in UTILITIES:
            raise ConfigurationError.of("utility", self.utility, " or ".join(UTILITIES))
        if self.useful not in ("gold", "utility"):
            raise ConfigurationError.of("useful", self.useful, "gold or utility")


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over questions with its 95 % bootstrap interval; None where no question tells."""

    value: float | None
    low: float | None
    high: float | None
    questions: int


@dataclass(frozen=True, slots=True)
class AlphaMeans:
    """The measures at one alpha; None: the order of the scores."""

    alpha: float | None
    means: dict[str, Mean]


@dataclass(frozen=True, slots=True)
class Finding:
    """One of the paper's findings on these questions: whether it holds, and by which figure."""

    claim: str
    holds: bool | None
    figure: str


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """What the experiment showed. answered: how often the pipeline was asked; useful_by: questions by what said which
    documents are useful; left_out: questions that count nowhere, by reason. curves: each measure over disparity, by the
    means at each alpha. intervals: utility less that of the order of the scores, by interval of disparity."""

    by: str
    k: int
    samples: int
    utility: str
    seed: int
    questions: int
    answered: int
    useful_by: dict[str, int]
    left_out: dict[str, int]
    alphas: tuple[AlphaMeans, ...] = ()
    curves: dict[str, Curve] = field(default_factory=dict)
    intervals: tuple[IntervalDifference, ...] = ()
    findings: tuple[Finding, ...] = ()


def run_experiment(
    questions: Sequence[ExperimentQuestion],
    retrieve: Retrieve,
    answer: Answer,
    settings: ExperimentSettings = ExperimentSettings(),
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> ExperimentReport:
    """Ask the pipeline under sampled rankings.

    retrieve: the candidates of a question with their scores, in any form that ragtrace records. answer: an answer from
    these candidates, as `retrieve` gave them, the best first; from none of them as well, where utility says what is
    useful.
    Raises: ConfigurationError for settings out of range and for what the pipeline raises, with the question's id.
    """
    alphas = (*sorted(each for each in settings.alphas if not isinf(each)), float("inf"))
    left_out: Counter[str] = Counter()
    useful_by: Counter[str] = Counter()
    rows: list[_Floats] = []
    answered = 0
    for done, question in enumerate(questions, 1):
        trial = _Trial.of(question, retrieve, answer, settings)
        if isinstance(trial, str):
            left_out[trial] += 1
        else:
            useful, kind = trial.useful()
            rows.append(trial.measured(useful, alphas))
            useful_by[kind] += 1
            answered += len(trial.worths)
        if on_progress is not None:
            on_progress(done, len(questions))
    report = {
        "by": settings.by,
        "k": settings.k,
        "samples": settings.samples,
        "utility": settings.utility,
        "seed": settings.seed,
        "questions": len(rows),
        "answered": answered,
        "useful_by": dict(useful_by),
        "left_out": dict(left_out),
    }
    if not rows:
        return ExperimentReport(**report)  # type: ignore[arg-type]
    return ExperimentReport(**report, **_summary(np.stack(rows), alphas, settings.seed))  # type: ignore[arg-type]


@dataclass(slots=True)
class _Trial:
    """One question with its candidates, and what was answered so far, by the documents that were read."""

    question: ExperimentQuestion
    answer: Answer
    settings: ExperimentSettings
    items: list[Any]
    candidates: list[Candidate]
    scores: list[float]
    worths: dict[tuple[int, ...], tuple[float, frozenset[int]]] = field(default_factory=dict)
    uses: dict[str, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, question: ExperimentQuestion, retrieve: Retrieve, answer: Answer, settings: ExperimentSettings
    ) -> _Trial | str:
        """Retrieve the candidates; why there is nothing to rank where that is so."""
        try:
            items = list(retrieve(question.text))
            read = told_apart(read_chunks(items).ranked)
        except Unreadable:
            return "no candidates were found"
        except Exception as error:
            raise _broken(question, "retriever", error) from error
        if len(read) < len(items) or any(chunk.score is None or chunk.text is None for _, chunk in read):
            return "a candidate lacks its score or its text"
        best = sorted(range(len(read)), key=lambda place: -(read[place][1].score or 0.0))[: settings.candidates]
        if len(best) < 2:
            return "fewer than two candidates"
        candidates = [read[place][1].candidate(rank) for rank, place in enumerate(best, 1)]
        scores = [read[place][1].score or 0.0 for place in best]
        return cls(question, answer, settings, [items[place] for place in best], candidates, scores)

    def useful(self) -> tuple[list[bool], str]:
        """Which candidates are useful, and what says so."""
        gold = set(self.question.gold)
        if gold and self.settings.useful == "gold":
            return [each.chunk_id in gold for each in self.candidates], "gold"
        without = self._worth(())[0]
        return [self._worth((place,))[0] > without for place in range(len(self.candidates))], "utility"

    def measured(self, useful: Sequence[bool], alphas: Sequence[float]) -> _Floats:
        """`(alphas, measures)`, NaN where one is undefined."""
        seen = [self._under(alpha) for alpha in alphas]
        utilities = [[self._worth(ranking)[0] for ranking in rankings] for rankings in seen]
        best = max(max(each) for each in utilities)
        return np.array(
            [self._measures(rankings, worths, best, useful) for rankings, worths in zip(seen, utilities, strict=True)],
            dtype=np.float64,
        )

    def _under(self, alpha: float) -> list[tuple[int, ...]]:
        count = 1 if isinf(alpha) else self.settings.samples
        seed = (seed_of(f"{self.question.id} {alpha:g}") + self.settings.seed) % 2**63
        drawn = sample_rankings(self.scores, alpha, seed=seed, count=count, k=self.settings.k)
        return [tuple(ranking) for ranking in drawn.tolist()]

    def _measures(
        self, rankings: list[tuple[int, ...]], worths: list[float], best: float, useful: Sequence[bool]
    ) -> list[float]:
        n, k = len(self.candidates), min(self.settings.k, len(self.candidates))
        used = [[place in self._worth(ranking)[1] for place in ranking] for ranking in rankings]
        shown, sizes = self._grouped(exposure(rankings, n, k))
        consumed, _ = self._grouped(attributed_exposure(rankings, used, n, k))
        deserved, _ = self._grouped(target_exposure(useful, k))
        rate = float(np.mean([attribution_rate(each, k) for each in used]))
        return [
            _normal(disparity(shown, sizes)),
            _normal(relevance(shown, deserved, sizes)),
            _normal(expected_utility(worths, best)),
            rate,
            _normal(disparity(consumed, sizes)) if consumed.any() else np.nan,
        ]

    def _grouped(self, values: _Floats) -> tuple[_Floats, _Floats]:
        """Values by provider with how many candidates each has; by item each has one."""
        if self.settings.by == _ITEM:
            return values, np.ones(len(values))
        groups = [provider_of(each, self.settings.by) for each in self.candidates]
        sums = group_sums(values, groups)
        sizes = Counter(groups)
        return np.array(list(sums.values())), np.array([float(sizes[name]) for name in sums])

    def _worth(self, places: tuple[int, ...]) -> tuple[float, frozenset[int]]:
        """What the answer from these documents is worth, and which of all candidates it uses."""
        if places not in self.worths:
            try:
                said = (
                    read_answer(self.answer(self.question.text, [self.items[place] for place in places])).answer or ""
                )
            except Exception as error:
                raise _broken(self.question, "pipeline", error) from error
            worth = UTILITIES[self.settings.utility](said, self.question.answer)
            self.worths[places] = worth, self._uses(said)
        return self.worths[places]

    def _uses(self, answer: str) -> frozenset[int]:
        """The candidates that support a factual claim of the answer."""
        if answer not in self.uses:
            packed = [
                PackedChunk(chunk_id=each.chunk_id, position=place, text=each.text)
                for place, each in enumerate(self.candidates, 1)
            ]
            _, supports = judge_claims(answer, packed, query=self.question.text)
            used = {chunk for each in supports for chunk, value in each.items() if value >= SUPPORTED}
            self.uses[answer] = frozenset(place for place, each in enumerate(self.candidates) if each.chunk_id in used)
        return self.uses[answer]


def _broken(question: ExperimentQuestion, what: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"the {what} failed on question {question.id}: {type(error).__name__}: {error}; it is called with the question"
        + (" alone" if what == "retriever" else " and a list of candidates, which may be empty")
    )


def _normal(measure: Measure) -> float:
    return np.nan if measure.normalized is None else measure.normalized


def _summary(table: _Floats, alphas: Sequence[float], seed: int) -> Mapping[str, Any]:
    """table: `(questions, alphas, measures)`."""
    chance = np.random.default_rng(seed)
    picks = np.vstack([np.arange(len(table)), chance.integers(0, len(table), size=(_DRAWS, len(table)))])
    means = np.stack([_nanmean(table[pick]) for pick in picks])  # (1 + draws, alphas, measures)
    known = np.isfinite(table).sum(axis=0)
    columns = {name: place for place, name in enumerate(MEASURES)}
    drawn, fixed = table[:, :-1], table[:, -1]  # the order of the scores comes last, and is not held against itself
    intervals = tuple(interval_differences(drawn[..., 0], drawn[..., 2], fixed[:, 2], seed=seed))
    even = np.where(drawn[..., 0] <= fixed[:, :1] - _BELOW, drawn[..., 0], np.nan)
    lower = interval_differences(even, drawn[..., 2], fixed[:, 2], seed=seed, margin=_MARGIN, fewest=_FEWEST)
    return {
        "alphas": tuple(
            AlphaMeans(
                None if isinf(alpha) else alpha,
                {name: _mean(means[:, at, place], int(known[at, place])) for name, place in columns.items()},
            )
            for at, alpha in enumerate(alphas)
        ),
        "curves": {
            name: _curve(means[0, :, 0], means[0, :, place]) for name, place in columns.items() if name != MEASURES[0]
        },
        "intervals": intervals,
        "findings": tuple(_findings(means, lower, len(table))),
    }


def _nanmean(values: _Floats) -> _Floats:
    known = np.isfinite(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


def _mean(values: _Floats, questions: int) -> Mean:
    drawn = values[1:][np.isfinite(values[1:])]
    if not np.isfinite(values[0]) or not len(drawn):
        return Mean(None, None, None, questions)
    low, high = np.quantile(drawn, [_LEVEL / 2, 1 - _LEVEL / 2])
    return Mean(float(values[0]), float(low), float(high), questions)


def _curve(disparities: _Floats, heights: _Floats) -> Curve:
    known = np.isfinite(disparities) & np.isfinite(heights)
    if not known.any():
        return Curve(None, None, "no question tells")
    return disparity_curve(disparities[known], heights[known])


def _findings(means: _Floats, lower: Sequence[IntervalDifference], questions: int) -> Iterator[Finding]:
    yield _sloping("even exposure costs relevance: relevance rises with disparity", means, 1, questions)
    yield _harmless(lower)
    yield _sloping("even exposure makes what answers use even: consumption rises with disparity", means, 4, questions)


def _harmless(lower: Sequence[IntervalDifference]) -> Finding:
    """Whether answers are surely worth at most `_MARGIN` less somewhere (of all intervals together, one-sided), or
    surely more than that less everywhere. lower: of rankings that are clearly more even than that of the scores."""
    known = [each for each in lower if each.requests >= _FEWEST]
    fine = any(each.not_worse is not None and each.not_worse <= _LEVEL / 2 for each in known)
    harmed = bool(known) and all(each.high_end is not None and each.high_end < -_MARGIN for each in known)
    shown = ", ".join(
        f"{each.low:.1f} to {each.high:.1f}: {each.difference:+.3f} (n = {each.requests})" for each in known
    )
    return Finding(
        f"even exposure need not cost answers: at some lower disparity they are worth at most {_MARGIN:g} less",
        True if fine else False if harmed else None,
        f"by disparity {shown}" if shown else f"no interval has {_FEWEST} questions",
    )


def _sloping(claim: str, means: _Floats, column: int, questions: int) -> Finding:
    """Whether a measure surely rises with disparity, by the slope over the alphas of each bootstrap sample."""
    slopes = np.array([_slope(each[:, 0], each[:, column]) for each in means])
    drawn = slopes[1:][np.isfinite(slopes[1:])]
    if not np.isfinite(slopes[0]) or not len(drawn):
        return Finding(claim, None, "the slope is not defined")
    if questions < _FEWEST:
        return Finding(claim, None, f"slope {slopes[0]:+.2f}, of fewer than {_FEWEST} questions")
    low, high = np.quantile(drawn, [_LEVEL / 2, 1 - _LEVEL / 2])
    holds = True if low > 0 else False if high < 0 else None
    return Finding(claim, holds, f"slope {slopes[0]:+.2f} [{low:+.2f}, {high:+.2f}]")


def _slope(x: _Floats, y: _Floats) -> float:
    known = np.isfinite(x) & np.isfinite(y)
    if known.sum() < 2 or np.ptp(x[known]) == 0:
        return np.nan
    centered = x[known] - x[known].mean()
    return float(centered @ y[known] / (centered @ centered))
