"""Sentences of a report: the verdict, what to do next, its cells and breaks, the comparison itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from shlex import quote
from typing import Final

from ragtrace.formats import clock, percent, plain, written_time
from ragtrace.gate._breaks import version_changes
from ragtrace.gate._judgment import is_doubt
from ragtrace.gate._metrics import UNTOLD, is_hint, is_state
from ragtrace.gate.reports import content
from ragtrace.gate.reports.content import (
    decided_by_labels,
    floor_of,
    harm_in_margins,
    is_missing,
    may_be_within,
    minimum,
    place,
    stays_open,
)
from ragtrace.gate.types import Break, Cell, GateReport, LabeledChange, SideSummary, StageShares, VersionChange
from ragtrace.triage import CorrectedShare

__all__ = [
    "LABELED",
    "cause",
    "cell_sentence",
    "confidence",
    "consequences",
    "facts",
    "flips",
    "headline",
    "labeled_changes",
    "next_steps",
    "remarks",
]

LABELED: Final = "By people's labels"
"""The title of the rates that people's labels give."""

_NAMED: Final = 3
_HELP: Final = {  # what lets more requests be judged
    "retrieval": "give questions their evidence (a gold set) or facets",
    "ranking": "give questions their evidence (a gold set) or facets",
    "generation": "analyze with a model that verifies claims (--verifier)",
}


def headline(report: GateReport) -> str:
    """The verdict in one sentence."""
    since = _anchor_sentence(report)
    if report.decision == "block":
        alone = f"{since}; against the baseline nothing failed" if since and not _blocks_alone(report) else ""
        return f"Blocked: {alone or _blocked(report)}."
    rest = f" But {since}." if since else ""
    if report.decision == "undecided":
        return f"Undecided: {_undecided(report)}.{rest}"
    return f"Passed: {_passed(report)}.{rest}"


def _blocks_alone(report: GateReport) -> bool:
    """Whether the comparison with the baseline blocks, whatever became of the anchor."""
    missing = report.policy.on_missing == "block" and any(is_missing(cell) for cell in report.cells)
    return missing or any(cell.blocks for cell in report.cells)


def _anchor_sentence(report: GateReport) -> str:
    """`since the anchor replay:v1, over all requests, answer coverage fell by 12 points (...), margin 2`; "" where
    nothing failed against it."""
    if report.anchor is None or not report.anchor.worse:
        return ""
    worse = [cell for cell in report.anchor.worse if cell.blocks] or list(report.anchor.worse)
    lead = max(worse, key=lambda cell: (cell.segment is None, _telling(cell)))
    more = f"; {len(report.anchor.worse) - 1} more failed" if len(report.anchor.worse) > 1 else ""
    name = content.shown_name(report.anchor.anchor.name)
    where = "over all requests" if lead.segment is None else f"in segment {place(lead)}"
    return f"since the anchor {name}, {where}, {cell_sentence(lead, report)}{more}"


def _blocked(report: GateReport) -> str:
    failed = [cell for cell in report.cells if cell.blocks and cell.stage == report.first_broken]
    failed = failed or [cell for cell in report.cells if cell.blocks]
    if not failed:
        return _missing_data(report) or "the policy was not met"
    stage = failed[0].stage
    of_all = [cell for cell in failed if cell.segment is None]
    lead = max(of_all or failed, key=_telling)
    parts = [cell_sentence(lead, report)]
    if stage is not None:
        worse = "got worse" if lead.family != "floors" else "is not good enough"
        parts = [f"{stage} {worse} {_where(lead, failed)}: {parts[0]}"]
    elif lead.segment is not None:
        parts = [f"{parts[0]} {_where(lead, failed)}"]
    break_ = next((each for each in report.breaks if each.stage == stage and each.segment == lead.segment), None)
    if break_ is not None:
        parts += [_suspected(break_, report), f"owner {break_.owner}"]
    return "; ".join(parts)


def _telling(cell: Cell) -> tuple[bool, bool, float]:
    """The share of requests that a stage broke is its indicator; what only points to a break says least."""
    hint = is_hint(cell.metric)
    return is_state(cell.metric) and not hint, not hint, harm_in_margins(cell)


