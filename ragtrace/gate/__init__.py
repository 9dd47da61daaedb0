"""The release gate: may this candidate replace the baseline, in every stage and in every segment?

`run` compares two selections of requests, `compare` two populations; what they need is imported when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ragtrace.gate._judgment import judge
    from ragtrace.gate._population import compared
    from ragtrace.gate.policy import read_policy
    from ragtrace.gate.runs import check_itself, compare, run
    from ragtrace.gate.types import Comparison, GateReport, Policy, Population, Rule

__all__ = [
    "Comparison",
    "GateReport",
    "Policy",
    "Population",
    "Rule",
    "check_itself",
    "compare",
    "compared",
    "judge",
    "read_policy",
    "run",
]

_PLACES: Final = {
    **dict.fromkeys(("Comparison", "GateReport", "Policy", "Population", "Rule"), "types"),
    "check_itself": "runs",
    "compare": "runs",
    "compared": "_population",
    "judge": "_judgment",
    "read_policy": "policy",
    "run": "runs",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: a test runner that loads the plugin pays nothing before."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
