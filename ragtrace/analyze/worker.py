"""The worker: leases jobs, analyzes their requests, and commits scores, totals and the job's end in one transaction.

It may be killed at any moment. What was not committed is leased again by the next worker once the lease has run out,
and a worker that lost its lease commits nothing.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ragtrace.analyze._doubt_model import log_odds_of
from ragtrace.analyze._exposures import counted_key, providers_of
from ragtrace.analyze._stage_states import Case, judge_stages
from ragtrace.analyze._totals import CountTokens, Prices, analysis_deltas, stage_expenses
from ragtrace.analyze._verification import AnswerVerifier, ModelJudgments, Models, judge
from ragtrace.analyze.analysis import QuestionTypes, examine, flags_of
from ragtrace.analyze.diagnosis import first_broken
from ragtrace.analyze.explainer import ATTRIBUTION_VERSION, Depths, Explainer, holding
from ragtrace.analyze.probe_schedule import FAULTS, IndexProber, ProbeBudget
from ragtrace.analyze.services import Services, is_replayed
from ragtrace.config import SETTINGS
from ragtrace.coverage import ReadEntities
from ragtrace.coverage.verifier import AnswerJudge, RelevanceJudge
from ragtrace.errors import CorruptStore, RecordError
from ragtrace.grading import GradeThresholds
from ragtrace.probe import Probe, load_probe
from ragtrace.record import active
from ragtrace.store import (
    ATTRIBUTION,
    ChunkSeen,
    Finished,
    FollowUp,
    Job,
    Release,
    ServiceCalibration,
    ShadowCounts,
    Store,
)
from ragtrace.store.corpus import INDEX
from ragtrace.types import Analysis, Fault, Gold, RequestRecord, content_hash, replace as with_changes

__all__ = ["LEASE_SECONDS", "WorkSummary", "WorkerSettings", "finish", "rare_collections", "run", "seen_chunks"]


LEASE_SECONDS: Final = 60.0
"""For how long a job is leased; a worker that lives renews it."""


_THRESHOLDS: Final = (10_000, 20, 50)  # of the garbage collector; Python's own are 700, 10, 10


@contextmanager
def rare_collections() -> Iterator[None]:
    """Has garbage collected seldom, for a process that does nothing but analyze; as it was before, after.

    What is read of chunks is many small objects that are kept: to go through them again and again took a quarter of the
    processor's time. Hardly any of what an analysis leaves needs the collector.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


OnResult: TypeAlias = Callable[[RequestRecord, Analysis], None]
_Result: TypeAlias = tuple[RequestRecord, Analysis]


_LONGEST: Final = 200  # characters of a probe's error that are kept
_BY_WORDS: Final = ModelJudgments()
_log = logging.getLogger("ragtrace.analyze")


