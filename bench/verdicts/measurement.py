"""Requests of many domains, sound and broken, and what the verdict says of them."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, Final, Literal

from bench.verdicts.alterations_injector import AlterationsInjector
from bench.verdicts.label_judge import LabelJudge
from bench.verdicts.model import MIX, Domain, Fault, Injector, Path, Question, Stage
from bench.verdicts.pipeline import SERVICES, Natural, Service, index_of, path_of
from bench.verdicts.recording import SERVICE, answer_text, record_of
from ragtrace.analyze import ServiceView, examine
from ragtrace.analyze._doubt_model import DISTANCE, NEIGHBORS, USUAL, distance_of, features_of, log_odds_of, usable
from ragtrace.analyze._stage_states import proofs
from ragtrace.analyze._verification import judge_batch, judge_relevance, question_nearness
from ragtrace.analyze.analysis import with_probe
from ragtrace.analyze.probe_schedule import is_suspected, probed
from ragtrace.coverage import Background, JudgedAnswer
from ragtrace.coverage.verifier import JudgedRelevance, RelevanceJudge, Verifier
from ragtrace.engines.model_names import load_judge
from ragtrace.types import Analysis, Gold, RequestRecord

__all__ = [
    "NATURAL",
    "SOUND",
    "STAGES",
    "Finding",
    "Plan",
    "Result",
    "begin",
    "injectors",
    "measured",
    "read_analysis",
    "read_result",
    "view_of",
]

STAGES: Final[tuple[Stage, ...]] = ("retrieval", "ranking", "generation", "citation")
SOUND: Final = "sound"
NATURAL: Final = "natural"
_CHUNK: Final = 10  # questions that one process does at a time
_SWAPS: Final = "bench.verdicts.swap_injector"

State = Literal["sound", "broken", "suspected", "not_known"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the verdict says of one stage."""

    state: State
    reason: str | None = None
    doubted: bool = False
    distant: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """One request: how it was made, which stage it breaks first (None: none), and what the verdict says.

    injector: `sound` and `natural` are requests that no injector touched; margins: by how much each rule lies above its
    line of proof, where all else that it needs is there.
    """

    domain: str
    origin: str
    question_id: str
    kind: str
    setup: str
    depth: int
    cites: bool
    injector: str
    fault: str | None
    truth: Stage | None
    verdict: str
    named: Stage | None
    findings: dict[Stage, Finding]
    evidence: tuple[str, ...]
    question: str = ""
    answer: str = ""
    needed: tuple[tuple[str, ...], ...] = ()
    candidates: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    features: dict[str, float] = field(default_factory=dict)
    usable: tuple[str, ...] = ()
    margins: dict[str, float] = field(default_factory=dict)

    @property
    def sort(self) -> str:
        """What is counted together: the injector and its fault."""
        return self.injector if self.fault is None else f"{self.injector}: {self.fault}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked. injectors: their names, none for all; services: applications for each question; faults: of each
    stage and injector for each sound request, 0 for all of them; gold: whether the analysis is told the evidence;
    noise: of a judge that knows the labels, draw: which draw of it, together: whether the judgments of one claim, and
    of one chunk, err together; probe: whether the index is asked as well; judge: a model that judges claims, relevance:
    one that judges candidates; None for words alone."""

    seed: int = 0
    injectors: tuple[str, ...] = ()
    services: int = 1
    faults: int = 1
    gold: bool = False
    noise: float | None = None
    judge: str | None = None
    relevance: str | None = None
    probe: bool = False
    draw: int = 0
    together: bool = False


def read_result(line: str) -> Result:
    """A result as `dataclasses.asdict` and JSON wrote it."""
    row = json.loads(line)
    row["findings"] = {stage: Finding(**found) for stage, found in row["findings"].items()}
    for name in ("evidence", "candidates", "packed", "usable"):
        row[name] = tuple(row[name])
    row["needed"] = tuple(map(tuple, row["needed"]))
    return Result(**row)


def injectors(names: Collection[str] = ()) -> tuple[Injector, ...]:
    """Those of these names, or all that are there, in a fixed order."""
    found: list[Injector] = [AlterationsInjector()]
    if find_spec(_SWAPS) is not None:
        found.append(import_module(_SWAPS).SwapInjector())
    return tuple(injector for injector in found if not names or injector.name in names)


def measured(domains: Sequence[Domain], plan: Plan, *, jobs: int = 1) -> Iterator[Result]:
    """The results of all requests; the same whatever the number of jobs."""
    for domain in domains:
        index_of(domain)  # embedded once, here, and kept on disk
    work = [(row, start) for row, domain in enumerate(domains) for start in range(0, len(domain.questions), _CHUNK)]
    if jobs <= 1:
        begin(domains, plan)
        for each in work:
            yield from _results_of(each)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), begin, (domains, plan)) as pool:
        for results in pool.map(_results_of, work):
            yield from results


def read_analysis(analysis: Analysis, *, cites: bool) -> dict[Stage, Finding]:
    """The state of each stage; of an analysis that has no states only the broken one is known, or all are sound."""
    diagnosis: Any = analysis.diagnosis
    if stages := getattr(diagnosis, "stages", ()):
        return {each.stage: Finding(each.state, each.reason, each.doubted, each.distant) for each in stages}
    other: State = "sound" if diagnosis.verdict == "healthy" else "not_known"
    return {
        stage: Finding("broken", diagnosis.cause) if stage == diagnosis.stage else Finding(other)
        for stage in STAGES
        if cites or stage != "citation"
    }


_BEGUN: Final[dict[str, Any]] = {}


def begin(domains: Sequence[Domain], plan: Plan) -> None:
    """Let this process know what is measured."""
    _BEGUN.update(domains=domains, plan=plan, injectors=injectors(plan.injectors))


def _results_of(work: tuple[int, int]) -> list[Result]:
    row, start = work
    domain: Domain = _BEGUN["domains"][row]
    found: list[Result] = []
    for place in range(start, min(start + _CHUNK, len(domain.questions))):
        for service in _services(domain, place, _BEGUN["plan"]):
            found += _requests(domain, domain.questions[place], service, _BEGUN["plan"])
    return found


def _services(domain: Domain, place: int, plan: Plan) -> list[Service]:
    """So many of the applications, each for as many questions of the domain as any other."""
    order = random.Random(f"{plan.seed}:{domain.name}").sample(SERVICES, len(SERVICES))
    count = min(plan.services, len(order))
    return [order[(place * count + turn) % len(order)] for turn in range(count)]


def _requests(domain: Domain, question: Question, service: Service, plan: Plan) -> Iterator[Result]:
    """The request as the application makes it, and if that is sound, broken in each way that was drawn."""
    natural = path_of(index_of(domain), question, service, plan.seed)
    if natural is None:
        return
    if natural.broken is not None:
        fault = f"{natural.broken}+{natural.answered}"
        yield _result(domain, natural.path, service, plan, NATURAL, fault, natural.broken)
        return
    yield _result(domain, natural.path, service, plan, SOUND, None, None)
    for injector in _BEGUN["injectors"]:
        for stage in STAGES:
            yield from _broken(domain, natural.path, service, plan, injector, stage)


def _broken(
    domain: Domain, path: Path, service: Service, plan: Plan, injector: Injector, stage: Stage
) -> Iterator[Result]:
    seed = f"{plan.seed}:{domain.name}:{path.question.id}:{service.name}:{injector.name}"
    faults = [fault for fault in injector.faults if fault.stage == stage]
    made = 0
    for fault in random.Random(f"{seed}:{stage}").sample(faults, len(faults)):
        broken = injector.inject(path, domain, fault, random.Random(f"{seed}:{fault.name}"))
        if broken is None:
            continue
        yield _result(domain, broken, service, plan, injector.name, fault.name, stage)
        made += 1
        if made == plan.faults:
            break


def _result(
    domain: Domain, path: Path, service: Service, plan: Plan, injector: str, fault: str | None, truth: Stage | None
) -> Result:
    record = record_of(path, domain)
    view = view_of(domain, service, plan.seed, cites=path.setup.cites)
    judged, relevances = _judged(record, domain, plan)
    analysis, case = examine(
        record,
        _gold(path) if plan.gold else None,
        service=view,
        judged=judged,
        relevances=relevances,
        nearness=_near([record], plan).get(record.request_id),
    )
    if plan.probe and is_suspected(analysis):
        judge = None if plan.noise is None else _JUDGES[domain.name]
        index = WholeIndex(domain, path)
        found = probed(index, record, analysis, view, heard=case.heard(), relevance=judge)
        case = replace(case, probe=found)
        analysis = with_probe(record, analysis, case, found)
    question, diagnosis = path.question, analysis.diagnosis
    return Result(
        domain=domain.name,
        origin=domain.origin,
        question_id=question.id,
        kind=question.kind,
        setup=service.name,
        depth=path.setup.depth,
        cites=path.setup.cites,
        injector=injector,
        fault=fault,
        truth=truth,
        verdict=diagnosis.verdict,
        named=diagnosis.stage,
        findings=read_analysis(analysis, cites=path.setup.cites),
        evidence=_lines(diagnosis),
        question=question.question,
        answer=answer_text(path, domain),
        needed=tuple(tuple(sorted(group)) for group in question.evidence),
        candidates=tuple(hit.id for hit in path.candidates),
        packed=tuple(each.id + "…" * each.truncated for each in path.packed),
        scores={score.metric: round(score.value, 4) for score in analysis.scores if score.value is not None},
        features=features_of(case.signs),
        usable=usable(case.signs),
        margins=proofs(case),
    )


class WholeIndex:
    """A probe of a domain's index, which holds every passage. The application's own search misses the evidence that
    the request lacks, and returned its candidates; the exact search finds all."""

    def __init__(self, domain: Domain, path: Path) -> None:
        self._domain, self._index = domain, index_of(domain)
        self._own = [hit.id for hit in path.candidates]
        needed = self._index.duplicates(frozenset().union(*path.question.evidence)) if path.question.evidence else ()
        self._missed = frozenset(needed) - set(self._own)

    def probe(self, query: str, depth: int, exact: bool) -> list[dict[str, Any]]:
        """Passages by the embeddings' similarity."""
        ranked = [hit.id for hit in self._index.search(query, len(self._domain.passages))]
        if not exact:
            ranked = [*self._own, *(each for each in ranked if each not in self._missed and each not in self._own)]
        return [{"id": each, "text": self._domain.passages[each].chunk} for each in ranked[:depth]
                if each in self._domain.passages]  # fmt: skip

    def has(self, chunk: str) -> bool:
        """Every passage is there."""
        return chunk in self._domain.passages


