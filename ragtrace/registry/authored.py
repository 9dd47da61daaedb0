"""Reads `metrics/*.yaml` and says precisely what does not fit together.

The files have the shape of an OpenTelemetry weaver registry (`groups:` of `metric` and `attribute_group` entries) with
ragtrace's annotations; `stages.yaml` lists the stages. Only the generator imports this module, and with it PyYAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec
import yaml

from ragtrace.errors import RegistryError
from ragtrace.registry.types import (
    UNIT_NAMES,
    AnalysisKind,
    GateRule,
    Instrument,
    Objective,
    RefusalGate,
    StageGate,
    StageInfo,
)

__all__ = ["Registry", "read"]

_STAGES_FILE: Final = "stages.yaml"
_GATE_FILE: Final = "gate.yaml"

_RESERVED_SUFFIXES: Final = ("_bucket", "_sum", "_count", "_created")
_NAME: Final = re.compile(r"ragtrace(_[a-z][a-z0-9]*)+")
_ID: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PAGE: Final = re.compile(r"[a-z]+(-[a-z]+)*")
_FUNCTION: Final = re.compile(r"ragtrace(\.\w+)+:[a-z]\w*")
_NO_STAGE_OWNER: Final = "platform"
_OF_SCORES: Final = ("better", "objective", "hint", "gate", "triage", "flag")
_SCORE_LABELS: Final = ("service", "segment", "stratum", "reference")

T = TypeVar("T")


class Registry(NamedTuple):
    """All that `metrics/` says: stages in order, metrics by id, each label's allowed values (empty: any), of the labels
    whose values a sender chooses how many of them keep their name, and how the gate judges requests as a whole."""

    stages: tuple[StageInfo, ...]
    instruments: dict[str, Instrument]
    attributes: dict[str, tuple[str, ...]]
    budgets: dict[str, int]
    request_rules: dict[str, GateRule]


class _Authored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what may stand in a file: an unknown key is an error."""


class _Stage(_Authored, frozen=True):
    id: str
    failure: str
    owner: str
    components: tuple[str, ...]
    target: float
    runbook: str
    gate: StageGate
    refusals: RefusalGate | None = None


class _RequestRule(GateRule, frozen=True, kw_only=True):
    id: Literal["errors", "latency", "input_tokens", "output_tokens"]


class _Member(_Authored, frozen=True):
    id: str
    value: str


class _Enumeration(_Authored, frozen=True):
    members: tuple[_Member, ...]


class _Attribute(_Authored, frozen=True):
    id: str
    brief: str
    type: Literal["string"] | _Enumeration
    budget: int | None = None


class _AttributeGroup(_Authored, frozen=True, tag="attribute_group"):
    id: str
    brief: str
    attributes: tuple[_Attribute, ...]


class _Ref(_Authored, frozen=True):
    ref: str


class _Metric(_Authored, frozen=True, tag="metric"):
    id: str
    metric_name: str
    brief: str
    instrument: Literal["counter", "gauge", "histogram"]
    unit: str
    owner: str
    attributes: tuple[_Ref, ...] = ()
    symbol: str | None = None
    formula: str | None = None
    source: str | None = None
    stage: str | None = None
    buckets: tuple[float, ...] = ()
    runbook: str | None = None
    analysis: AnalysisKind | None = None
    computed_by: str | None = None
    better: Literal["higher", "lower"] | None = None
    objective: float | None = None
    hint: bool = False
    gate: GateRule | None = None
    triage: bool = False
    flag: str | None = None

    def built(self) -> Instrument:
        """The instrument that the entry describes."""
        as_written = {name: getattr(self, name) for name in _AS_WRITTEN}
        sign: Literal[">=", "<="] = ">=" if self.better == "higher" else "<="
        return Instrument(
            name=self.metric_name,
            kind=self.instrument,
            attributes=tuple(attribute.ref for attribute in self.attributes),
            objective=None if self.objective is None else Objective(self.objective, sign),
            **as_written,
        )


