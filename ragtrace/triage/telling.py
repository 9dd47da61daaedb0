"""The broken requests that tell most about a break."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import Sampled, Store
from ragtrace.triage.evidence import METRICS, SHOWN, Window
from ragtrace.triage.report import Telling
from ragtrace.triage.wording import show_command, written
from ragtrace.types import Reference, Stage

__all__ = ["telling"]

_READ: Final = 60
_SHOWN: Final = 3


def telling(
    store: Store,
    service: str,
    segment: str | None,
    window: Window,
    stage: Stage,
    *,
    reference: Reference | None,
    release: str | None = None,
    without: str | None = None,
) -> tuple[Telling, ...]:
    """Three of the newest requests that broke first in a stage, flagged ones included: those that point at the
    suspected release first, then those of the most common cause, then the worst, then the newest."""
    rows = store.find_requests(
        service=service, segment=segment, since=window.since, until=window.until, stage=stage, limit=_READ
    )
    found = store.scored([row.request_id for row in rows if row.request_id != without], METRICS)
    found = [row for row in found if row.reference == reference]
    causes = Counter(row.cause for row in found)

    def rank(row: Sampled) -> tuple[bool, int, float, int]:
        return row.suspected_rollout == release, causes[row.cause], _shortfall(row, stage), row.started_at

    return tuple(_telling(row) for row in sorted(found, key=rank, reverse=True)[:_SHOWN])


def _shortfall(row: Sampled, stage: Stage) -> float:
    """By how much the request misses the objective that it misses most."""
    missed = [0.0]
    for metric in SHOWN[stage]:
        objective, value = INSTRUMENTS[metric].objective, row.scores.get(metric)
        if objective and value is not None and not objective.met(value):
            missed.append(abs(value - objective.threshold))
    return max(missed)


def _telling(row: Sampled) -> Telling:
    return Telling(
        request_id=row.request_id,
        segment=row.segment,
        at=written(row.started_at),
        cause=(row.cause or "unknown").replace("_", " "),
        suspected_release=row.suspected_rollout,
        command=show_command(row.request_id),
    )
