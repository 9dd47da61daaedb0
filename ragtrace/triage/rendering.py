"""A triage report for a terminal of 80 columns or more, and as Markdown for a ticket, a chat or a wiki."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragtrace.export.evidence_path import labeled, plain_table
from ragtrace.formats import (
    clock,
    code,
    escaped,
    joined,
    percent,
    plain,
    shell_word,
    shortened,
    show_command,
    table,
)
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.registry.wording import release_words
from ragtrace.triage._report import (
    AlertFacts,
    CauseCount,
    Check,
    CorrectedShare,
    ExemplarRequest,
    MetricChange,
    Onset,
    PageAnswers,
    Range,
    ReasonCount,
    Report,
    Rise,
    SegmentLine,
    Tally,
    Tenants,
    Unjudged,
    UnjudgedState,
)
from ragtrace.triage._statistics import ENOUGH

__all__ = [
    "STATES",
    "UNJUDGED",
    "affected",
    "began",
    "by_gold",
    "cause_text",
    "corrected_text",
    "counted",
    "counting",
    "judge_command",
    "list_command",
    "looked_at",
    "markdown",
    "mean_text",
    "named",
    "pages_text",
    "render",
    "report_facts",
    "segments_summary",
    "span",
    "unjudged_text",
]

UNJUDGED: Final[dict[UnjudgedState, str]] = {"doubted": "in doubt", "not_known": "not known"}
"""The words for what no single request proves."""

_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def span(seconds: float) -> str:
    """A span of time in its largest fitting unit."""
    size = abs(seconds)
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.3g} s"


def counted(tally: Tally, what: str = "broken") -> str:
    """`17 of 32 broken (53 %)`, or `(31 % of the traffic)` where the requests were not all kept at one rate."""
    if not tally.of:
        return "no request is judged"
    share = percent(tally.share)
    of = "" if share == percent(tally.count / tally.of) else " of the traffic"
    return f"{tally.count:,} of {tally.of:,} {f'{what} ' if what else ''}({share}{of})"


def by_gold(gold: bool) -> str:
    """By what evidence requests were judged."""
    return "with gold evidence" if gold else "without gold evidence"


def judge_command(
    judgment: str, *, service: str, segment: str, stage: str, severity: str, at: str, store: str | None = None
) -> str:
    """What says whether an alert was right, as a shell takes it. at: when it began to fire."""
    given = {"service": service, "segment": segment, "stage": stage, "severity": severity, "at": at, "store": store}
    options = [f"--{name}={shell_word(value)}" for name, value in given.items() if value]
    return " ".join(["ragtrace triage judge", judgment, *options])


def list_command(service: str, segment: str | None, in_doubt: str, *, since: str, until: str) -> str:
    """What lists the requests in which a stage is in doubt, as a shell takes it. since, until: written times."""
    given = {"service": service, "segment": segment, "in-doubt": in_doubt, "since": since, "until": until}
    return " ".join(["ragtrace show", *(f"--{name}={shell_word(value)}" for name, value in given.items() if value)])


STATES: Final = {
    "broken": "BROKEN",
    "suspected": "suspected",
    "doubted": "in doubt",
    "sound": "sound",
    "not_known": "not known",
    "worse": "worse than before",
    "unclear": "not enough data",
    "good": "ok",
    "unjudged": "hardly judged",
    "no_data": "no data",
    "not_checked": "not checked",
    "recovered": "recovered",
    "better": "better, not proven",
    "not_recovered": "not recovered",
}
_JUDGMENTS: Final = {"right": "right", "wrong_stage": "wrong stage", "false": "false"}
_EVEN: Final = 1.1  # times the smallest rate: what is kept alike
_STYLES: Final = {"broken": "bold red", "not_recovered": "bold red", "good": "green", "sound": "green",
                  "recovered": "green", "not_checked": "dim"}  # fmt: skip


def render(report: Report, *, store: str | None = None) -> RenderableType:
    """The report: what is to be done first, then what was checked. store: named in the commands, where it is given."""
    parts: list[RenderableType] = [_conclusion(report), Text(), labeled(*_facts(report, store))]
    for rise in report.rises:
        parts += [Text(), *_rise(rise, store)]
    for number, check in enumerate(report.checks, 1):
        parts += [Text(), *_check(number, check, store, of_request=report.request is not None)]
    if report.recovery:
        found = report.recovery
        parts += [Text(), _headed("recovery", found.state), _indented(Text(found.finding))]
    if report.segments:
        parts += [Text(), Text(segments_summary(report), style="bold"), _indented(_segments(report.segments))]
    if report.exemplars:
        parts += [Text(), Text("Requests to look at", style="bold"), _indented(_exemplars(report.exemplars, store))]
    return Group(*parts)


def _conclusion(report: Report) -> Text:
    style = "bold red" if report.stage else "bold"
    return Text(report.conclusion, style=style)


def _facts(report: Report, store: str | None) -> Iterator[tuple[str, RenderableType]]:
    if report.alert:
        alert = report.alert
        yield "alert", Text(f"{alert.name or 'without a name'}, {alert.status} since {clock(alert.starts_at)}")
        if alert.agrees is not None:
            yield "", Text(named(report))
    if report.request:
        yield "request", Text(f"{report.request.request_id}  {clock(report.request.at)}", style="bold")
        yield "asked", Text(shortened(report.request.asked))
        for proof in report.request.evidence:
            yield "because", Text(shortened(proof))
    for label, text, style in report_facts(report):
        yield label, Text(text, style=style)
    if report.alert and report.alert.judge:
        yield "right?", Text(_answer(report.alert, store))


def report_facts(report: Report) -> Iterator[tuple[str, str, str]]:
    """What is known of a break, a label with a text and its style for each: what to do first, then on what it rests."""
    for cause in report.causes:
        if cause.fix:
            yield "cause", cause_text(cause), "bold"
            yield "to do", cause.fix, ""
    found = (
        ("owner", report.owner, "bold"),
        ("suspect", report.suspected_release and release_words(report.suspected_release), "bold yellow"),
        ("release", report.release_note, ""),
        ("gate", report.gate_note, ""),
        ("began", began(report.onset) if report.onset else None, ""),
        ("tenants", affected(report.tenants) if report.tenants else None, ""),
        ("looked at", looked_at(report), "dim"),
        ("counted", counting(report) if report.request is None else None, "dim"),
        ("pages", pages_text(report.pages) if report.pages else None, "dim"),
        ("on this service", report.calibration, "dim"),
        *(("by labels", corrected_text(each), "dim") for each in report.corrected),
    )
    yield from ((label, text, style) for label, text, style in found if text)


def cause_text(cause: CauseCount) -> str:
    """A cause, and how many of the broken requests have it."""
    return cause.words if cause.of == 1 else f"{cause.words} ({cause.count:,} of {cause.of:,} broken requests)"


def _answer(alert: AlertFacts, store: str | None) -> str:
    """What was said of the alert, and the command that says it."""
    said = f"judged {_JUDGMENTS.get(alert.judgment, alert.judgment)}; to change that: " if alert.judgment else ""
    return f"{said}{alert.judge}{_at_store(store)}\n(wrong-stage or false in place of right)"


def _at_store(store: str | None) -> str:
    return f" --store {quote(store)}" if store else ""


def corrected_text(share: CorrectedShare) -> str:
    """One corrected rate: what broke first in how many requests, by the labels and by the verdict."""
    what = "any stage" if share.stage == "any" else share.stage
    bounds = f"{share.low:.1%} to {share.high:.1%}"
    return f"{what} {share.share:.1%} ({bounds}; by the verdict {share.by_verdict:.1%}, {share.labels} labels)"


def pages_text(pages: PageAnswers) -> str:
    """How often on-call found pages right."""
    judged = pages.right + pages.wrong_stage + pages.false
    share = f"{pages.right:,} of {judged:,} judged pages were right ({percent(pages.precision)})"
    return f"{share}; {pages.wrong_stage:,} named the wrong stage, {pages.false:,} were false"


def looked_at(report: Report) -> str:
    """The time, the requests and the reference on which all of it rests."""
    examined = report.range
    if examined is None:
        return ""
    drawn = examined.read + examined.unanalyzed
    read = f"{examined.requests:,} requests in both" if drawn == examined.requests else (
        f"{drawn:,} of {_size(examined)} requests in both, evenly in time"
    )  # fmt: skip
    if examined.unanalyzed and examined.read:
        read += f", {examined.unanalyzed:,} of them not analyzed"
    if examined.outdated:
        read += f", {examined.outdated:,} judged by an earlier version only"
    judged = (
        f"{examined.analyzed:,} judged {by_gold(examined.reference == 'oracle')}"
        if examined.analyzed
        else "none judged"
    )
    kinds = (
        (examined.no_retrieval, "needed no retrieval"),
        (examined.refused, "declined"),
        (examined.errors, "ended in an error"),
    )
    judged += "".join(f", {count:,} {kind}" for count, kind in kinds if count)
    if examined.most_sampled > _EVEN * examined.least_sampled:
        judged += (
            f"; kept at rates from {percent(examined.least_sampled)} to {percent(examined.most_sampled)}, "
            "so shares and means are weighted to be those of the traffic"
        )
    since = clock(examined.since)
    times = f"{since} to {clock(examined.until)}, compared with {clock(examined.before_since)} to {since}"
    return f"{times}; {read}; {judged}"


def counting(report: Report) -> str:
    """Of which requests the report's shares are, and what `now` and `before` mean."""
    if report.range is None:
        return ""
    since = clock(report.range.since)
    return (
        "broken is a share of the requests in which the stage is judged and no earlier one is broken or suspected, "
        f"in doubt of all to which the stage applies; now: since {since}; before: until the break began where that is "
        f"seen, else before {since}"
    )


