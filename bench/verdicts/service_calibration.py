"""Whether a service's calibration keeps its promise: fitted on one half of a domain's traffic, measured on the other.

The traffic is that of production: a fifth of it is broken, by the applications themselves or by the injectors of the
benchmark, and the fit is told nothing of it. The product's own injector, by which it fits, shares no code with these.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace as replaced
from typing import Final

from bench.verdicts import measurement
from bench.verdicts.model import MIX, Domain, Injector, Path, Stage
from bench.verdicts.pipeline import SERVICES, index_of, path_of
from bench.verdicts.recording import record_of
from ragtrace.analyze import ServiceView, examine
from ragtrace.analyze._stage_states import Case, judge_stages
from ragtrace.analyze._verification import ModelJudgments, Models, judge
from ragtrace.analyze.diagnosis import first_broken
from ragtrace.analyze.service_calibration import FEWEST, FittedLines, JudgeAll, Untouched, calibrate_lines
from ragtrace.engines.model_names import load_judge
from ragtrace.sample_statistics import wilson
from ragtrace.store import FaultFigures
from ragtrace.types import Analysis, RequestRecord, replace

__all__ = ["Promise", "promises", "show_promises"]

_TWO_SIDED_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class Promise:
    """One domain. sound, broken: requests of the half that was not fitted on; blamed, right: of these, the sound ones
    in which a stage is named, and the broken ones in which the right one is; first by the lines that all services
    have, then by those that were fitted."""

    domain: str
    lines: FittedLines
    sound: int
    blamed: tuple[int, int]
    broken: int
    right: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Asked:
    record: RequestRecord
    view: ServiceView
    truth: Stage | None


def promises(domains: Sequence[Domain], plan: measurement.Plan) -> Iterator[Promise]:
    """Calibrate on the first half of each domain's questions, and measure on the others; by words, and models if any.

    Raises: ValueError where a half has too few requests.
    """
    models = Models(
        (load_judge("entails", plan.judge),) if plan.judge else (),
        relevance=load_judge("relevant", plan.relevance) if plan.relevance else None,
    )
    measurement.begin(domains, plan)
    for domain in domains:
        asked = list(_traffic(domain, plan))
        questions = sorted({each.record.query.original for each in asked})
        first = set(random.Random(f"{plan.seed}:{domain.name}:half").sample(questions, len(questions) // 2))
        fitted = [each for each in asked if each.record.query.original in first]
        held = [each for each in asked if each.record.query.original not in first]
        if len(fitted) < FEWEST:
            raise ValueError(f"{domain.name}: {len(fitted)} requests to fit on, {FEWEST} are needed; more --services")
        views = {each.record.request_id: each.view for each in asked}
        judge_all = _judge(views, models)
        lines = calibrate_lines([Untouched(each.record) for each in fitted], judge_all, seed=plan.seed)
        yield _measured(domain, held, lines, judge_all)


def _traffic(domain: Domain, plan: measurement.Plan) -> Iterator[_Asked]:
    """Each question asked of each application; of what is sound, a part is broken, as in production."""
    chance = random.Random(f"{plan.seed}:{domain.name}:calibration")
    for question in domain.questions:
        for service in SERVICES[: plan.services]:
            natural = path_of(index_of(domain), question, service, plan.seed)
            if natural is None:
                continue
            path, truth = natural.path, natural.broken
            stage = chance.choices(list(MIX), list(MIX.values()))[0]
            if truth is None and stage is not None and (broken := _broken(domain, path, stage, chance)) is not None:
                path, truth = broken, stage
            record = record_of(path, domain)
            record = replace(record, request_id=f"{domain.name}/{question.id}/{service.name}")
            yield _Asked(record, measurement.view_of(domain, service, plan.seed, cites=path.setup.cites), truth)


def _broken(domain: Domain, path: Path, stage: Stage, chance: random.Random) -> Path | None:
    """The path with a fault of a stage, of whichever injector has one for it."""
    faults = [
        (injector, fault) for injector in measurement.injectors() for fault in injector.faults if fault.stage == stage
    ]
    for injector, fault in chance.sample(faults, len(faults)):
        broken = _inject(injector, path, domain, fault, chance)
        if broken is not None:
            return broken
    return None


def _inject(injector: Injector, path: Path, domain: Domain, fault: object, chance: random.Random) -> Path | None:
    return injector.inject(path, domain, fault, chance)  # type: ignore[arg-type]  # a fault of this injector


def _judge(views: Mapping[str, ServiceView], models: Models) -> JudgeAll:
    def judge_all(records: Sequence[RequestRecord]) -> dict[str, tuple[Analysis, Case]]:
        said = judge({record.request_id: record for record in records}, models)
        found = {}
        for record in records:
            told = said.get(record.request_id, ModelJudgments())
            if isinstance(told.answer, Exception):
                raise told.answer
            view = views[record.request_id.partition(":")[0]]
            found[record.request_id] = examine(
                record, service=view, judged=told.answer, relevances=told.relevances, nearness=told.nearness
            )
        return found

    return judge_all


def _measured(domain: Domain, held: Sequence[_Asked], lines: FittedLines, judge_all: JudgeAll) -> Promise:
    sound, broken, blamed, right = 0, 0, [0, 0], [0, 0]
    found = judge_all([each.record for each in held])
    for each in held:
        analysis, case = found[each.record.request_id]
        named = _named(analysis, case, lines)
        sound += each.truth is None
        broken += each.truth is not None
        for place, stage in enumerate(named):
            blamed[place] += each.truth is None and stage is not None
            right[place] += each.truth is not None and stage == each.truth
    return Promise(domain.name, lines, sound, (blamed[0], blamed[1]), broken, (right[0], right[1]))


def _named(analysis: Analysis, case: Case, lines: FittedLines) -> tuple[Stage | None, Stage | None]:
    """The stage that is named by the lines that all services have, and by those that were fitted."""
    if not analysis.diagnosis.stages:
        return None, None
    found = first_broken(judge_stages(replaced(case, raised=lines.raised)))
    return analysis.diagnosis.stage, found.stage if found else None


def show_promises(found: Sequence[Promise]) -> None:
    """One line for each domain, and one for all, with intervals of 95 %."""
    for each in found:
        print(f"{each.domain}: fitted on {each.lines.requests} requests, of which {each.lines.blamed:.1%} are named")
        print(f"  lines {each.lines.raised}")
        print(f"  of injected losses: {_of_injected(each.lines.faults)}")
        _show(each.sound, each.blamed, each.broken, each.right)
    print("all")
    _show(
        sum(each.sound for each in found),
        (sum(each.blamed[0] for each in found), sum(each.blamed[1] for each in found)),
        sum(each.broken for each in found),
        (sum(each.right[0] for each in found), sum(each.right[1] for each in found)),
    )


def _of_injected(faults: Sequence[FaultFigures]) -> str:
    return ", ".join(f"{each.stage} {each.named} of {each.injected} named" for each in faults)


def _show(sound: int, blamed: tuple[int, int], broken: int, right: tuple[int, int]) -> None:
    for place, name in enumerate(("lines of all services", "calibrated lines")):
        low, high = wilson(blamed[place], sound, _TWO_SIDED_95)
        share = blamed[place] / sound if sound else 0.0
        named = right[place] / broken if broken else 0.0
        told = f"blamed {share:.1%} ({low:.1%} to {high:.1%}) of {sound} sound; right {named:.0%} of {broken} broken"
        print(f"  {name:22} {told}")
