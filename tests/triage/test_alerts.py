"""Alertmanager's payload, read and answered."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from bench.traffic import MINUTE, SERVICE, Break, Traffic, store_traffic
from ragtrace.alerts._platform import platform_alerts
from ragtrace.alerts._policy import known_registry, policy
from ragtrace.alerts.settings import read_settings
from ragtrace.errors import ConfigurationError
from ragtrace.triage import judge_alert, markdown, read_payload, triage_alert
from ragtrace.types import SourceReport, StageFinding, replace
from tests.triage.conftest import END, START

if TYPE_CHECKING:
    from ragtrace.store import Judgment, Store
    from tests.triage.conftest import Fill

SHIPPED = policy(known_registry(), read_settings(None))


def payload(*alerts: dict[str, Any]) -> bytes:
    """A body as Alertmanager posts it."""
    return json.dumps(
        {"version": "4", "groupKey": '{}:{stage="ranking"}', "status": "firing", "receiver": "ranking-context",
         "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {}, "externalURL": "http://127.0.0.1:9093",
         "truncatedAlerts": 0, "alerts": list(alerts)}
    ).encode()  # fmt: skip


def alert(**labels: str) -> dict[str, Any]:
    """A firing page that began ten minutes before the end of the traffic."""
    began = datetime.fromtimestamp((END - 10 * MINUTE) / 1e9, UTC).isoformat().replace("+00:00", "Z")
    given = {"alertname": "RagtraceEvidencePage", "severity": "page", "service": SERVICE, "stage": "ranking"} | labels
    return {
        "status": "firing",
        "labels": {name: value for name, value in given.items() if value},
        "annotations": {"summary": "x"},
        "startsAt": began,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://127.0.0.1:9090/graph",
        "fingerprint": "a2f1" + labels.get("segment", ""),
    }


def test_an_alert_is_walked_and_agrees(fill: Fill) -> None:
    """Service and segment come from its labels, the time from its start."""
    store = fill(Break("ranking", 0.6, 0.8, component="packer"))
    (one,) = read_payload(payload(alert(segment="limit"))).alerts
    report = triage_alert(store, one, now=END)
    assert (report.subject, report.service, report.segment, report.stage) == ("alert", SERVICE, "limit", "ranking")
    assert report.suspected_release == "packer=packer-bad"
    assert report.alert is not None
    assert report.alert.agrees is True
    assert report.alert.name == "RagtraceEvidencePage"


def test_an_alert_that_names_another_stage_is_contradicted(fill: Fill) -> None:
    """The evidence says that retrieval broke first."""
    store = fill(Break("retrieval", 0.6, 0.8))
    (one,) = read_payload(payload(alert())).alerts
    report = triage_alert(store, one, now=END)
    assert report.stage == "retrieval"
    assert report.alert is not None
    assert report.alert.agrees is False
    assert "it names ranking, but retrieval is broken before it" in markdown(report)


def test_an_alert_about_a_break_that_is_over_says_so(fill: Fill) -> None:
    """Ranking was broken when it fired, and generation is now: both are true."""
    store = fill(Break("ranking", 0.9, 0.5, until=0.7), Break("generation", 0.9, 0.8))
    (one,) = read_payload(payload(alert())).alerts
    report = triage_alert(store, one, now=END)
    assert (report.stage, report.alert and report.alert.agrees) == ("generation", False)
    assert "it names ranking, which has recovered; generation is broken now" in markdown(report)


def test_status_start_and_labels_are_enough(fill: Fill) -> None:
    """What the annotation of a shipped alert pipes into the command."""
    labels = '{"alertname": "A", "severity": "page", "stage": "ranking", "service": "assistant", "segment": "limit"}'
    body = '{"alerts": [{"status": "firing", "startsAt": "2023-11-14T22:03:20Z", "labels": ' + labels + "}]}"
    (one,) = read_payload(body.encode()).alerts
    report = triage_alert(fill(Break("ranking", 0.6, 0.8)), one, now=END)
    assert (report.segment, report.stage) == ("limit", "ranking")


def test_segments_that_the_exporter_folded_are_walked_together(fill: Fill) -> None:
    """`other` stands for several of them: all of the service is looked at, unless a segment has that name."""
    (one,) = read_payload(payload(alert(segment="other"))).alerts
    store = fill(Break("ranking", 0.6, 0.8))
    report = triage_alert(store, one, now=END)
    assert (report.segment, report.stage) == (None, "ranking")
    fill(segments=("other",), end=END - 1)
    assert triage_alert(store, one, now=END).segment == "other"


def test_a_ticket_looks_further_back(fill: Fill) -> None:
    """A day for a ticket, three hours for a page, and what is asked for."""
    store = fill()
    (page,) = read_payload(payload(alert())).alerts
    (ticket,) = read_payload(payload(alert(severity="ticket"))).alerts
    spans = []
    for one, lookback in ((page, None), (ticket, None), (page, 30 * MINUTE)):
        found = triage_alert(store, one, lookback=lookback, now=END).range
        assert found is not None
        since = datetime.fromisoformat(found.since).timestamp() * 1e9
        spans.append(round((one.started_at - since) / MINUTE))
    assert spans == [180, 1440, 30]


def test_an_end_that_no_clock_shows_is_now(fill: Fill) -> None:
    """A resolved alert's end may be anything."""
    over = alert() | {"status": "resolved", "endsAt": "9999-12-31T23:59:59-23:00"}
    (one,) = read_payload(payload(over)).alerts
    report = triage_alert(fill(), one, now=END)
    assert report.range is not None
    assert report.range.until == "2023-11-14T22:13:20.000Z"


