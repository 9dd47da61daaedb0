"""The scenarios that the other alerts must pass: silence of every kind, what ragtrace could not do, growth, sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Final

from ragtrace.alerts._annotations import ALL_SEGMENTS
from ragtrace.alerts._policy import PLATFORM, AlertPolicy
from ragtrace.alerts._recording_rules import selector
from ragtrace.alerts._scenarios import FIRST, rarely_asked, silent
from ragtrace.alerts._traffic import (
    JUDGE,
    SERVICE,
    STEP,
    AlertScenario,
    Expectation,
    ExpectedAlert,
    Phase,
    Series,
    gauge,
    judged,
    minutes,
    ramp,
    requests,
)

__all__ = ["long_scenarios", "platform_scenarios", "slow_scenarios"]

_OF_SERVICE: Final = {"service": SERVICE}
_SAMPLES_A_DAY: Final = 24 * 60 // STEP


def platform_scenarios(made: AlertPolicy) -> Iterator[AlertScenario]:
    """Silence of every kind, and what ragtrace could not do."""
    yield _stalled(made)
    yield _resting(made)
    yield _one_stage_absent(made)
    yield _fresh(made)
    yield from _exporter(made)
    yield _busy(made)
    yield _no_retrieval(made)
    yield from _unjudged(made)


def long_scenarios(made: AlertPolicy) -> Iterator[AlertScenario]:
    """What takes hours to tell: a sample every five minutes."""
    yield _rare(made)
    yield from _growth(made)
    yield from _starved(made)
    yield from _graded(made)


def _platform(name: str, **labels: str) -> ExpectedAlert:
    return ExpectedAlert(f"Ragtrace{name}", PLATFORM, labels)


def _stalled(made: AlertPolicy) -> AlertScenario:
    """Requests arrive and nothing is analyzed: first the analyzer is stale, then the indicators are absent."""
    limits = made.settings.platform
    stale = minutes(limits.analyzer_stale) + minutes(limits.hold) + 2
    absent = minutes(limits.sli_absent) + minutes(limits.hold) + 2
    well, stalled = Phase(20), Phase(absent + 10)
    phases = [well, stalled]
    series = [
        *judged(made, [well, stalled._replace(traffic=0.0)], FIRST),
        *_without(requests(made, phases, FIRST), made.series("analyzer_last_success")),
        _stopped(made, well.minutes, stalled.minutes),
    ]
    first = _platform("AnalyzerStale", **_OF_SERVICE)
    checks = (
        Expectation(20),
        Expectation(20 + stale, (first,)),
        Expectation(20 + absent, (first, _platform("SliAbsent", **_OF_SERVICE))),
    )
    return AlertScenario("stalled analyzer", tuple(series), checks)


def _resting(made: AlertPolicy) -> AlertScenario:
    """No requests, no analysis, no alert."""
    rest = minutes(made.settings.platform.sli_absent) * 2
    phases = [Phase(20), Phase(rest, traffic=0.0)]
    series = [
        *judged(made, phases, FIRST),
        *_without(requests(made, phases, FIRST), made.series("analyzer_last_success")),
        _stopped(made, 20, rest),
    ]
    return AlertScenario("a service that rests", tuple(series), (Expectation(20 + rest, ever=True),))


def _one_stage_absent(made: AlertPolicy) -> AlertScenario:
    """One stage is counted no more, the others are."""
    limits = made.settings.platform
    lost = made.indicators[-1].name
    absent = minutes(limits.sli_absent) + minutes(limits.hold) + 2
    phases = [Phase(20), Phase(absent)]
    kept, stopped = judged(made, phases, FIRST), judged(made, [Phase(20), silent(absent)], FIRST)
    series = (
        *(one for one in kept if f'stage="{lost}"' not in one["series"]),
        *(one for one in stopped if f'stage="{lost}"' in one["series"]),
        *requests(made, phases, FIRST),
    )
    check = Expectation(20 + absent, (_platform("SliAbsent", **_OF_SERVICE),), ever=True)
    return AlertScenario("one stage is absent", series, (check,))


def _rare(made: AlertPolicy) -> AlertScenario:
    """Few requests, and few of them in which a stage applies: that none comes for a while says nothing."""
    within = minutes(made.settings.platform.sli_absent)
    rare = made.indicators[-1].name
    gap = ceil(2 * within / made.settings.platform.sli_expected / STEP)  # half of what absence needs
    length = 12 * within
    seldom, often = (ramp([(gap - 1, 0.0), (1, 1.0)] * (length // STEP // gap)) for gap in (6 * gap, gap))
    phases = [Phase(length)]
    both = (*judged(made, phases, FIRST, interval=STEP), *requests(made, phases, FIRST, interval=STEP))
    counters = tuple(made.series(id_) for id_ in ("sli_requests", "sli_good_requests", "requests"))
    series = tuple(
        {"series": one["series"], "values": seldom if f'stage="{rare}"' in one["series"] else often}
        if one["series"].startswith(counters)
        else one
        for one in both
    )
    return AlertScenario("a stage that is counted rarely", series, (Expectation(length, ever=True),), interval=STEP)


def _fresh(made: AlertPolicy) -> AlertScenario:
    """A fresh installation: an exporter, a receiver that is well, reports of sources, and no request yet."""
    report = selector(made.series("source_report_timestamp"), service=SERVICE, source="tariffs")
    series = (
        *_received(made, 180, made.settings.platform.refused_share / 2),
        _constant(made.series("receiver_oldest"), 180, made.settings.platform.backlog_age.seconds / 2),
        {"series": selector("up", job=made.settings.platform.job), "values": gauge([(181, 1.0)])},
        {"series": report, "values": ramp([(180, 60.0)])},
    )
    return AlertScenario("a fresh installation", series, (Expectation(180, ever=True),))


def _exporter(made: AlertPolicy) -> Iterator[AlertScenario]:
    """One target of two is enough; none is a page, and so is a job that Prometheus does not know."""
    job = made.settings.platform.job
    well = Phase(30)
    kept = tuple(_without([*judged(made, [well], FIRST), *requests(made, [well], FIRST)], "up"))

    def up(instance: str, value: float) -> Series:
        return {"series": selector("up", job=job, instance=instance), "values": gauge([(31, value)])}

    def read(value: str) -> Series:
        labels = {"service": SERVICE, "segment": FIRST, "status": "ok", "stratum": "random"}
        return {"series": selector(made.series("requests"), labels), "values": value}

    down = (Expectation(30, (_platform("ExporterDown"),), ever=True),)
    yield AlertScenario(
        "one exporter of two is down", (*kept, up("a", 0.0), up("b", 1.0)), (Expectation(30, ever=True),)
    )
    yield AlertScenario("every exporter is down", (*kept, up("a", 0.0), up("b", 0.0)), down)
    yield AlertScenario("no exporter is scraped", kept, down)
    gone = (Expectation(30, (_platform("RequestsGone", **_OF_SERVICE),)),)
    yield AlertScenario("the exporter reads another database", (read("10x10 stale"), up("a", 1.0)), gone)
    said = {"series": selector(made.series("totals_forgotten"), service=SERVICE), "values": "_x10 600x40"}
    quiet = (Expectation(30, ever=True),)
    yield AlertScenario("a service was forgotten", (read("10x10 stale"), said, up("a", 1.0)), quiet)
    meanwhile = {"series": selector("up", job=job, instance="a"), "values": "1x10 0x9 1x10"}
    yield AlertScenario("the exporter was down for ten minutes", (read("10x10 stale _x9 10x10"), meanwhile), down)


def _busy(made: AlertPolicy) -> AlertScenario:
    """A backlog, an old job, dead jobs, late results, faults, drops, a receiver that refuses or lags: a ticket each."""
    limits = made.settings.platform
    length = 60 + minutes(limits.hold)
    phases = [Phase(length)]
    late = selector(made.series("late_evaluations"), service=SERVICE, segment=FIRST)
    series = [
        *judged(made, phases, FIRST),
        *requests(made, phases, FIRST),
        _constant(selector(made.series("queue_jobs"), state="pending"), length, limits.backlog_jobs * 2),
        _constant(selector(made.series("queue_jobs"), state="dead"), length, 1),
        _constant(selector(made.series("queue_oldest"), job_kind="coverage"), length, limits.backlog_age.seconds * 2),
        {"series": late, "values": ramp([(length, 10 * min(1.0, limits.late_share * 2))])},
        {
            "series": selector(made.series("internal_errors"), where="sink"),
            "values": ramp([(length, limits.internal_errors_per_hour / 20)]),
        },
        _constant(selector(made.series("dropped"), reason="queue_full"), length, 5),
        _constant(selector(made.series("label_folds"), label="service"), length, 5),
        _constant(made.series("exposition_dropped"), length, 5),
        *_received(made, length, min(1.0, limits.refused_share * 2)),
        _constant(made.series("receiver_oldest"), length, limits.backlog_age.seconds * 2),
    ]
    expected = (
        _platform("QueueBacklog"),
        _platform("QueueOld"),
        _platform("DeadJobs"),
        _platform("LateEvaluations", **_OF_SERVICE),
        _platform("InternalErrors"),
        _platform("DroppedRecords"),
        _platform("LabelBudget"),
        _platform("SeriesLimit"),
        _platform("ReceiverRefuses"),
        _platform("ReceiverLags"),
    )
    return AlertScenario("work that is not done", tuple(series), (Expectation(length - 10, expected, ever=True),))


def _received(made: AlertPolicy, length: int, refused: float) -> Iterator[Series]:
    """A receiver of ten requests a minute, some of which it does not take; who has no token is no fault of it."""
    well = (("accepted", 1 - refused), ("busy", refused / 2), ("failed", refused / 2), ("invalid", 0.1))
    for answer, share in (*well, ("unauthorized", 100.0)):
        series = selector(made.series("receiver_requests"), protocol="http", signal="traces", answer=answer)
        yield {"series": series, "values": ramp([(length, 10 * share)])}


def _constant(series: str, samples: int, value: float) -> Series:
    return {"series": series, "values": gauge([(samples + 1, value)])}


def _stopped(made: AlertPolicy, well: int, stalled: int) -> Series:
    """The time of the last analysis, which moves and then stands still."""
    series = selector(made.series("analyzer_last_success"), service=SERVICE)
    return {"series": series, "values": ramp([(well, 60.0), (stalled, 0.0)])}


def _without(series: Iterable[Series], name: str) -> list[Series]:
    return [one for one in series if not one["series"].startswith((f"{name}{{", f"{name} "))]


def _no_retrieval(made: AlertPolicy) -> AlertScenario:
    """Greetings only: no stage applies, and nothing is absent."""
    length = 2 * minutes(made.settings.platform.sli_absent)
    phases = [Phase(20), Phase(length)]
    labels = {"service": SERVICE, "segment": FIRST, "stage": "none", "stratum": "random", "reference": "none"}
    greetings = selector(made.series("diagnoses"), labels, verdict="no_retrieval_needed")
    series = (
        *judged(made, [Phase(20), silent(length)], FIRST),
        *requests(made, phases, FIRST),
        {"series": greetings, "values": ramp([(20, 0.0), (length, 10.0)])},
    )
    return AlertScenario("requests that need no retrieval", series, (Expectation(20 + length, ever=True),))


def _unjudged(made: AlertPolicy) -> Iterator[AlertScenario]:
    """Requests flow and nothing tells whether they are well: one ticket says so, and nothing else speaks."""
    limits, absent = made.settings.platform.unjudged, minutes(made.settings.platform.sli_absent)
    length = minutes(made.settings.hold.ticket) + 30
    unknown = dict.fromkeys(limits.stages, 1 - limits.share / 2)
    first, *others = limits.stages
    blind = [Phase(length, not_known=unknown)]
    partly = [Phase(length, not_known=unknown | {first: 0.5})]
    few = [Phase(length, not_known=unknown, traffic=limits.minimum / (2 * length))]
    later = [Phase(20), Phase(2 * absent, not_known=dict.fromkeys(others, 1.0))]
    expected = (_platform("Unjudged", **_OF_SERVICE),)
    reasons = dict.fromkeys(limits.stages, "language")
    for name, phases, alerts in (
        ("a service that cannot be judged", blind, expected),
        ("few requests that cannot be judged", few, ()),
        *((("one stage can be judged", partly, ()), ("a stage is judged no more", later, ())) if others else ()),
    ):
        end = sum(phase.minutes for phase in phases)
        series = (*judged(made, phases, FIRST, reasons=reasons), *requests(made, phases, FIRST))
        yield AlertScenario(name, series, (Expectation(end, alerts, ever=True),))


def _graded(made: AlertPolicy) -> Iterator[AlertScenario]:
    """What grades say of retrieval: a share that rises, and one that does not for certain; trust that is misplaced."""
    limits = made.settings.growth.graded_incorrect
    before, after = 120, minutes(limits.window)
    wide = 1.5 * limits.gap
    for name, rates, shares, bad, alerts in (
        ("more is graded incorrect", (30.0, 30.0), (0.1, 0.1 + 2 * wide), 0.0, True),
        ("much was always graded incorrect", (30.0, 30.0), (0.5, 0.5), 0.0, False),
        ("a little more is graded incorrect", (30.0, 30.0), (0.1, 0.1 + limits.gap / 2), 0.0, False),
        ("few are graded, more of them incorrect", (30.0, limits.minimum / (2 * after)), (0.1, 0.9), 0.0, False),
        ("what is usual cannot be known of few grades", (limits.minimum / (2 * before), 30.0), (0.1, 0.9), 0.0, False),
        ("more is graded incorrect by chance", (1.0, 0.125), (0.4, 0.4 + 1.1 * limits.gap), 0.0, False),
        ("more is graded incorrect where retrieval burns", (30.0, 30.0), (0.1, 0.1 + 2 * wide), 1.0, False),
    ):
        yield _graded_scenario(made, name, list(zip((before, after), rates, shares, strict=True)), bad, alerts)
    yield from _trusted(made)
    yield from _corrected(made)


def _graded_scenario(
    made: AlertPolicy, name: str, parts: Sequence[tuple[int, float, float]], bad: float, alerts: bool
) -> AlertScenario:
    """parts: minutes, requests a minute, the share of them that is graded INCORRECT. bad: by how much retrieval breaks
    meanwhile, which is its own alert."""
    (before, _, _), (after, _, _) = parts
    phases = [Phase(before), Phase(after, {"retrieval": bad} if bad else {})]
    labels = {"service": SERVICE, "segment": FIRST, "stratum": "random"}
    series = [
        *judged(made, phases, FIRST, interval=STEP),
        *requests(made, phases, FIRST, interval=STEP),
        *(
            {
                "series": selector(made.series("retrieval_actions"), labels | {"action": action}),
                "values": ramp((length // STEP, STEP * rate * abs(share - rest)) for length, rate, share in parts),
            }
            for action, rest in (("INCORRECT", 0.0), ("CORRECT", 1.0))
        ),
    ]
    ticket = ExpectedAlert("RagtraceRetrievalIncorrectTicket", "retrieval", {"service": SERVICE, "segment": FIRST})
    burning = ExpectedAlert("RagtraceRetrievalPage", "retrieval", {"service": SERVICE, "segment": FIRST})
    expected = (ticket,) if alerts else (burning,) if bad else ()
    return AlertScenario(name, tuple(series), (Expectation(before + after, expected, ever=True),), interval=STEP)


def _trusted(made: AlertPolicy) -> Iterator[AlertScenario]:
    """Two types of questions: one whose right answers are usual, one that may be confidently wrong."""
    limits = made.settings.growth.confidently_wrong
    length = 240
    few = limits.minimum / (4 * length)
    expected = ExpectedAlert(
        "RagtraceConfidentlyWrongTicket",
        "retrieval",
        {"service": SERVICE, "question_type": "religion", "segment": ALL_SEGMENTS},
    )
    for name, other, own, trusted, wrong, alerts in (
        ("a type of questions is confidently wrong", 10.0, 5.0, 0.9, 0.1 + 3 * limits.gap, (expected,)),
        ("a type of questions is a little more often wrong", 10.0, 5.0, 0.9, 0.1 + limits.gap / 2, ()),
        ("a type of questions is wrong, and not trusted", 10.0, 5.0, 0.3, 0.1 + 3 * limits.gap, ()),
        ("a rare type of questions is wrong", 10.0, few, 0.9, 1.0, ()),
        ("a type of questions is wrong beside few others", few, 5.0, 0.9, 1.0, ()),
        ("a type of questions is wrong by chance", 0.125, 0.125, 0.9, 0.1 + 1.5 * limits.gap, ()),
    ):
        series = []
        for kind, rate, share, bad in (("country", other, 0.9, 0.1), ("religion", own, trusted, wrong)):
            for action, result, part in (
                ("CORRECT", "bad", share * bad),
                ("CORRECT", "good", share * (1 - bad)),
                ("AMBIGUOUS", "good", 1 - share),
            ):
                labels = {"service": SERVICE, "question_type": kind, "action": action, "result": result}
                values = ramp([(length // STEP, STEP * rate * part)])
                series.append({"series": selector(made.series("graded_answers"), labels), "values": values})
        steady = (
            *judged(made, [Phase(length)], FIRST, interval=STEP),
            *requests(made, [Phase(length)], FIRST, interval=STEP),
        )
        yield AlertScenario(name, (*steady, *series), (Expectation(length, alerts, ever=True),), interval=STEP)


def _corrected(made: AlertPolicy) -> Iterator[AlertScenario]:
    """A host's corrective step beside the grades: another action often, seldom, and in few requests."""
    limits = made.settings.growth.correction_disagrees
    length = 240
    ticket = ExpectedAlert("RagtraceCorrectionDisagreesTicket", "retrieval", {"service": SERVICE, "segment": FIRST})
    for name, rate, bad, alerts in (
        ("a corrective step disagrees with the grades", 5.0, 3 * limits.gap, (ticket,)),
        ("a corrective step seldom disagrees with the grades", 5.0, limits.gap / 2, ()),
        ("a corrective step disagrees by chance", 0.25, 1.5 * limits.gap, ()),
        ("a corrective step of few requests disagrees", limits.minimum / (2 * length), 1.0, ()),
    ):
        series = [
            {
                "series": selector(
                    made.series("host_actions"),
                    {"service": SERVICE, "segment": FIRST, "stratum": "random", "result": result},
                ),
                "values": ramp([(length // STEP, STEP * rate * part)]),
            }
            for result, part in (("bad", bad), ("good", 1 - bad))
        ]
        steady = (
            *judged(made, [Phase(length)], FIRST, interval=STEP),
            *requests(made, [Phase(length)], FIRST, interval=STEP),
        )
        yield AlertScenario(name, (*steady, *series), (Expectation(length, alerts, ever=True),), interval=STEP)


def _growth(made: AlertPolicy) -> Iterator[AlertScenario]:
    """What has grown since the baseline, and yet is within every budget."""
    growth = made.settings.growth
    before, after = 60, max(minutes(one.window) for one in (growth.rank_shift, growth.candidate_age))
    end = before + after
    phases = [Phase(end)]
    steady = (*judged(made, phases, FIRST, interval=STEP), *requests(made, phases, FIRST, interval=STEP))
    segment = {"service": SERVICE, "segment": FIRST, "stratum": "random", "reference": "proxy"}
    source = {"service": SERVICE, "source": "tariffs"}
    floors = (growth.rank_shift.floor, growth.candidate_age.floor)
    factors = (growth.rank_shift.factor, growth.candidate_age.factor)
    grown = [[(before, floor / 2), (after, floor * 2 * factor)] for floor, factor in zip(floors, factors, strict=True)]
    same = [[(end, floor * 4)] for floor in floors]
    expected = (
        ExpectedAlert("RagtraceRankShiftTicket", "ranking", {"service": SERVICE, "segment": FIRST}),
        ExpectedAlert("RagtraceCandidateAgeTicket", "retrieval", source),
    )
    for name, (shift, age), checks in (
        ("what has grown", grown, (Expectation(before), Expectation(end, expected, ever=True))),
        ("what was always large", same, (Expectation(end, ever=True),)),
    ):
        series = (
            *steady,
            *_histogram(made.series("rank_shift"), segment, shift),
            *_histogram(made.series("candidate_age"), source, age),
        )
        yield AlertScenario(name, series, checks, interval=STEP)


def _starved(made: AlertPolicy) -> Iterator[AlertScenario]:
    """A provider loses its places and its part in answers while it deserves them, another one deserves less, a third is
    used less where it is shown: somebody is told of the first one, after a release, unless ranking burns."""
    told = (ExpectedAlert("RagtraceProviderStarvedTicket", "ranking", {"service": SERVICE, "provider": "starved"}),)
    paged = (ExpectedAlert("RagtraceRankingPage", "ranking", {"service": SERVICE, "segment": FIRST}),)
    for name, component, burns, alerts in (
        ("a provider is starved by a release", "reranker", 0.0, told),
        ("a provider is starved, and the model was released", "model", 0.0, ()),
        ("a provider is starved while ranking burns", "reranker", 0.5, paged),
    ):
        before, after = 60, minutes(made.settings.exposure.window)
        end = before + after
        phases = [Phase(before), Phase(after, bad={"ranking": burns})]
        of = {"service": SERVICE, "component": component, "version": "v2"}
        at = gauge([(end // STEP + 1, before * 60.0)])
        series = (
            *judged(made, phases, FIRST, interval=STEP),
            *requests(made, phases, FIRST, interval=STEP),
            *_provided(made, before // STEP, after // STEP),
            {"series": selector(made.series("release_timestamp"), of), "values": at},
        )
        yield AlertScenario(name, series, (Expectation(end, alerts, ever=True),), interval=STEP)


def _provided(made: AlertPolicy, before: int, after: int) -> Iterator[Series]:
    """The counters of four providers that have a quarter each, and later what becomes of them."""
    lost = (1 - made.settings.exposure.fall) / 2
    for provider, shown, used, deserved in (
        ("starved", lost, lost, 1.0),
        ("irrelevant", lost, lost, lost),
        ("unused", 1.0, lost, 1.0),
        ("other", 3 - 2 * lost, 4 - 3 * lost, 2 - lost),
    ):
        for watched, labels, part in (
            ("provider_requests", {}, 1.0),
            ("provider_exposure", {"reference": "proxy"}, shown),
            ("provider_deserved_exposure", {"reference": "proxy"}, deserved),
            ("provider_attributed_exposure", {"used_by": "claims"}, used),
        ):
            name = selector(made.series(watched), {"service": SERVICE, "provider": provider, **labels})
            yield {"series": name, "values": ramp([(before, 25.0), (after, 25.0 * part)])}


def _histogram(name: str, labels: dict[str, str], means: Sequence[tuple[int, float]]) -> list[Series]:
    """Sum and count of ten observations with each sample, with these means over so many minutes."""
    ones = [(length, 1.0) for length, _ in means]
    total, count = ([(length // STEP, rise * 10) for length, rise in part] for part in (means, ones))
    return [
        {"series": selector(f"{name}_sum", labels), "values": ramp(total)},
        {"series": selector(f"{name}_count", labels), "values": ramp(count)},
    ]


def slow_scenarios(made: AlertPolicy) -> Iterator[AlertScenario]:
    """Sources and services of few requests, over days: a sample every five minutes, rules every hour."""
    yield rarely_asked(made)
    history = max(1, minutes(made.settings.sources.history) // (24 * 60))
    days = 2 * history
    yield _sources("sources that are well", made, days, stops=days, changed=False, expected=())
    expected = tuple(
        ExpectedAlert(f"RagtraceSource{what}Ticket", "retrieval", {"service": SERVICE, "source": "tariffs"})
        for what in ("Delay", "Freshness", "Report", "Volume")
    )
    yield _sources("sources that fail", made, days, stops=history + 1, changed=True, expected=expected)


def _sources(
    name: str, made: AlertPolicy, days: int, *, stops: int, changed: bool, expected: tuple[ExpectedAlert, ...]
) -> AlertScenario:
    """A source that moves every day until the day `stops`; at the end, by `changed`, late and smaller."""
    labels = {"service": SERVICE, "source": "tariffs"}
    samples = days * _SAMPLES_A_DAY
    last = _SAMPLES_A_DAY // 4
    moving = gauge((_SAMPLES_A_DAY, min(day, stops) * 86_400.0) for day in range(days))
    usual = made.settings.sources.delay.floor.seconds
    late = usual * made.settings.sources.delay.factor * 2 if changed else usual
    documents = 1000.0 * (1 - made.settings.sources.volume.fall) / 2 if changed else 1000.0
    series = (
        {"series": selector(made.series("source_newest_timestamp"), labels), "values": moving},
        {"series": selector(made.series("source_report_timestamp"), labels), "values": moving},
        {
            "series": selector(made.series("source_delay"), labels),
            "values": gauge([(samples - last, usual), (last, late)]),
        },
        {
            "series": selector(made.series("source_documents"), labels),
            "values": gauge([(samples - last, 1000.0), (last, documents)]),
        },
        *_healthy_platform(made, samples),
    )
    end = samples * STEP - 60
    return AlertScenario(name, series, (Expectation(end, expected),), interval=STEP)


def _healthy_platform(made: AlertPolicy, samples: int) -> Iterator[Series]:
    """An exporter that is up, and indicators of a service that rests."""
    yield {"series": selector("up", job=made.settings.platform.job), "values": gauge([(samples, 1.0)])}
    labels = {"service": SERVICE, "segment": FIRST, "scope": "all", "stratum": "random", "reference": "proxy"}
    name = selector(made.series("sli_requests"), labels, stage=made.indicators[0].name, judge=JUDGE)
    yield {"series": name, "values": gauge([(samples, 1.0)])}
