"""Calibration of a service's lines of proof: on its own requests as they are, and on copies broken on purpose.

Of the untouched requests it is not known which are broken. That the judge names some of them is therefore an upper
bound of false blame, as long as it names broken ones at least as often; lines are raised until that share is within
the bound. What is named of the broken copies tells how much is left, of injected faults alone: natural ones are
others, and how many there are is not estimated. Labels of people change both: where enough requests are known to be
sound, false blame is measured, and lines may come down.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

from ragtrace.analyze._fault_injection import FAULTS, Subject, inject
from ragtrace.analyze._stage_states import RULES, Case, Raised, judge_stages, proofs
from ragtrace.analyze._verification import Models, judge as ask_models
from ragtrace.analyze.analysis import examine
from ragtrace.analyze.diagnosis import first_broken
from ragtrace.analyze.services import Services
from ragtrace.sample_statistics import ONE_SIDED_95, effective_size, wilson
from ragtrace.store import FaultFigures, Store
from ragtrace.types import Analysis, RequestRecord, Stage

__all__ = [
    "BOUND",
    "COPIES",
    "ENOUGH_SOUND",
    "FEWEST",
    "FittedLines",
    "JudgeAll",
    "Untouched",
    "calibrate_lines",
    "judge_as_worker",
]

BOUND: Final = 0.015
"""Of the sound requests, the share that may be blamed, over all stages."""
FEWEST: Final = 200
"""Untouched requests from which a share as small as the bound can be told."""
ENOUGH_SOUND: Final = 178
"""Requests that people call sound, from which the upper end of their false blame can lie within the bound."""
COPIES: Final = 60
"""Requests that each fault breaks at most."""
_STEP: Final = 0.25  # log odds by which lines come down where labels allow it
_LOWEST: Final = -2.0
_SWITCHES: Final = ("rewrite", "altered", "uncited")  # rules without a score: they prove, or they do not

JudgeAll: TypeAlias = Callable[[Sequence[RequestRecord]], Mapping[str, tuple[Analysis, Case]]]
"""Judges requests without gold evidence, by id; one that cannot be judged is left out."""


@dataclass(frozen=True, slots=True)
class Untouched:
    """A recorded request of the random stratum. weight: the inverse of the probability with which it was kept;
    is_sound: whether people call it sound, None where nobody said; label_weight: its weight among those of whom they
    did, the inverse of the probability with which it was kept and drawn for a label."""

    record: RequestRecord
    weight: float = 1.0
    is_sound: bool | None = None
    label_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class FittedLines:
    """What was fitted; as `ServiceCalibration` has it."""

    raised: dict[str, float | None]
    requests: int
    blamed: float
    blamed_high: float
    suspected: float
    labeled_sound: int
    faults: tuple[FaultFigures, ...]


@dataclass(frozen=True, slots=True)
class _Proven:
    """How a request is named by given lines. margins: by rule (`proofs`); weight: of an untouched one; stage: at which
    a copy was broken."""

    margins: Mapping[str, float]
    weight: float = 1.0
    stage: Stage | None = None
    is_suspected: bool = False

    def named(self, raised: Raised) -> Stage | None:
        """The first stage that is proven broken."""
        for rule, stage in RULES.items():
            line = raised.get(rule, 0.0)
            if line is not None and rule in self.margins and self.margins[rule] >= line:
                return stage
        return None


def calibrate_lines(
    untouched: Sequence[Untouched],
    judge: JudgeAll,
    *,
    current: Raised | None = None,
    bound: float = BOUND,
    copies: int = COPIES,
    seed: int = 0,
) -> FittedLines:
    """Fit the lines of proof of one service and judge.

    current: the lines by which it is judged now. None of them comes down, unless at least `ENOUGH_SOUND` of the
    requests are known to be sound; then false blame is measured on these, to the upper end of its 95 % interval.
    """
    found = judge([each.record for each in untouched])
    there = [each for each in untouched if each.record.request_id in found]
    weights = {each.record.request_id: each.weight for each in there}
    plain = {key: _proven(*found[key], weight=weight) for key, weight in weights.items()}
    sound = [replace(plain[each.record.request_id], weight=each.label_weight) for each in there if each.is_sound]
    broken = list(_broken_copies(there, found, judge, copies, random.Random(seed)))
    raised = {rule: (current or {}).get(rule, 0.0) for rule in RULES}
    is_measured = len(sound) >= ENOUGH_SOUND
    known = sound if is_measured else list(plain.values())
    raised = _raise(raised, known, broken, bound, is_measured=is_measured)
    if is_measured:
        raised = _lower(raised, known, broken, bound)
    share, high = _blamed(known, raised)
    return FittedLines(
        raised,
        len(plain),
        share,
        high,
        _share(list(plain.values()), lambda each: each.is_suspected)[0],
        len(sound) if is_measured else 0,
        _figures(broken, raised),
    )


def judge_as_worker(store: Store, models: Models) -> JudgeAll:
    """Judges requests as a worker with these models would, by what the store knows of their services; without gold
    evidence, and by lines that no calibration has moved. What its models do not judge is left out."""
    services = Services(store, models.judge(models.verified_by()))

    def judge(records: Sequence[RequestRecord]) -> dict[str, tuple[Analysis, Case]]:
        services.load(record.service for record in records)
        said = ask_models({record.request_id: record for record in records}, models)
        found = {}
        for record in records:
            told = said.get(record.request_id)
            if models.asks and (told is None or isinstance(told.answer, Exception)):
                continue
            view = replace(services.view(record), calibrations=())
            found[record.request_id] = examine(
                record,
                service=view,
                judged=None if told is None or isinstance(told.answer, Exception) else told.answer,
                relevances=None if told is None else told.relevances,
                nearness=None if told is None else told.nearness,
                verified_by=None if told is None else told.by,
                entities=models.entities,
            )
        return found

    return judge


def _proven(analysis: Analysis, case: Case, *, weight: float = 1.0, stage: Stage | None = None) -> _Proven:
    """is_suspected: by the lines that all services have, so that windows can be compared."""
    if not analysis.diagnosis.stages:  # nothing had to be retrieved
        return _Proven({}, weight, stage)
    states = judge_stages(replace(case, raised={}))
    is_suspected = any(each.state == "suspected" for each in states) or first_broken(states) is not None
    if stage is not None:
        is_suspected = any(each.stage == stage and each.state in ("suspected", "broken") for each in states)
    return _Proven(proofs(case), weight, stage, is_suspected)


def _broken_copies(
    untouched: Sequence[Untouched],
    found: Mapping[str, tuple[Analysis, Case]],
    judge: JudgeAll,
    most: int,
    chance: random.Random,
) -> Iterable[_Proven]:
    """Copies of requests that nothing is named in, each broken by one fault, and how they are named."""
    subjects = [
        Subject(each.record, analysis.claims)
        for each in untouched
        if (analysis := found[each.record.request_id][0]).diagnosis.stage is None and each.is_sound is not False
    ]
    records = [subject.record for subject in subjects]
    for fault, stage in FAULTS.items():
        made = (inject(one, fault, records, chance) for one in chance.sample(subjects, len(subjects)))
        copies = list(islice((copy for copy in made if copy is not None), most))
        judged = judge(copies)
        for copy in copies:
            if copy.request_id in judged:
                yield _proven(*judged[copy.request_id], stage=stage)


def _raise(
    raised: Raised, untouched: Sequence[_Proven], broken: Sequence[_Proven], bound: float, *, is_measured: bool
) -> dict[str, float | None]:
    """Lines raised until no more is blamed than the bound allows; at each step the one that frees the most requests for
    each fault that is named no longer."""
    lines = dict(raised)
    while _blamed(untouched, lines)[int(is_measured)] > bound:
        steps = [lines | {rule: _next(rule, lines, untouched)} for rule in RULES if _fires(rule, lines, untouched)]
        if not steps:
            break  # too few are known to be sound to tell
        blamed, right = _blamed(untouched, lines)[0], _right(broken, lines)

        def gain(step: Raised, blamed: float = blamed, right: int = right) -> tuple[float, int]:
            lost = right - _right(broken, step)  # below 0 where a later stage is named right instead
            return (blamed - _blamed(untouched, step)[0]) / (1 + max(0, lost)), -lost

        lines = max(steps, key=gain)
    return lines


def _fires(rule: str, lines: Raised, requests: Iterable[_Proven]) -> bool:
    line = lines[rule]
    return line is not None and any(each.margins.get(rule, -math.inf) >= line for each in requests)


def _next(rule: str, lines: Raised, requests: Iterable[_Proven]) -> float | None:
    """The next line of a rule, by which one request less fires; None where it has no score."""
    line = lines[rule]
    if rule in _SWITCHES or line is None:
        return None
    least = min(each.margins[rule] for each in requests if each.margins.get(rule, -math.inf) >= line)
    place = math.floor(least * 1000) + 1
    return (place + (place / 1000 <= least)) / 1000  # a thousandth may round back to the least itself


def _lower(
    raised: Raised, sound: Sequence[_Proven], broken: Sequence[_Proven], bound: float
) -> dict[str, float | None]:
    """Lines that come down one after the other, as long as more faults are named and false blame stays within the
    bound; each by no more than it takes."""
    lines = dict(raised)
    while True:
        steps = [lines | {rule: line} for rule in RULES for line in _below(rule, lines[rule])]
        held = [step for step in steps if _blamed(sound, step)[1] <= bound]
        best = max(held, key=lambda step: _right(broken, step), default=lines)  # of equals the first: the highest line
        if _right(broken, best) <= _right(broken, lines):
            return lines
        lines = best


def _below(rule: str, line: float | None) -> list[float]:
    """The lines to which one may come down, the highest first."""
    if rule in _SWITCHES:
        return [] if line is not None else [0.0]
    top = 0.0 if line is None else line
    return [top - step * _STEP for step in range(1, math.floor((top - _LOWEST) / _STEP) + 1)]


def _right(broken: Iterable[_Proven], lines: Raised) -> int:
    return sum(each.named(lines) == each.stage for each in broken)


def _blamed(requests: Sequence[_Proven], lines: Raised) -> tuple[float, float]:
    """The share in which a stage is named, and the upper end of its interval."""
    return _share(requests, lambda each: each.named(lines) is not None)


def _share(requests: Sequence[_Proven], counts: Callable[[_Proven], bool]) -> tuple[float, float]:
    """The share of the traffic that counts, and the upper end of its interval of 95 %; (0, 1) of none."""
    if not requests:
        return 0.0, 1.0
    whole = math.fsum(each.weight for each in requests)
    share = math.fsum(each.weight for each in requests if counts(each)) / whole
    variance = math.fsum((each.weight * (counts(each) - share)) ** 2 for each in requests) / whole**2
    size = effective_size(share, variance, whole**2 / math.fsum(each.weight**2 for each in requests))
    return share, wilson(share * size, size, ONE_SIDED_95)[1]


def _figures(broken: Sequence[_Proven], lines: Raised) -> tuple[FaultFigures, ...]:
    """What is said of the broken copies, by stage in the order of the path."""
    found = []
    for stage in dict.fromkeys(RULES.values()):
        copies = [each for each in broken if each.stage == stage]
        named = Counter(each.named(lines) for each in copies)
        suspected = sum(each.is_suspected and each.named(lines) is None for each in copies)
        right = named[stage]
        found.append(FaultFigures(stage, len(copies), right, len(copies) - right - named[None], suspected))
    return tuple(found)
