"""What stands on each dashboard, one module each."""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards.contents.analyzer import ANALYZER
from ragtrace.dashboards.contents.attribution import ATTRIBUTION
from ragtrace.dashboards.contents.citation import CITATION
from ragtrace.dashboards.contents.generation import GENERATION
from ragtrace.dashboards.contents.outcomes import OUTCOMES
from ragtrace.dashboards.contents.overview import OVERVIEW
from ragtrace.dashboards.contents.ranking import RANKING
from ragtrace.dashboards.contents.retrieval import RETRIEVAL
from ragtrace.dashboards.contents.sources import SOURCES
from ragtrace.dashboards.model import Dashboard

__all__ = ["DASHBOARDS"]

DASHBOARDS: Final[tuple[Dashboard, ...]] = (
    OVERVIEW,
    OUTCOMES,
    RETRIEVAL,
    RANKING,
    GENERATION,
    CITATION,
    ATTRIBUTION,
    SOURCES,
    ANALYZER,
)
"""Every dashboard, in the order in which evidence is read."""
