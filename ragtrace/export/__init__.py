"""What the store's committed rows say, for other systems: the Prometheus exporter."""

from __future__ import annotations

from ragtrace.export.exposition import exposition
from ragtrace.export.server import MetricsServer, serve

__all__ = ["MetricsServer", "exposition", "serve"]