def _where(lead: Cell, failed: Sequence[Cell]) -> str:
    """`in segment claims-de and 2 more`, or over all requests and where it is worst."""
    others = sorted((cell for cell in failed if cell.segment is not None), key=harm_in_margins, reverse=True)
    segments = list(dict.fromkeys(place(cell) for cell in others))
    if lead.segment is None:
        return "over all requests" + (f", most in segment {segments[0]}" if segments else "")
    more = len(segments) - 1
    return f"in segment {place(lead)}" + (f" and in {more} more" if more else "")


def _suspected(break_: Break, report: GateReport) -> str:
    if break_.suspects:
        return "changed since the baseline: " + ", ".join(content.change(each) for each in break_.suspects[:_NAMED])
    if version_changes(report.baseline, report.candidate):
        return "no recorded version of this stage's components changed"
    return "no recorded version changed"


def _missing_data(report: GateReport) -> str:
    missing = [cell for cell in report.cells if is_missing(cell)]
    if not missing:
        return ""
    names = list(dict.fromkeys(place(cell) for cell in missing))
    fewest = min(missing, key=lambda cell: min(cell.n))
    what, least = content.metric_name(fewest.metric), minimum(fewest, report)
    shortage = f"{min(fewest.n):,} of at least {least:,} {_asked(report)} have a value for {what}"
    if min(fewest.n) >= least:
        shortage = (
            f"the {min(fewest.n):,} {_asked(report)} with a value for {what} are of too few sessions or documents"
        )
    required = f"the policy requires segment{'' if len(names) == 1 else 's'} {content.enumerated(names)}"
    return f"{required}, and there is too little data: {shortage}"


def _undecided(report: GateReport) -> str:
    open_ = [cell for cell in report.cells if stays_open(cell, report.policy)]
    unclear = [cell for cell in open_ if cell.outcome == "inconclusive"]
    doubts = [cell for cell in open_ if is_doubt(cell)]
    if doubts:
        lead = max(doubts, key=harm_in_margins)
        return f"{cell_sentence(lead, report)}, and what is not judged may be broken"
    if not open_:
        return _missing_data(report) or _left_out(report) or "nothing could be judged"
    if not unclear:
        names = list(dict.fromkeys(content.metric_name(cell.metric) for cell in open_))
        fewest = min(open_, key=lambda cell: min(cell.n))
        if min(fewest.n) >= minimum(fewest, report):
            metrics = content.enumerated(names)
            return f"the {_asked(report)} with a value for {metrics} are of too few sessions or documents"
        if min(fewest.n) == _size(report) and report.needed is not None:
            return (
                f"{_size(report):,} {_asked(report)} are too few to pass any candidate by this policy, even one "
                f"without any difference; about {report.needed:,} are enough"
            )
        return f"too few {_asked(report)} have a value for {content.enumerated(names)}: {min(fewest.n):,}"
    lead = max(unclear, key=lambda cell: (cell.segment is None, cell.unjudged or 0.0, cell.needed or 0))
    where = "" if lead.segment is None else f" in segment {place(lead)}"
    more = len(unclear) - 1
    others = "; 1 more verdict is open" if more == 1 else f"; {more} more verdicts are open"
    doubt = "and what is not judged may be broken" if lead.unjudged is not None else "which may be harm or chance"
    rest = "" if lead.unjudged is not None else f"; {_more(lead, report)}"
    return f"{cell_sentence(lead, report)}{where}, {doubt}{rest}{others if more else ''}"


def _left_out(report: GateReport) -> str:
    """How much of the baseline's traffic the candidate was not held against; "" where that is little."""
    share = content.share_left_out(report)
    if share <= content.MOST_LEFT_OUT:
        return ""
    return (
        f"what was compared did not get worse, but {percent(share)} of the baseline's requests are in segments of "
        f"which a side has too few requests ({_names_left_out(report)})"
    )


def _names_left_out(report: GateReport) -> str:
    """The segments that were left out, those with the most traffic first."""
    found = sorted((each for each in report.mix if each.factor is None), key=lambda each: -each.baseline)
    names = [content.shown_name(each.segment) for each in found[:_NAMED] if each.baseline]
    return ", ".join(names) + (" ..." if len(found) > _NAMED else "")