_AS_WRITTEN: Final = {*_Metric.__struct_fields__} & {*Instrument.__struct_fields__} - {"attributes", "objective"}


def read(metrics: Path) -> Registry:
    """Read and check every file of the folder `metrics`.

    Raises: RegistryError naming the file and the entry.
    """
    stages = _read_stages(metrics / _STAGES_FILE)
    found: list[tuple[str, _Metric]] = []
    attributes: dict[str, tuple[str, ...]] = {}
    budgets: dict[str, int] = {}
    for path in sorted(metrics.glob("*.yaml")):
        if path.name in (_STAGES_FILE, _GATE_FILE):
            continue
        for where, group in _groups(path):
            if isinstance(group, _Metric):
                found.append((where, group))
            else:
                _add_attributes(attributes, where, group)
                budgets |= {each.id: each.budget for each in group.attributes if each.budget is not None}
    rules = _read_request_rules(metrics / _GATE_FILE)
    return Registry(stages, _check_all(found, stages, attributes), attributes, budgets, rules)


def _load(path: Path, key: str) -> list[Any]:
    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RegistryError(f"{path.name}: cannot be read: {error}") from error
    entries = body.get(key) if isinstance(body, dict) and len(body) == 1 else None
    if not isinstance(entries, list):
        raise RegistryError(f"{path.name}: must hold one list under the key {key!r} and nothing else")
    return entries


def _convert(where: str, entry: Any, into: type[T] | Any) -> Any:
    try:
        return msgspec.convert(entry, into)
    except msgspec.ValidationError as error:
        raise RegistryError(f"{where}: {error}") from error


def _named(path: Path, entries: list[Any]) -> Iterator[tuple[str, Any]]:
    """Each entry with the words that name it in a message: the file and the id, or the position where it has none."""
    for position, entry in enumerate(entries, start=1):
        name = entry.get("id") if isinstance(entry, dict) else None
        yield f"{path.name}: {name if isinstance(name, str) else f'entry {position}'}", entry


def _groups(path: Path) -> Iterator[tuple[str, _Metric | _AttributeGroup]]:
    for where, entry in _named(path, _load(path, "groups")):
        yield where, _convert(where, entry, _Metric | _AttributeGroup)


def _read_stages(path: Path) -> tuple[StageInfo, ...]:
    stages: dict[str, StageInfo] = {}
    for where, entry in _named(path, _load(path, "stages")):
        stage: _Stage = _convert(where, entry, _Stage)
        _require(stage.id not in stages, where, f"stage {stage.id!r} stands there twice; keep one")
        _require(0 < stage.target < 1, where, f"target {stage.target} must lie in (0, 1)")
        _require(_PAGE.fullmatch(stage.runbook), where, f"runbook {stage.runbook!r} must be the name of a page")
        stages[stage.id] = StageInfo(
            name=stage.id,
            order=len(stages) + 1,
            failure=stage.failure,
            owner=stage.owner,
            components=stage.components,
            target=stage.target,
            runbook=stage.runbook,
            gate=stage.gate,
            refusals=stage.refusals,
        )
        _check_states(where, "gate", stage.gate, proof="broken")
        if stage.refusals is not None:
            _check_states(where, "refusals", stage.refusals, proof="false_refusals")
    return tuple(stages.values())


def _read_request_rules(path: Path) -> dict[str, GateRule]:
    rules: dict[str, GateRule] = {}
    for where, entry in _named(path, _load(path, "request")):
        rule: _RequestRule = _convert(where, entry, _RequestRule)
        _require(rule.id not in rules, where, f"{rule.id!r} stands there twice; keep one")
        _require(rule.margin is None or 0 < rule.margin < 1, where, f"margin {rule.margin} must lie in (0, 1)")
        is_outcome = rule.id == "errors" or rule.blocks == "never"
        _require(is_outcome, where, "moves with load, depth or length and never blocks; give blocks: never")
        rules[rule.id] = GateRule(rule.blocks, rule.margin, rule.guardrail, rule.guardrail_after)
    return rules


