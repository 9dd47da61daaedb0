"""Policies: the default one, the `gate.yaml` that explains it, and any other, read strictly and checked.

What a policy does not know, and what cannot hold, is an error. A policy also says how many questions it takes: two
sides without any difference leave room for a rare loss that n questions did not show, 1 - alpha^(1/n), the exact
binomial bound. So a margin has a least number of questions, whatever the answers are, and it is known before any is
asked. Segments with fewer can be found worse, and never be found no worse: those are judged together as `OTHER`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from math import ceil, inf, isfinite, log, log1p
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml

from ragtrace.errors import ConfigurationError
from ragtrace.gate._metrics import METRICS, is_hint, is_state, state_metrics
from ragtrace.gate.types import Action, Policy, Rule
from ragtrace.registry import GateRule, StageInfo
from ragtrace.registry.instruments import INSTRUMENTS, REQUEST_RULES, STAGES

__all__ = [
    "DEFAULTS",
    "OTHER",
    "announcement",
    "check_policy",
    "default_policy",
    "default_rule",
    "example",
    "least_questions",
    "read_policy",
    "too_small",
]

_SHARE_MARGIN: Final = 0.03  # of a score in [0, 1], or of the requests
_MEAN_MARGIN: Final = 0.1  # of the baseline's mean, for what has no bounds
_WARNS: Final = {"action": "warn", "segment_action": "warn"}


def _of_stage(stage: StageInfo) -> dict[str, dict[str, Any]]:
    """How the rules of a stage's metrics differ: its states, scores and refusals."""
    states = {metric: _changed(getattr(stage.gate, state)) for state, metric in state_metrics(stage.name).items()}
    judged = (one for one in INSTRUMENTS.values() if one.stage == stage.name and one.gate is not None)
    scores = {one.id: (_WARNS if one.hint else {}) | _changed(one.gate or GateRule()) for one in judged}
    refusals = {} if stage.refusals is None else msgspec.structs.asdict(stage.refusals)
    return states | scores | {metric: _changed(rule) for metric, rule in refusals.items()}


def _changed(rule: GateRule) -> dict[str, Any]:
    differs = {name: value for name, value in msgspec.structs.asdict(rule).items() if value and name != "blocks"}
    by_default: dict[str, dict[str, Any]] = {"always": {}, "gold": {"gold": True}, "never": dict(_WARNS)}
    return by_default[rule.blocks] | differs


_OF_REQUEST: Final = {metric: _changed(rule) for metric, rule in REQUEST_RULES.items()}
DEFAULTS: Final = {metric: rule for stage in STAGES for metric, rule in _of_stage(stage).items()} | _OF_REQUEST
"""The metrics that are judged by default, and how their rules differ from `default_rule` of any metric."""

_REMEDY: Final = "`ragtrace gate policy` prints a whole one"
_PERCENT: Final = re.compile(r"([+-]?[\d.]+(?:e[+-]?\d+)?)\s*%", re.IGNORECASE)
_MOST: Final = 1_000_000  # resamples, requests of a minimum