def _passed(report: GateReport) -> str:
    worse = [cell for cell in report.cells if cell.outcome == "fail"]
    overall = [cell for cell in report.cells if cell.segment is None]
    unproven = [cell for cell in overall if cell.outcome not in ("pass", "fail") and not is_hint(cell.metric)]
    open_ = [content.metric_name(cell.metric) for cell in unproven]
    if worse:
        lead = max(worse, key=lambda cell: (cell.segment is None, _telling(cell)))
        where = "" if lead.segment is None else f" in segment {place(lead)}"
        return f"nothing that blocks got worse, but {cell_sentence(lead, report)}{where}"
    if open_:
        return f"nothing got worse for certain; not proven over all requests: {content.enumerated(open_)}"
    return f"no metric got worse by more than its margin{_segments_proven(report)}"


def _segments_proven(report: GateReport) -> str:
    cells = [cell for cell in report.cells if not is_hint(cell.metric)]
    every = {cell.segment for cell in cells if cell.segment is not None}
    sure = len(every - {cell.segment for cell in cells if cell.outcome != "pass"})
    if not every:
        return ""
    if not sure:
        return f", over all requests; of the {len(every)} segments none has data enough to prove it"
    rest = (
        f"each of {sure} segments"
        if sure == len(every)
        else f"{sure} of {len(every)} segments; the others are not proven"
    )
    return f", over all requests and in {rest}"


def _more(cell: Cell, report: GateReport) -> str:
    if cell.margin == 0 and cell.family != "floors":
        return "its margin is a share of the baseline's mean, which is 0: give one without a percent sign"
    if report.needed is None or report.needed <= _size(report):
        return f"more than {_size(report):,} {_asked(report)} are needed"
    return f"about {report.needed:,} {_asked(report)} would tell, there are {_size(report):,}"


def _size(report: GateReport) -> int:
    """How many pairs were compared, or requests of the smaller side."""
    return report.pairs if report.pairs is not None else min(report.baseline.requests, report.candidate.requests)


def next_steps(report: GateReport) -> tuple[str, ...]:
    """What to do now, one sentence each."""
    return tuple(dict.fromkeys(_steps(report)))


def _steps(report: GateReport) -> Iterator[str]:
    if report.decision == "block":
        yield from _mend(report)
    if report.anchor is not None and report.anchor.worse:
        sides = " ".join(quote(side.name) for side in (report.anchor.anchor, report.candidate))
        yield f"See which questions were lost since the anchor: ragtrace gate compare {plain(sides)} --only worse"
    missing = [cell for cell in report.cells if is_missing(cell)]
    for cell in missing[:_NAMED]:
        least, name = minimum(cell, report), content.metric_name(cell.metric)
        if min(cell.n) >= least:
            yield f"Ask questions of more sessions or documents in segment {place(cell)}."
        elif min(cell.n):
            yield f"Ask at least {least:,} questions of segment {place(cell)}; {min(cell.n):,} could be judged."
        else:
            yield (
                f"See why no request of segment {place(cell)} has a value for {name}, or take the metric out of the "
                "policy."
            )
    overall = [cell for cell in report.cells if cell.segment is None and stays_open(cell, report.policy)]
    open_ = [cell for cell in overall if cell.outcome == "inconclusive" or is_doubt(cell)]
    if report.decision != "block":
        yield from _enlarge(open_, report)
        yield from _ask_more([cell for cell in overall if cell.outcome == "not_enough_data"], report)
    is_near = any(cell.outcome == "inconclusive" for cell in decided_by_labels(report))
    if is_near and (report.labels is None or report.labels.waiting):
        yield f"Or let somebody judge the questions that decide it: ragtrace gate label {report.run_id[:12]}"
    if report.decision == "undecided" and content.share_left_out(report) > content.MOST_LEFT_OUT:
        yield (
            f"Let the candidate answer requests of {_names_left_out(report)} as well, or give a longer window by "
            "--since; then run the gate again."
        )
    if report.decision == "pass":
        open_parts = [cell for cell in report.cells if cell.segment and not is_hint(cell.metric)]
        blocking = [cell for cell in open_parts if cell.action == "block" and cell.segment not in report.small]
        unsure = dict.fromkeys(place(cell) for cell in blocking if cell.outcome == "inconclusive")
        if unsure:
            names = ", ".join(list(unsure)[:_NAMED]) + (" ..." if len(unsure) > _NAMED else "")
            yield f"The candidate may go out. Ask more questions of {names} to judge them as well."
        else:
            yield "The candidate may go out."
        yield from _look_at_others(report)