def _add_attributes(attributes: dict[str, tuple[str, ...]], where: str, group: _AttributeGroup) -> None:
    for attribute in group.attributes:
        _require(attribute.id not in attributes, where, f"label {attribute.id!r} stands there twice; keep one")
        usable = _ID.fullmatch(attribute.id) and attribute.id != "le"
        _require(usable, where, f"{attribute.id!r} cannot be a label name")
        members = () if isinstance(attribute.type, str) else attribute.type.members
        bounded = attribute.budget is None or (attribute.budget > 0 and not members)
        _require(bounded, where, f"{attribute.id!r}: a budget is above 0, and of a label that may have any value")
        attributes[attribute.id] = tuple(member.value for member in members)


def _check_all(
    found: list[tuple[str, _Metric]], stages: tuple[StageInfo, ...], attributes: dict[str, tuple[str, ...]]
) -> dict[str, Instrument]:
    instruments: dict[str, Instrument] = {}
    names: dict[str, str] = {}
    for where, metric in found:
        _require(metric.id not in instruments, where, f"id {metric.id!r} stands there twice; rename one")
        _require(
            metric.metric_name not in names,
            where,
            f"metric_name {metric.metric_name!r} is also that of {names.get(metric.metric_name)!r}; rename one",
        )
        _check_name(where, metric)
        _check_values(where, metric, attributes)
        _check_stage(where, metric, stages)
        _check_score(where, metric, stages)
        instruments[metric.id] = metric.built()
        names[metric.metric_name] = metric.id
    return instruments


def _require(holds: object, where: str, message: str) -> None:
    if not holds:
        raise RegistryError(f"{where}: {message}")


def _check_name(where: str, metric: _Metric) -> None:
    name = metric.metric_name
    _require(_ID.fullmatch(metric.id), where, f"id {metric.id!r} must be lower_snake_case")
    _require(_NAME.fullmatch(name), where, f"metric_name {name!r} must be ragtrace_lower_snake_case")
    _require(not name.endswith(_RESERVED_SUFFIXES), where, f"metric_name {name!r} ends as a histogram's series do")
    counter = metric.instrument == "counter"
    _require(
        name.endswith("_total") == counter, where, f"metric_name {name!r}: counters, and only they, end with _total"
    )
    _check_unit(where, name.removesuffix("_total"), metric.unit)


def _check_unit(where: str, base: str, unit: str) -> None:
    counts_things = unit.startswith("{") and unit.endswith("}")
    allowed = ", ".join(UNIT_NAMES)
    _require(counts_things or unit in UNIT_NAMES, where, f"unit {unit!r} is none of {allowed}, {{word}}")
    spelled = [code for code, name in UNIT_NAMES.items() if base.endswith(f"_{name}")]
    expected = [] if counts_things else [unit]
    ending = "in no unit" if counts_things else f"with _{UNIT_NAMES[unit]}"
    _require(spelled == expected, where, f"metric_name {base!r} of unit {unit!r} must end {ending}")


def _check_values(where: str, metric: _Metric, attributes: dict[str, tuple[str, ...]]) -> None:
    refs = [attribute.ref for attribute in metric.attributes]
    unknown = sorted(set(refs) - set(attributes))
    _require(not unknown, where, f"attributes {unknown} are not in attributes.yaml; add them there")
    _require(len(set(refs)) == len(refs), where, "an attribute stands there twice; keep one")
    histogram = metric.instrument == "histogram"
    _require(bool(metric.buckets) == histogram, where, "histograms, and only they, have buckets")
    rising = all(low < high for low, high in zip(metric.buckets, metric.buckets[1:], strict=False))
    _require(rising, where, f"buckets {list(metric.buckets)} must increase")
    named = metric.runbook is None or _PAGE.fullmatch(metric.runbook)
    _require(named, where, f"runbook {metric.runbook!r} must be the name of a page, as in rank-shift")