class _Authored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may stand under a metric; None: as it is by default."""

    margin: float | str | None = None
    segments: dict[str, float | str] = {}
    floor: float | None = None
    minimum: int | None = None
    action: Action | None = None
    segment_action: Action | None = None
    guardrail: bool | None = None
    guardrail_after: tuple[str, ...] | None = None
    optional: bool | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    metrics: dict[str, _Authored | None] | None = None
    alpha: float | None = None
    power: float | None = None
    required_segments: tuple[str, ...] | None = None
    on_missing: Action | None = None
    on_inconclusive: Action | None = None
    on_inconclusive_segment: Action | None = None
    on_suspected: Action | None = None
    reference: Literal["auto", "oracle", "proxy"] | None = None
    pairing: Literal["auto", "paired", "unpaired"] | None = None
    resamples: int | None = None
    seed: int | None = None


def default_rule(metric: str) -> Rule:
    """The rule of one metric where the policy says no more than its name."""
    known = METRICS[metric]
    bounded = known.kind != "quantity"
    rule: dict[str, Any] = {
        "metric": metric,
        "kind": known.kind,
        "direction": known.direction,
        "stage": known.stage,
        "margin": _SHARE_MARGIN if bounded else _MEAN_MARGIN,
        "relative": not bounded,
    }
    return Rule(**{**rule, **DEFAULTS.get(metric, {})})


def default_policy() -> Policy:
    """The policy without a file. A metric that neither side has (no gold set, no token counts) is left out."""
    rules = (Rule(**{**_fields(default_rule(metric)), "optional": True}) for metric in DEFAULTS)
    return Policy(rules=tuple(rules))


def _fields(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in rule.__struct_fields__}


def read_policy(path: Path | str | None = None) -> Policy:
    """The policy of a file; None: the default one. `metrics` in the file names all that is judged.

    Raises: ConfigurationError, in one line, for an unreadable file, an unknown key or metric, and a value that
    cannot hold.
    """
    if path is None:
        return default_policy()
    policy = _read_file(Path(path))
    check_policy(policy, str(path))
    return policy


def _read_file(path: Path) -> Policy:
    try:
        body = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ConfigurationError(f"cannot read the policy {str(path)!r}: {error.strerror}; {_REMEDY}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path} is no YAML: {' '.join(str(error).split())}; {_REMEDY}") from error
    try:
        authored = msgspec.convert(body if body is not None else {}, _File)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{path}: {_hinted(str(error), body)}; {_REMEDY}") from error
    settings = {name: value for name in _File.__struct_fields__ if (value := getattr(authored, name)) is not None}
    metrics = settings.pop("metrics", None)
    rules = default_policy().rules if metrics is None else tuple(_rules(str(path), metrics))
    return Policy(rules=rules, **settings)


class _Loader(yaml.SafeLoader):
    """A loader that refuses a key that stands twice: YAML would take the last one silently."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    twice = next((key for place, key in enumerate(keys) if key in keys[:place]), None)
    if twice is not None:
        raise yaml.YAMLError(f"{twice!r} stands there twice")
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _hinted(message: str, body: object) -> str:
    """The complaint, with the metric's name where it is about one."""
    found = re.search(r"`\$\.metrics\[\.\.\.\]", message)
    if found and isinstance(body, Mapping) and isinstance(body.get("metrics"), Mapping):
        for name, entry in body["metrics"].items():
            try:
                msgspec.convert(entry, _Authored | None)
            except msgspec.ValidationError:
                return message.replace("$.metrics[...]", f"metrics.{name}")
    return message


def _rules(where: str, metrics: Mapping[str, _Authored | None]) -> Iterator[Rule]:
    for metric, authored in metrics.items():
        if metric not in METRICS:
            raise ConfigurationError(f"{where}: {_unknown(metric)}")
        yield _rule(f"{where}: metrics.{metric}", metric, authored or _Authored())


