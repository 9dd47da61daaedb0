"""The store's committed rows for other systems: the Prometheus exporter."""

from __future__ import annotations

from ragtrace.export._server import MetricsServer, serve
from ragtrace.export.exposition import exposition

__all__ = ["MetricsServer", "exposition", "serve"]