_JUDGES: Final[dict[str, LabelJudge]] = {}


def _judged(record: RequestRecord, domain: Domain, plan: Plan) -> tuple[JudgedAnswer | None, JudgedRelevance | None]:
    """What the judge says of a record; nothing without one."""
    key = record.request_id
    if plan.judge is not None:
        return _answered(judge_batch({key: record}, _model(plan.judge)).get(key)), _graded(record, plan)
    if plan.noise is None:
        return None, _graded(record, plan)
    seed = f"{plan.seed}+{plan.draw}" if plan.draw else plan.seed
    judge = _JUDGES.get(domain.name) or _JUDGES.setdefault(
        domain.name, LabelJudge(domain, plan.noise, seed, together=plan.together)
    )
    answer = _answered(judge_batch({key: record}, judge).get(key))
    return answer, judge_relevance({key: record}, judge, judge).get(key)


def _graded(record: RequestRecord, plan: Plan) -> JudgedRelevance | None:
    """What the judge of relevance says of a record's candidates, if one is asked."""
    if plan.relevance is None:
        return None
    return judge_relevance({record.request_id: record}, _relevance(plan.relevance), None).get(record.request_id)


def _near(records: Sequence[RequestRecord], plan: Plan) -> dict[str, float]:
    """How near answers are to their questions, where a built-in judge is asked about candidates."""
    if plan.relevance is None:
        return {}
    return question_nearness({record.request_id: record for record in records}, _relevance(plan.relevance))


