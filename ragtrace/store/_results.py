"""Writes what the analyzer found, together with the end of its jobs, and reads it back.

`diagnosis` points to the newest analysis of a request: the highest record revision, then the latest to finish.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.registry.instruments import ANALYSES, ANALYSIS_COST, ANSWER_COVERAGE
from ragtrace.store import _job_queue as job_queue, _requests as requests, totals
from ragtrace.store._content import read_analysis, write_analysis
from ragtrace.store.database import Database, bigint, chunks, clean, insert, pages
from ragtrace.store.rows import COVERAGE, Delta, Finished, FollowUp, Judge, RequestRow, verifier_of
from ragtrace.store.tables import (
    DISTANT,
    STAGE_NAMES,
    analysis,
    attribution_share,
    diagnosis,
    index_probe,
    request,
    score,
    success,
)
from ragtrace.types import Analysis, Diagnosis

__all__ = ["analyses", "answered", "finish", "get", "judges", "last_success"]

_PAGE: Final = 200


def finish(connection: sa.Connection, finished: Sequence[Finished], now: float) -> int:
    """Write the outcomes whose fence holds, and mark their jobs as done. Returns how many those were."""
    outcomes = {outcome.job.id: outcome for outcome in finished}
    jobs = job_queue.owned(connection, [outcome.job for outcome in outcomes.values()])
    started = _started(connection, [job.request_id for job in jobs])
    held = {job.id for job in jobs if job.request_id in started}  # a request deleted meanwhile has no result
    accepted = sorted(
        (outcomes[job_id] for job_id in held), key=lambda outcome: (outcome.job.request_id, outcome.job.id)
    )
    _write_analyses(connection, accepted)
    newest = _newest(connection, accepted)
    _write_scores(connection, newest)
    _write_diagnoses(connection, newest, started)
    _write_shares(connection, newest)
    _write_probes(connection, newest)
    first = _first(connection, accepted, started)
    job_queue.finish(connection, jobs, now)
    job_queue.enqueue(connection, [_follow_up(outcome) for outcome in accepted if outcome.follow_up is not None], now)
    deltas = [delta for outcome in accepted if outcome.job.id in first for delta in outcome.deltas]
    work = (delta for outcome in accepted for delta in _work(outcome))
    totals.add(connection, [*deltas, *work])
    done = {job.service for job in jobs if job.kind == COVERAGE}
    _note_success(connection, set(totals.exposed_names(connection, done).values()), now)
    return len(jobs)


def _work(finished: Finished) -> Iterator[Delta]:
    """The work itself, which counts for each result, the first one or not."""
    kind = ("job_kind", finished.job.kind)
    yield Delta(ANALYSES.name, (("service", finished.job.service), kind), 1.0)
    if finished.seconds:
        yield Delta(ANALYSIS_COST.name, (kind, ("resource", "cpu")), finished.seconds)


def _follow_up(finished: Finished) -> dict[str, Any]:
    """A row of the queue. Jobs for flagged and for drawn requests come in their order: neither starves the other."""
    job = finished.job
    asked = {name: getattr(finished.follow_up, name) for name in FollowUp.__slots__}
    return {
        "request_id": job.request_id,
        "record_revision": job.record_revision,
        "service": job.service,
        "priority": 0,
        **asked,
    }


def _started(connection: sa.Connection, request_ids: Sequence[str]) -> dict[str, int]:
    """When these requests began. Their rows stay locked, so that two results of one request follow each other."""
    started: dict[str, int] = {}
    for ids in chunks(sorted(set(request_ids))):
        rows = connection.execute(
            sa.select(request.c.request_id, request.c.started_at)
            .where(request.c.request_id.in_(ids))
            .order_by(request.c.request_id)
            .with_for_update()
        )
        started.update((row.request_id, row.started_at) for row in rows)
    return started


def _write_analyses(connection: sa.Connection, finished: Sequence[Finished]) -> None:
    rows = [
        {
            **_key(each.analysis),
            "analyzer_version": clean(each.analysis.analyzer_version),
            "record_revision": bigint(each.analysis.record_revision),
            "reference": each.analysis.reference,
            "computed_at": bigint(each.analysis.computed_at),
            "body": write_analysis(each.analysis),
        }
        for each in finished
    ]
    if rows:
        _upsert(connection, analysis, rows)


def _upsert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    statement = insert(connection, table)
    rest = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    connection.execute(statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=rest), rows)


def _key(found: Analysis) -> dict[str, str]:
    return {"request_id": clean(found.request_id), "kind": clean(found.kind)}


def _newest(connection: sa.Connection, finished: Sequence[Finished]) -> list[Analysis]:
    """The analyses that no stored one of a newer revision outdates, one for each request and kind."""
    revisions: dict[tuple[str, str], int] = {}
    for ids in chunks(dict.fromkeys(each.job.request_id for each in finished)):
        rows = connection.execute(sa.select(diagnosis).where(diagnosis.c.request_id.in_(ids)))
        revisions.update(((row.request_id, row.kind), row.record_revision) for row in rows)
    newest: dict[tuple[str, str], Analysis] = {}
    for each in finished:
        key = (clean(each.analysis.request_id), clean(each.analysis.kind))
        if each.analysis.record_revision >= revisions.get(key, each.analysis.record_revision):
            revisions[key] = each.analysis.record_revision
            newest[key] = each.analysis
    return list(newest.values())


def _write_scores(connection: sa.Connection, analyses: Sequence[Analysis]) -> None:
    """Replace the scores of these requests."""
    if analyses:
        old = sa.delete(score).where(
            score.c.request_id == sa.bindparam("request_id"), score.c.kind == sa.bindparam("kind")
        )
        connection.execute(old, [_key(result) for result in analyses])
    rows = [
        {
            **_key(result),
            "metric": metric_score.metric,
            "reference": metric_score.reference,
            "analyzer_version": clean(result.analyzer_version),
            "value": metric_score.value,
            "reason": clean(metric_score.reason),
        }
        for result in analyses
        for metric_score in result.scores
    ]
    if rows:
        _upsert(connection, score, rows)


def _write_diagnoses(connection: sa.Connection, analyses: Sequence[Analysis], started: dict[str, int]) -> None:
    rows = [
        {
            **_key(result),
            "analyzer_version": clean(result.analyzer_version),
            "record_revision": bigint(result.record_revision),
            "started_at": started[clean(result.request_id)],
            "verdict": result.diagnosis.verdict,
            "stage": result.diagnosis.stage,
            "owner": result.diagnosis.owner,
            "cause": clean(result.diagnosis.cause),
            "reference": result.diagnosis.reference,
            "suspected_rollout": clean(result.diagnosis.suspected_rollout),
            "judge": clean(result.diagnosis.judge),
            **_states(result.diagnosis),
            "expenses": _expenses(result),
            "providers": json.dumps([clean(each) for each in result.providers]) if result.providers else None,
        }
        for result in analyses
    ]
    if rows:
        _upsert(connection, diagnosis, rows)


def _expenses(found: Analysis) -> str | None:
    """By stage microseconds, tokens in and out, who counted them, and the cost."""
    known = {
        each.stage: [each.duration_ns // 1_000, each.input_tokens, each.output_tokens, each.counted, each.cost]
        for each in found.expenses
    }
    return json.dumps(known, separators=(",", ":")) if known else None


def _states(found: Diagnosis) -> dict[str, str | None]:
    """The columns of the stages' states, null where a stage does not apply, and the names of those in doubt, with
    `DISTANT` beside them where the answer is far from its question."""
    by_stage = {finding.stage: finding for finding in found.stages}
    columns: dict[str, str | None] = {}
    for stage in STAGE_NAMES:
        finding = by_stage.get(stage)
        columns[f"{stage}_state"] = finding.state if finding else None
        columns[f"{stage}_reason"] = finding.reason if finding else None
    doubted: list[str] = [finding.stage for finding in found.stages if finding.doubted]
    doubted += [DISTANT] * any(finding.distant for finding in found.stages)
    return columns | {"doubted": ",".join(doubted) if found.stages else None}


def _write_shares(connection: sa.Connection, analyses: Sequence[Analysis]) -> None:
    """Replace the shares of the documents of these requests' answers, for people who ask by SQL."""
    explained = [found for found in analyses if found.explanation is not None]
    for ids in chunks(clean(found.request_id) for found in explained):
        connection.execute(sa.delete(attribution_share).where(attribution_share.c.request_id.in_(ids)))
    rows = [row for found in explained for row in _shares(found)]
    if rows:
        _upsert(connection, attribution_share, rows)


