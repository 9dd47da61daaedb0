"""People's labels for an undecided run: the questions that decide it, and the run decided anew with what was said.

A run stays open where the verdicts of the two sides differ in both directions, or where a side could not be judged. A
person is asked about such pairs, both requests of each, without being told which side one is of or what the verdict
is. Pairs are taken whichever side looks better, so that labels do not favor the candidate. A label takes the place
of the verdict on a stage; what nobody labeled stays as it was judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np

from ragtrace.errors import InputError
from ragtrace.gate._metrics import REFUSALS, refusals, silence, state_metrics
from ragtrace.gate._population import compared
from ragtrace.gate.policy import OTHER
from ragtrace.gate.reports.content import decided_by_labels, stays_open
from ragtrace.gate.runs import compare, load_sides, with_anchor, with_texts_and_labels
from ragtrace.gate.selection import parse
from ragtrace.gate.types import NOWHERE, STATES, AnchorResult, Comparison, GateReport, LabelUse, Population
from ragtrace.registry.instruments import STAGES
from ragtrace.store import RequestLabel, Store
from ragtrace.types import Stage

__all__ = ["LabelTask", "decide_with_labels", "find_task"]

_SOUND, _BROKEN = STATES.index("sound"), STATES.index("broken")
_NAMES: Final = tuple(stage.name for stage in STAGES)


@dataclass(frozen=True, slots=True, eq=False)
class LabelTask:
    """What may decide a run. pairs: request ids of both sides of each question that differs, in the order in which they
    are asked of; stages: that are open."""

    report: GateReport
    comparison: Comparison
    stages: tuple[Stage, ...]
    pairs: tuple[tuple[str, str], ...]

    def labels(self, store: Store) -> list[RequestLabel]:
        """All that was said of its requests."""
        return store.labels(request_ids=[request for pair in self.pairs for request in pair])

    def requests(self, count: int, labels: Iterable[RequestLabel], labeler: str) -> list[str]:
        """The requests of the first `count` pairs that the labeler has not labeled, each pair's in an order that tells
        nothing of its side."""
        known = {each.request_id for each in labels if each.labeler == labeler}
        return [each for pair in self.pairs[:count] for each in sorted(pair, key=_number) if each not in known]


def find_task(report: GateReport, store: str | None) -> LabelTask:
    """The questions that decide an undecided run. store: the URL that its selections without a source are read from.

    Raises: InputError for a run that is decided, that is not paired, or that no label can decide.
    """
    if report.decision != "undecided":
        raise InputError(f"run {report.run_id[:12]} is decided ({report.decision}); only an undecided run is labeled")
    if not report.paired:
        raise InputError(f"run {report.run_id[:12]} compares no pairs; replay the same questions on both sides")
    told = decided_by_labels(report)
    if not told:
        open_ = [cell.metric for cell in report.cells if stays_open(cell, report.policy)]
        names = ", ".join(dict.fromkeys(open_)) or "nothing"
        raise InputError(f"no label can decide run {report.run_id[:12]}: open is {names}; ask more questions")
    sides = [
        parse(f"--{name}", side.name, report.created_at)
        for name, side in (("baseline", report.baseline), ("candidate", report.candidate))
    ]
    before, after = load_sides(sides, report.policy, store, report.service).populations
    comparison = compared(before, after, "paired", expected=True)
    stages = tuple(stage for stage in _NAMES if any(cell.stage == stage for cell in told))
    chosen: dict[tuple[str, str], int] = {}
    for cell in told:
        within = None if cell.segment is None else report.small if cell.segment == OTHER else (cell.segment,)
        for pair, rank in _differing(comparison, cell.stage or "retrieval", within, cell.unjudged is not None):
            chosen[pair] = min(rank, chosen.get(pair, rank))
    pairs = sorted(chosen, key=lambda pair: (chosen[pair], _number(pair[0])))
    return LabelTask(report, comparison, stages, tuple(pairs))  # type: ignore[arg-type]  # the registry's stages


def _differing(
    comparison: Comparison, stage: Stage, segments: Collection[str] | None, unjudged_first: bool
) -> Iterable[tuple[tuple[str, str], int]]:
    """Pairs whose states differ, with their rank: those that flipped in either direction, and those of which one side
    is judged. segments: of these alone; None: of all."""
    before, after = comparison.baseline, comparison.candidate
    same = comparison.unchanged.get(stage)
    for at, (one, two) in enumerate(comparison.pairs.tolist() if comparison.pairs is not None else ()):
        if same is not None and same[at]:
            continue
        states = int(before.states[stage][one]), int(after.states[stage][two])
        judged = sum(state in (_SOUND, _BROKEN) for state in states)
        inside = segments is None or before.segments[one] in segments
        if states[0] != states[1] and judged and NOWHERE not in states and inside:
            flipped = judged == 2
            yield (before.request_ids[one], after.request_ids[two]), int(flipped == unjudged_first)


def _number(text: str) -> bytes:
    """A request's own number, which is no order in time and of no side."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"ragtrace-gate").digest()