def test_an_alert_without_a_service_is_about_ragtrace(fill: Fill) -> None:
    """There is no evidence to walk."""
    (one,) = read_payload(payload(alert(service="", alertname="RagtraceAnalyzerStale"))).alerts
    report = triage_alert(fill(), one, now=END)
    assert "follow the page of the runbook that the alert names; run ragtrace doctor" in report.conclusion
    assert report.checks == ()


def test_alerts_about_ragtrace_get_advice_though_they_name_a_service(fill: Fill) -> None:
    """Requests of the service may be fine or broken: neither explains the alert, which says itself what to do."""
    store = fill(Break("ranking", 0.6, 0.8))
    rules = {one["alert"]: one["annotations"] for one in platform_alerts(SHIPPED)}
    assert len(rules) > 10
    for name, told in sorted(rules.items()):
        given = alert(alertname=name, stage="platform", owner="platform") | {"annotations": told}
        (one,) = read_payload(payload(given)).alerts
        report = triage_alert(store, one, now=END)
        assert report.alert is not None, name
        assert (report.alert.agrees, report.checks, report.stage) == (None, (), None), name
        assert (report.service, report.owner) == (SERVICE, "platform"), name
        assert f"{told['action']}; run ragtrace doctor" in report.conclusion, name
        assert f"{SERVICE} was analyzed last at" in report.conclusion, name
        page = markdown(report)
        assert "What was checked" not in page, name
        assert "it names" not in page, name


def test_an_alert_about_a_source_gets_its_state(fill: Fill) -> None:
    """What its reports say, and nothing about requests."""
    labels = {"stage": "retrieval", "severity": "ticket", "source": "wiki"}
    (one,) = read_payload(payload(alert(alertname="RagtraceSourceDelayTicket", **labels))).alerts
    store = fill(Break("ranking", 0.6, 0.8))
    assert "no report on it is stored" in triage_alert(store, one, now=END).conclusion

    def said(at: int, documents: int) -> SourceReport:
        return SourceReport(
            service=SERVICE, source="wiki", reported_at=at, documents=documents, newest_at=at, delay_seconds=7200.0
        )

    for hours, documents in ((5, 1000), (4, 1010), (3, 990), (2, 1000), (1, 12)):
        at = END - hours * 60 * MINUTE
        store.write([said(at, documents)])
    report = triage_alert(store, one, now=END)
    assert (report.checks, report.stage) == ((), None)
    for told in (
        "wiki of assistant",
        "last report came 1 h ago",
        "12 documents (usually 1,000), which is unusual",
        "newest document is from 1 h ago",
        "takes 2 h to become searchable",
        "ragtrace source list",
    ):
        assert told in report.conclusion  # fmt: skip