@dataclass(slots=True)
class WorkSummary:
    """How many jobs a worker ended: `done`, `failed` (will be tried again or was dead-lettered), `lost` (leases)."""

    done: int = 0
    failed: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How one worker works, and with what.

    owner: its name on leases; None: one of this process. follow: it waits for more jobs where none is left, and looks
    every poll_seconds. batch: jobs leased and committed together. limit: jobs after which it ends; None: none.
    low_score: as in `flags_of`. depths: which requests get a job for an explanation as well; None: none. explainer:
    does such jobs, one by one, while no other job waits. verifier: a model that judges the claims of answers;
    embeddings: one that does so before it; without them words alone do. entities: a model that reads names in
    questions. relevance, answers: models that tell which chunks answer a question and whether an answer speaks of it.
    thresholds: from which grade of relevance on what was retrieved is CORRECT, and AMBIGUOUS; None: by the line that
    is kept for each service and judge, else PopQA's. question_types: the host's own classifier of questions.
    probe: asks the index about some requests once more, within a budget; prices: by model. None: those that
    `ragtrace.configure` was given in this process. tokenizers: count the tokens of models that are known by name.
    provider: what names the provider of a document in totals: source, doc_id, modality, a key of the metadata, or
    none: nothing counts by provider.
    """

    owner: str | None = None
    follow: bool = False
    batch: int = 16
    lease_seconds: float = LEASE_SECONDS
    poll_seconds: float = 1.0
    limit: int | None = None
    low_score: float | None = None
    depths: Depths | None = None
    explainer: Explainer | None = None
    verifier: AnswerVerifier | None = None
    embeddings: AnswerVerifier | None = None
    entities: ReadEntities | None = None
    relevance: RelevanceJudge | None = None
    answers: AnswerJudge | None = None
    thresholds: GradeThresholds | None = None
    question_types: QuestionTypes | None = None
    probe: Probe | None = None
    probe_budget: ProbeBudget | None = None
    provider: str = SETTINGS["provider"].default
    prices: Prices | None = None
    tokenizers: CountTokens | None = None

    @property
    def models(self) -> Models:
        """What judges beside words, and reads names in questions."""
        layers = tuple(each for each in (self.embeddings, self.verifier) if each is not None)
        return Models(layers, self.entities, self.relevance, self.answers)


def run(
    store: Store | str,
    settings: WorkerSettings = WorkerSettings(),
    *,
    on_progress: Callable[[WorkSummary], None] | None = None,
    on_result: OnResult | None = None,
    stop: Callable[[], bool] | None = None,
) -> WorkSummary:
    """Analyze pending jobs until none is left, the settings say so, or `stop()` is true.

    store: an open store or its URL. on_progress is called after each batch, on_result with each analysis that is
    committed.

    Raises: StoreError when the store cannot be used; a request that cannot be analyzed fails its own job only.
    """
    if isinstance(store, str):
        with Store.open(store) as opened:
            return run(opened, settings, on_progress=on_progress, on_result=on_result, stop=stop)
    owner = settings.owner or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    batch, limit, seconds = settings.batch, settings.limit, settings.lease_seconds
    summary = WorkSummary()
    services = Services(store, settings.models.judge(settings.models.verified_by()))
    prober = _prober(store, settings.probe or _configured(), settings)
    settings = replace(settings, prices=_prices(settings), provider=counted_key(settings.provider))
    while not (stop and stop()):
        room = batch if limit is None else min(batch, limit - summary.done - summary.failed)
        jobs = store.claim(owner, limit=room, lease_seconds=seconds) if room > 0 else []
        results: Iterable[_Result] | None = None
        if jobs:
            results = _work(store, jobs, settings, services, prober, summary)
        elif settings.explainer is not None and room > 0:
            results = _explain(store, settings.explainer, owner, seconds, summary)
        if results is not None:
            for record, analysis in results:
                _tell(on_result, record, analysis)
            if on_progress:
                on_progress(summary)
        elif settings.follow and room > 0:
            time.sleep(settings.poll_seconds)
        else:
            break
    return summary


def _explain(
    store: Store, explainer: Explainer, owner: str, lease_seconds: float, summary: WorkSummary
) -> list[_Result] | None:
    """Explain one request; None where no job waits."""
    ended = explainer.explain_next(store, owner, lease_seconds)
    if ended is None:
        return None
    summary.done += ended.outcome == "done"
    summary.failed += ended.outcome == "failed"
    summary.lost += ended.outcome == "lost"
    return [(ended.record, ended.analysis)] if ended.record is not None and ended.analysis is not None else []


def _work(
    store: Store,
    jobs: Sequence[Job],
    settings: WorkerSettings,
    services: Services,
    prober: IndexProber | None,
    summary: WorkSummary,
) -> Iterator[_Result]:
    """Analyze these jobs; gives what was committed, with its records."""
    jobs, records = _readable(store, jobs, summary)
    golds = store.find_golds({(record.service, record.query.original) for record in records.values()})
    releases = {service: store.releases(service) for service in {record.service for record in records.values()}}
    services.load(record.service for record in records.values())
    models, lease_seconds, depths = settings.models, settings.lease_seconds, settings.depths
    judged: dict[str, ModelJudgments] = {}
    if models.asks:
        with holding(store, jobs, lease_seconds):
            judged = judge(records, models)
    finished: list[Finished] = []
    renew_at = time.monotonic() + lease_seconds / 2
    held = {job.id for job in jobs}
    odds: dict[str, dict[str, float]] = {}
    shadows: dict[str, dict[str, ShadowCounts]] = {}
    earned: dict[str, list[str]] = {}
    for job in jobs:
        if time.monotonic() > renew_at:
            held = {kept.id for kept in store.heartbeat(jobs, lease_seconds)}
            renew_at = time.monotonic() + lease_seconds / 2
        if job.id not in held:
            summary.lost += 1
            continue
        record = records.get(job.request_id)
        said = judged.get(job.request_id, _BY_WORDS)
        analyzed = _analyze(store, job, record, golds, releases, said, settings, services, prober)
        if analyzed:
            outcome, odds[job.request_id], shadows[job.request_id] = analyzed
            record = records[job.request_id]
            earned[job.request_id] = _earned(record, outcome.analysis, settings.low_score)
            flagged = with_changes(record, flags=(*record.flags, *earned[job.request_id]))
            finished.append(replace(outcome, follow_up=None if depths is None else _follow_up(flagged, depths)))
        else:
            summary.failed += 1
    if new := {request_id: flags for request_id, flags in earned.items() if flags}:
        # before the jobs end: a worker that is killed here adds them again, which changes nothing
        store.add_flags(new)
    store.note_chunks(chunk for each in finished for chunk in seen_chunks(records[each.job.request_id]))
    again = store.answered(each.job.request_id for each in finished)
    done = store.finish(finished) if finished else 0
    summary.done += done
    summary.lost += len(finished) - done
    noted = ((records[each.job.request_id], each.analysis, odds[each.job.request_id]) for each in finished)
    services.note(noted, again)
    committed = finished if done == len(finished) else _committed(store, finished)
    store.note_shadow(_added(shadows[each.job.request_id] for each in committed))
    for each in committed:
        yield records[each.job.request_id], each.analysis


def _committed(store: Store, finished: Sequence[Finished]) -> list[Finished]:
    """Those that stand in the store: a worker that lost a lease did not commit its result."""
    stored = [store.get_analysis(each.job.request_id, each.analysis.kind) for each in finished]
    return [
        each
        for each, found in zip(finished, stored, strict=True)
        if found is not None and found.computed_at == each.analysis.computed_at
    ]


def _tell(on_result: OnResult | None, record: RequestRecord, analysis: Analysis) -> None:
    try:
        if on_result is not None:
            on_result(record, analysis)
    except Exception:  # what is committed stays committed
        _log.exception("the result of request %s could not be passed on", record.request_id)


def _readable(
    store: Store, jobs: Sequence[Job], summary: WorkSummary
) -> tuple[Sequence[Job], dict[str, RequestRecord]]:
    """The records of the jobs; a record that cannot be read fails its own job and no other."""
    try:
        return jobs, store.get_records([job.request_id for job in jobs])
    except (CorruptStore, RecordError):
        _log.warning("a batch holds a record that cannot be read; its records are read one by one")
    kept: list[Job] = []
    records: dict[str, RequestRecord] = {}
    for job in jobs:
        try:
            records |= store.get_records([job.request_id])
            kept.append(job)
        except (CorruptStore, RecordError) as error:
            store.fail(job, str(error))
            summary.failed += 1
    return kept, records


def _analyze(
    store: Store,
    job: Job,
    record: RequestRecord | None,
    golds: dict[tuple[str, str], Gold],
    releases: dict[str, list[Release]],
    said: ModelJudgments,
    settings: WorkerSettings,
    services: Services,
    prober: IndexProber | None,
) -> tuple[Finished, dict[str, float], dict[str, ShadowCounts]] | None:
    """The outcome of a job, how much its request's stages are in doubt, and what a calibration in shadow says of it;
    None where the job failed."""
    if record is None:
        store.fail(job, "the request is no longer in the store")
        return None
    now, started, models = time.time_ns(), time.perf_counter(), settings.models
    try:
        if isinstance(said.answer, Exception):
            raise said.answer
        gold = golds.get((record.service, record.query.original))
        view, is_usual = services.view(record), said.by == models.verified_by()
        if not is_usual:  # what is usual of the models' scores says nothing of words alone
            view = replace(view, usual={})
        analysis, case = examine(
            record,
            gold,
            releases[record.service],
            service=view,
            judged=said.answer,
            relevances=said.relevances,
            nearness=said.nearness,
            verified_by=said.by,
            entities=models.entities,
            returned=_returned_before(store, record, gold),
            thresholds=settings.thresholds,
            question_types=settings.question_types,
            computed_at=now,
        )
        if prober is not None:
            analysis = prober.with_probe(record, analysis, case, view, releases[record.service], said.by)
        expenses = stage_expenses(record, settings.prices, settings.tokenizers)
        providers = providers_of(record.candidates, settings.provider)
        analysis = with_changes(analysis, expenses=expenses, providers=providers)
        deltas = analysis_deltas(record, analysis, now=now, provider=settings.provider)
        odds = log_odds_of(case.signs) if is_usual else {}
        shadow = (
            _shadowed(record, case, services.in_shadow(record, models.judge(said.by)))
            if analysis.diagnosis.stages
            else {}
        )
        return Finished(job, analysis, deltas, seconds=time.perf_counter() - started), odds, shadow
    except Exception as error:  # one request must not stop the others
        _log.exception("request %s cannot be analyzed", job.request_id)
        store.fail(job, f"{type(error).__name__}: {error}")
        return None


def _shadowed(record: RequestRecord, case: Case, calibration: ServiceCalibration | None) -> dict[str, ShadowCounts]:
    """What a calibration in shadow says of a request of the random stratum, by its id; gold and the probe apart."""
    if calibration is None or not record.head_sampled or is_replayed(record) or case.reference == "oracle":
        return {}
    own, other = (
        first_broken(judge_stages(each)) is not None for each in (case, replace(case, raised=calibration.raised))
    )
    return {calibration.calibration_id: ShadowCounts(1, int(own), int(other))}


def _added(counts: Iterable[Mapping[str, ShadowCounts]]) -> dict[str, ShadowCounts]:
    """The sums by id."""
    sums: dict[str, ShadowCounts] = {}
    for each in counts:
        for name, more in each.items():
            so_far = sums.get(name, ShadowCounts())
            sums[name] = ShadowCounts(
                so_far.requests + more.requests, so_far.named + more.named, so_far.shadow_named + more.shadow_named
            )
    return sums


def _configured() -> Probe | None:
    """The probe that the application of this process gave to `ragtrace.configure`."""
    recorder = active()
    probe = recorder.config.probe if recorder is not None else None
    return load_probe(probe) if isinstance(probe, str) else probe


def _prices(settings: WorkerSettings) -> Prices:
    """The settings' own, else those of the application of this process."""
    recorder = active()
    return settings.prices or (recorder and recorder.config.prices) or {}


