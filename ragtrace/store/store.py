"""The store: everything that ragtrace keeps, in SQLite or PostgreSQL, behind one object.

Each method is one transaction; `analyses` is one for every page, and what writes many texts looks at them first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from ragtrace.coverage import ANALYZER_VERSION
from ragtrace.store import (
    arrivals,
    audit,
    label_budget,
    leases,
    populations,
    queue,
    records,
    requests,
    results,
    samples,
    spending,
    tables,
    totals,
    traits,
)
from ragtrace.store import services as service_views
from ragtrace.store.arriving import Arriving
from ragtrace.store.compared import Judge, Measured, Replayed, Wanted
from ragtrace.store.label_budget import Place
from ragtrace.store.maintenance import Maintenance
from ragtrace.store.opened import moment
from ragtrace.store.rows import (
    COVERAGE,
    Backlog,
    Citing,
    Deed,
    Finished,
    Job,
    JobRow,
    JobState,
    RequestRow,
    Sampled,
    ServiceTraffic,
    Total,
)
from ragtrace.store.surroundings import Surroundings
from ragtrace.store.text import clean
from ragtrace.types import Analysis, Fault, Item, RequestRecord

__all__ = ["Store"]

_PAGE: Final = 200


class Store(Surroundings, Arriving, Maintenance):
    """One database. Safe for several threads; processes share it through the database.

    Errors of the database are raised as StoreUnavailable, CorruptStore, SchemaMismatch or StoreError, whose messages
    name the remedy and never a password.
    """

    # records

    def write(self, items: Sequence[Item]) -> None:
        """Write records and what comes beside them in one transaction; writing them again changes nothing.

        A record replaces an older revision of itself. Its texts go to the content table, its versions become
        releases, a new request counts in the totals, and a job is enqueued when it is in the random stratum or
        flagged. An addendum is united with its record, whichever comes first, once: the record's revision grows by
        one and a job is enqueued for it. One whose request is not stored waits, and is no request.

        Raises: RecordError when a record or addendum cannot be encoded; nothing is written then.
        """
        batch = records.Batch(items)
        batch.prepare(self._database)
        with self._database.write() as connection:
            batch.write(connection)

    def add_flags(self, request_id: str, flags: Iterable[str]) -> None:
        """Raise flags of a stored request after its analysis: its revision and its stratum stay, and no job is
        enqueued. Nothing happens to a request that is not stored."""
        with self._database.write() as connection:
            records.add_flags(connection, request_id, flags)

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

    def find_request_ids(self, beginning: str, limit: int = 10) -> list[str]:
        """Up to `limit` request ids that start with `beginning`; one that is equal to it comes first."""
        with self._database.read() as connection:
            return requests.ids_starting(connection, clean(beginning), limit)

    def faults(self) -> list[Fault]:
        """Faults, added up by service, place and kind."""
        with self._database.read() as connection:
            return arrivals.faults(connection)

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        known = sorted(tables.metadata.tables.items())
        with self._database.read() as connection:
            return {name: connection.scalar(sa.select(sa.func.count()).select_from(each)) or 0 for name, each in known}

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
            return queue.claim(connection, owner, kinds, limit, lease_seconds, moment(now))

    def heartbeat(self, jobs: Sequence[Job], lease_seconds: float = 60.0, now: float | None = None) -> list[Job]:
        """Prolong the leases, and return the jobs that are still owned."""
        with self._database.write() as connection:
            return queue.heartbeat(connection, jobs, lease_seconds, moment(now))

    def release_jobs(self, owner: str, now: float | None = None) -> int:
        """Free at once what a worker that is known to be gone has leased. Returns how many jobs."""
        with self._database.write() as connection:
            return queue.release(connection, owner, moment(now))

    def finish(self, finished: Sequence[Finished], now: float | None = None) -> int:
        """Write analyses, scores, diagnoses and totals and end their jobs, all in one transaction.

        A job whose lease was lost is skipped whole. Deltas count for the first result of a request and kind only.
        Follow-ups are enqueued, each once. Returns how many jobs ended.
        """
        with self._database.write() as connection:
            return results.finish(connection, finished, moment(now))

    def fail(
        self, job: Job, error: str, *, retry_in: float = 30.0, for_good: bool = False, now: float | None = None
    ) -> None:
        """Put a job back for `retry_in` seconds from now; at the cap of attempts, or for good, it becomes dead."""
        with self._database.write() as connection:
            queue.fail(connection, job, clean(error), retry_in, moment(now), for_good=for_good)

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
            return queue.redo(connection, ANALYZER_VERSION, moment(now), service=name, since=since, again=again)

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
            return queue.find(connection, state, kind, service, limit, request_id)

    def retry_jobs(
        self, ids: Sequence[int] | None = None, *, kind: str | None = None, service: str | None = None
    ) -> int:
        """Let dead jobs run again, with all their attempts; ids None: all. Returns how many."""
        with self._database.write() as connection:
            return queue.retry(connection, ids, kind, service)

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
            return queue.drop(connection, ids, state, kind, service)

    def queue_depth(self, kind: str = COVERAGE) -> dict[JobState, int]:
        """How many jobs of a kind are pending, leased, done and dead."""
        with self._database.read() as connection:
            return queue.depth(connection, kind)

    def backlog(self, now: float | None = None) -> dict[str, Backlog]:
        """The jobs that are not done, by kind; work that depends on them alone, however many are done."""
        with self._database.read() as connection:
            return queue.backlog(connection, moment(now))

    def drawn(self, request_ids: Iterable[str], kind: str) -> set[str]:
        """Those of the requests for which a job of a kind was drawn at random, and not bought by a flag."""
        with self._database.read() as connection:
            return queue.drawn(connection, kind, request_ids)

    # what is known of services

    def citing(self, services: Iterable[str] | None = None) -> dict[str, Citing]:
        """How many answers of these services (all by default) cite, and since when each counts as citing."""
        with self._database.read() as connection:
            return service_views.citing_of(connection, services)

    def note_answers(self, answers: Mapping[str, tuple[int, int]]) -> None:
        """Add, by service, how many answers with claims came and how many of them cite."""
        if answers:
            with self._database.write() as connection:
                service_views.note_answers(connection, answers, time.time_ns())

    def forget_citing(self, service: str) -> bool:
        """Learn anew, from the requests that begin from now on, whether a service cites. Returns whether it counted as
        citing."""
        with self._database.write() as connection:
            return service_views.forget_citing(connection, service, time.time_ns())

    def traffic_made(self, services: Iterable[str]) -> dict[str, int]:
        """When what is kept of these services' usual traffic was made, in nanoseconds, where any is kept."""
        with self._database.read() as connection:
            return service_views.traffic_made(connection, services)

    def traffic(self, service: str) -> ServiceTraffic | None:
        """What a service usually returns; None where nothing is known."""
        with self._database.read() as connection:
            return service_views.traffic_of(connection, service)

    def save_traffic(self, service: str, traffic: ServiceTraffic, *, is_new: bool = True) -> bool:
        """Keep what a service usually returns, instead of what was known before; unless `is_new`, only where something
        was: it may have been erased meanwhile. Returns whether it was kept."""
        with self._database.write() as connection:
            return service_views.save_traffic(connection, service, traffic, is_new=is_new)

    # what explanations cost

    def spend(
        self, seconds: Mapping[str, float], *, budgets: Mapping[str, float] | None = None, now: float | None = None
    ) -> None:
        """Add what an explanation took, by resource (`cpu`, `gpu`), to the day's spending and to the totals.

        budgets: seconds of a day by resource; the day on which one is used up is counted.
        """
        with self._database.write() as connection:
            spending.add(connection, seconds, budgets or {}, moment(now))

    def spent(self, now: float | None = None) -> dict[str, float]:
        """Seconds that all workers have spent today (UTC), by resource."""
        with self._database.read() as connection:
            return spending.of_day(connection, moment(now))

    # results

    def get_analysis(self, request_id: str, kind: str = COVERAGE) -> Analysis | None:
        """The newest analysis of a request."""
        with self._database.read() as connection:
            return results.get(connection, request_id, kind)

    def analyses(
        self, *, service: str | None = None, kind: str = COVERAGE, since: int | None = None
    ) -> Iterator[tuple[RequestRow, Analysis]]:
        """Each request's newest analysis, by the request's start, from `since` (nanoseconds) on."""
        page: list[RequestRow] = []
        while True:
            after = page[-1] if page else None
            with self._database.read() as connection:
                page = requests.analyzed(connection, service=service, kind=kind, since=since, after=after, limit=_PAGE)
                found = dict(results.bodies(connection, [row.request_id for row in page], kind))
            yield from ((row, found[row.request_id]) for row in page)
            if len(page) < _PAGE:
                return

    def sample(
        self, service: str, segment: str | None, since: int, until: int, metrics: Sequence[str], limit: int | None
    ) -> tuple[list[Sampled], int]:
        """Requests of the random stratum in [since, until) (nanoseconds) with these scores, oldest first, and how many
        there are; more than about `limit` are thinned out evenly. segment: None for all."""
        with self._database.read() as connection:
            return samples.draw(connection, service, segment, since, until, metrics, limit)

    def scored(self, request_ids: Iterable[str], metrics: Sequence[str]) -> list[Sampled]:
        """Those of the requests that have an analysis, with these scores, oldest first."""
        with self._database.read() as connection:
            return samples.of_ids(connection, request_ids, metrics)

    def services(self) -> list[str]:
        """The services that have requests, by name."""
        with self._database.read() as connection:
            return populations.services(connection)

    def measured(self, wanted: Wanted, metrics: Sequence[str]) -> Iterator[Measured]:
        """The requests of one side of a comparison with these scores, oldest first, of one state of the store."""
        with self._database.read() as connection:
            yield from populations.measured(connection, wanted, metrics)

    def judges(self, request_ids: Sequence[str]) -> set[Judge]:
        """What judged these requests, of those whose answers have claims."""
        with self._database.read() as connection:
            return results.judges(connection, request_ids)

    def replays(self) -> list[str]:
        """The names of the replays that have requests."""
        with self._database.read() as connection:
            return traits.replays(connection)

    def replayed(self, run: str) -> list[Replayed]:
        """The requests of a replay by question, the earlier attempts first."""
        with self._database.read() as connection:
            return traits.replayed(connection, run)

    def tenants(self, request_ids: Iterable[str]) -> dict[str, str | None]:
        """The tenant of each of these requests that is stored; its texts are not read."""
        with self._database.read() as connection:
            return samples.tenants(connection, request_ids)

    def totals(self) -> list[Total]:
        """Every series with its value, by name and labels."""
        with self._database.read() as connection:
            return totals.totals(connection)

    def exposed(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """By label and service, which values are exported by name, in the order in which they got their place."""
        with self._database.read() as connection:
            return label_budget.read(connection)

    def expose(self, new: Iterable[Place]) -> None:
        """Give values of labels a place behind those that have one, as far as their budgets leave any."""
        with self._database.write() as connection:
            label_budget.add(connection, new)

    def admit(self, service: str) -> bool:
        """Let a service count under its own name, whatever the budgets say. False where it does."""
        with self._database.write() as connection:
            return label_budget.admit(connection, service)

    def forget_totals(self, service: str, segment: str | None = None) -> dict[str, int]:
        """Delete all that is exported under a service's name, or the series of one segment, and write down who did so.
        Requests and analyses stay, and count no second time. Returns how many rows of each table."""
        with self._database.write() as connection:
            return totals.forget_service(connection, service, segment, time.time_ns())

    def forgotten(self, since: float = 0.0) -> dict[str, float]:
        """When somebody had the totals of whole services forgotten, since a moment, in Unix seconds."""
        with self._database.read() as connection:
            deeds = audit.find(connection, int(since * 1e9), totals.FORGOTTEN)
        of = [(deed.subject.get("service"), deed.at / 1e9) for deed in deeds if "segment" not in deed.subject]
        return {service: at for service, at in of if service is not None}

    def audit(self, since: float = 0.0) -> list[Deed]:
        """What people had deleted since a moment in Unix seconds, earliest first."""
        with self._database.read() as connection:
            return audit.find(connection, int(since * 1e9))

    def last_success(self) -> dict[str, float]:
        """When a result of each service was last committed, in Unix seconds."""
        with self._database.read() as connection:
            return results.last_success(connection)

    # leases

    def acquire(self, name: str, owner: str, seconds: float, now: float | None = None) -> bool:
        """Take or prolong the lease `name`. False when another owner holds it."""
        with self._database.write() as connection:
            return leases.acquire(connection, clean(name), clean(owner), seconds, moment(now))

    def release(self, name: str, owner: str) -> None:
        """Give the lease `name` back."""
        with self._database.write() as connection:
            leases.release(connection, clean(name), clean(owner))
