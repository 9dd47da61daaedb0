"""What people do to a store by hand: the queue's jobs."""

from __future__ import annotations

from collections.abc import Sequence

from ragtrace.store import jobs
from ragtrace.store.opened import Opened
from ragtrace.store.rows import JobRow, JobState

__all__ = ["Upkeep"]


class Upkeep(Opened):
    """The part of the store that operators work on."""

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
            return jobs.find(connection, state, kind, service, limit, request_id)

    def retry_jobs(
        self, ids: Sequence[int] | None = None, *, kind: str | None = None, service: str | None = None
    ) -> int:
        """Let dead jobs run again, with all their attempts; ids None: all. Returns how many."""
        with self._database.write() as connection:
            return jobs.retry(connection, ids, kind, service)

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
            return jobs.drop(connection, ids, state, kind, service)
