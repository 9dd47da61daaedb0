"""The store's committed rows for other systems: the Prometheus exporter."""

from __future__ import annotations

from ragtrace.export.exposition import exposition
from ragtrace.export.server import MetricsServer, serve

__all__ = ["MetricsServer", "exposition", "serve"]
