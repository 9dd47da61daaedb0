"""The words of the metric registry: instrument, objective, stage.

The values stand in `metrics/*.yaml`; `ragtrace.registry.instruments` is generated from them.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

__all__ = [
    "UNIT_NAMES",
    "AnalysisKind",
    "GateRule",
    "Instrument",
    "Kind",
    "Objective",
    "RefusalGate",
    "StageGate",
    "StageInfo",
]

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
AnalysisKind: TypeAlias = Literal["coverage", "attribution"]

# UCUM codes and how a metric's name in Prometheus spells them; a unit in braces counts things and is not spelled.
UNIT_NAMES: Final = {"1": "ratio", "s": "seconds", "By": "bytes"}


class Objective(msgspec.Struct, frozen=True):
    """What a request's value should reach. It judges no request by itself: the state of a stage does."""

    threshold: float
    direction: Literal[">=", "<="]

    def met(self, value: float) -> bool:
        """Whether one request's value is good."""
        return value >= self.threshold if self.direction == ">=" else value <= self.threshold


class GateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the release gate judges a score by default, where it differs from the rule of any score.

    blocks: `always`; with `gold` evidence only, where the reference is otherwise found by the component that is judged;
    `never` of what moves with depth, length or the component itself: it explains, and a policy may say otherwise.
    margin: the share by which the candidate may be worse; None: as for any score. guardrail: any proven harm blocks.
    guardrail_after: components of which a change makes it a guardrail.
    """

    blocks: Literal["always", "gold", "never"] = "always"
    margin: float | None = None
    guardrail: bool = False
    guardrail_after: tuple[str, ...] = ()


class Instrument(msgspec.Struct, frozen=True, kw_only=True):
    """One metric.

    `id` is its name in `Score.metric` (per-request metrics) and in code, `name` its name in Prometheus, `unit` a UCUM
    code (`1`, `s`, `{request}`). `stage` is None and `owner` is `platform` where no single stage is answerable.
    `buckets` are the upper bounds of a histogram, without +Inf. `runbook` is the page in `docs/runbooks/` of the alerts
    that watch it.

    A score of a request has more: `analysis` is the kind of job that gives it, `computed_by` its `module:function`,
    `better` the direction in which it improves. A `hint` points to a break and proves none, so that it warns and never
    blocks. The gate judges it by default where it has a `gate` rule, and wherever a policy names it; `triage` says
    whether triage shows it beside its stage's state; `flag` is what a request earns that misses the objective.
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
    runbook: str | None = None
    analysis: AnalysisKind | None = None
    computed_by: str | None = None
    better: Literal["higher", "lower"] | None = None
    hint: bool = False
    gate: GateRule | None = None
    triage: bool = False
    flag: str | None = None


class StageGate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the release gate judges the shares of requests in which a stage is broken, suspected or not known."""

    broken: GateRule
    suspected: GateRule
    not_known: GateRule


class RefusalGate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the release gate judges the shares of requests that are refused although the evidence was there, since it was
    not, and with nothing that tells."""

    false_refusals: GateRule
    right_refusals: GateRule
    untold_refusals: GateRule


class StageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of a request's way, in the order in which a break is looked for (`order` starts at 1).

    `failure` is the verdict that names it, `components` are the version labels that a suspected rollout may have.
    `target`, in (0, 1), is the share of the requests in which the stage is sound or broken that it must be sound in:
    the stage's one service level objective. `runbook` is the page in `docs/runbooks/` of its alerts, `gate` what of its
    states may block a release, `refusals` which of the answers that state nothing may, of the stage that answers.
    """

    name: str
    order: int
    failure: str
    owner: str
    components: tuple[str, ...]
    target: float
    runbook: str
    gate: StageGate
    refusals: RefusalGate | None = None