def _shares(found: Analysis) -> Iterator[dict[str, Any]]:
    generator = found.explanation.generator if found.explanation else None
    if generator is not None and generator.players == "documents":
        errors = generator.share_errors or [None] * len(generator.shares)
        for position, each in enumerate(zip(generator.chunk_ids, generator.shares, errors, strict=False)):
            chunk_id, share, error = each
            yield {
                "request_id": clean(found.request_id),
                "position": position,
                "chunk_id": clean(chunk_id),
                "share": share,
                "share_error": error,
            }


def _write_probes(connection: sa.Connection, analyses: Sequence[Analysis]) -> None:
    """Replace what probes found for these requests, for people who ask by SQL."""
    judged = [found for found in analyses if found.kind == COVERAGE]
    for ids in chunks(clean(found.request_id) for found in judged):
        connection.execute(sa.delete(index_probe).where(index_probe.c.request_id.in_(ids)))
    if rows := [row for found in judged if (row := _probe(found)) is not None]:
        _upsert(connection, index_probe, rows)


def _probe(found: Analysis) -> dict[str, Any] | None:
    probe = found.probe
    if probe is None:
        return None
    chunk = next((each for each in probe.chunks if each.cause == probe.cause), None)
    return {
        "request_id": clean(found.request_id),
        "asked_at": bigint(probe.asked_at),
        "outcome": probe.outcome,
        "cause": probe.cause,
        "chunk_id": clean(chunk.chunk_id) if chunk else None,
        "depth": bigint(probe.depth),
        "depth_asked": bigint(probe.asked),
        "rank": chunk.rank if chunk else None,
        "exact_rank": chunk.exact_rank if chunk else None,
        "by_gold": probe.by_gold,
        "drawn": probe.drawn,
        "index_version": clean(probe.index_version),
    }


