"""The rules that hold where no policy names others: every stage, errors, latency and the length of answers."""

from __future__ import annotations

from typing import Any, Final

from ragtrace.gate.metrics import BROKEN, METRICS
from ragtrace.gate.model import Policy, Rule
from ragtrace.store.compared import UNANSWERED

__all__ = ["DEFAULTS", "default_policy", "default_rule"]

_SHARE: Final = 0.03  # of a score in [0, 1], or of the requests
_OTHER: Final = 0.1  # of the baseline's mean, for what has no bounds

DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    BROKEN["retrieval"]: {},
    "query_coverage": {},
    "joint_query_coverage": {},
    "candidate_recall": {},
    "evidence_presence": {},
    BROKEN["ranking"]: {},
    "evidence_recall": {},
    BROKEN["generation"]: {},
    "answer_coverage": {},
    "contradiction_rate": {"margin": 0.02, "guardrail": True},
    UNANSWERED: {},
    BROKEN["citation"]: {},
    "citation_coverage": {"guardrail_after": ("model", "prompt", "prompt_hash")},
    "errors": {"margin": 0.02},
    "latency": {"margin": 0.2, "action": "warn", "segment_action": "warn"},
    "output_tokens": {"margin": 0.2, "segment_action": "warn"},
}
"""The metrics that are judged by default, and how their rules differ from `default_rule` of any metric."""


def default_rule(metric: str) -> Rule:
    """The rule of one metric where the policy says no more than its name."""
    known = METRICS[metric]
    bounded = known.kind != "quantity"
    rule: dict[str, Any] = {
        "metric": metric,
        "kind": known.kind,
        "direction": known.direction,
        "stage": known.stage,
        "margin": _SHARE if bounded else _OTHER,
        "relative": not bounded,
    }
    return Rule(**{**rule, **DEFAULTS.get(metric, {})})


def default_policy() -> Policy:
    """The policy without a file. A metric that neither side has (no gold set, no token counts) is left out."""
    rules = (Rule(**{**_fields(default_rule(metric)), "optional": True}) for metric in DEFAULTS)
    return Policy(rules=tuple(rules))


def _fields(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in rule.__struct_fields__}