def _unknown(metric: str) -> str:
    near = get_close_matches(metric, METRICS, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"metric {metric!r} is not known; give one of {', '.join(METRICS)}{meant}"


def _rule(where: str, metric: str, authored: _Authored) -> Rule:
    changes: dict[str, Any] = {
        name: value
        for name in ("floor", "minimum", "action", "segment_action", "guardrail", "guardrail_after", "optional")
        if (value := getattr(authored, name)) is not None
    }
    rule = default_rule(metric)
    margins = {segment: _margin(f"{where}.segments.{segment}", each) for segment, each in authored.segments.items()}
    changes["relative"] = rule.relative
    if authored.margin is not None:
        changes["margin"], changes["relative"] = _margin(f"{where}.margin", authored.margin)
    for segment, (_, relative) in margins.items():
        if relative != changes["relative"]:
            raise ConfigurationError(f"{where}.segments.{segment}: margins of one metric are all in percent, or none")
    if rule.gold and authored.action is not None:
        changes["gold"] = False
    changes["segment_margins"] = {segment: margin for segment, (margin, _) in margins.items()}
    return msgspec.structs.replace(rule, **changes)


def _margin(where: str, margin: float | str) -> tuple[float, bool]:
    """The margin, and whether it is a share of the baseline's mean."""
    if not isinstance(margin, str):
        return margin, False
    percent = _PERCENT.fullmatch(margin.strip())
    try:
        if percent is not None:
            return float(percent[1]) / 100, True
    except ValueError:
        pass
    raise ConfigurationError.of(where, margin, "a number, or one with a percent sign: of the baseline's mean")


def check_policy(policy: Policy, where: str = "policy") -> None:
    """Whether a policy can be held against anything. Raises: ConfigurationError."""
    _require(bool(policy.rules), where, "metrics", list(policy.rules), "at least one metric")
    _require(0 < policy.alpha < 0.5, where, "alpha", policy.alpha, "a share of false blocks above 0 and below 0.5")
    _require(0 < policy.power < 1, where, "power", policy.power, "a share above 0 and below 1, such as 0.8")
    _require(100 <= policy.resamples <= _MOST, where, "resamples", policy.resamples, f"100 to {_MOST}")
    _require(policy.seed >= 0, where, "seed", policy.seed, "0 or more")
    seen: set[str] = set()
    for rule in policy.rules:
        if rule.metric not in METRICS:
            raise ConfigurationError(f"{where}: {_unknown(rule.metric)}")
        if rule.metric in seen:
            raise ConfigurationError(f"{where}: metric {rule.metric!r} has two rules; keep one")
        seen.add(rule.metric)
        _check_rule(f"{where}: metrics.{rule.metric}", rule)


def _check_rule(where: str, rule: Rule) -> None:
    known = METRICS[rule.metric]
    if (rule.kind, rule.direction) != (known.kind, known.direction):
        raise ConfigurationError(
            f"{where} is a {known.kind} of which {known.direction} is better; leave both as they are"
        )
    if is_hint(rule.metric):
        for name, action in (("action", rule.action), ("segment_action", rule.segment_action)):
            _require(action == "warn", where, name, action, f"warn: {known.title} points to a break and proves none")
    largest = known.largest
    if rule.relative:
        largest = 1.0 if rule.direction == "higher" else inf
    below = "a margin above 0" + (f" and below {largest:g}: a larger one tolerates everything" if largest < inf else "")
    margins = {"margin": rule.margin, **{f"segments.{name}": each for name, each in rule.segment_margins.items()}}
    for name, margin in margins.items():
        usable = isfinite(margin) and 0 < margin < largest
        shown = f"{margin * 100:g}%" if rule.relative else margin
        _require(usable, where, name, shown, below)
    if rule.floor is not None:
        bound = f"a mean from 0 to {known.largest:g}" if known.largest < inf else "a mean of 0 or more"
        _require(isfinite(rule.floor) and 0 <= rule.floor <= known.largest, where, "floor", rule.floor, bound)
    _require(1 <= rule.minimum <= _MOST, where, "minimum", rule.minimum, f"1 to {_MOST} requests")


def _require(holds: bool, where: str, name: str, value: object, allowed: str) -> None:
    if not holds:
        join = "." if ": metrics." in where else ": "
        raise ConfigurationError.of(f"{where}{join}{name}", value, allowed)


_EXAMPLE: Final = """\
# The policy of `ragtrace gate run --policy gate.yaml`; this one is the default. Only what differs needs to stand here.
# `metrics` names all that is judged: without it, every metric below is.

# A candidate that is as good as the baseline is blocked in at most this share of runs, all metrics and segments
# together.
alpha: {alpha}
# A margin counts as detectable when a loss of its size is found in this share of runs.
power: {power}
# Segments that must have enough data; "block" or "warn" when one has not.
required_segments: []
on_missing: {on_missing}
# What to do where harm can neither be shown nor be ruled out: "block" ends with exit code 3, "warn" passes.
on_inconclusive: {on_inconclusive}
on_inconclusive_segment: {on_inconclusive_segment}
# What to do where a stage is suspected or not known, or a refusal may be right or false, in certainly more requests:
# "block" ends with exit code 3.
on_suspected: {on_suspected}
# Requests are judged by gold sets (oracle) or without (proxy); auto: by what more of them have.
reference: {reference}
# auto: by question where both sides have the same ones.
pairing: {pairing}
resamples: {resamples}
seed: {seed}

# Under a metric may stand:
#   margin           how much worse is tolerated, in the metric's unit; with a percent sign: of the baseline's mean
#   segments         other margins, as in {{refunds: 0.01}}
#   floor            what the candidate's own mean must reach (must not exceed, where lower is better)
#   minimum          the fewest requests that a verdict is drawn from
#   action           block or warn; segment_action: the same within segments. What is suspected or not known,
#                    untold_refusals and evidence_presence can only warn: they point to a break and prove none.
#                    candidate_recall and evidence_recall block where there is gold evidence, unless an action is given
#   guardrail        a certain worsening fails, even within the margin
#   guardrail_after  components; the metric is a guardrail when one of them changed
#   optional         left out where neither side has the metric
metrics:
"""


def example() -> str:
    """The text of the file."""
    policy = default_policy()
    settings = {name: getattr(policy, name) for name in Policy.__struct_fields__ if name != "rules"}
    return _EXAMPLE.format(**settings) + "\n".join(_example_lines(policy)) + "\n"


def _example_lines(policy: Policy) -> Iterator[str]:
    group = ""
    for rule in policy.rules:
        named = rule.stage or "the request as a whole"
        if named != group:
            yield f"  # {named}"
            group = named
        better = "lower is better" if rule.direction == "lower" else "higher is better"
        unit = METRICS[rule.metric].unit.strip("{}").replace("1", "share")
        yield f"  {rule.metric}: {{{', '.join(_example_settings(rule))}}}  # {unit}, {better}"


def _example_settings(rule: Rule) -> Iterator[str]:
    yield f"margin: {f'{rule.margin * 100:g}%' if rule.relative else f'{rule.margin:g}'}"
    yield f"minimum: {rule.minimum}"
    if rule.action != "block":
        yield f"action: {rule.action}"
    if rule.segment_action != "block":
        yield f"segment_action: {rule.segment_action}"
    if rule.guardrail:
        yield "guardrail: true"
    if rule.guardrail_after:
        yield f"guardrail_after: [{', '.join(rule.guardrail_after)}]"
    if rule.optional:
        yield "optional: true"


OTHER: Final = "*other*"
"""The segments that are too small to be judged alone, together."""

_NAMED: Final = 6
_ROUNDING: Final = 1e-9


def least_questions(rule: Rule, segment: str | None, alpha: float) -> int:
    """The fewest questions with which this rule can pass at all: those without any difference."""
    margin = rule.margin_of(segment)
    if rule.kind == "quantity" or rule.relative or not 0 < margin < 1:
        return rule.minimum
    return max(rule.minimum, ceil(log(alpha) / log1p(-margin) - _ROUNDING))


def too_small(sizes: Mapping[str, int], policy: Policy) -> tuple[str, ...]:
    """The segments in which a stage can never be shown to be no more broken, by name; of a policy without the states of
    stages those in which no rule that blocks can ever pass. sizes: questions of each segment."""
    return tuple(sorted(name for name, size in sizes.items() if name and size < _least_of(name, policy)))


def _least_of(segment: str, policy: Policy) -> int:
    rules = [rule for rule in policy.rules if rule.segment_action == "block"] or policy.rules
    states = [least_questions(rule, segment, policy.alpha) for rule in rules if is_state(rule.metric)]
    return max(states) if states else min(least_questions(rule, segment, policy.alpha) for rule in rules)


def announcement(
    sizes: Mapping[str, int], policy: Policy, *, paired: bool = True, needed: int | None = None
) -> tuple[str, ...]:
    """What can be said before anything is asked. sizes: questions of each segment, "" for those of none.

    paired: whether both sides were asked the same ones; else these are requests of each side. needed: how many decide
    the run; no second number is said beside it.
    """
    unit, sides, ask = ("questions", "", "ask") if paired else ("requests", " on each side", "wait for")
    whole = sum(sizes.values())
    rules = [rule for rule in policy.rules if rule.action == "block"] or policy.rules
    least = max(least_questions(rule, None, policy.alpha) for rule in rules)
    if whole < least:
        return (
            f"{whole:,} {unit}{sides} are too few to pass any candidate by this policy, even one without any "
            f"difference; they can only block one. {ask.capitalize()} at least {_tens(least):,}.",
        )
    small = too_small(sizes, policy)
    if not small:
        return ()
    size = _tens(max(_least_of(name, policy) for name in small))
    named = ", ".join(f"{name} ({sizes[name]:,})" for name in small[:_NAMED])
    more = f" and {len(small) - _NAMED} more" if len(small) > _NAMED else ""
    if len(small) == 1:
        alone = "" if needed else f": {ask} about {size:,} {unit} of it{sides} to judge it alone"
        return (f"The segment {named} is too small to pass alone, whatever the answers, and can only fail{alone}.",)
    pool = sum(sizes[name] for name in small)
    enough = "" if pool >= size else ", which is too small as well"
    together = f"all {unit}" if pool == whole else f"{OTHER} ({pool:,}){enough}"
    alone = "" if needed else f"; {ask} about {size:,} {unit} of each{sides} to judge them alone"
    return (
        f"The segments {named}{more} are too small to pass alone, whatever the answers, and can only fail. For passing "
        f"they count together, as {together}{alone}.",
    )


def _tens(number: int) -> int:
    """Rounded up, as all announced numbers of questions are."""
    return -(-number // 10) * 10
