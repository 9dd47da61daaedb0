"""Writes the default policy as a `gate.yaml` that explains itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ragtrace.gate.defaults import default_policy
from ragtrace.gate.metrics import METRICS
from ragtrace.gate.model import Policy, Rule

__all__ = ["example"]

_HEAD: Final = """\
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
# What to do where the data show neither harm nor that there is none: "block" ends with exit code 3, "warn" passes.
on_inconclusive: {on_inconclusive}
on_inconclusive_segment: {on_inconclusive_segment}
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
#   action           block or warn; segment_action: the same within segments
#   guardrail        a certain worsening fails, even within the margin
#   guardrail_after  components; the metric is a guardrail when one of them changed
#   optional         left out where neither side has the metric
metrics:
"""


def example() -> str:
    """The text of the file."""
    policy = default_policy()
    settings = {name: getattr(policy, name) for name in Policy.__struct_fields__ if name != "rules"}
    return _HEAD.format(**settings) + "\n".join(_lines(policy)) + "\n"


def _lines(policy: Policy) -> Iterator[str]:
    group = ""
    for rule in policy.rules:
        named = rule.stage or "the request as a whole"
        if named != group:
            yield f"  # {named}"
            group = named
        better = "lower is better" if rule.direction == "lower" else "higher is better"
        unit = METRICS[rule.metric].unit.strip("{}").replace("1", "share")
        yield f"  {rule.metric}: {{{', '.join(_settings(rule))}}}  # {unit}, {better}"


def _settings(rule: Rule) -> Iterator[str]:
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