def _look_at_others(report: GateReport) -> Iterator[str]:
    """What changed in a run that passed: the states of the stages do not show all harm."""
    changed = (report.pairs or 0) - report.unchanged.get("generation", report.pairs or 0)
    if changed:
        sides = " ".join(quote(side.name) for side in (report.baseline, report.candidate))
        yield (
            f"In {changed:,} question{'' if changed == 1 else 's'} the answer or the prompt is another, and the gate "
            f"does not see all that may be wrong in them; look at some: ragtrace gate compare {plain(sides)}"
        )


def _mend(report: GateReport) -> Iterator[str]:
    break_ = next((each for each in report.breaks if each.stage == report.first_broken), None)
    if break_ is None:
        if any(cell.blocks for cell in report.cells):
            yield "Mend what failed, or widen its margin in the policy where the loss is worth it."
            yield from _prove_within(report)
        return
    if break_.requests:
        yield f"{break_.owner}: look at what became worse, request {plain(break_.requests[0][1])} first."
    if break_.suspects:
        back = " or ".join(_back(each) for each in break_.suspects[:_NAMED])
        yield f"Put {back}, or mend what changed; then run the gate again."
    else:
        yield "Look for a change without a version: data, configuration, a provider; then run the gate again."
    yield from _prove_within(report)
    if any(other.stage != break_.stage and other.follows is None for other in report.breaks):
        yield f"Mend {break_.stage} first: what comes after it may be its consequence."


def _prove_within(report: GateReport) -> Iterator[str]:
    """How many questions would show that all that blocks is within its margin, if the loss stays what it is here."""
    cells = [cell for cell in report.cells if cell.blocks]
    sizes = [cell.decides for cell in cells if cell.decides is not None and cell.family == "overall"]
    if report.policy.on_missing == "block" and any(is_missing(cell) for cell in report.cells):
        return
    if len(sizes) == len(cells) and all(may_be_within(cell, report.alpha) for cell in cells):
        least = 10 * ceil(max(sizes) / 10)
        if least > _size(report):
            yield (
                f"Or ask about {least:,} {_asked(report)} ({_size(report):,} now): the loss that was seen is within "
                "the margin, and with so many it could be shown to be."
            )


def _back(suspect: VersionChange) -> str:
    to = f" to {content.shown_name(suspect.baseline)}" if suspect.baseline is not None else ""
    return f"{content.shown_name(suspect.component)} back{to}"


def _ask_more(few: Sequence[Cell], report: GateReport) -> Iterator[str]:
    compared = report.pairs if report.pairs is not None else min(report.baseline.requests, report.candidate.requests)
    unjudged = [cell for cell in few if is_state(cell.metric) and compared >= minimum(cell, report)]
    for cell in unjudged:
        yield (
            f"Of {compared:,} {_asked(report)} only {min(cell.n):,} tell whether {cell.stage} is sound or broken: "
            f"{_HELP.get(cell.stage or '', 'see why the others do not')}."
        )
    short = [cell for cell in few if 0 < min(cell.n) < minimum(cell, report) and cell not in unjudged]
    if short and report.needed is not None and report.needed > compared:
        yield f"Ask about {report.needed:,} {_asked(report)} ({compared:,} now), then run the gate again."


def _enlarge(open_: Sequence[Cell], report: GateReport) -> Iterator[str]:
    for cell in open_:
        if cell.metric == UNTOLD and is_doubt(cell):
            yield (
                "See why more of the candidate's answers state nothing; to tell whether rightly, give questions their "
                "evidence (a gold set)."
            )
        elif cell.unjudged is not None or is_doubt(cell):
            yield (
                f"See why {cell.stage} is suspected or not known in more of the candidate's requests; to tell more of "
                f"them, {_HELP.get(cell.stage or '', 'give them what the analysis lacks')}."
            )
    open_ = [cell for cell in open_ if cell.unjudged is None and not is_doubt(cell)]
    if open_ and report.needed is not None and report.needed > _size(report):
        yield f"Ask about {report.needed:,} {_asked(report)} ({_size(report):,} now), then run the gate again."
    coarse = [cell for cell in open_ if cell.detectable is not None and cell.detectable > cell.margin]
    for cell in coarse[:_NAMED]:
        size = content.amount(cell, cell.detectable or 0.0)
        yield f"Or accept a margin of {size} for {content.metric_name(cell.metric)}: smaller losses cannot be seen now."


