"""The metrics that the gate can judge: the scores of the registry, where a request broke first, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ragtrace.gate.model import Direction, Kind
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from ragtrace.registry.model import Instrument
from ragtrace.store.compared import UNANSWERED
from ragtrace.types import Stage

__all__ = ["ANALYZED", "BROKEN", "METRICS", "SCORES", "Metric"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One value of each request. unit: `1` for shares, else `s` or a word in braces."""

    id: str
    title: str
    kind: Kind
    direction: Direction
    unit: str = "1"
    stage: Stage | None = None

    @property
    def largest(self) -> float:
        """The largest value that it can have."""
        return float("inf") if self.kind == "quantity" else 1.0


_COMPUTED: Final = "ragtrace.coverage:"
_LOWER: Final = frozenset(
    ("contradiction_rate", "evidence_depth", "rank_shift", "truncated_tokens", "dangling_citations")
)


def _score(instrument: Instrument) -> Metric:
    return Metric(
        id=instrument.id,
        title=instrument.id.replace("_", " "),
        kind="score" if instrument.unit == "1" else "quantity",
        direction="lower" if instrument.id in _LOWER else "higher",
        unit=instrument.unit,
        stage=instrument.stage,  # type: ignore[arg-type]  # one of the registry's stages
    )


def _broken(stage: str) -> Metric:
    return Metric(f"broken_{stage}", f"{stage} breaks first", "boolean", "lower", stage=stage)  # type: ignore[arg-type]


SCORES: Final = tuple(each.id for each in INSTRUMENTS.values() if (each.computed_by or "").startswith(_COMPUTED))
"""The scores that an analysis of coverage gives each request."""

ANALYZED: Final = frozenset((*SCORES, UNANSWERED))
"""What is read of an analysis: its scores, and whether the answer states anything."""

BROKEN: Final = {stage.name: f"broken_{stage.name}" for stage in STAGES}
"""Whether a stage is the first broken one, by stage; undefined where the diagnosis is undetermined."""

_OWN: Final = (
    *(_broken(stage.name) for stage in STAGES),
    Metric(UNANSWERED, "answers that state nothing", "boolean", "lower", stage="generation"),
    Metric("errors", "requests that ended with an error", "boolean", "lower"),
    Metric("latency", "latency", "quantity", "lower", "s"),
    Metric("input_tokens", "input tokens", "quantity", "lower", "{token}"),
    Metric("output_tokens", "output tokens", "quantity", "lower", "{token}"),
)

METRICS: Final = {each.id: each for each in (*(_score(INSTRUMENTS[name]) for name in SCORES), *_OWN)}
"""Every metric that a policy may name."""