def _answered(judged: JudgedAnswer | Exception | None) -> JudgedAnswer | None:
    if isinstance(judged, Exception):
        raise judged
    return judged


@cache
def _model(name: str) -> Verifier:
    """A model that judges claims, loaded once."""
    return load_judge("entails", name)


@cache
def _relevance(name: str) -> RelevanceJudge:
    """A model that judges candidates, loaded once."""
    return load_judge("relevant", name)


_VIEWS: Final[dict[tuple[str, str, int], ServiceView]] = {}


def view_of(domain: Domain, service: Service, seed: int, *, cites: bool) -> ServiceView:
    """What a worker knows of an application by now."""
    return replace(_view(domain, service, seed), cites=True if cites else None)


def _view(domain: Domain, service: Service, seed: int) -> ServiceView:
    """What the application returned for the domain's questions, as a worker would know it by now."""
    key = (domain.name, service.name, seed)
    if key not in _VIEWS:
        index = index_of(domain)
        found = [path_of(index, question, service, seed) for question in domain.questions]
        records = [record_of(natural.path, domain) for natural in found if natural is not None]
        texts = {candidate.text or "" for record in records for candidate in record.candidates}
        view = ServiceView(background=Background.of(sorted(texts)))
        usual = _usual(domain, [natural for natural in found if natural is not None], view, seed)
        _VIEWS[key] = replace(view, usual=usual)
    return _VIEWS[key]


