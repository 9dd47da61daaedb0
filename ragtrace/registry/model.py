"""The words of the metric registry: instrument, objective, service level indicator, stage.

The values stand in `metrics/*.yaml`; `ragtrace.registry.instruments` is generated from them.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

__all__ = ["UNIT_NAMES", "Instrument", "Kind", "Objective", "Sli", "StageInfo"]

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

# UCUM codes and how a metric's name in Prometheus spells them; a unit in braces counts things and is not spelled.
UNIT_NAMES: Final = {"1": "ratio", "s": "seconds", "By": "bytes"}


class Objective(msgspec.Struct, frozen=True):
    """What a request's value must reach, and the share of requests (`target`, in (0, 1)) that must reach it."""

    threshold: float
    direction: Literal[">=", "<="]
    target: float = 0.95

    def met(self, value: float) -> bool:
        """Whether one request's value is good."""
        return value >= self.threshold if self.direction == ">=" else value <= self.threshold


class Sli(msgspec.Struct, frozen=True):
    """A service level indicator: its name in the label `metric`, and the stages that must be good before a request
    counts in it with `scope="conditional"`."""

    name: str
    given: tuple[str, ...] = ()


class Instrument(msgspec.Struct, frozen=True, kw_only=True):
    """One metric.

    `id` is its name in `Score.metric` (per-request metrics) and in code, `name` its name in Prometheus, `unit` a UCUM
    code (`1`, `s`, `{request}`). `stage` is None and `owner` is `platform` where no single stage is answerable.
    `buckets` are the upper bounds of a histogram, without +Inf. `computed_by` is `module:function`, `runbook` the page
    in `docs/runbooks/` of the alerts that watch it.
    """

    id: str
    name: str
    kind: Kind
    unit: str
    brief: str
    owner: str
    attributes: tuple[str, ...] = ()
    symbol: str | None = None
    formula: str | None = None
    source: str | None = None
    stage: str | None = None
    buckets: tuple[float, ...] = ()
    objective: Objective | None = None
    sli: Sli | None = None
    computed_by: str | None = None
    runbook: str | None = None


class StageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of a request's way, in the order in which a break is looked for (`order` starts at 1).

    `failure` is the verdict that names it, `components` are the version labels that a suspected rollout may have.
    """

    name: str
    order: int
    failure: str
    owner: str
    components: tuple[str, ...]