def test_a_ticket_for_doubt_agrees_with_a_rise_of_doubt(fill: Fill) -> None:
    """Nothing is proven to be broken, and the stage that the alert names is in doubt more often than before."""
    store = fill(Break("ranking", 0.5, 0.7, state="suspected", reason="low_match"))
    ranking, retrieval = read_payload(payload(alert(), alert(stage="retrieval", segment="limit"))).alerts
    report = triage_alert(store, ranking, now=END)
    assert (report.stage, report.alert and report.alert.agrees) == (None, True)
    assert "it names ranking: the evidence shows that more is in doubt there, too" in markdown(report)
    other = triage_alert(store, retrieval, now=END)
    assert (other.stage, other.alert and other.alert.agrees) == (None, None)


def test_a_ticket_for_doubt_that_began_elsewhere_is_told_where(store: Store) -> None:
    """The alert names ranking, whose doubt follows from that of retrieval."""

    class Dragging(Traffic):
        def findings(self, broken: Break | None) -> tuple[StageFinding, ...]:
            return tuple(replace(one, doubted=broken is not None) for one in super().findings(broken))

    doubt = Break("retrieval", 0.5, 0.7, state="suspected", reason="low_match")
    store_traffic(store, Dragging(600, START, END, (doubt,)))
    ranking, retrieval = read_payload(payload(alert(), alert(stage="retrieval", segment="limit"))).alerts
    report = triage_alert(store, ranking, now=END)
    assert (report.stage, report.alert and report.alert.agrees) == (None, False)
    told = "it names ranking: the evidence shows that more is in doubt there, and that it began at retrieval"
    assert told in markdown(report)
    other = triage_alert(store, retrieval, now=END)
    assert other.alert is not None
    assert other.alert.agrees is True


def test_an_alert_on_a_service_that_cannot_be_judged_says_why(fill: Fill) -> None:
    """What nothing can be told of, and what would help, behind the advice on ragtrace itself."""
    unknown: Any = {"retrieval": ("not_known", "undecided"), "generation": ("not_known", "undecided")}
    labels = {"alertname": "RagtraceUnjudged", "stage": "platform", "severity": "ticket", "owner": "platform"}
    (one,) = read_payload(payload(alert(**labels))).alerts
    report = triage_alert(fill(unjudged=unknown), one, now=END)
    assert "Next to nothing can be judged: retrieval in 0 of " in report.conclusion
    assert "ragtrace gold import" in report.conclusion
    assert "Next to nothing" not in triage_alert(fill(count=600, start=END - 239 * MINUTE), one, now=END).conclusion


def test_a_report_says_how_to_judge_its_alert(fill: Fill) -> None:
    """One command, whatever the labels hold; the answer stands in the next report, with how often pages were right."""
    store = fill(Break("ranking", 0.6, 0.8))
    (one,) = read_payload(payload(alert(segment="it's a limit"))).alerts
    report = triage_alert(store, one, now=END)
    assert report.alert is not None
    assert report.alert.judgment is None
    assert shlex.split(report.alert.judge) == [
        "ragtrace", "triage", "judge", "right", "--service=assistant", "--segment=it's a limit", "--stage=ranking",
        "--severity=page", "--at=2023-11-14T22:03:20.000Z",
    ]  # fmt: skip
    assert report.alert.judge in markdown(report)
    given, former = judge_alert(
        store, "wrong_stage", service=SERVICE, segment="it's a limit", stage="ranking", at=one.started_at, now=END
    )
    assert (given.judgment, former) == ("wrong_stage", None)
    again = triage_alert(store, one, now=END)
    assert again.alert is not None
    assert again.alert.judgment == "wrong_stage"
    assert again.pages is not None
    assert (again.pages.right, again.pages.wrong_stage, again.pages.precision) == (0, 1, 0.0)
    assert "- judged: wrong stage" in markdown(again)
    assert "0 of 1 judged pages were right (0 %); 1 named the wrong stage, 0 were false" in markdown(again)


def test_an_alert_that_names_no_stage_cannot_be_judged(fill: Fill) -> None:
    """There is nothing that could have been right."""
    (one,) = read_payload(payload(alert(stage="", alertname="SomebodyElses"))).alerts
    report = triage_alert(fill(), one, now=END)
    assert report.alert is not None
    assert report.alert.judge == ""
    assert "Was this alert right?" not in markdown(report)