def _prober(store: Store, probe: Probe | None, settings: WorkerSettings) -> IndexProber | None:
    if probe is None:
        return None

    def count(service: str, kind: str, message: str) -> None:
        store.write([Fault(service=service, where=FAULTS, kind=kind, message=message[:_LONGEST], at=time.time_ns())])

    return IndexProber(probe, settings.probe_budget, on_fault=count, relevance=settings.relevance)


def _returned_before(store: Store, record: RequestRecord, gold: Gold | None) -> Collection[str]:
    """Of the gold evidence that the candidates lack, what the same version of the index has returned before."""
    version = record.versions.get(INDEX)
    if gold is None or version is None:
        return ()
    found = {candidate.chunk_id for candidate in record.candidates}
    missing = [chunk_id for chunk_id in gold.chunk_ids if chunk_id not in found]
    return store.returned_before(record.service, version, missing) if missing else ()


def _earned(record: RequestRecord, analysis: Analysis, low_score: float | None) -> list[str]:
    """The flags that a record earned and does not have."""
    return [flag for flag in flags_of(record, analysis, low_score) if flag not in record.flags]


def _follow_up(record: RequestRecord, depths: Depths) -> FollowUp | None:
    """The job for the request's explanation, if its flags or the draw buy one."""
    parts = depths.parts_of(record)
    if not parts:
        return None
    drawn = depths.is_drawn(record) or parts == ("utility",)
    return FollowUp(ATTRIBUTION, ATTRIBUTION_VERSION, flagged=not drawn)


