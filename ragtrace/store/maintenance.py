"""The upkeep of a whole store: what is old, what nobody uses, what a person wants erased, what is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ragtrace.store import erasure, garbage, inspection, retention, space
from ragtrace.store.erasure import Erased
from ragtrace.store.garbage import Swept
from ragtrace.store.inspection import Inspected
from ragtrace.store.opened import Opened, moment
from ragtrace.store.retention import Kept, Pruned
from ragtrace.store.space import Space
from ragtrace.store.subjects import Subject

__all__ = ["Maintenance"]


class Maintenance(Opened):
    """The part of the store that keeps it small and whole. All of it runs beside ingest, one at a time."""

    def prune(
        self,
        keep: Mapping[Kept, float],
        *,
        reports: int | None = None,
        dry_run: bool = False,
        now: float | None = None,
        on_batch: Callable[[Pruned], object] = lambda pruned: None,
    ) -> Pruned:
        """Delete requests by age, in small batches, with all that belongs to them but what was counted.

        A request is deleted when it is of a kind that `keep` names (`ragtrace.store.retention.KINDS`), and older than
        the seconds given for each such kind that it is of. reports: how many of each source stay, the newest ones.
        """
        if dry_run:
            return retention.dry_run(self._database, keep, reports, moment(now))
        return retention.prune(self._database, keep, reports, moment(now), on_batch)

    def collect_garbage(
        self,
        *,
        dry_run: bool = False,
        now: float | None = None,
        on_batch: Callable[[Swept], object] = lambda swept: None,
    ) -> Swept:
        """Delete the texts that no request uses, and that none has used for a day.

        Raises: CorruptStore when a payload cannot be read.
        """
        return garbage.collect(self._database, moment(now), dry_run=dry_run, on_batch=on_batch)

    def compact(self, *, full: bool = False) -> tuple[Space, Space, bool | None]:
        """Rewrite a SQLite file without free pages, or vacuum PostgreSQL's tables; `full`: rewrite these too.

        Returns the space before and after, and whether a rewriting left no copy of a deleted row (None: PostgreSQL
        rewrote nothing). Raises: StoreUnavailable where the disk has no room for the copy.
        """
        return space.compact(self._database, full=full)

    def find_subject(self, subject: Subject) -> Erased:
        """What is stored of a subject."""
        return erasure.find(self._database, subject)

    def erase(self, subject: Subject, *, rewrite: bool = True, reference: str | None = None) -> Erased:
        """Delete it at once, and remember that it was, so that nothing on its way brings it back.

        rewrite: write the SQLite file, or PostgreSQL's tables, anew, without which copies of deleted rows stay in them.
        reference: what the audit says of why, such as the number of the demand; nothing that names the subject.
        Raises: StoreUnavailable before anything is deleted where SQLite's disk has no room for that.
        """
        return erasure.erase(self._database, subject, rewrite=rewrite, reference=reference)

    def inspect(self, *, sample: int | None = 1_000) -> Inspected:
        """Look whether the store is whole, by the newest `sample` requests and as many other payloads of each
        kind, or (None) by all."""
        return inspection.inspect(self._database, sample)
