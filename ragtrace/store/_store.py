"""The store: everything that ragtrace keeps, in SQLite or PostgreSQL, behind one object.

Each method is one transaction; `analyses` is one for every page, and what writes many texts looks at them first. What
is read inside a `snapshot` is one transaction together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import EllipsisType, TracebackType
from typing import Self

from sqlalchemy import Connection

from ragtrace.errors import CorruptStore
from ragtrace.store import (
    _erasure as erasure,
    _feedback as feedback,
    _ground_truth as ground_truth,
    _inspection as inspection,
    _job_queue as job_queue,
    _named_leases as leases,
    _records as records,
    _releases as releases,
    _requests as requests,
    _results as results,
    _schema as schema,
    _search as search,
    _space as space,
    _spans as spans,
    corpus,
    populations,
    retention,
    service_traits,
    totals,
)
from ragtrace.store._releases import PromptFrames
from ragtrace.store.address import Address
from ragtrace.store.database import Database, clean
from ragtrace.store.rows import (
    COVERAGE,
    Assembled,
    Backlog,
    ChunkSeen,
    Citing,
    CorrectedRate,
    DeletionRecord,
    DiagnosisSummary,
    Drawing,
    Drawn,
    Drift,
    DueTrace,
    Finished,
    GateRun,
    GradeLine,
    Job,
    JobRow,
    JobState,
    Judge,
    Listing,
    MeasuredRequest,
    PageJudgment,
    PageJudgmentCount,
    Position,
    Release,
    Replayed,
    RequestFilter,
    RequestLabel,
    RequestPage,
    RequestRow,
    Sample,
    Sampled,
    SearchState,
    ServiceCalibration,
    ServiceTraffic,
    ShadowCounts,
    SourceState,
    SpanPart,
    StoredPart,
    Total,
    TraceJudgment,
)
from ragtrace.store.totals import Place
from ragtrace.types import ANALYZER_VERSION, Analysis, Fault, Gold, Item, RequestRecord

__all__ = ["Store"]


class Store:
    """One database. Safe for several threads; processes share it through the database.

    Errors of the database are raised as StoreUnavailable, CorruptStore, SchemaMismatch or StoreError, whose messages
    name the remedy and never a password.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._prompts = PromptFrames()

    @classmethod
    def open(cls, url: str) -> Self:
        """Open `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`; an empty database gets its schema.

        Raises: ConfigurationError (no such kind of database), StoreUnavailable (unreachable, not writable),
        CorruptStore, SchemaMismatch (an older schema: `ragtrace db upgrade`; a newer one: upgrade ragtrace).
        """
        database = Database(Address.parse(url), schema.ensure)
        try:
            database.prepare()
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL without its password, as messages show it."""
        return self._database.address.shown

    @property
    def full_url(self) -> str:
        """The URL by which it can be opened once more, with its password: for no message and no page."""
        return self._database.address.url.render_as_string(hide_password=False)

    def snapshot(self) -> AbstractContextManager[None]:
        """All that the thread reads inside is of one state of the store: a report's figures fit each other, and a
        server is asked for one transaction. What is written inside is seen after it."""
        return self._database.snapshot()

    # records

    def write(self, items: Sequence[Item]) -> None:
        """Write records and what comes beside them in one transaction; writing them again changes nothing.

        A record replaces an older revision of itself. One that states no `prompt_hash` has that of its prompt's frame,
        where many requests of its service have the same (`_releases`). Its texts go to the content table, its
        versions become releases, a new request counts in the totals, and a job is enqueued when it is in the random
        stratum or flagged. An addendum is united with its record, whichever comes first, once: the record's revision
        grows by one and a job is enqueued for it. One whose request is not stored waits, and is no request.

        Raises: RecordError when a record or addendum cannot be encoded; nothing is written then.
        """
        batch = records.Batch(self._prompts.named(items))
        batch.prepare(self._database)
        with self._database.write() as connection:
            batch.write(connection)

    def add_flags(self, earned: Mapping[str, Iterable[str]]) -> None:
        """Raise flags of stored requests, by their ids, after their analysis: revisions and strata stay, and no job is
        enqueued. Nothing happens to a request that is not stored."""
        with self._database.write() as connection:
            records.add_flags(connection, earned)

    def get_record(self, request_id: str) -> RequestRecord | None:
        """The newest revision of a record, with its texts and all feedback."""
        return next(iter(self.get_records([request_id]).values()), None)

    def get_records(self, request_ids: Iterable[str]) -> dict[str, RequestRecord]:
        """The records of these ids that are stored."""
        with self._database.read() as connection:
            return records.read(connection, request_ids)

    def find_requests(
        self,
        *,
        service: str | None = None,
        segment: str | None = None,
        since: int | None = None,
        until: int | None = None,
        stage: str | None = None,
        limit: int = 50,
    ) -> list[RequestRow]:
        """Requests, newest first, that started in [since, until) (nanoseconds) and broke first in `stage`."""
        query = requests.find_query(
            service=service, segment=segment, since=since, until=until, stage=stage, limit=limit
        )
        with self._database.read() as connection:
            return requests.find(connection, query)

    def list_requests(
        self, wanted: Listing, before: Position | None = None, *, limit: int = 50, scan: int = 5_000
    ) -> RequestPage:
        """A page of requests, in the order that is wanted, behind a place; at most `scan` are looked at for it.

        Raises: StoreError where `wanted` has words to search for and search is off in this store.
        """
        with self._database.read() as connection:
            return requests.page(connection, wanted, before, limit, scan)

    def slices(self, wanted: Listing, bounds: Sequence[int], each: int) -> list[list[DiagnosisSummary]]:
        """Of each slice of time between two neighbors of `bounds` (nanoseconds) the first `each` analyzed requests of
        the random stratum, of the service, segment and tenant that are wanted."""
        with self._database.read() as connection:
            return requests.slices(connection, wanted, bounds, each)

    def count_requests(self, wanted: Listing, most: int) -> int:
        """How many requests there are of a service, segment, tenant, session and time, counted as far as `most`; other
        filters do not count."""
        with self._database.read() as connection:
            return requests.count(connection, wanted, most)

    def start_of(self, wanted: Listing, number: int) -> int | None:
        """When the request began that is the `number`-th newest, from 1, of a service, segment, tenant, session and
        time; None where there are fewer."""
        with self._database.read() as connection:
            return requests.start_of(connection, wanted, number)

    def time_bounds(self, service: str, tenant: str | None = None) -> tuple[int, int] | None:
        """When the first and the last request of a service (and tenant) began; None where there is none."""
        with self._database.read() as connection:
            return requests.time_bounds(connection, service, tenant)

    def services_of(self, tenant: str) -> list[str]:
        """The services that have requests of a tenant, by name."""
        with self._database.read() as connection:
            return requests.services_of(connection, tenant)

    def find_request_ids(self, beginning: str, limit: int = 10) -> list[str]:
        """Up to `limit` request ids that start with `beginning`; one that is equal to it comes first."""
        with self._database.read() as connection:
            return requests.ids_starting(connection, clean(beginning), limit)

    def faults(self) -> list[Fault]:
        """Faults, added up by service, place and kind."""
        with self._database.read() as connection:
            return feedback.faults(connection)

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        with self._database.read() as connection:
            return inspection.count_rows(connection)

    # spans that wait until they are a record

    def add_spans(
        self, given: Sequence[SpanPart], *, grace: float = 5.0, ttl: float = 60.0, now: float | None = None
    ) -> int:
        """Store parts of traces; one whose trace was erased changes nothing, and so does one that is stored already,
        except where its trace could not be assembled: what is stored of it is replaced then. Returns how many were new.

        grace: seconds from a trace's root, or from a span that is late, to its assembly; ttl: seconds from a trace's
        first span, after which it is assembled without a root.
        """
        return spans.add_spans(self._database, given, grace, ttl, _moment(now))

    def add_judgments(self, given: Sequence[TraceJudgment]) -> None:
        """Store judgments that name a trace, each once, before or after the trace's request; none of an erased one.

        Raises: RecordError when one cannot be encoded; nothing is written then.
        """
        spans.add_judgments(self._database, given)

    def claim_traces(self, *, limit: int = 64, lease_seconds: float = 60.0, now: float | None = None) -> list[DueTrace]:
        """Take traces that are due; what is not assembled within the lease is due again."""
        with self._database.write() as connection:
            return spans.claim(connection, limit, lease_seconds, _moment(now))

    def renew_traces(
        self, traces: Iterable[DueTrace], *, lease_seconds: float = 60.0, now: float | None = None
    ) -> dict[tuple[str, str], DueTrace]:
        """Prolong the leases of traces. Returns those that are still held, with their new leases, by tenant and id."""
        with self._database.write() as connection:
            return spans.renew(connection, traces, lease_seconds, _moment(now))

    def spans_of(self, traces: Iterable[DueTrace]) -> dict[tuple[str, str], list[StoredPart] | CorruptStore]:
        """The parts of traces, by tenant and trace id; of a trace whose parts cannot be read, why."""
        with self._database.read() as connection:
            return spans.read_parts(connection, traces)

    def assembled(self, made: Sequence[Assembled]) -> None:
        """Write the records of traces and settle these, in one transaction. Their parts are then stored against the
        texts of the records, where that takes less. A trace that was erased meanwhile is gone. Of one whose lease ran
        out and that another took since, only the record is written. One that lacks spans of the request that is stored
        of it changes nothing of that; its judgments are stored, as are those of traces without a record.

        Raises: RecordError when a record cannot be encoded; nothing is written then.
        """
        versioned = [
            each if each.record is None else each._replace(record=self._prompts.version(each.record)) for each in made
        ]
        spans.write_assembled(self._database, versioned)

    def fail_trace(self, failed: DueTrace, error: str, now: float | None = None) -> None:
        """Try a trace again later; at the cap of attempts it waits for another span. If its lease ran out and another
        took it since, nothing changes."""
        with self._database.write() as connection:
            spans.fail(connection, failed, error, _moment(now))

    def forget_spans(self, older_than: float, *, limit: int = 500, now: float | None = None) -> int:
        """Delete assembled traces to which no span has come for so many seconds, up to `limit`. Returns how many."""
        with self._database.write() as connection:
            return spans.forget(connection, _moment(now) - older_than, limit)

    def traces_waiting(self) -> tuple[int, float | None]:
        """How many traces are to be assembled, and when the first is due, in Unix seconds."""
        with self._database.read() as connection:
            return spans.waiting(connection)

    # queue

    def claim(
        self,
        owner: str,
        *,
        kinds: Sequence[str] = (COVERAGE,),
        limit: int = 16,
        lease_seconds: float = 60.0,
        now: float | None = None,
    ) -> list[Job]:
        """Lease up to `limit` jobs: flagged requests first, then the oldest; leases that ran out are taken over."""
        with self._database.write() as connection:
            return job_queue.claim(connection, owner, kinds, limit, lease_seconds, _moment(now))

    def heartbeat(self, jobs: Sequence[Job], lease_seconds: float = 60.0, now: float | None = None) -> list[Job]:
        """Prolong the leases, and return the jobs that are still owned."""
        with self._database.write() as connection:
            return job_queue.heartbeat(connection, jobs, lease_seconds, _moment(now))

    def release_jobs(self, owner: str, now: float | None = None) -> int:
        """Free at once what a worker that is known to be gone has leased. Returns how many jobs."""
        with self._database.write() as connection:
            return job_queue.release(connection, owner, _moment(now))

    def finish(self, finished: Sequence[Finished], now: float | None = None) -> int:
        """Write analyses, scores, diagnoses and totals and end their jobs, all in one transaction.

        A job whose lease was lost is skipped whole. Deltas count for the first result of a request and kind only.
        Follow-ups are enqueued, each once. Returns how many jobs ended.
        """
        with self._database.write() as connection:
            return results.finish(connection, finished, _moment(now))

    def fail(
        self, job: Job, error: str, *, retry_in: float = 30.0, for_good: bool = False, now: float | None = None
    ) -> None:
        """Put a job back for `retry_in` seconds from now; at the cap of attempts, or for good, it becomes dead."""
        with self._database.write() as connection:
            job_queue.fail(connection, job, clean(error), retry_in, _moment(now), for_good=for_good)

    def redo(
        self,
        *,
        service: str | None = None,
        since: int | None = None,
        again: bool = False,
        now: float | None = None,
    ) -> int:
        """Enqueue the requests that were analyzed by another version of the analyzer; `again`: by this one as well.

        service: of this one alone; since: those that began then (nanoseconds) or later. No request counts in the totals
        a second time. Returns how many.
        """
        with self._database.write() as connection:
            name = None if service is None else clean(service)
            return job_queue.redo(connection, ANALYZER_VERSION, _moment(now), service=name, since=since, again=again)

    def ask(self, request_id: str, kind: str, analyzer_version: str, now: float | None = None) -> bool:
        """Enqueue an analysis of a request that a person waits for; a dead job of it runs again. Returns whether the
        request is stored."""
        with self._database.write() as connection:
            return job_queue.ask(connection, clean(request_id), kind, analyzer_version, _moment(now))

    def jobs_before(self, given: JobRow) -> int:
        """How many pending jobs of its kind are leased before a pending one."""
        with self._database.read() as connection:
            return job_queue.before(connection, given)

    def jobs(
        self,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        service: str | None = None,
        request_id: str | None = None,
        limit: int = 50,
    ) -> list[JobRow]:
        """Jobs of the queue, the newest first."""
        with self._database.read() as connection:
            return job_queue.find(connection, state, kind, service, limit, request_id)

    def retry_jobs(
        self, ids: Sequence[int] | None = None, *, kind: str | None = None, service: str | None = None
    ) -> int:
        """Let dead jobs run again, with all their attempts; ids None: all. Returns how many."""
        with self._database.write() as connection:
            return job_queue.retry(connection, ids, kind, service)

    def drop_jobs(
        self,
        ids: Sequence[int] | None = None,
        *,
        state: JobState = "dead",
        kind: str | None = None,
        service: str | None = None,
    ) -> int:
        """Take jobs of a state out of the queue; ids None: all. Leased ones stay. Returns how many."""
        with self._database.write() as connection:
            return job_queue.drop(connection, ids, state, kind, service)

    def queue_depth(self, kind: str = COVERAGE) -> dict[JobState, int]:
        """How many jobs of a kind are pending, leased, done and dead."""
        with self._database.read() as connection:
            return job_queue.depth(connection, kind)

    def backlog(self, now: float | None = None) -> dict[str, Backlog]:
        """The jobs that are not done, by kind; work that depends on them alone, however many are done."""
        with self._database.read() as connection:
            return job_queue.backlog(connection, _moment(now))

    def drawn(self, request_ids: Iterable[str], kind: str) -> set[str]:
        """Those of the requests for which a job of a kind was drawn at random, and not bought by a flag."""
        with self._database.read() as connection:
            return job_queue.drawn(connection, kind, request_ids)

    # results

    def get_analysis(self, request_id: str, kind: str = COVERAGE) -> Analysis | None:
        """The newest analysis of a request."""
        return next(iter(self.get_analyses([request_id], kind).values()), None)

    def get_analyses(self, request_ids: Iterable[str], kind: str = COVERAGE) -> dict[str, Analysis]:
        """The newest analyses of these requests, of those that have one."""
        with self._database.read() as connection:
            return results.get(connection, request_ids, kind)

    def analyses(
        self, *, service: str | None = None, kind: str = COVERAGE, since: int | None = None
    ) -> Iterator[tuple[RequestRow, Analysis]]:
        """Each request's newest analysis, by the request's start, from `since` (nanoseconds) on."""
        return results.analyses(self._database, service, kind, since)

    def sample(
        self, service: str, segment: str | None, since: int, until: int, metrics: Sequence[str], limit: int | None
    ) -> Sample:
        """Requests of the random stratum in [since, until) (nanoseconds) with these scores, oldest first, and how many
        there are; more than about `limit` are thinned out evenly. segment: None for all."""
        with self._database.read() as connection:
            return populations.sample(connection, service, segment, since, until, metrics, limit)

    def scored(self, request_ids: Iterable[str], metrics: Sequence[str]) -> list[Sampled]:
        """Those of the requests that have an analysis, with these scores, oldest first."""
        with self._database.read() as connection:
            return populations.scored(connection, request_ids, metrics)

    def services(self) -> list[str]:
        """The services that have requests, by name."""
        with self._database.read() as connection:
            return populations.services(connection)

    def segments(self, service: str) -> list[str]:
        """The segments of which a service has requests, by name."""
        with self._database.read() as connection:
            return populations.segments(connection, service)

    def measured(self, wanted: RequestFilter, metrics: Sequence[str]) -> Iterator[MeasuredRequest]:
        """The requests of one side of a comparison with these scores, oldest first, of one state of the store."""
        with self._database.read() as connection:
            yield from populations.measured(connection, wanted, metrics)

    def answered(self, request_ids: Iterable[str]) -> set[str]:
        """Those of the requests that have an analysis of an answer with claims."""
        with self._database.read() as connection:
            return results.answered(connection, request_ids)

    def judges(self, request_ids: Sequence[str]) -> set[Judge]:
        """What judged these requests, of those whose answers have claims."""
        with self._database.read() as connection:
            return results.judges(connection, request_ids)

    def replays(self) -> list[str]:
        """The names of the replays that have requests."""
        with self._database.read() as connection:
            return populations.replays(connection)

    def replayed_services(self, tenant: str | None = None) -> list[tuple[str, str]]:
        """Each replay with each service that it has requests of, the one with the newest request first. tenant: of its
        services alone, which are named `TENANT/...`."""
        with self._database.read() as connection:
            return populations.replayed_services(connection, tenant)

    def replayed(self, run: str) -> list[Replayed]:
        """The requests of a replay by question, the earlier attempts first."""
        with self._database.read() as connection:
            return populations.replayed(connection, run)

    def tenants(self, request_ids: Iterable[str]) -> dict[str, str | None]:
        """The tenant of each of these requests that is stored; its texts are not read."""
        with self._database.read() as connection:
            return requests.tenants(connection, request_ids)

    def totals(self) -> list[Total]:
        """Every series with its value, by name and labels."""
        with self._database.read() as connection:
            return totals.totals(connection)

    def exposed(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """By label and service, which values are exported by name, in the order in which they got their place."""
        with self._database.read() as connection:
            return totals.exposed_values(connection)

    def expose(self, new: Iterable[Place]) -> None:
        """Give values of labels a place behind those that have one, as far as their budgets leave any."""
        with self._database.write() as connection:
            totals.expose(connection, new)

    def admit(self, service: str) -> bool:
        """Let a service count under its own name, whatever the budgets say. False where it does."""
        with self._database.write() as connection:
            return totals.admit(connection, service)

    def forget_totals(self, service: str, segment: str | None = None) -> dict[str, int]:
        """Delete all that is exported under a service's name, or the series of one segment, and write down who did so.
        Requests and analyses stay, and count no second time. Returns how many rows of each table."""
        with self._database.write() as connection:
            return erasure.forget_totals(connection, service, segment, time.time_ns())

    def forgotten(self, since: float = 0.0) -> dict[str, float]:
        """When somebody had the totals of whole services forgotten, since a moment, in Unix seconds."""
        with self._database.read() as connection:
            deeds = erasure.deletions(connection, int(since * 1e9), erasure.FORGOTTEN)
        of = [(deed.subject.get("service"), deed.at / 1e9) for deed in deeds if "segment" not in deed.subject]
        return {service: at for service, at in of if service is not None}

    def audit(self, since: float = 0.0) -> list[DeletionRecord]:
        """What people had deleted since a moment in Unix seconds, earliest first."""
        with self._database.read() as connection:
            return erasure.deletions(connection, int(since * 1e9))

    def last_success(self) -> dict[str, float]:
        """When a result of each service was last committed, in Unix seconds."""
        with self._database.read() as connection:
            return results.last_success(connection)

    # what is known of services

    def citing(self, services: Iterable[str] | None = None) -> dict[str, Citing]:
        """How many answers of these services (all by default) cite, and since when each counts as citing."""
        with self._database.read() as connection:
            return service_traits.citing_of(connection, services)

    def note_answers(self, answers: Mapping[str, tuple[int, int]]) -> None:
        """Add, by service, how many answers with claims came and how many of them cite."""
        if answers:
            with self._database.write() as connection:
                service_traits.note_answers(connection, answers, time.time_ns())

    def forget_citing(self, service: str) -> bool:
        """Learn anew, from the requests that begin from now on, whether a service cites. Returns whether it counted as
        citing."""
        with self._database.write() as connection:
            return service_traits.forget_citing(connection, service, time.time_ns())

    def traffic_made(self, services: Iterable[str]) -> dict[str, int]:
        """When what is kept of these services' usual traffic was made, in nanoseconds, where any is kept."""
        with self._database.read() as connection:
            return service_traits.traffic_made(connection, services)

    def traffic(self, service: str) -> ServiceTraffic | None:
        """What a service usually returns; None where nothing is known."""
        with self._database.read() as connection:
            return service_traits.traffic_of(connection, service)

    def save_traffic(self, service: str, traffic: ServiceTraffic, *, is_new: bool = True) -> bool:
        """Keep what a service usually returns, instead of what was known before; unless `is_new`, only where something
        was: it may have been erased meanwhile. Returns whether it was kept."""
        with self._database.write() as connection:
            return service_traits.save_traffic(connection, service, traffic, is_new=is_new)

    # what explanations cost

    def spend(
        self, seconds: Mapping[str, float], *, budgets: Mapping[str, float] | None = None, now: float | None = None
    ) -> None:
        """Add what an explanation took, by resource (`cpu`, `gpu`), to the day's spending and to the totals.

        budgets: seconds of a day by resource; the day on which one is used up is counted.
        """
        with self._database.write() as connection:
            totals.spend(connection, seconds, budgets or {}, _moment(now))

    def spent(self, now: float | None = None) -> dict[str, float]:
        """Seconds that all workers have spent today (UTC), by resource."""
        with self._database.read() as connection:
            return totals.spent(connection, _moment(now))

    # releases

    def releases(self, service: str | None = None) -> list[Release]:
        """The versions that requests carried or somebody recorded, earliest first."""
        with self._database.read() as connection:
            return releases.find(connection, service)

    def record_release(self, service: str, component: str, version: str, at: int) -> None:
        """Note when a version of a component came into use (nanoseconds). It goes before the time of the first request
        that carries the version, and replaces a time that was recorded before."""
        with self._database.write() as connection:
            releases.record(connection, service, component, version, at)

    def forget_release(self, service: str, component: str, version: str) -> bool:
        """Take back what `record_release` said; what requests carried stays. False when nobody said it."""
        with self._database.write() as connection:
            return releases.forget(connection, service, component, version)

    # runs of the release gate

    def add_gate_run(self, run: GateRun, report: bytes) -> None:
        """Keep a run of the release gate with its report."""
        with self._database.write() as connection:
            releases.add_gate_run(connection, run, report)

    def gate_runs(self, service: str | None = None, *, tenant: str | None = None, limit: int = 50) -> list[GateRun]:
        """The gate's newest runs, newest first. tenant: of its services alone, which are named `TENANT/...`."""
        with self._database.read() as connection:
            return releases.gate_runs(connection, service, tenant, limit)

    def gate_runs_of(
        self, service: str, component: str, version: str | None = None, *, limit: int = 50
    ) -> list[GateRun]:
        """The newest runs whose candidate carried this version of a component (None: any version), newest first."""
        with self._database.read() as connection:
            return releases.gate_runs_of(connection, service, component, version, limit)

    def gate_report(self, run_id: str) -> bytes | None:
        """The report of the one run whose id begins so, as JSON; None where there is none, or more than one."""
        with self._database.read() as connection:
            return releases.gate_report(connection, run_id)

    # what on-call said of alerts

    def judge_page(self, judgment: PageJudgment) -> PageJudgment | None:
        """Keep what on-call said of an alert, in place of what was said before, which is returned."""
        with self._database.write() as connection:
            return feedback.judge_page(connection, judgment)

    def page_judgment(self, alert_id: str) -> PageJudgment | None:
        """What was said of an alert."""
        with self._database.read() as connection:
            return feedback.get_page(connection, alert_id)

    def page_judgments(self, service: str | None = None, *, limit: int = 50) -> list[PageJudgment]:
        """The newest answers, newest first."""
        with self._database.read() as connection:
            return feedback.find_pages(connection, service, limit)

    def count_page_judgments(self, service: str | None = None) -> list[PageJudgmentCount]:
        """How many alerts got each answer, by service and severity; each alert counts with its last answer."""
        with self._database.read() as connection:
            return feedback.count_pages(connection, service)

    # what people say of requests

    def draw(self, drawing: Drawing, requests: Sequence[Drawn]) -> None:
        """Keep which requests are to be labeled; a drawing of the same id is replaced, labels stay."""
        with self._database.write() as connection:
            ground_truth.draw(connection, drawing, requests)

    def drawings(self, service: str | None = None) -> list[Drawing]:
        """The drawings, newest first."""
        with self._database.read() as connection:
            return ground_truth.drawings(connection, service)

    def drawn_requests(self, drawing_id: str) -> list[Drawn]:
        """The requests of a drawing that are still stored, in the order of the draw."""
        with self._database.read() as connection:
            return ground_truth.drawn_of(connection, drawing_id)

    def put_labels(self, given: Iterable[RequestLabel]) -> set[str]:
        """Keep labels, each in place of what its labeler said of the request before. Returns the ids of their requests
        that are stored; the labels of others are not kept."""
        with self._database.write() as connection:
            return ground_truth.put_labels(connection, given)

    def labels(
        self, *, request_ids: Sequence[str] | None = None, service: str | None = None, labeler: str | None = None
    ) -> list[RequestLabel]:
        """Labels by request and labeler: of these requests, of a service, of a labeler; all by default."""
        with self._database.read() as connection:
            return ground_truth.find_labels(connection, request_ids=request_ids, service=service, labeler=labeler)

    def save_rates(self, drawing_id: str, rates: Sequence[CorrectedRate]) -> None:
        """Keep the corrected rates of a drawing for the exporter, in place of those before."""
        with self._database.write() as connection:
            ground_truth.save_rates(connection, drawing_id, rates)

    # calibrations of services

    def calibrations(self, services: Collection[str] | None = None) -> list[ServiceCalibration]:
        """The calibrations of these services, or of all, newest first."""
        with self._database.read() as connection:
            return service_traits.find_calibrations(connection, services)

    def propose_calibration(
        self, calibration: ServiceCalibration, *, fitted_from: str | EllipsisType | None = ...
    ) -> bool:
        """Put a calibration into shadow, in place of another one of its service and judge.

        fitted_from: the id of the active one that it was fitted from, None for none; where another one was accepted
        meanwhile nothing is kept, and the answer is False. Not given: whatever is active.
        """
        with self._database.write() as connection:
            return service_traits.propose_calibration(connection, calibration, fitted_from)

    def accept_calibration(self, calibration_id: str, at: int) -> bool:
        """Let a calibration in shadow judge from now on, and retire the one before; at: nanoseconds. False where none
        of this id is in shadow."""
        with self._database.write() as connection:
            return service_traits.accept_calibration(connection, calibration_id, at)

    def reject_calibration(self, calibration_id: str) -> bool:
        """Delete a calibration in shadow. False where none of this id is."""
        with self._database.write() as connection:
            return service_traits.reject_calibration(connection, calibration_id)

    def keep_grade_line(self, line: GradeLine) -> None:
        """Grade a service's retrieval by this line from now on, in place of the one of the same judge before."""
        with self._database.write() as connection:
            service_traits.keep_grade_line(connection, line)

    def grade_lines(self, services: Collection[str]) -> list[GradeLine]:
        """The lines by which retrieval of these services is graded, of each judge that has one."""
        with self._database.read() as connection:
            return service_traits.grade_lines(connection, services)

    def note_shadow(self, counts: Mapping[str, ShadowCounts]) -> None:
        """Add to what calibrations in shadow would have said, by their ids."""
        if counts:
            with self._database.write() as connection:
                service_traits.note_shadow(connection, counts)

    # sources of documents

    def sources(self, service: str | None = None) -> list[SourceState]:
        """What is reported of each source by now, in the order of their first reports."""
        with self._database.read() as connection:
            return corpus.find_sources(connection, service)

    def forget_source(self, service: str, source: str) -> bool:
        """Delete all reports on a source. False when there are none."""
        with self._database.write() as connection:
            return corpus.forget_source(connection, service, source)

    # gold sets

    def put_gold(self, gold: Iterable[Gold]) -> int:
        """Store gold sets, replacing those of the same service and question. Returns how many."""
        with self._database.write() as connection:
            return ground_truth.put_golds(connection, gold)

    def find_golds(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Gold]:
        """The gold sets of (service, question) pairs, under the pairs as given, whatever a question's case and white
        space."""
        with self._database.read() as connection:
            return ground_truth.find_golds(connection, pairs)

    def golds(self, service: str | None = None, *, limit: int = 50) -> list[Gold]:
        """Up to `limit` gold sets, by service and question."""
        with self._database.read() as connection:
            return ground_truth.list_golds(connection, service, limit)

    def forget_gold(self, service: str, question: str) -> bool:
        """Delete what a question is known to need; what was judged by it stays so until it is analyzed again. False
        where nothing was known."""
        with self._database.write() as connection:
            return ground_truth.forget_gold(connection, service, question)

    def unmatched_golds(self, golds: Sequence[Gold]) -> tuple[list[str], list[str]]:
        """Of gold sets of one service the questions that none of its requests asked, and the chunk ids that none got,
        where that is known. Both may be right, and both may be a slip."""
        service = golds[0].service if golds else ""
        wanted = dict.fromkeys(chunk_id for entry in golds for chunk_id in entry.chunk_ids)
        with self._database.read() as connection:
            asked = populations.asked(connection, service, (entry.question for entry in golds))
            got = corpus.got(connection, service, wanted)
        unasked = [entry.question for entry in golds if entry.question not in asked]
        return unasked, [] if got is None else [chunk_id for chunk_id in wanted if chunk_id not in got]

    # chunks

    def note_chunks(self, seen: Iterable[ChunkSeen]) -> None:
        """Note what chunk ids held under which index version, and count what drifted between two, each chunk once.
        A version that no stored request carried is not noted."""
        given = list(seen)
        with self._database.read() as connection:
            fresh = corpus.unseen(connection, given)
        if fresh:
            with self._database.write() as connection:
                corpus.note_chunks(connection, fresh)

    def returned_before(self, service: str, version: str, chunk_ids: Iterable[str]) -> set[str]:
        """Those of the chunks that some request of the service got from this version of its index."""
        with self._database.read() as connection:
            return corpus.returned(connection, service, version, chunk_ids)

    def chunk_texts(self, service: str, chunk_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Of chunks that some request of the service got: the version of the index and the text then, where kept."""
        with self._database.read() as connection:
            return corpus.chunk_texts(connection, service, chunk_ids)

    def drift(self, service: str | None = None) -> list[Drift]:
        """How the chunks of each index version differ from those of an earlier one, newest version first."""
        with self._database.read() as connection:
            return corpus.drift(connection, service)

    # search

    def search_state(self) -> SearchState:
        """Whether the store has an index of the words of questions and answers, and how much of it is in there."""
        with self._database.read() as connection:
            return search.state(connection)

    def can_search(self) -> bool:
        """Whether `Listing.search` may be asked for."""
        with self._database.read() as connection:
            return search.is_on(connection)

    def search_on(self, on_batch: Callable[[SearchState], object] = lambda state: None) -> SearchState:
        """Make the index and fill it with what is stored, in small transactions; from its beginning on, all writers of
        this store keep it. Run again, it goes on where it ended. Raises: StoreError where SQLite has no FTS5."""
        return search.turn_on(self._database, _alone, records.read, on_batch)

    def search_off(self) -> None:
        """Delete the index; no writer keeps it from then on."""
        search.turn_off(self._database, _alone)

    # upkeep: all of it runs beside ingest, one at a time

    def prune(
        self,
        keep: Mapping[retention.Kept, float],
        *,
        reports: int | None = None,
        dry_run: bool = False,
        now: float | None = None,
        on_batch: Callable[[retention.Pruned], object] = lambda pruned: None,
    ) -> retention.Pruned:
        """Delete requests by age, in small batches, with all that belongs to them but what was counted.

        A request is deleted when it is of a kind that `keep` names (`ragtrace.store.retention.KINDS`), and older than
        the seconds given for each such kind that it is of. reports: how many of each source stay, the newest ones.
        """
        if dry_run:
            return retention.dry_run(self._database, keep, reports, _moment(now))
        return retention.prune(self._database, keep, reports, _moment(now), on_batch)

    def collect_garbage(
        self,
        *,
        dry_run: bool = False,
        now: float | None = None,
        on_batch: Callable[[space.Swept], object] = lambda swept: None,
    ) -> space.Swept:
        """Delete the texts that no request uses, and that none has used for a day.

        Raises: CorruptStore when a payload cannot be read.
        """
        return space.collect_garbage(self._database, _moment(now), dry_run=dry_run, on_batch=on_batch)

    def compact(self, *, full: bool = False) -> tuple[space.Space, space.Space, bool | None]:
        """Rewrite a SQLite file without free pages, or vacuum PostgreSQL's tables; `full`: rewrite these too.

        Returns the space before and after, and whether a rewriting left no copy of a deleted row (None: PostgreSQL
        rewrote nothing). Raises: StoreUnavailable where the disk has no room for the copy.
        """
        return space.compact(self._database, full=full)

    def find_subject(self, subject: erasure.Subject) -> erasure.Erased:
        """What is stored of a subject."""
        return erasure.find(self._database, subject)

    def erase(self, subject: erasure.Subject, *, rewrite: bool = True, reference: str | None = None) -> erasure.Erased:
        """Delete it at once, and remember that it was, so that nothing on its way brings it back.

        rewrite: write the SQLite file, or PostgreSQL's tables, anew, without which copies of deleted rows stay in them.
        reference: what the audit says of why, such as the number of the demand; nothing that names the subject.
        Raises: StoreUnavailable before anything is deleted where SQLite's disk has no room for that.
        """
        return erasure.erase(self._database, subject, rewrite=rewrite, reference=reference)

    def inspect(self, *, sample: int | None = 1_000) -> inspection.Inspected:
        """Look whether the store is whole, by the newest `sample` requests and as many other payloads of each
        kind, or (None) by all."""
        return inspection.inspect(self._database, sample)

    # leases

    def acquire(self, name: str, owner: str, seconds: float, now: float | None = None) -> bool:
        """Take or prolong the lease `name`. False when another owner holds it."""
        with self._database.write() as connection:
            return leases.acquire(connection, clean(name), clean(owner), seconds, _moment(now))

    def release(self, name: str, owner: str) -> None:
        """Give the lease `name` back."""
        with self._database.write() as connection:
            leases.release(connection, clean(name), clean(owner))


def _alone(connection: Connection) -> None:
    """Wait until no writer of records is beside this transaction, and let none come."""
    records.wait_for_turn(connection, alone=True)


def _moment(now: float | None) -> float:
    """A moment in Unix seconds; None for the present."""
    return time.time() if now is None else now
