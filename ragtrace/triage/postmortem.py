"""Fills a postmortem's template from the store; what only people know stays a marked blank."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from ragtrace.analyze.diagnosis import is_new
from ragtrace.formats import clock, code, escaped, table, written_time
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.registry.wording import cause_words, release_words
from ragtrace.store import Release, Store
from ragtrace.triage._alerts import Alert
from ragtrace.triage._checks import stretch
from ragtrace.triage._evidence import (
    ORDER,
    OWNERS,
    SHOWN,
    Counted,
    JudgedRequest,
    JudgedSample,
    TrafficSample,
    Window,
    draw,
    mean,
    objective_text,
    tally,
)
from ragtrace.triage._releases import rollouts
from ragtrace.triage._report import Report
from ragtrace.triage._statistics import share_of
from ragtrace.triage._walk import triage_segment
from ragtrace.triage.rendering import began, cause_text, counted, looked_at, span
from ragtrace.types import Stage

__all__ = ["BLANK", "postmortem"]

_SEGMENT_STATES: Final = {"no_data": "no data", "better": "broke; better, not proven"}
_CHAIN: Final[tuple[Counted, ...]] = ("broken", "doubted")
BLANK: Final = "**[fill in: {}]**"

TASKS: Final[dict[Stage, tuple[str, ...]]] = {
    "retrieval": (
        "Compare an index build with the one in use before it is switched to: documents and chunks by source "
        "(ragtrace source report, ragtrace drift), and candidate recall on the gold set.",
        "Gate releases of rewriter, embedding and chunker on query coverage by segment, facets lost in the rewrite "
        "included.",
        "Put the questions of the broken requests into the gold set, with the evidence that they need.",
    ),
    "ranking": (
        "Gate releases of reranker and packer on evidence recall and rank shift by segment.",
        "Give exceptions, exclusions and limits a place in the packed prompt, or a test that they reach it.",
        "Watch truncated tokens and the budget that each kind of chunk takes.",
    ),
    "generation": (
        "Gate releases of model, prompt and decoding on answer coverage and contradictions, with the evidence given.",
        "Put the contradicted claims into the regression set: the same prompts, and what the evidence says.",
        "Check answers with figures, dates and negations against the cited chunk before they are shown.",
    ),
    "citation": (
        "Gate releases of model and prompt on citation coverage and citation precision.",
        "Check the format of citations in the prompt's test, dangling ones included.",
        "Refuse or mark an answer whose claims carry no citation.",
    ),
}

TASKS_OF_CAUSE: Final = {  # what would have shown it before users did
    "not_indexed": "Check after each ingestion that the evidence of the gold set is in the index (the probe's `has`).",
    "missed_by_search": "Measure the recall of the approximate search against an exact one at each build of the index, "
    "and block a build that falls below the one in use.",
    "below_depth": "Measure candidate recall by depth on the gold set, and set top_k where it levels off.",
    "filtered": "Test each filter with questions whose evidence must pass it, and check the metadata that it reads at "
    "ingestion.",
}


def postmortem(
    store: Store,
    service: str,
    segment: str | None,
    window: Window,
    *,
    alert: Alert | None = None,
    now: int | None = None,
    limit: int | None = None,
) -> str:
    """The postmortem of the first confirmed break in the window, as Markdown, from all requests of the random stratum.

    segment: None for the whole service. alert: the one that called people, for the timeline. limit: the most requests
    that are read, evenly in time; None for all.
    """
    at = time.time_ns() if now is None else now
    report = triage_segment(store, service, segment, window, now=at, limit=limit)
    evidence = _judged_alike(draw(store, service, segment, window, limit=limit), report)
    return "\n".join(_Draft(store, report, evidence, alert, at).lines()) + "\n"


def _judged_alike(sample: TrafficSample, report: Report) -> JudgedSample:
    """The requests that the report counts."""
    judges = sample.by_judge(report.range.reference if report.range else None)
    judge = report.range.judge if report.range else None
    return next((evidence for evidence in judges if evidence.judge == judge), judges[0])


class _Draft:
    """The parts of one postmortem, in their order."""

    def __init__(self, store: Store, report: Report, evidence: JudgedSample, alert: Alert | None, now: int) -> None:
        self._store = store
        self._report = report
        self._evidence = evidence
        self._alert = alert
        self._now = now
        self._stage = report.stage
        self._risen = stretch(evidence, report.stage) if report.stage else None
        self._better_at = self._risen.ended_at if self._risen else None
        proven = report.recovery is not None and report.recovery.state == "recovered"
        self._ended_at = self._better_at if proven else None

    def lines(self) -> Iterator[str]:
        """The whole text."""
        where = f"{self._report.service}, {self._report.segment or 'all segments'}"
        yield f"# Postmortem: {escaped(where)}"
        yield ""
        made_at = self._report.made_at
        yield (
            f"Draft of {made_at[:4]}-{clock(made_at)}, filled by `ragtrace postmortem` from stored requests. "
            f"{_blank('…')} marks what people have to add."
        )
        for title, part in (
            ("Summary", self._summary()),
            ("Failure chain", self._chain()),
            ("Timeline", self._timeline()),
            ("Blast radius", self._radius()),
            ("Cause", self._cause()),
            ("Recovery proof", self._recovery()),
            ("Prevention", self._prevention()),
            ("Evidence", self._look()),
        ):
            yield from ("", f"## {title}", "")
            yield from part

    def _summary(self) -> Iterator[str]:
        yield escaped(self._report.conclusion)
        yield ""
        yield f"- severity: {_blank('severity')}"
        yield f"- what users saw: {_blank('what users saw, in one sentence')}"
        yield f"- owner: {escaped(self._report.owner or '') or _blank('owner')}"
        yield f"- authors: {_blank('authors')}"
        if self._risen and self._stage:
            yield f"- began: {escaped(began(self._risen.onset(self._stage)))}"
            yield f"- ended: {self._end()}"
            if self._ended_at:
                yield f"- lasted: {span((self._ended_at - self._risen.latest) / 1e9)}"

    def _end(self) -> str:
        """The end where the proof of recovery holds; a fall of the share by itself is none."""
        if self._ended_at:
            return clock(written_time(self._ended_at))
        return f"not proven, better since {clock(written_time(self._better_at))}" if self._better_at else "not seen yet"

    def _chain(self) -> Iterator[str]:
        """Every stage by itself, so that what the first failure dragged along is seen."""
        if self._stage is None:
            yield f"No break is confirmed. {_blank('first failed stage, and how it is known')}"
            return
        before, during, _ = self._groups(self._ended_at)
        yield f"First failed stage: **{self._stage}** ({OWNERS[self._stage]}). Each stage by itself:"
        yield ""
        rows = []
        for stage in ORDER:
            mark = "first failed" if stage == self._stage else "after it" if self._is_after(stage) else "before it"
            shares = (_share(group, stage, what) for what in _CHAIN for group in (before, during))
            rows.append((stage, mark, *shares))
        yield from table(("stage", "", "broken before", "during the break", "in doubt before", "during"), rows)
        yield ""
        yield (
            "Here each stage is counted by itself: broken ones of all requests in which it is judged, whatever broke "
            "before it, doubted ones of all to which it applies. Elsewhere in this draft a stage's share is of the "
            "requests in which no earlier stage is broken or suspected, which may be fewer."
        )
        causes = Counter(each.row.cause for each in during if each.is_broken(self._stage))
        yield ""
        told = ", ".join(f"{cause_words(cause)} ({count})" for cause, count in causes.most_common())
        yield f"Causes at the first failed stage: {escaped(told) or 'none recorded'}."

    def _is_after(self, stage: Stage) -> bool:
        return self._stage is not None and ORDER.index(stage) > ORDER.index(self._stage)

    def _groups(
        self, ended: int | None
    ) -> tuple[Sequence[JudgedRequest], Sequence[JudgedRequest], Sequence[JudgedRequest]]:
        """All requests before, during and after the break. ended: None while it goes on."""
        first = self._risen.during[0].row.started_at if self._risen else self._evidence.window.since
        groups: tuple[list[JudgedRequest], list[JudgedRequest], list[JudgedRequest]] = ([], [], [])
        for each in self._evidence.requests:
            at = each.row.started_at
            groups[0 if at < first else 2 if ended and at >= ended else 1].append(each)
        return groups

    def _timeline(self) -> Iterator[str]:
        rows = sorted(self._events(), key=lambda event: event[0])  # of one moment, the release came first
        yield from table(("when", "what"), [(clock(written_time(at)), what) for at, what in rows])
        yield ""
        if self._alert and self._risen:
            yield f"From the beginning to the alert: {span((self._alert.started_at - self._risen.latest) / 1e9)}."
            yield ""
        for missing in ("who was called, and when they answered", "what was done, and when", "when users were told"):
            yield f"- {_blank(missing)}"

    def _events(self) -> Iterator[tuple[int, str]]:
        window = self._evidence.window
        releases = self._store.releases(self._report.service)
        for release in rollouts(releases):
            if window.before <= release.at < window.until:
                how = f"{', new to this service' if is_new(release, releases) else ''}{_how(release)}"
                yield release.at, f"release {release.component}={release.version}{how}"
        if self._risen:
            yield self._risen.latest, f"{self._stage} begins to break"
            if self._better_at:
                proof = "" if self._ended_at else "; that it has recovered is not proven"
                yield self._better_at, f"{self._stage} is better again{proof}"
        if self._alert:
            yield self._alert.started_at, f"alert {self._alert.labels.get('alertname', '')} fires"
            if self._alert.ended_at and self._alert.ended_at <= self._now:
                yield self._alert.ended_at, "alert is resolved"

    def _radius(self) -> Iterator[str]:
        if self._stage is None:
            yield _blank("who was affected")
            return
        during = [judged for judged in self._groups(self._ended_at)[1] if judged.is_judged(self._stage)]
        broken = [judged for judged in during if judged.is_broken(self._stage)]
        yield f"{counted(tally(during, self._stage))} in the random sample of recorded requests, during the break."
        ids = [judged.row.request_id for judged in broken]
        tenants = {tenant for tenant in self._store.tenants(ids).values() if tenant}
        yield (
            f"Tenants with a broken request: {len(tenants)}."
            if tenants
            else f"Tenants: {_blank('tenants; no request carried one')}"
        )
        yield ""
        rows = [
            (line.segment, _SEGMENT_STATES.get(line.state, line.state), counted(line.now), counted(line.before))
            for line in self._report.segments
        ]
        yield from table(("segment", "state", "in the time looked at", "before"), rows)
        if self._report.more_segments:
            yield f"\n{self._report.more_segments} more segments with fewer broken requests."
        yield ""
        yield f"- users and answers in all: {_blank('estimate beyond the sample')}"
        yield f"- harm: {_blank('what the wrong answers led to')}"

    def _cause(self) -> Iterator[str]:
        suspect = self._report.suspected_release
        yield f"Suspected release: **{escaped(release_words(suspect))}**." if suspect else "No release is named."
        if self._report.release_note:
            yield escaped(self._report.release_note[:1].upper() + self._report.release_note[1:]) + "."
        if self._report.gate_note:
            yield escaped(self._report.gate_note[:1].upper() + self._report.gate_note[1:]) + "."
        for cause in self._report.causes:
            if cause.fix:
                yield ""
                yield f"Of the broken requests: **{escaped(cause_text(cause))}**. {escaped(cause.fix)}"
        yield ""
        yield _blank("root cause, confirmed by whom and how")

    def _recovery(self) -> Iterator[str]:
        found = self._report.recovery
        if self._stage is None or found is None:
            yield "Nothing is confirmed to be broken."
            return
        yield escaped(found.finding[:1].upper() + found.finding[1:]) + "."
        yield ""
        groups = [[each for each in group if each.is_judged(self._stage)] for group in self._groups(self._better_at)]
        rows = [("broken requests", "", *(counted(tally(group, self._stage)) for group in groups))]
        for metric in SHOWN[self._stage]:
            objective = objective_text(INSTRUMENTS[metric].objective) or "none"
            rows.append((metric.replace("_", " "), objective, *(_mean(group, metric) for group in groups)))
        yield from table(("mean, judged only", "objective", "before", "during", "after"), rows)

    def _prevention(self) -> Iterator[str]:
        stages = (self._stage,) if self._stage else ORDER
        for stage in stages:
            yield f"{stage} ({OWNERS[stage]}):"
            yield ""
            causes = [cause.cause for cause in self._report.causes if stage == self._stage]
            tasks = (*(TASKS_OF_CAUSE[cause] for cause in causes if cause in TASKS_OF_CAUSE), *TASKS[stage])
            yield from (f"- [ ] {escaped(task)} {_blank('person, date')}" for task in tasks)
            yield ""
        yield f"- [ ] Detection: {_blank('what would have shown it earlier')}"
        yield f"- [ ] {_blank('other tasks')}"

    def _look(self) -> Iterator[str]:
        for each in self._report.exemplars:
            yield f"- {code(each.command)} – {escaped(f'{clock(each.at)}, {each.segment}, {each.cause}')}"
        yield f"- {escaped(looked_at(self._report))}"


def _blank(what: str) -> str:
    return BLANK.format(what)


def _how(release: Release) -> str:
    return "" if release.recorded_at is not None else " (first request that carried it)"


def _share(requests: Sequence[JudgedRequest], stage: Stage, what: Counted) -> str:
    """The share of all requests in which a stage is broken or in doubt, whatever broke before it: broken ones among
    those that are judged, doubted ones among all to which the stage applies."""
    rows = [(each.row, each.weight) for each in requests if stage in each.row.states]
    if what == "doubted":
        found = share_of([(stage in row.doubted, weight) for row, weight in rows])
    else:
        judged = [(row, weight) for row, weight in rows if row.states[stage] in ("sound", "broken")]
        found = share_of([(row.states[stage] == what, weight) for row, weight in judged])
    return counted(found, "") if found.of else "none is judged"


def _mean(requests: Sequence[JudgedRequest], metric: str) -> str:
    value = mean(requests, metric)
    return "undefined" if value is None else f"{value:.2f}"
