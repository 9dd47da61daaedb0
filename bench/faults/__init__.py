"""Faults of known stage at graded strengths, each a wrapper around one component of the demo's pipeline.

`FAULTS` lists them by stage and kind. A fault is injected into one request; whether it took effect is told from what
the pipeline did with the known evidence (`effect`), never from a metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bench.faults.answers import ALTERATIONS, altering
from bench.faults.model import STRENGTHS, Fault, Scene
from bench.faults.ranking import demote, evict, swap, truncate
from bench.faults.retrieval import drop, stale, strip
from ragtrace.demo.pipeline import Components
from ragtrace.types import Stage

__all__ = ["FAULTS", "STRENGTHS", "Fault", "Inject", "Scene"]

Inject = Callable[[Components, Scene, int], Components | None]
FAULTS: Final[Mapping[Stage, Mapping[str, Inject]]] = {
    "retrieval": {"drop": drop, "stale": stale, "strip": strip},
    "ranking": {"demote": demote, "swap": swap, "truncate": truncate, "evict": evict},
    "generation": {kind: altering(kind) for kind in ALTERATIONS},
}
