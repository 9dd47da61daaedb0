"""The metrics that the gate can judge: states of the stages, scores of the registry, refusals, what a request cost.

A refusal is an answer that states nothing. It is false where the evidence was in the prompt: generation is broken by
it, or retrieval and ranking are both sound. It is right where one of them is broken: the evidence was not there. Else
nothing tells, unless the other side of a pair answered the same question soundly: then the question could be answered,
and the refusal is false as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate.types import STATES, Direction, Kind, Population
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from ragtrace.registry.types import Instrument
from ragtrace.types import Stage, StageState

__all__ = [
    "FALSE",
    "METRICS",
    "REFUSALS",
    "RIGHT",
    "SCORES",
    "UNTOLD",
    "Metric",
    "is_doubtful",
    "is_hint",
    "is_state",
    "refusals",
    "silence",
    "state_metrics",
    "with_pairs",
]

FALSE: Final = "false_refusals"
RIGHT: Final = "right_refusals"
UNTOLD: Final = "untold_refusals"
REFUSALS: Final = (FALSE, RIGHT, UNTOLD)
"""The metrics, each 1 or 0 wherever it is known whether the answer states anything; at most one of them is 1."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One value of each request. unit: `1` for shares, else `s` or a word in braces. state: of its stage, where the
    metric says whether the stage is in it.

    hint: it points to a break and proves none, so that it may warn and never block.
    """

    id: str
    title: str
    kind: Kind
    direction: Direction
    unit: str = "1"
    stage: Stage | None = None
    state: StageState | None = None
    hint: bool = False

    @property
    def largest(self) -> float:
        """The largest value that it can have."""
        return float("inf") if self.kind == "quantity" else 1.0


_TITLES: Final[dict[StageState, str]] = {
    "broken": "broken {}",
    "suspected": "suspected {}",
    "not_known": "{} not known",
}


def state_metrics(stage: str) -> dict[StageState, str]:
    """The metrics of a stage's states, by state: `broken_retrieval`, `suspected_retrieval`, `not_known_retrieval`.

    `broken` is 1 or 0 where the stage is broken or sound, and undefined elsewhere; the others are 1 or 0 wherever the
    stage applies.
    """
    return {state: f"{state}_{stage}" for state in _TITLES}


def _score(instrument: Instrument) -> Metric:
    return Metric(
        id=instrument.id,
        title=instrument.id.replace("_", " "),
        kind="score" if instrument.unit == "1" else "quantity",
        direction=instrument.better or "higher",
        unit=instrument.unit,
        stage=instrument.stage,  # type: ignore[arg-type]  # one of the registry's stages
        hint=instrument.hint,
    )


def _state_metrics(stage: Stage) -> Iterator[Metric]:
    for state, metric in state_metrics(stage).items():
        title = _TITLES[state].format(stage)
        yield Metric(metric, title, "boolean", "lower", stage=stage, state=state, hint=state != "broken")


SCORES: Final = tuple(each.id for each in INSTRUMENTS.values() if each.analysis == "coverage")
"""The scores that an analysis of coverage gives each request."""

_OWN: Final = (
    *(metric for stage in STAGES for metric in _state_metrics(stage.name)),  # type: ignore[arg-type]  # as above
    Metric(FALSE, "false refusals", "boolean", "lower", stage="generation"),
    Metric(RIGHT, "right refusals", "boolean", "lower", stage="generation"),
    Metric(UNTOLD, "refusals that may be right or false", "boolean", "lower", stage="generation", hint=True),
    Metric("errors", "requests that ended with an error", "boolean", "lower"),
    Metric("latency", "latency", "quantity", "lower", "s"),
    Metric("input_tokens", "input tokens", "quantity", "lower", "{token}"),
    Metric("output_tokens", "output tokens", "quantity", "lower", "{token}"),
)

METRICS: Final = {each.id: each for each in (*(_score(INSTRUMENTS[name]) for name in SCORES), *_OWN)}
"""Every metric that a policy may name."""


def is_hint(metric: str) -> bool:
    """Whether a metric points to a break and proves none."""
    return metric in METRICS and METRICS[metric].hint


def is_state(metric: str) -> bool:
    """Whether a metric tells a stage's state, and is no score of its own."""
    return metric in METRICS and METRICS[metric].state is not None


def is_doubtful(metric: str) -> bool:
    """Whether a metric counts requests of which nothing tells whether they are broken."""
    return metric == UNTOLD or (is_state(metric) and is_hint(metric))


_SOUND, _BROKEN = STATES.index("sound"), STATES.index("broken")

_Floats = NDArray[np.float64]


def refusals(silent: _Floats, states: Mapping[Stage, NDArray[np.int8]]) -> dict[str, _Floats]:
    """The metrics of requests. silent: 1 where the answer states nothing, 0 where it does, NaN where it is not known.
    states: of all stages, as `Population` has them."""
    before = (states["retrieval"], states["ranking"])
    was_there = np.logical_and.reduce([codes == _SOUND for codes in before])
    was_lost = np.logical_or.reduce([codes == _BROKEN for codes in before])
    false = (states["generation"] == _BROKEN) | was_there
    right = was_lost & ~false
    marks = {FALSE: false, RIGHT: right, UNTOLD: ~(false | right)}
    return {metric: np.where(np.isnan(silent), np.nan, (silent == 1.0) & told) for metric, told in marks.items()}


def silence(scores: Mapping[str, _Floats]) -> _Floats:
    """What `refusals` was given, by its metrics."""
    false, right, untold = (scores[metric] for metric in REFUSALS)
    return false + right + untold


def with_pairs(baseline: Population, candidate: Population, pairs: NDArray[np.int64]) -> tuple[Population, Population]:
    """Both sides; a refusal of which nothing told is false where the pair's other answer is sound. pairs: rows of
    both, (n, 2)."""
    if not all(metric in side.scores for side in (baseline, candidate) for metric in (FALSE, UNTOLD)):
        return baseline, candidate
    sides = ((baseline, pairs[:, 0]), (candidate, pairs[:, 1]))
    answered = [side.states["generation"][rows] == _SOUND for side, rows in sides]
    one, two = (_falsified(side, rows[other]) for (side, rows), other in zip(sides, answered[::-1], strict=True))
    return one, two


def _falsified(side: Population, answerable: NDArray[np.int64]) -> Population:
    """A side in which nothing told of refusals in these rows, and the question could be answered."""
    rows = answerable[side.scores[UNTOLD][answerable] == 1.0]
    changed = {metric: side.scores[metric].copy() for metric in (FALSE, UNTOLD)}
    changed[FALSE][rows], changed[UNTOLD][rows] = 1.0, 0.0
    return replace(side, scores={**side.scores, **changed})