def _size(examined: Range) -> str:
    """How many requests there are; of an estimate two digits."""
    if not examined.is_estimate:
        return f"{examined.requests:,}"
    return f"about {int(float(f'{examined.requests:.1e}')):,}"


def named(report: Report) -> str:
    """What the evidence says of the stage that the alert names."""
    stage = report.alert.labels.get("stage", "") if report.alert else ""
    if report.stage is None:
        earlier = next((rise.follows for rise in report.rises if rise.stage == stage and rise.follows), None)
        where = f", and that it began at {earlier}" if earlier else ", too"
        return f"it names {stage}: the evidence shows that more is in doubt there{where}"
    if report.alert and report.alert.agrees:
        return f"it names {stage}: so does the evidence"
    state = next((check.state for check in report.checks if check.stage == stage), None)
    if state == "recovered":
        return f"it names {stage}, which has recovered; {report.stage} is broken now"
    if state == "not_checked":
        return f"it names {stage}, but {report.stage} is broken before it"
    return f"it names {stage}: the evidence names {report.stage}"


def affected(tenants: Tenants) -> str:
    """Whether one customer is hit or all are."""
    return f"{tenants.broken:,} of {tenants.known:,} with requests in the break have a broken one"


def began(onset: Onset, what: str = "broken") -> str:
    """When it began, and the shares on both sides."""
    when = clock(onset.latest)
    if onset.earliest[:19] != onset.latest[:19]:
        when = f"between {clock(onset.earliest)} and {when}"
    return f"{when}: since then {counted(onset.since, what)}, before {counted(onset.before, what)}"