def cell_sentence(cell: Cell, report: GateReport) -> str:
    """`answer coverage fell by 12 points (90 % interval 8 to 16), margin 2`."""
    name = content.metric_name(cell.metric)
    floor = floor_of(cell, report)
    if floor is not None:
        side = "below the floor of" if cell.direction == "higher" else "above the limit of"
        if cell.outcome != "fail":
            side = "the floor is" if cell.direction == "higher" else "the limit is"
        sure = ""
        if cell.low is not None and cell.high is not None:
            sure = (
                f" ({confidence(report)} interval {content.level(cell, cell.low)} to {content.level(cell, cell.high)})"
            )
        return f"{name} is {content.level(cell, cell.candidate)}{sure}, {side} {content.level(cell, floor)}"
    if cell.difference is None:
        return f"{name} is not defined often enough to be compared"
    if cell.unjudged is not None:
        fell = content.amount(cell, cell.unjudged)
        return f"the share of requests in which {cell.stage} is sound or broken fell by {fell}"
    if cell.difference == 0:
        text = f"{name} is the same"
    else:
        text = f"{name} {content.verb(cell.difference)} by {content.amount(cell, abs(cell.difference))}"
    if cell.low is not None and cell.high is not None:
        text += f" ({confidence(report)} interval {content.bounds(cell)})"
    text += f", margin {content.width(cell, cell.margin)}"
    if may_be_within(cell, report.alpha):
        return f"{text}: it is worse for certain, and a loss beyond the margin is not ruled out"
    within = cell.outcome == "fail" and cell.p_inferior is not None and cell.p_inferior <= report.alpha
    return f"{text}, but this metric is a guardrail: it must not get worse at all" if within else text


def confidence(report: GateReport) -> str:
    """Of the intervals of single cells."""
    return percent(1 - 2 * report.alpha)


def _asked(report: GateReport) -> str:
    """What is counted: questions that both sides answered, or requests of each side."""
    return "questions" if report.paired else "requests of each side"


def flips(break_: Break) -> str:
    """How many requests are broken here that were sound, and how many are not judged any more; or the sides' shares."""
    if break_.flipped is not None:
        back = f"; {break_.recovered:,} the other way round" if break_.recovered else ""
        lost = (("now suspected", break_.now_suspected), ("now not known", break_.now_not_known))
        rest = "".join(f"; {count:,} {word}" for word, count in lost if count)
        return f"{break_.flipped:,} questions were sound here and are broken{back}{rest}"
    before, after = (percent(share) for share in break_.broken)
    return f"{after} of the judged requests are broken here, before {before}"