def _check_stage(where: str, metric: _Metric, stages: tuple[StageInfo, ...]) -> None:
    owners = {stage.name: stage.owner for stage in stages}
    if metric.stage is not None:
        allowed = ", ".join(owners)
        _require(metric.stage in owners, where, f"stage {metric.stage!r} is none of stages.yaml: {allowed}")
    expected = _NO_STAGE_OWNER if metric.stage is None else owners[metric.stage]
    _require(metric.owner == expected, where, f"owner {metric.owner!r} of stage {metric.stage} must be {expected!r}")


def _check_score(where: str, metric: _Metric, stages: tuple[StageInfo, ...]) -> None:
    """What only a score of a request may have, and what a score must have."""
    if metric.computed_by is None or metric.analysis is None:
        _require(metric.computed_by == metric.analysis, where, "analysis and computed_by stand together, or neither")
        given = ", ".join(name for name in _OF_SCORES if getattr(metric, name) not in (None, False))
        _require(not given, where, f"only a score has {given}; give analysis and computed_by as well")
        return
    named = _FUNCTION.fullmatch(metric.computed_by)
    _require(named, where, f"computed_by {metric.computed_by!r} must be ragtrace.module:function")
    _require(metric.instrument == "histogram", where, "a score is a histogram; give instrument: histogram and buckets")
    other = [attribute.ref for attribute in metric.attributes if attribute.ref not in _SCORE_LABELS]
    _require(not other, where, f"attributes {other}: a score is counted by {', '.join(_SCORE_LABELS)}")
    if metric.analysis == "coverage":
        _require(metric.stage and metric.better, where, "a score of coverage needs stage, and better: higher or lower")
    else:
        judged = metric.gate is not None or metric.triage or metric.flag is not None
        _require(not judged, where, "gate, triage and flag read scores of coverage only; remove them")
    _check_objective(where, metric)
    _check_gate(where, metric, stages)


def _check_objective(where: str, metric: _Metric) -> None:
    if metric.objective is not None:
        _require(metric.better, where, "an objective needs better: higher or lower")
        in_range = metric.unit != "1" or 0 <= metric.objective <= 1
        _require(in_range, where, f"objective {metric.objective} of a ratio must lie in [0, 1]")
    if metric.flag is not None:
        _require(_ID.fullmatch(metric.flag), where, f"flag {metric.flag!r} must be lower_snake_case")
        _require(
            metric.objective is not None, where, f"flag {metric.flag!r} needs an objective that a request can miss"
        )


def _check_states(where: str, key: str, gate: StageGate | RefusalGate, *, proof: str) -> None:
    """What is suspected or not known proves no break. proof: what of the gate may block."""
    for state, rule in msgspec.structs.asdict(gate).items():
        margin = rule.margin
        _require(margin is None or 0 < margin < 1, where, f"{key}: {state}: margin {margin} must lie in (0, 1)")
        proves = state == proof or rule.blocks == "never"
        _require(proves, where, f"{key}: {state} proves no break and never blocks; give blocks: never")


def _check_gate(where: str, metric: _Metric, stages: tuple[StageInfo, ...]) -> None:
    if metric.gate is None:
        return
    margin, after = metric.gate.margin, metric.gate.guardrail_after
    _require(margin is None or 0 < margin < 1, where, f"gate: margin {margin} must lie in (0, 1)")
    known = dict.fromkeys(component for stage in stages for component in stage.components)
    unknown = [component for component in after if component not in known]
    _require(not unknown, where, f"gate: guardrail_after {unknown} is none of stages.yaml: {', '.join(known)}")
    guards = metric.gate.guardrail or after
    _require(not (guards and metric.gate.blocks == "never"), where, "gate: a guardrail blocks; remove blocks: never")
    _require(not (metric.hint and guards), where, "gate: a hint warns and never blocks; it cannot be a guardrail")
