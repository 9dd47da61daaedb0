"""What a store knows beside requests: releases, the gate's runs, judged alerts, sources, gold sets, chunk identity."""

from __future__ import annotations

from collections.abc import Iterable

from ragtrace.store import drift, gates, golds, page_judgments, releases, sources
from ragtrace.store.compared import GateRun
from ragtrace.store.opened import Opened
from ragtrace.store.rows import ChunkSeen, Drift, PageJudgment, PageJudgmentCount, Release, SourceState
from ragtrace.types import Gold

__all__ = ["Surroundings"]


class Surroundings(Opened):
    """The part of the store that no single request owns."""

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
            gates.add(connection, run, report)

    def gate_runs(self, service: str | None = None, *, limit: int = 50) -> list[GateRun]:
        """The gate's newest runs, newest first."""
        with self._database.read() as connection:
            return gates.find(connection, service, limit)

    def gate_runs_of(
        self, service: str, component: str, version: str | None = None, *, limit: int = 50
    ) -> list[GateRun]:
        """The newest runs whose candidate carried this version of a component (None: any version), newest first."""
        with self._database.read() as connection:
            return gates.of_release(connection, service, component, version, limit)

    def gate_report(self, run_id: str) -> bytes | None:
        """The report of the one run whose id begins so, as JSON; None where there is none, or more than one."""
        with self._database.read() as connection:
            return gates.body(connection, run_id)

    # what on-call said of alerts

    def judge_page(self, judgment: PageJudgment) -> PageJudgment | None:
        """Keep what on-call said of an alert, in place of what was said before, which is returned."""
        with self._database.write() as connection:
            return page_judgments.put(connection, judgment)

    def page_judgment(self, alert_id: str) -> PageJudgment | None:
        """What was said of an alert."""
        with self._database.read() as connection:
            return page_judgments.get(connection, alert_id)

    def page_judgments(self, service: str | None = None, *, limit: int = 50) -> list[PageJudgment]:
        """The newest answers, newest first."""
        with self._database.read() as connection:
            return page_judgments.find(connection, service, limit)

    def count_page_judgments(self, service: str | None = None) -> list[PageJudgmentCount]:
        """How many alerts got each answer, by service and severity; each alert counts with its last answer."""
        with self._database.read() as connection:
            return page_judgments.count(connection, service)

    # sources of documents

    def sources(self, service: str | None = None) -> list[SourceState]:
        """What is reported of each source by now, in the order of their first reports."""
        with self._database.read() as connection:
            return sources.find(connection, service)

    def forget_source(self, service: str, source: str) -> bool:
        """Delete all reports on a source. False when there are none."""
        with self._database.write() as connection:
            return sources.forget(connection, service, source)

    # gold sets

    def put_gold(self, gold: Iterable[Gold]) -> int:
        """Store gold sets, replacing those of the same service and question. Returns how many."""
        with self._database.write() as connection:
            return golds.put(connection, gold)

    def find_gold(self, service: str, question: str) -> Gold | None:
        """The gold set of a question, whatever its case and white space."""
        return self.find_golds([(service, question)]).get((service, question))

    def find_golds(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Gold]:
        """The gold sets of (service, question) pairs, under the pairs as given."""
        with self._database.read() as connection:
            return golds.find(connection, pairs)

    # chunks

    def note_chunks(self, seen: Iterable[ChunkSeen]) -> None:
        """Note what chunk ids held under which index version, and count what drifted between two, each chunk once.
        A version that no stored request carried is not noted."""
        given = list(seen)
        with self._database.read() as connection:
            fresh = drift.unseen(connection, given)
        if fresh:
            with self._database.write() as connection:
                drift.note(connection, fresh)

    def returned_before(self, service: str, version: str, chunk_ids: Iterable[str]) -> set[str]:
        """Those of the chunks that some request of the service got from this version of its index."""
        with self._database.read() as connection:
            return drift.returned(connection, service, version, chunk_ids)

    def drift(self, service: str | None = None) -> list[Drift]:
        """How the chunks of each index version differ from those of an earlier one, newest version first."""
        with self._database.read() as connection:
            return drift.drift(connection, service)