def _headed(name: str, state: str) -> Text:
    return Text(f"{name}  ", style="bold").append(STATES[state], style=_STYLES.get(state, "yellow"))


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))


def _rise(rise: Rise, store: str | None) -> Iterator[RenderableType]:
    """What is in doubt or not known more often than before: whose it is, since when, and what came then."""
    yield Text(f"{rise.stage} ", style="bold").append(rise.finding, style="yellow")
    lines: list[tuple[str, RenderableType]] = [("owner", Text(rise.owner, style="bold"))]
    if rise.suspected_release:
        lines.append(("suspect", Text(release_words(rise.suspected_release), style="bold yellow")))
    lines.append(("" if rise.suspected_release else "release", Text(rise.release_note)))
    if rise.onset:
        lines.append(("began", Text(began(rise.onset, UNJUDGED[rise.state]))))
    if rise.unsure:
        lines.append(("not sure", Text(f"whether it began at {joined(rise.unsure)}")))
    if len(rise.reasons) > 1:
        lines.append(("reasons", Text(_reasons(rise.reasons))))
    yield _indented(labeled(*lines))
    if rise.exemplars:
        yield _indented(_exemplars(rise.exemplars, store))


def _reasons(reasons: Sequence[ReasonCount]) -> str:
    return "; ".join(f"{each.words} ({each.count:,})" for each in reasons)


def unjudged_text(unjudged: Unjudged) -> str:
    """`in doubt: 12 of 160 (7.5 %), before 6 %: words that do not match the question (9)`."""
    now = f"{unjudged.now.count:,} of {unjudged.now.of:,} ({percent(unjudged.now.share)})"
    before = f", {'up from' if unjudged.has_risen else 'before'} {percent(unjudged.before.share)}"
    counts = {"broken": unjudged.broken, **{each.words: each.count for each in unjudged.reasons}}
    if known := sum(counts.values()):
        counts["other reasons"] = unjudged.now.count - known
    told = "; ".join(f"{words} ({count:,})" for words, count in counts.items() if count > 0)
    why = f": {told}" if told else ""
    return f"{UNJUDGED[unjudged.state]}: {now}{before if unjudged.before.of else ''}{why}"