def decide_with_labels(task: LabelTask, labels: Sequence[RequestLabel], store: str | None) -> GateReport:
    """The run judged again, with labels in place of verdicts. Several labelers count by majority; a tie, and what
    nobody can tell, leave the verdict. labels: of the task's requests. An anchor is held against the candidate again.

    Raises: InputError without a label that tells, and where the anchor is no longer there.
    """
    told = _told(labels)
    if not told:
        raise InputError(f"nobody has labeled a question of run {task.report.run_id[:12]}; ragtrace gate label asks")
    before, changed_before = _labeled(task.comparison.baseline, told)
    after, changed_after = _labeled(task.comparison.candidate, told)
    old = task.report
    found = compare(before, after, old.policy, service=old.service, same_questions=True)
    own = {request for pair in task.pairs for request in pair}
    use = LabelUse(
        of_run=old.run_id,
        requests=len({request for request, _ in told} & own),
        waiting=sum(not {pair[0], pair[1]} <= {request for request, _ in told} for pair in task.pairs),
        changed=changed_before + changed_after,
        labelers=tuple(sorted({each.labeler for each in labels})),
    )
    warning = (
        f"{use.requests:,} requests were judged by people ({', '.join(use.labelers)}); {use.changed:,} verdicts on a "
        f"stage were others; {use.waiting:,} questions whose verdicts differ are not labeled"
    )
    found = msgspec.structs.replace(found, labels=use, warnings=(*found.warnings, warning))
    if old.anchor is not None:
        found = _against_anchor(found, old, old.anchor, told, store)
    return with_texts_and_labels(found, store)


def _against_anchor(
    found: GateReport,
    old: GateReport,
    known: AnchorResult,
    told: Mapping[tuple[str, Stage], int],
    store: str | None,
) -> GateReport:
    """The report with the anchor of the old run, held against the candidate anew with the same labels."""
    names = (("--anchor", known.anchor.name), ("--candidate", old.candidate.name))
    selections = [parse(option, name, old.created_at) for option, name in names]
    anchor, candidate = load_sides(selections, old.policy, store, old.service).populations
    before, after = _labeled(anchor, told)[0], _labeled(candidate, told)[0]
    against = compare(before, after, old.policy, service=old.service, same_questions=known.paired)
    return with_anchor(found, against, blocks=known.blocks)


def _told(labels: Iterable[RequestLabel]) -> dict[tuple[str, Stage], int]:
    """What the majority says of a request's stage: sound or broken."""
    votes: dict[tuple[str, Stage], Counter[str]] = {}
    for label in labels:
        for stage in STAGES:
            if (word := _word(label, stage.name)) is not None:
                votes.setdefault((label.request_id, stage.name), Counter())[word] += 1  # type: ignore[arg-type]
    codes = {"sound": _SOUND, "broken": _BROKEN}
    return {key: codes[count.most_common(1)[0][0]] for key, count in votes.items() if count["sound"] != count["broken"]}


def _word(label: RequestLabel, stage: str) -> str | None:
    """What a label says of a stage, by itself or by the first that broke; None where it does not tell."""
    said = label.stages.get(stage)
    if said is not None:
        return said if said in ("sound", "broken") else None
    first = label.first_broken
    if first == stage:
        return "broken"
    is_before = first in _NAMES and _NAMES.index(stage) < _NAMES.index(first)
    return "sound" if first == "none" or is_before else None


def _labeled(side: Population, told: Mapping[tuple[str, Stage], int]) -> tuple[Population, int]:
    """A side with labels for states, and how many states that changed; of stages that apply to the request."""
    rows = {request: row for row, request in enumerate(side.request_ids)}
    states = {stage: codes.copy() for stage, codes in side.states.items()}
    changed = 0
    for (request, stage), code in told.items():
        row = rows.get(request)
        if row is not None and stage in states and states[stage][row] not in (NOWHERE, code):
            states[stage][row] = code
            changed += 1
    scores = dict(side.scores)
    for stage, codes in states.items():
        for state, metric in state_metrics(stage).items():
            if metric in scores:
                known = np.isin(codes, (_SOUND, _BROKEN)) if state == "broken" else codes != NOWHERE
                scores[metric] = np.where(known, (codes == STATES.index(state)).astype(np.float64), np.nan)
    if all(metric in scores for metric in REFUSALS):
        scores |= refusals(silence(scores), states)
    return replace(side, states=states, scores=scores), changed