def _first(connection: sa.Connection, finished: Sequence[Finished], started: Mapping[str, int]) -> set[int]:
    """The jobs that are the first result of their request and kind, of which alone the deltas count."""
    earliest: dict[tuple[str, str], int] = {}
    for each in finished:
        earliest.setdefault((each.job.request_id, each.job.kind), each.job.id)
    begun = ((request_id, kind, started[request_id]) for request_id, kind in earliest)
    return {earliest[key] for key in totals.uncounted(connection, begun)}


def _note_success(connection: sa.Connection, services: set[str], now: float) -> None:
    if services:
        statement = insert(connection, success)
        later = statement.excluded["at"] > success.c["at"]
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["service"], set_={"at": statement.excluded["at"]}, where=later
            ),
            [{"service": service, "at": now} for service in sorted(services)],
        )


def last_success(connection: sa.Connection) -> dict[str, float]:
    """When a result of each service was last committed, in Unix seconds."""
    return {row.service: row.at for row in connection.execute(sa.select(success).order_by(success.c.service))}


def get(connection: sa.Connection, request_ids: Iterable[str], kind: str) -> dict[str, Analysis]:
    """The newest analysis of each of these requests that has one."""
    return dict(_bodies(connection, list(map(clean, request_ids)), kind))


def answered(connection: sa.Connection, request_ids: Iterable[str]) -> set[str]:
    """Those of the requests whose answers had claims by an analysis of whatever version: their coverage is a number."""
    covered = score.c.kind == COVERAGE, score.c.metric == ANSWER_COVERAGE.id, score.c.value.is_not(None)
    return {
        request_id
        for ids in chunks(map(clean, request_ids))
        for request_id in connection.scalars(sa.select(score.c.request_id).where(score.c.request_id.in_(ids), *covered))
    }


def judges(connection: sa.Connection, request_ids: Sequence[str]) -> set[Judge]:
    """What judged these requests, of those whose answers have claims."""
    found = (analysis for _, analysis in _bodies(connection, list(map(clean, request_ids)), COVERAGE))
    known = ((analysis.diagnosis.judge or "", verifier_of(analysis)) for analysis in found)
    return {Judge(judge, verifier) for judge, verifier in known if verifier is not None}


def analyses(
    database: Database, service: str | None, kind: str, since: int | None
) -> Iterator[tuple[RequestRow, Analysis]]:
    """Each request's newest analysis, by the request's start, from `since` (nanoseconds) on. Raises: CorruptStore."""

    def with_bodies(connection: sa.Connection, rows: Sequence[sa.Row[Any]]) -> list[tuple[RequestRow, Analysis]]:
        found = dict(_bodies(connection, [row.request_id for row in rows], kind))
        return [(row, found[row.request_id]) for row in requests.listed(rows)]

    key = [diagnosis.c.started_at, diagnosis.c.request_id]
    for page in pages(database.read, requests.analyzed(service, kind, since), key, _PAGE, with_bodies):
        yield from page


def _bodies(connection: sa.Connection, request_ids: Sequence[str], kind: str) -> Iterator[tuple[str, Analysis]]:
    """The newest analysis of each of these requests that has one. Raises: CorruptStore."""
    same = [diagnosis.c[column.name] == column for column in analysis.primary_key]
    for ids in chunks(request_ids):
        newest = (
            sa.select(analysis.c.request_id, analysis.c.body)
            .join(diagnosis, sa.and_(*same))
            .where(diagnosis.c.request_id.in_(ids), diagnosis.c.kind == kind)
        )
        for row in connection.execute(newest):
            yield row.request_id, read_analysis(row.body)