def _check(number: int, check: Check, store: str | None, *, of_request: bool) -> Iterator[RenderableType]:
    if check.state == "not_checked":
        yield Text(f"{number} {check.stage}  {check.finding}", style="dim")
        return
    yield _headed(f"{number} {check.stage}", check.state)
    yield _indented(Text(check.title, style="dim"))
    yield _indented(Text(check.finding))
    for unjudged in check.unjudged:
        yield _indented(Text(unjudged_text(unjudged)))
        if unjudged.request_ids:
            yield _indented(_indented(Text(f"for instance {', '.join(map(plain, unjudged.request_ids))}", style="dim")))
        if unjudged.command:
            yield _indented(_indented(Text(f"to list them: {unjudged.command}{_at_store(store)}", style="dim")))
    if of_request and check.now.of:
        around = f"its segment around it: {counted(check.now)}, before {counted(check.before)}"
        yield _indented(Text(f"{around}; the objective allows {percent(check.budget)}"))
    if check.state not in ("no_data", "unjudged") or of_request:
        yield _indented(_values(check.values, of_request=of_request))


def _values(values: Sequence[MetricChange], *, of_request: bool) -> Table:
    heads = (
        ("metric", "objective", "request", "segment before (requests)")
        if of_request
        else ("mean, judged only", "objective", "now (requests)", "before (requests)")
    )
    table = plain_table(*heads)
    for value in values:
        objective = INSTRUMENTS[value.metric].objective
        missed = of_request and objective and value.now is not None and not objective.met(value.now)
        now = _mean(value.now) if of_request else mean_text(value.now, value.now_count)
        before = mean_text(value.before, value.before_count)
        table.add_row(value.name, value.objective or "none", Text(now, style="bold red" if missed else ""), before)
    return table


def mean_text(mean: float | None, count: int) -> str:
    """A mean with the number of requests that it is of: `0.87 (56)`; a dash for none, and no mean of fewer than tell
    anything."""
    if 0 < count < ENOUGH:
        return f"too few ({count:,})"
    return f"{_mean(mean)} ({count:,})" if count else "-"