def said(store: Store, answer: Judgment, minutes: float, *, at: float | None = None, **fields: Any) -> bool:
    """Judge a page of a segment so many minutes after the end; whether it replaced an answer. at: when it began."""
    about: dict[str, Any] = {"service": SERVICE, "segment": "limit", "stage": "ranking", **fields}
    began = None if at is None else END + int(at * MINUTE)
    return judge_alert(store, answer, at=began, now=END + int(minutes * MINUTE), **about)[1] is not None


def test_an_alert_is_judged_again_by_when_it_began(store: Store) -> None:
    """Clocks and evaluations differ by minutes; one that began hours later is another one."""
    assert not said(store, "right", 30, at=0)
    assert said(store, "false", 40, at=2)
    assert not said(store, "right", 300, at=240)
    assert not said(store, "right", 40, at=0, segment="deadline")
    assert not said(store, "right", 40, at=0, severity="ticket")
    assert [(one.judgment, one.segment) for one in store.page_judgments() if one.severity == "page"] == [
        ("right", "limit"),
        ("false", "limit"),
        ("right", "deadline"),
    ]


def test_an_answer_without_a_time_is_on_the_last_alert(store: Store) -> None:
    """The one that was answered within half a day, else a new one."""
    said(store, "right", 30, at=0)
    assert said(store, "false", 400)
    assert not said(store, "right", 1_000)
    assert said(store, "wrong_stage", 1_010)


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"stage": "packing"}, "--stage 'packing'"), ({"severity": "warning"}, "--severity 'warning'")],
)
def test_no_alert_has_another_stage_or_severity(store: Store, fields: dict[str, Any], named: str) -> None:
    """It is refused, with those that there are."""
    with pytest.raises(ConfigurationError, match=named):
        said(store, "right", 0, **fields)
    assert store.page_judgments() == []


def test_a_key_names_alert_and_firing() -> None:
    """The same fingerprint that fires again later is another one; without a fingerprint the labels count."""
    (one,) = read_payload(payload(alert())).alerts
    (same,) = read_payload(payload(alert() | {"annotations": {}})).alerts
    (later,) = read_payload(payload(alert() | {"startsAt": "2026-01-01T00:00:00Z"})).alerts
    bare = read_payload(payload(alert() | {"fingerprint": ""}, alert(segment="x") | {"fingerprint": ""})).alerts
    assert one.key == same.key
    assert len({one.key, later.key, bare[0].key, bare[1].key}) == 4


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "payload"),
        (b"not json", "payload"),
        (b"[]", "object"),
        (b'{"version": "4"}', "alerts"),
        (b'{"version": "9", "alerts": []}', "version"),
        (payload({"status": "firing", "labels": {}}), "startsAt"),
        (payload(alert() | {"startsAt": "yesterday"}), "startsAt"),
        (payload(alert() | {"startsAt": "2026-01-01T00:00:00"}), "zone"),
        (payload(alert() | {"status": "resolved", "endsAt": "2026-01-01T00:00:00"}), "endsAt .* zone"),
        (payload(alert() | {"startsAt": "9999-01-01T00:00:00Z"}), "future"),
        (payload(alert() | {"startsAt": "0001-01-01T00:00:00+23:00"}), "1970"),
        (payload(alert() | {"labels": {"service": 5}}), "labels"),
        (b'{"alerts": ' + b"[" * 100_000, "payload"),
        ('{"alerts": [\ud800]}'.encode("utf-8", "surrogatepass"), "payload"),
    ],
)
def test_what_is_no_payload_is_refused_with_the_reason(body: bytes, said: str) -> None:
    """One error, whose message says where."""
    with pytest.raises(ConfigurationError, match=said):
        read_payload(body)


def test_labels_of_the_host_stay_on_one_line(fill: Fill) -> None:
    """Control characters do not reach a terminal."""
    (one,) = read_payload(payload(alert(alertname="a\x1b[31m\nb"))).alerts
    report = triage_alert(fill(), one, now=END)
    assert report.alert is not None
    assert report.alert.name == "a[31m b"
