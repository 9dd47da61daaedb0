"""Alerts as Alertmanager's webhook sends them, read strictly, and answered one by one."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from ragtrace.errors import ConfigurationError
from ragtrace.export.budget import OTHER
from ragtrace.store import Store
from ragtrace.triage.advice import PLATFORM, about_ragtrace, about_source
from ragtrace.triage.evidence import Window
from ragtrace.triage.report import AlertFacts, Report
from ragtrace.triage.walk import triage_segment
from ragtrace.triage.wording import plain, written
from ragtrace.types import replace

__all__ = ["Alert", "Payload", "read_payload", "triage_alert"]

_MINUTE: Final = 60_000_000_000
_LOOKBACK: Final = {"page": 180 * _MINUTE, "ticket": 1_440 * _MINUTE}
_AHEAD: Final = 1_440 * _MINUTE  # clocks may differ, zones may be wrong
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Alert(msgspec.Struct, frozen=True, rename="camel"):
    """One alert of a payload. ends_at lies in the year 1 while the alert is firing."""

    status: str
    labels: dict[str, str]
    starts_at: datetime
    ends_at: datetime | None = None
    annotations: dict[str, str] = {}
    fingerprint: str = ""

    @property
    def key(self) -> str:
        """One name for this alert and this firing of it, fit for a file."""
        own = self.fingerprint or "\n".join(f"{name}={value}" for name, value in sorted(self.labels.items()))
        return hashlib.sha256(f"{own}\n{self.started_at}".encode()).hexdigest()[:32]

    @property
    def started_at(self) -> int:
        """When it began to fire, nanoseconds."""
        return _nanoseconds(self.starts_at)

    @property
    def ended_at(self) -> int | None:
        """When it was resolved, nanoseconds; None while it fires."""
        ended = self.ends_at is not None and self.status == "resolved" and self.ends_at.year > 1
        return _nanoseconds(self.ends_at) if ended and self.ends_at else None


class Payload(msgspec.Struct, frozen=True):
    """What Alertmanager posts, as far as it is needed: https://prometheus.io/docs/alerting/latest/configuration/."""

    alerts: list[Alert]
    version: str = "4"


def read_payload(body: bytes) -> Payload:
    """Read a webhook's body. Raises: ConfigurationError, whose message says what is wrong with it."""
    try:
        payload = msgspec.json.decode(body, type=Payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigurationError(f"this is no payload of Alertmanager's webhook: {error}") from error
    if payload.version != "4":
        raise ConfigurationError(f"version {payload.version!r} of Alertmanager's webhook is not known; 4 is")
    for alert in payload.alerts:
        for name, at in (("startsAt", alert.starts_at), ("endsAt", alert.ends_at)):
            if at is not None and at.tzinfo is None:
                raise ConfigurationError(f"{name} {at.isoformat()!r} has no zone; write it with Z")
        if not 0 <= alert.started_at <= time.time_ns() + _AHEAD:
            raise ConfigurationError(f"startsAt {alert.starts_at.isoformat()!r} lies in the future, or before 1970")
    return payload


def triage_alert(store: Store, alert: Alert, *, lookback: int | None = None, now: int | None = None) -> Report:
    """Walk the evidence behind an alert, and hold the stage that it names against what is found.

    An alert about ragtrace itself or about a source of documents gets its state, and advice where to look: requests
    tell nothing about it. lookback: how long before its start is looked at, nanoseconds; by default three hours, for a
    ticket a day.
    """
    at = time.time_ns() if now is None else now
    if (beside := _beside(store, alert, at)) is not None:
        return beside
    facts, service = _facts(alert), alert.labels["service"]
    since = alert.started_at - (lookback or _LOOKBACK.get(alert.labels.get("severity", ""), _LOOKBACK["page"]))
    until = max(since + _MINUTE, min(at, alert.ended_at or at))
    window, segment = Window.of(since, until), alert.labels.get("segment") or None
    report = triage_segment(store, service, segment, window, now=at)
    if segment == OTHER and report.range and not report.range.requests:  # the exporter's name for several segments
        report = triage_segment(store, service, None, window, now=at)
    named = alert.labels.get("stage")
    agrees = named == report.stage if named and report.stage else None
    return replace(report, subject="alert", alert=replace(facts, agrees=agrees))


def _beside(store: Store, alert: Alert, at: int) -> Report | None:
    """The report on an alert that is not about requests; None for one that is."""
    labels = alert.labels
    service, source, stage = (plain(labels.get(name, "")) for name in ("service", "source", "stage"))
    if stage == PLATFORM or not service:
        told = about_ragtrace(store, labels.get("alertname", ""), service)
    elif source and not labels.get("segment"):
        told = about_source(store, labels["service"], labels["source"], at)
    else:
        return None
    owner = plain(labels.get("owner", "")) or None
    made = written(at)
    return Report(
        subject="alert", service=service, segment=None, made_at=made, conclusion=plain(told), owner=owner,
        alert=_facts(alert),
    )  # fmt: skip


def _facts(alert: Alert) -> AlertFacts:
    return AlertFacts(
        name=plain(alert.labels.get("alertname", "")),
        status=plain(alert.status),
        fingerprint=plain(alert.fingerprint),
        starts_at=written(alert.started_at),
        labels=_plain(alert.labels),
    )


def _plain(labels: Mapping[str, Any]) -> dict[str, str]:
    return {plain(name): plain(str(value)) for name, value in labels.items()}


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000
