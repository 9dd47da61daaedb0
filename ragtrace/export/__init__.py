"""The store's committed rows for others: metrics for Prometheus, a request's evidence path as text and as pages."""

from __future__ import annotations

from ragtrace.export.exporter import MetricsServer, serve
from ragtrace.export.exposition import exposition

__all__ = ["MetricsServer", "exposition", "serve"]