def _usual(domain: Domain, paths: Sequence[Natural], view: ServiceView, seed: int) -> dict[str, tuple[float, ...]]:
    """How much the application's requests are in doubt, in traffic of which a fifth is broken. How far answers are from
    their questions is cheap, and read of more of it: places among few tell next to nothing of the farthest ones."""
    chance = random.Random(f"{seed}:{domain.name}:usual")
    odds: dict[str, list[float]] = {}
    for path in _traffic(domain, paths, chance):
        record = record_of(path, domain)
        _, case = examine(record, service=view, relevances=_graded(record, _BEGUN["plan"]))
        for name, odd in log_odds_of(case.signs).items():
            odds.setdefault(name, []).append(odd)
    if (judge := _BEGUN["plan"].relevance) is not None and paths:
        rounds = -(-2 * NEIGHBORS // len(paths))
        more = [record_of(path, domain) for _ in range(rounds) for path in _traffic(domain, paths, chance)]
        near = question_nearness({str(row): record for row, record in enumerate(more)}, _relevance(judge))
        odds[DISTANCE] = [distance_of(one) for one in near.values()]
    return {name: tuple(values * -(-USUAL // len(values))) for name, values in odds.items()}


def _traffic(domain: Domain, paths: Sequence[Natural], chance: random.Random) -> Iterator[Path]:
    """Each request once, a fifth of the sound ones broken by a fault that is drawn."""
    faults: dict[Stage, list[tuple[Injector, Fault]]] = {stage: [] for stage in STAGES}
    for injector in _BEGUN["injectors"]:
        for fault in injector.faults:
            faults[fault.stage].append((injector, fault))
    for natural in paths:
        path = natural.path
        stage = chance.choices(list(MIX), list(MIX.values()))[0]
        if natural.broken is None and stage is not None:
            for injector, fault in chance.sample(faults[stage], len(faults[stage])):
                broken = injector.inject(path, domain, fault, chance)
                if broken is not None:
                    path = broken
                    break
        yield path


def _gold(path: Path) -> Gold:
    """Of each group the member that came furthest."""
    order = [*(each.id for each in path.packed), *(hit.id for hit in path.candidates)]
    ids = [next((each for each in order if each in group), min(group)) for group in path.question.evidence]
    return Gold(service=SERVICE, question=path.question.question, chunk_ids=tuple(dict.fromkeys(ids)))


def _lines(diagnosis: Any) -> tuple[str, ...]:
    """What the verdict rests on: that of the broken stage, else that of each stage."""
    if diagnosis.evidence:
        return tuple(diagnosis.evidence)
    return tuple(f"{each.stage}: {line}" for each in getattr(diagnosis, "stages", ()) for line in each.evidence)