_PATIENCE: Final = 90.0  # seconds: a lease of 60, and some more


def finish(
    store: Store, on_progress: Callable[[int, int], object] = lambda done, of: None, low_score: float | None = None
) -> int:
    """Analyze until no job is pending or leased, dead workers' leases included; give how many are left.

    on_progress: gets how many of the jobs that waited at the start are through, and how many they were. Nothing is
    waited for that does not move for the time of a lease.
    """
    left = waiting = _waiting(store)
    moved_at = time.monotonic()
    while left and time.monotonic() < moved_at + _PATIENCE:
        run(store, WorkerSettings(limit=16, low_score=low_score))
        now = _waiting(store)
        on_progress(max(0, waiting - now), waiting)
        if now != left:
            left, moved_at = now, time.monotonic()
        else:
            time.sleep(0.05)  # another worker has the rest, or it is put off after a failure
    return left


def _waiting(store: Store) -> int:
    depth = store.queue_depth()
    return depth.get("pending", 0) + depth.get("leased", 0)


def seen_chunks(record: RequestRecord) -> Iterator[ChunkSeen]:
    """The candidates of a request that names its index version."""
    version = record.versions.get(INDEX)
    if version is None:
        return
    for candidate in record.candidates:
        held = candidate.content_hash or (None if candidate.text is None else content_hash(candidate.text))
        if held is not None:
            yield ChunkSeen(record.service, version, candidate.chunk_id, held)
