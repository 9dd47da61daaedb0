"""Source health: is what the index is built from complete, fresh and on time?"""

from __future__ import annotations

from functools import partial
from typing import Final

from ragtrace.dashboards._panels import Dashboard, Panel, PanelSection, Target, commands, over_time
from ragtrace.dashboards._promql import quantile, selector, share
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import (
    CANDIDATE_AGE,
    SOURCE_DELAY,
    SOURCE_DOCUMENTS,
    SOURCE_NEWEST_TIMESTAMP,
    SOURCE_REPORT_TIMESTAMP,
)

__all__ = ["SOURCES"]

_REPORTS: Final = "It fills when ingestion jobs run `ragtrace source report` or call `ragtrace.source_report`."
_over_time: Final = partial(over_time, empty=_REPORTS, least_step=None)
_DATES: Final = "It fills when candidates carry a date in their metadata."


def _latest(instrument: Instrument, ago: str = "") -> str:
    return f"max by (service, source) ({selector(instrument)}{ago})"


def _age(instrument: Instrument) -> str:
    return f"time() - {_latest(instrument)}"


_TABLE: Final = Panel(
    title="Sources",
    kind="table",
    description="One row for each source that ingestion reports: how late, how old, how much, and when it last "
    "reported.",
    unit="s",
    targets=(
        Target(_latest(SOURCE_DELAY), "ingestion delay"),
        Target(_age(SOURCE_NEWEST_TIMESTAMP), "age of the newest document"),
        Target(_age(SOURCE_REPORT_TIMESTAMP), "time since the last report"),
        Target(_latest(SOURCE_DOCUMENTS), "documents", unit="short"),
        Target(
            f"{share(_latest(SOURCE_DOCUMENTS), _latest(SOURCE_DOCUMENTS, ' offset $__range'))} - 1",
            "change of documents over the range",
            unit="percentunit",
        ),
    ),
    width=24,
    height=8,
    key=("source", "service"),
    empty=_REPORTS,
)

_CHANGE: Final = over_time(
    "Change of documents over the range",
    f"{SOURCE_DOCUMENTS.brief} Beside the number one range earlier: −100 % is a source that came empty.",
    Target(f"{share(_latest(SOURCE_DOCUMENTS), _latest(SOURCE_DOCUMENTS, ' offset $__range'))} - 1", "{{source}}"),
    unit="percentunit",
    empty=_REPORTS,
    minimum=None,
    least_step=None,
)

_CANDIDATES: Final = over_time(
    "Age of the documents that requests find",
    f"{CANDIDATE_AGE.brief} Median, estimated from buckets: it rises where an index no longer takes "
    "news, even if "
    "ingestion reports that all is well.",
    Target(quantile(0.5, CANDIDATE_AGE, "source"), "{{source}}"),
    unit="s",
    width=24,
    empty=_DATES,
)

SOURCES: Final = Dashboard(
    uid="ragtrace-sources",
    title="ragtrace: source health",
    description="Is what the index is built from complete, fresh and on time? Owner: retrieval-indexing.",
    sections=(
        PanelSection("All sources", (_TABLE,)),
        PanelSection(
            "Late or stale?",
            (
                _over_time(
                    "Ingestion delay", SOURCE_DELAY.brief, Target(_latest(SOURCE_DELAY), "{{source}}"), unit="s"
                ),
                _over_time(
                    "Age of the newest document",
                    f"{SOURCE_NEWEST_TIMESTAMP.brief} It rises by itself until something new arrives.",
                    Target(_age(SOURCE_NEWEST_TIMESTAMP), "{{source}}"),
                    unit="s",
                ),
                _CANDIDATES,
            ),
        ),
        PanelSection(
            "Complete?",
            (
                _over_time("Documents", SOURCE_DOCUMENTS.brief, Target(_latest(SOURCE_DOCUMENTS), "{{source}}")),
                _CHANGE,
            ),
        ),
        commands(),
    ),
)
