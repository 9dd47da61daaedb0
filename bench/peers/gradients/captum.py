"""captum: its `LayerIntegratedGradients` with 100 Gauss-Legendre nodes, 16 of them in a pass."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

TOOL: Final[Any] = import_module("captum.attr")


def attribute(score: Callable[[Any], Any], layer: Any, ids: Any, baseline_ids: Any) -> Any:
    """Attributions per token, `(1, n_tokens)`, of one text given by its ids."""
    explained = TOOL.LayerIntegratedGradients(score, layer)
    values = explained.attribute(
        ids, baselines=baseline_ids, n_steps=100, method="gausslegendre", internal_batch_size=16
    )
    return values.sum(dim=-1)
