"""The text that Prometheus scrapes, in either of its two formats."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client import exposition as text_format
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_format

from ragtrace.export.families import families
from ragtrace.export.limit import MAX_SERIES
from ragtrace.export.snapshot import snapshot
from ragtrace.store import Store

__all__ = ["collected", "collector", "exposition"]


class _Collected:
    """Families that are collected already, as a prometheus_client collector."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = tuple(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def collected(store: Store, max_series: int = MAX_SERIES) -> tuple[Metric, ...]:
    """What the store's committed rows give at this moment, for the one exporter that has the store's lease: label
    values that are shown for the first time get their place in the store before anybody sees them.

    Raises: StoreError when the store cannot be read.
    """
    held = snapshot(store)
    budget = held.budget()
    metrics = tuple(families(held, budget, max_series))
    if budget.new:
        store.expose(budget.new)
    return metrics


def collector(metrics: Iterable[Metric]) -> CollectorRegistry:
    """A registry that holds these families."""
    registry = CollectorRegistry(support_collectors_without_names=True)
    registry.register(_Collected(metrics))
    return registry


def exposition(store: Store, openmetrics: bool = False, *, max_series: int = MAX_SERIES) -> bytes:
    """All metrics of the store: OpenMetrics 1.0 with exemplars, or Prometheus's text format 0.0.4 without. Nothing is
    written to the store.

    max_series: how many series are shown; of more the least important ones are left out.
    Raises: StoreError when the store cannot be read.
    """
    held = snapshot(store)
    registry = collector(families(held, max_series=max_series))
    text: bytes = (openmetrics_format if openmetrics else text_format).generate_latest(registry)
    return text