def _mean(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def segments_summary(report: Report) -> str:
    """Whether the stage is broken everywhere or in some segments only."""
    known = [each for each in report.segments if each.state not in ("no_data", "unclear")]
    broken = [each.segment for each in known if each.state == "broken"]
    recovered, better = (sum(each.state == state for each in known) for state in ("recovered", "better"))
    unknown = len(report.segments) - len(known)
    parts = []
    if broken and len(broken) == len(known) > 1 and not report.more_segments:
        parts.append("broken in every segment that tells")
    elif broken:
        parts.append(f"broken in {len(broken)} of {len(report.segments) + report.more_segments} segments")
    if recovered:
        parts.append(f"recovered in {recovered}")
    if better:
        parts.append(f"better in {better}, which is not proven")
    if unknown:
        parts.append(f"not enough data in {unknown}")
    return f"Segments at {report.stage}: {', '.join(parts) or 'none is broken'}"


def _segments(lines: Sequence[SegmentLine]) -> Table:
    table = plain_table("segment", "state", "broken now", "before")
    for line in lines:
        state = STATES[line.state] + (f" {clock(line.recovered_since)}" if line.recovered_since else "")
        state_text = Text(state, style=_STYLES.get(line.state, "yellow"))
        table.add_row(Text(plain(line.segment)), state_text, _share(line.now), _share(line.before))
    return table


def _share(found: Tally) -> str:
    return f"{found.count}/{found.of} {percent(found.share)}" if found.of else "-"


def _exemplars(exemplars: Sequence[ExemplarRequest], store: str | None) -> Group:
    return Group(*(line for each in exemplars for line in _exemplar(each, store)))


def _exemplar(each: ExemplarRequest, store: str | None) -> tuple[Text, Text]:
    return Text(show_command(each.request_id, store)), Text(f"  {_about(each)}", style="dim")


def _about(each: ExemplarRequest) -> str:
    release = f", {each.suspected_release}" if each.suspected_release else ""
    return plain(f"{clock(each.at)}, {each.segment}, {each.cause}{release}")


# Markdown


def markdown(report: Report) -> str:
    """The whole report. Texts of the host are escaped: a label cannot become a link, an image or HTML."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"# Triage: {escaped(_subject(report))}"
    yield ""
    yield f"**{escaped(report.conclusion)}**"
    yield ""
    yield from _markdown_facts(report)
    if report.alert and report.alert.judge:
        yield from ("", f"Was this alert right? {code(report.alert.judge)} (or `wrong-stage`, or `false`)")
    for rise in report.rises:
        yield from ("", f"## {escaped(f'{rise.stage} {rise.finding}')}", "")
        yield from _markdown_rise(rise)
    if report.checks:
        yield from ("", "## What was checked")
    for number, check in enumerate(report.checks, 1):
        yield ""
        yield from _markdown_check(number, check, of_request=report.request is not None)
    if report.recovery:
        yield from ("", "## Recovery", "", escaped(report.recovery.finding))
    if report.segments:
        yield from ("", f"## {escaped(segments_summary(report))}", "")
        yield from table(
            ("segment", "state", "now", "before"),
            ((each.segment, STATES[each.state], counted(each.now), counted(each.before)) for each in report.segments),
        )
    if report.exemplars:
        yield from ("", "## Requests to look at", "")
        yield from (_markdown_exemplar(each) for each in report.exemplars)


def _markdown_exemplar(each: ExemplarRequest) -> str:
    return f"- {code(each.command)} – {escaped(_about(each))}"


def _markdown_rise(rise: Rise) -> Iterator[str]:
    yield f"- owner: **{escaped(rise.owner)}**; no single request proves a break"
    if rise.suspected_release:
        yield f"- suspected release: **{escaped(release_words(rise.suspected_release))}**"
    yield f"- {escaped(rise.release_note)}"
    if rise.onset:
        yield f"- began: {escaped(began(rise.onset, UNJUDGED[rise.state]))}"
    if rise.unsure:
        yield f"- whether it began at {joined(rise.unsure)} is not sure"
    if rise.reasons:
        yield f"- reasons: {escaped(_reasons(rise.reasons))}"
    yield from (_markdown_exemplar(each) for each in rise.exemplars)


def _subject(report: Report) -> str:
    if report.request:
        return f"request {report.request.request_id}"
    if report.alert and not report.range:  # it is not about requests
        where = report.service or "ragtrace itself"
    else:
        where = f"{report.service}, {report.segment or 'all segments'}"
    return f"{report.alert.name} ({where})" if report.alert else where


def _markdown_facts(report: Report) -> Iterator[str]:
    if report.alert:
        alert = report.alert
        yield f"- alert: {escaped(f'{alert.name}, {alert.status} since {clock(alert.starts_at)}')}"
        if alert.agrees is not None:
            yield f"- {escaped(named(report))}"
        if alert.judgment:
            yield f"- judged: {_JUDGMENTS.get(alert.judgment, alert.judgment)}"
    if report.request:
        yield f"- asked: {escaped(shortened(report.request.asked))}"
        yield from (f"- because: {escaped(shortened(proof))}" for proof in report.request.evidence)
    for label, text, style in report_facts(report):
        name = "suspected release" if label == "suspect" else label
        yield f"- {name}: **{escaped(text)}**" if "bold" in style else f"- {name}: {escaped(text)}"
    yield f"- made at {clock(report.made_at)}"


def _markdown_check(number: int, check: Check, *, of_request: bool) -> Iterator[str]:
    yield f"### {number}. {check.stage}: {STATES[check.state]}"
    yield ""
    yield escaped(f"{check.title} {check.finding}" if check.state != "not_checked" else check.finding)
    for unjudged in check.unjudged:
        ids = ", ".join(map(code, unjudged.request_ids))
        yield from ("", escaped(unjudged_text(unjudged)) + (f"; for instance {ids}" if ids else ""))
        if unjudged.command:
            yield from ("", f"To list them: {code(unjudged.command)}")
    if check.values and (check.state not in ("no_data", "unjudged") or of_request):
        yield ""
        yield from table(
            (
                "metric" if of_request else "mean, judged only",
                "objective",
                "request" if of_request else "now (requests)",
                "before (requests)",
            ),
            (
                (
                    value.name,
                    value.objective or "none",
                    _mean(value.now) if of_request else mean_text(value.now, value.now_count),
                    mean_text(value.before, value.before_count),
                )
                for value in check.values
            ),
        )