def cause(break_: Break) -> str:
    """The causes of a break, the commonest first."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in list(break_.causes.items())[:_NAMED])


def consequences(breaks: Sequence[Break]) -> Iterator[str]:
    """One sentence for each stage that failed because an earlier one did."""
    for stage, earlier in dict.fromkeys(
        (break_.stage, break_.follows) for break_ in breaks if break_.follows is not None
    ):
        failed = [break_ for break_ in breaks if (break_.stage, break_.follows) == (stage, earlier)]
        names = ["all requests" if break_.segment is None else content.shown_name(break_.segment) for break_ in failed]
        metrics = dict.fromkeys(content.metric_name(metric) for break_ in failed for metric in break_.metrics)
        yield (
            f"{stage} follows from {earlier} in {content.enumerated(names)}: {content.enumerated(list(metrics))} got "
            "worse, and where the stages before it are right, it is as sound as before"
        )


def _changed(report: GateReport) -> str:
    """What is known to differ between the sides."""
    changes = version_changes(report.baseline, report.candidate)
    return ", ".join(content.change(each) for each in changes) or "no recorded version"


def facts(report: GateReport) -> Iterator[tuple[str, str]]:
    """What was compared, and how."""
    yield "baseline", _side_line(report.baseline)
    yield "candidate", _side_line(report.candidate)
    if report.anchor is not None:
        lost = f"{len(report.anchor.worse):,} cells failed" if report.anchor.worse else "nothing failed"
        yield "anchor", f"{_side_line(report.anchor.anchor)}; {lost} against it"
    yield "changed", _changed(report)
    yield "compared", _compared(report)
    judged = _judged_shares(report.stages)
    if judged:
        yield "judged", judged
    yield "false alarms", f"at most {percent(report.alpha)} of the candidates that are no worse are blocked"


def _side_line(side: SideSummary) -> str:
    text = f"{content.shown_name(side.name)}: {side.requests:,} requests"
    if side.since is not None and side.until is not None:
        text += f", {clock(written_time(side.since))} to {clock(written_time(side.until))}"
    return text


def _judged_shares(stages: Sequence[StageShares]) -> str:
    """`retrieval 100 %, generation 71 % (before 93 %)`: in what share of requests a stage is sound or broken."""
    return ", ".join(f"{each.stage} {_judged_share(each)}" for each in stages)


def _judged_share(stage_shares: StageShares) -> str:
    shares = [
        None if one is None else one + (two or 0.0)
        for one, two in zip(stage_shares.sound, stage_shares.broken, strict=True)
    ]
    before, after = ("-" if share is None else percent(share) for share in shares)
    return after if before == after else f"{after} (before {before})"


def _compared(report: GateReport) -> str:
    if report.mix:
        return (
            "as independent samples; segments in the baseline's proportions: "
            + ", ".join(
                f"{content.shown_name(each.segment)} {percent(each.baseline)} (candidate {percent(each.candidate)})"
                for each in sorted(report.mix, key=lambda each: -each.baseline)[:_NAMED]
            )
            + (" ..." if len(report.mix) > _NAMED else "")
        )
    if not report.paired:
        return "as independent samples"
    same = report.unchanged.get("generation")
    text = f"the same {report.pairs or 0:,} questions on both sides"
    return text if same is None else f"{text}; {same:,} of them with the same answer, and nothing lost from the prompt"


def labeled_changes(report: GateReport) -> tuple[str, ...]:
    """What broke first in how many live requests of both sides' versions, corrected by people's labels; nothing where a
    side has no such rates."""
    if not report.by_labels:
        return ()
    untils = [clock(side.until) for side in (report.by_labels[0].baseline, report.by_labels[0].candidate)]
    head = (
        "share of live requests with these versions in which a stage is the first that broke, corrected by labels "
        f"(95 % intervals; up to {untils[0]} and {untils[1]}); the decision does not rest on it"
    )
    return head, *map(_labeled_change, report.by_labels)


def _labeled_change(change: LabeledChange) -> str:
    sides = " → ".join(_labeled_side(side) for side in (change.baseline, change.candidate))
    points = [100 * value for value in (change.candidate.share - change.baseline.share, change.low, change.high)]
    middle, low, high = (f"{value:+.1f}".replace("-", "−") for value in points)
    name = "any stage" if change.stage == "any" else change.stage
    return f"{name}: {sides}; change {middle} points ({low} to {high})"


def _labeled_side(share: CorrectedShare) -> str:
    return f"{share.share:.1%} ({share.low:.1%} to {share.high:.1%}, {share.labels:,} labels)"


def remarks(report: GateReport) -> tuple[str, ...]:
    """What one must know of the comparison, what failed by less than its margin, and what passed although it is worse
    for certain."""
    worse = [
        cell
        for cell in report.cells
        if cell.outcome == "pass" and content.harm(cell) > 0 and (cell.p_adjusted or 0.0) <= report.alpha
    ]
    unsure = [cell for cell in report.cells if cell.blocks and may_be_within(cell, report.alpha)]
    failed = [f"{place(cell)}: {cell_sentence(cell, report)}" for cell in unsure[:_NAMED]]
    certain = [f"{place(cell)}: {cell_sentence(cell, report)}: worse for certain, within the margin" for cell in worse]
    more = (
        [f"{len(certain) - _NAMED} more cells are worse for certain, within their margins"]
        if len(certain) > _NAMED
        else []
    )
    since = [
        f"since the anchor, {place(cell)}: {cell_sentence(cell, report)}"
        for cell in (report.anchor.worse if report.anchor is not None else ())
    ]
    rest = [f"{len(since) - _NAMED} more cells failed against the anchor"] if len(since) > _NAMED else []
    warnings = (plain(warning) for warning in report.warnings)
    return (*warnings, *since[:_NAMED], *rest, *failed, *certain[:_NAMED], *more)
