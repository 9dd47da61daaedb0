"""Alerts as Alertmanager's webhook sends them: read strictly, answered one by one, and judged by whom they called.

An alert about a stage is held against the requests. One about ragtrace itself, or about a source of documents, gets
their state and advice, since requests tell nothing about it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from ragtrace.errors import ConfigurationError
from ragtrace.formats import plain, written_time
from ragtrace.registry.instruments import STAGES
from ragtrace.store import Judgment, PageJudgment, SourceState, Store
from ragtrace.store.totals import OTHER
from ragtrace.triage._evidence import Window, draw, hardly_judged
from ragtrace.triage._report import AlertFacts, Report
from ragtrace.triage._walk import page_answers, triage_segment
from ragtrace.triage.rendering import judge_command, span
from ragtrace.types import replace

__all__ = ["PLATFORM", "SEVERITIES", "Alert", "Payload", "judge_alert", "read_payload", "triage_alert"]

PLATFORM: Final = "platform"
SEVERITIES: Final = ("page", "ticket")

_MINUTE: Final = 60_000_000_000
_HOUR: Final = 60 * _MINUTE
_SAME: Final = _HOUR  # between two beginnings of one alert, as they are given
_RECENT: Final = 12 * _HOUR  # from the beginning of an alert to an answer that does not say when it began
_ANSWERS: Final = 200  # the newest answers, among which the one before is looked for
_LOOKBACK: Final = {"page": 180 * _MINUTE, "ticket": 1_440 * _MINUTE}
_AHEAD: Final = 1_440 * _MINUTE  # clocks may differ, zones may be wrong
_STAGES: Final = (*(stage.name for stage in STAGES), PLATFORM)
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
    facts, service = _facts(store, alert), alert.labels["service"]
    since = alert.started_at - (lookback or _LOOKBACK.get(alert.labels.get("severity", ""), _LOOKBACK["page"]))
    until = max(since + _MINUTE, min(at, alert.ended_at or at))
    window, segment = Window.of(since, until), alert.labels.get("segment") or None
    report = triage_segment(store, service, segment, window, now=at)
    if segment == OTHER and report.range and not report.range.requests:  # the exporter's name for several segments
        report = triage_segment(store, service, None, window, now=at)
    return replace(report, subject="alert", alert=replace(facts, agrees=_agrees(alert.labels.get("stage"), report)))


def _agrees(named: str | None, report: Report) -> bool | None:
    """Whether the stage that an alert names is the one that broke, or where none did, the one at which doubt began to
    rise."""
    if named and report.stage:
        return named == report.stage
    rise = next((each for each in report.rises if each.stage == named and each.state == "doubted"), None)
    return None if rise is None else rise.follows is None


def _beside(store: Store, alert: Alert, at: int) -> Report | None:
    """The report on an alert that is not about requests; None for one that is."""
    labels = alert.labels
    service, source, stage = (plain(labels.get(name, "")) for name in ("service", "source", "stage"))
    if stage == PLATFORM or not service:
        told = f"{_about_ragtrace(store, alert.annotations.get('action'), service)}{_unjudged(store, alert, at)}"
    elif source and not labels.get("segment"):
        told = _about_source(store, labels["service"], labels["source"], at)
    else:
        return None
    owner = plain(labels.get("owner", "")) or None
    made = written_time(at)
    return Report(
        subject="alert", service=service, segment=None, made_at=made, conclusion=plain(told), owner=owner,
        alert=_facts(store, alert), pages=page_answers(store, labels.get("service", "")),
    )  # fmt: skip


def _facts(store: Store, alert: Alert) -> AlertFacts:
    labels = alert.labels
    stage, severity = labels.get("stage", ""), labels.get("severity", "")
    can_be_judged = stage in _STAGES and severity in SEVERITIES
    about = {"service": labels.get("service", ""), "segment": labels.get("segment", ""), "stage": stage}
    said = _answered(store, alert.started_at, _SAME, **about, severity=severity) if can_be_judged else None
    at = written_time(alert.started_at)
    return AlertFacts(
        judgment=said.judgment if said else None,
        judge=judge_command("right", **about, severity=severity, at=at) if can_be_judged else "",
        name=plain(alert.labels.get("alertname", "")),
        status=plain(alert.status),
        fingerprint=plain(alert.fingerprint),
        starts_at=written_time(alert.started_at),
        labels=_plain(alert.labels),
    )


def _plain(labels: Mapping[str, Any]) -> dict[str, str]:
    return {plain(name): plain(str(value)) for name, value in labels.items()}


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000


# was the alert right?


def judge_alert(
    store: Store,
    judgment: Judgment,
    *,
    service: str,
    segment: str,
    stage: str,
    severity: str = "page",
    at: int | None = None,
    comment: str | None = None,
    now: int | None = None,
) -> tuple[PageJudgment, PageJudgment | None]:
    """Keep what on-call says of an alert; the answer, and the one before that it replaces.

    at: when the alert began to fire, nanoseconds: one of the same labels that was answered, and began within an hour of
    it, is the same alert. None: the last of these labels that was answered within twelve hours, else one of now.
    Raises: ConfigurationError for a stage or severity that no alert has.
    """
    if stage not in _STAGES:
        raise ConfigurationError.of("--stage", stage, ", ".join(_STAGES))
    if severity not in SEVERITIES:
        raise ConfigurationError.of("--severity", severity, " or ".join(SEVERITIES))
    present = time.time_ns() if now is None else now
    about = {"service": service, "segment": segment, "stage": stage, "severity": severity}
    began = present if at is None else at
    former = _answered(store, began, _RECENT if at is None else _SAME, **about)
    given = PageJudgment(
        alert_id=former.alert_id if former else _alert_id(began, **about),
        **about,
        judgment=judgment,
        judged_at=present,
        comment=comment,
    )
    return given, store.judge_page(given)


def _answered(
    store: Store, began: int, within: int, *, service: str, segment: str, stage: str, severity: str
) -> PageJudgment | None:
    """The answer to the alert of these labels that began nearest to a time, if one did so near it."""
    wanted = (service, segment, stage, severity)
    answers = [
        (abs(_began(answer.alert_id) - began), answer)
        for answer in store.page_judgments(service, limit=_ANSWERS)
        if (answer.service, answer.segment, answer.stage, answer.severity) == wanted
    ]
    near = [pair for pair in answers if pair[0] <= within]
    return min(near, key=lambda pair: pair[0])[1] if near else None


def _alert_id(began: int, **labels: str) -> str:
    """A name for an alert: of its labels, and of the second in which it began."""
    digest = hashlib.blake2b("\n".join(labels.values()).encode(), digest_size=6).hexdigest()
    return f"{digest}-{began // 1_000_000_000}"


def _began(alert_id: str) -> int:
    """When an alert began, nanoseconds, by its id."""
    return int(alert_id.rpartition("-")[2]) * 1_000_000_000


# alerts that no request explains

_OTHERWISE: Final = "follow the page of the runbook that the alert names"
_SOURCE: Final = "see that its ingestion runs, and what ragtrace source list says"


def _about_ragtrace(store: Store, action: str | None, service: str) -> str:
    """What to do about an alert on ragtrace itself, and the state of the analysis. action: what the alert says to do
    first; service: empty for none."""
    depth = store.queue_depth()
    state = f"{depth.get('pending', 0):,} requests wait for their analysis, {depth.get('dead', 0):,} were given up"
    if service:
        last = store.last_success().get(service)
        when = "never" if last is None else f"last at {datetime.fromtimestamp(last, UTC):%m-%d %H:%M:%SZ}"
        state += f"; {service} was analyzed {when}"
    return (
        f"this alert is about ragtrace itself, and no request explains it: {action or _OTHERWISE}; "
        f"run ragtrace doctor. {state}."
    )


def _about_source(store: Store, service: str, source: str, now: int) -> str:
    """What the reports on a source say, and what to look at. now: nanoseconds."""
    state = next((each for each in store.sources(service) if each.source == source), None)
    if state is None:
        told = "no report on it is stored; let ingestion call ragtrace source report after each of its runs"
        return f"this alert is about the source {source} of {service}: {told}."
    return (
        f"this alert is about the source {source} of {service}: {', '.join(_source_state(state, now))}. Now {_SOURCE}."
    )


def _unjudged(store: Store, alert: Alert, at: int) -> str:
    """That next to nothing of the service can be judged, where it is so, and what would help."""
    service = alert.labels.get("service", "")
    if not service:
        return ""
    since = alert.started_at - _LOOKBACK["ticket"]
    said = hardly_judged(draw(store, service, None, Window.of(since, max(since + _MINUTE, at))).judgeable(store))
    return f" {said}" if said else ""


def _source_state(state: SourceState, now: int) -> Iterator[str]:
    yield f"the last report came {_ago(state.reported_at, now)}"
    if state.documents is not None:
        usual = "" if state.usual_documents is None else f" (usually {state.usual_documents:,.0f})"
        yield f"{state.documents:,} documents{usual}{', which is unusual' if state.is_unusual else ''}"
    if state.newest_at is not None:
        yield f"the newest document is from {_ago(state.newest_at, now)}"
    if state.delay_seconds is not None:
        yield f"a change takes {span(state.delay_seconds)} to become searchable"


def _ago(at: int, now: int) -> str:
    return f"{span(max(0, now - at) / 1e9)} ago"
