"""Answers to alerts that no request's evidence can explain: those about ragtrace itself, and those about a source."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from ragtrace.store import SourceState, Store
from ragtrace.triage.wording import span

__all__ = ["PLATFORM", "about_ragtrace", "about_source"]

PLATFORM: Final = "platform"

_LOOK: Final = {
    "RagtraceExporterDown": "see that ragtrace export runs, and that Prometheus reaches it",
    "RagtraceRequestsGone": "see which database the exporter was started with (ragtrace export --store URL)",
    "RagtraceAnalyzerStale": "see that ragtrace analyze --follow runs with this store, and read its log",
    "RagtraceSliAbsent": "see which metrics are undefined and why, on the dashboard of the analyzer",
    "RagtraceQueueBacklog": "start another ragtrace analyze --follow where the number of waiting jobs does not fall",
    "RagtraceQueueOld": "start another ragtrace analyze --follow where the number of waiting jobs does not fall",
    "RagtraceDeadJobs": "see which with ragtrace jobs list --state dead, and why in the log of ragtrace analyze",
    "RagtraceLateEvaluations": "look at the queue of the analysis, and at the way from the host to the store",
    "RagtraceInternalErrors": "look for the traceback in the log of the host",
    "RagtraceDroppedRecords": "look at the reason that the alert names, and at the log of the host",
    "RagtraceReceiverRefuses": "look for errors of the store in the log of ragtrace serve, and at its commits",
    "RagtraceReceiverLags": "raise ragtrace serve --assemblers, or start another one, where traces wait ever longer",
}
_OTHERWISE: Final = "follow the page of the runbook that the alert names"
_SOURCE: Final = "see that its ingestion runs, and what ragtrace source list says"


def about_ragtrace(store: Store, name: str, service: str) -> str:
    """What to do about an alert on ragtrace itself, and the state of the analysis. service: empty for none."""
    depth = store.queue_depth()
    state = f"{depth.get('pending', 0):,} requests wait for their analysis, {depth.get('dead', 0):,} were given up"
    if service:
        last = store.last_success().get(service)
        when = "never" if last is None else f"last at {datetime.fromtimestamp(last, UTC):%m-%d %H:%M:%SZ}"
        state += f"; {service} was analyzed {when}"
    look = _LOOK.get(name, _OTHERWISE)
    return f"this alert is about ragtrace itself, and no request explains it: {look}; run ragtrace doctor. {state}."


def about_source(store: Store, service: str, source: str, now: int) -> str:
    """What the reports on a source say, and what to look at. now: nanoseconds."""
    found = next((each for each in store.sources(service) if each.source == source), None)
    if found is None:
        told = "no report on it is stored; let ingestion call ragtrace source report after each of its runs"
        return f"this alert is about the source {source} of {service}: {told}."
    return f"this alert is about the source {source} of {service}: {', '.join(_state(found, now))}. Now {_SOURCE}."


def _state(found: SourceState, now: int) -> Iterator[str]:
    yield f"the last report came {_ago(found.reported_at, now)}"
    if found.documents is not None:
        usual = "" if found.usual_documents is None else f" (usually {found.usual_documents:,.0f})"
        yield f"{found.documents:,} documents{usual}{', which is unusual' if found.is_unusual else ''}"
    if found.newest_at is not None:
        yield f"the newest document is from {_ago(found.newest_at, now)}"
    if found.delay_seconds is not None:
        yield f"a change takes {span(found.delay_seconds)} to become searchable"


def _ago(at: int, now: int) -> str:
    return f"{span(max(0, now - at) / 1e9)} ago"
