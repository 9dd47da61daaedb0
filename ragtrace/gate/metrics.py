"""The metrics that the gate can judge: the states of the stages, the scores of the registry, what a request cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ragtrace.gate.model import Direction, Kind
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from ragtrace.registry.model import Instrument
from ragtrace.store.rows import UNANSWERED
from ragtrace.types import Stage, StageState

__all__ = ["ANALYZED", "METRICS", "SCORES", "Metric", "is_hint", "is_state", "state_metrics"]


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


_COMPUTED: Final = "ragtrace.coverage:"
_LOWER: Final = frozenset(
    ("contradiction_rate", "evidence_depth", "rank_shift", "truncated_tokens", "dangling_citations")
)
_HINTS: Final = frozenset(("evidence_presence", "answer_relevance"))  # estimates: weak where they were not fitted
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
        direction="lower" if instrument.id in _LOWER else "higher",
        unit=instrument.unit,
        stage=instrument.stage,  # type: ignore[arg-type]  # one of the registry's stages
        hint=instrument.id in _HINTS,
    )


def _state_metrics(stage: Stage) -> Iterator[Metric]:
    for state, metric in state_metrics(stage).items():
        title = _TITLES[state].format(stage)
        yield Metric(metric, title, "boolean", "lower", stage=stage, state=state, hint=state != "broken")


SCORES: Final = tuple(each.id for each in INSTRUMENTS.values() if (each.computed_by or "").startswith(_COMPUTED))
"""The scores that an analysis of coverage gives each request."""

ANALYZED: Final = frozenset((*SCORES, UNANSWERED))
"""The parts of an analysis that are read: its scores, and whether the answer states anything."""

_OWN: Final = (
    *(metric for stage in STAGES for metric in _state_metrics(stage.name)),  # type: ignore[arg-type]  # as above
    Metric(UNANSWERED, "answers that state nothing", "boolean", "lower", stage="generation"),
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
