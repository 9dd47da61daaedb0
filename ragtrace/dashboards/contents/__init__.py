"""The contents of each dashboard."""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards._panels import Dashboard
from ragtrace.dashboards.contents.analyzer import ANALYZER
from ragtrace.dashboards.contents.documents import ATTRIBUTION, EXPOSURE, SOURCES
from ragtrace.dashboards.contents.overview import OUTCOMES, OVERVIEW
from ragtrace.dashboards.contents.stages import CITATION, GENERATION, RANKING, RETRIEVAL

__all__ = ["DASHBOARDS"]

DASHBOARDS: Final[tuple[Dashboard, ...]] = (
    OVERVIEW,
    OUTCOMES,
    RETRIEVAL,
    RANKING,
    GENERATION,
    CITATION,
    ATTRIBUTION,
    EXPOSURE,
    SOURCES,
    ANALYZER,
)
"""Every dashboard, in the order in which evidence is read."""
