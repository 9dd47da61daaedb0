"""Feedback: what people and verifiers say of requests and of alerts; and the faults that arrive beside it.

Feedback may come days later than its record, or before it. Its outcome counts once, whichever comes first, it or its
request. Counted are judgments of the random stratum: a complaint keeps a request that was outside the sample, praise
does not; counted together, they would show an application worse than it is.

A judgment that names its request by its trace waits, where that is not stored, under the id that a request of received
spans has: its trace's, after the name of its tenant. A request that has another id takes over what waits for its trace.
Both happen in turn with the writers of records.

What on-call said of an alert is one row; another answer replaces the one before. The counter `page_judgments` counts
answers, in the transaction that writes them: a changed answer counts once more under its new word, since counters never
go down. How often pages were right is counted from the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import sqlalchemy as sa

from ragtrace.registry.instruments import ATTRIBUTES, OUTCOMES, PAGE_JUDGMENTS
from ragtrace.store import totals
from ragtrace.store.database import bigint, chunks, clean, insert, look_up
from ragtrace.store.rows import Delta, Exemplar, PageJudgment, PageJudgmentCount, TraceJudgment
from ragtrace.store.tables import fault, feedback, page_judgment, request
from ragtrace.types import Fault, Feedback, RequestRecord, content_hash, replace

__all__ = [
    "COUNTED",
    "Outcome",
    "add",
    "add_faults",
    "carried",
    "count_outcomes",
    "count_pages",
    "faults",
    "find",
    "find_pages",
    "get_page",
    "judge_page",
    "judgments",
    "of_requests",
    "outcome_of",
    "take_over",
    "united",
]

_FAULT: Final = "fault"
_FIELDS: Final = tuple(feedback.c[name] for name in Feedback.__struct_fields__)


def add(connection: sa.Connection, given: Sequence[Feedback]) -> None:
    """Store feedback, each once."""
    rows = {_identity(each): _feedback_row(each) for each in given}
    if rows:
        connection.execute(
            insert(connection, feedback).on_conflict_do_nothing(), [rows[identity] for identity in sorted(rows)]
        )


def _feedback_row(given: Feedback) -> dict[str, Any]:
    return {
        "feedback_id": _identity(given),
        "request_id": clean(given.request_id),
        "created_at": bigint(given.created_at),
        "score": given.score,
        "label": clean(given.label),
        "source": clean(given.source),
        "comment": clean(given.comment),
    }


def find(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, list[Feedback]]:
    """The feedback of these requests, oldest first."""
    found: dict[str, list[Feedback]] = defaultdict(list)
    judged = {request_id for (request_id,) in look_up(connection, (feedback.c.request_id,), request_ids)}
    for ids in chunks(sorted(judged)):
        rows = connection.execute(
            sa.select(*_FIELDS)
            .where(feedback.c.request_id.in_(ids))
            .order_by(feedback.c.created_at, feedback.c.feedback_id)
        )
        for row in rows.mappings():
            found[row["request_id"]].append(Feedback(**row))
    return found


def _hand_over(connection: sa.Connection, given: Mapping[str, str]) -> None:
    """Give the feedback of one id to another one, for some pairs of them."""
    for request_id, said in find(connection, sorted(given)).items():
        to = given[request_id]
        connection.execute(sa.delete(feedback).where(feedback.c.request_id == request_id))
        add(connection, [_of_another(each, to) for each in said])


def _of_another(given: Feedback, request_id: str) -> Feedback:
    """The same judgment of another request; an identity that says what it judges goes along."""
    nameless = replace(given, feedback_id="")
    identity = "" if _identity(nameless) == given.feedback_id else given.feedback_id
    return replace(nameless, request_id=request_id, feedback_id=identity)


def carried(records: Mapping[str, RequestRecord]) -> list[Feedback]:
    """The judgments that these records carry, by the ids that the requests have in the store. They are stored apart as
    well: another record of the same request may be the newer one, and carry none."""
    return [replace(each, request_id=request_id) for request_id, record in records.items() for each in record.feedback]


def judgments(connection: sa.Connection, given: Iterable[Feedback], new: Iterable[str]) -> dict[str, Feedback]:
    """Judgments that may count from now on, by identity: those that arrive, and those that waited for the requests
    that are new."""
    waited = (each for found in find(connection, new).values() for each in found)
    return {_identity(each): each for each in (*given, *waited)}


def united(request_id: str, carried: Sequence[Feedback], joined: Sequence[Feedback]) -> tuple[Feedback, ...]:
    """The feedback that a record carried, then what came by itself, each once."""
    known = {_identity(replace(each, request_id=request_id)): each for each in reversed(carried)}
    return (*reversed(known.values()), *(each for each in joined if each.feedback_id not in known))


def _identity(given: Feedback) -> str:
    """Its id; where it has none, a hash of who says what of which request, whenever: the same judgment may come on a
    span, in a log and by ragtrace's own channel."""
    if given.feedback_id:
        return clean(given.feedback_id)
    said = replace(given, request_id=clean(given.request_id), created_at=0)
    return content_hash(msgspec.json.encode(said).decode())


def add_faults(connection: sa.Connection, incoming: Sequence[Fault]) -> None:
    """Add up faults by place and kind. One that carries its time is counted once, however often it is written."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for occurrence in _uncounted(connection, incoming):
        key = (clean(occurrence.service), clean(occurrence.where), clean(occurrence.kind))
        row = rows.setdefault(key, dict(zip(("service", "where", "kind"), key, strict=True)) | {"count": 0, "at": 0})
        row["count"] += occurrence.count
        if bigint(occurrence.at) >= row["at"]:
            row["message"], row["at"] = clean(occurrence.message), bigint(occurrence.at)
    if rows:
        connection.execute(_add(connection), [rows[key] for key in sorted(rows)])


def _uncounted(connection: sa.Connection, incoming: Sequence[Fault]) -> list[Fault]:
    timed = {
        content_hash(msgspec.json.encode(occurrence).decode()): occurrence for occurrence in incoming if occurrence.at
    }
    new = totals.uncounted(connection, ((key, _FAULT, bigint(occurrence.at)) for key, occurrence in timed.items()))
    return [occurrence for occurrence in incoming if not occurrence.at] + [timed[key] for key, _ in sorted(new)]


def _add(connection: sa.Connection) -> sa.Insert:
    statement = insert(connection, fault)
    new = statement.excluded
    later = new["at"] >= fault.c["at"]
    return statement.on_conflict_do_update(
        index_elements=["service", "where", "kind"],
        set_={
            "count": fault.c["count"] + new["count"],
            "message": sa.case((later, new["message"]), else_=fault.c["message"]),
            "at": sa.case((later, new["at"]), else_=fault.c["at"]),
        },
    )


def faults(connection: sa.Connection) -> list[Fault]:
    """All faults, added up by service, place and kind, with the latest message."""
    columns = [fault.c[name] for name in Fault.__struct_fields__]
    rows = connection.execute(sa.select(*columns).order_by(fault.c["service"], fault.c["where"], fault.c["kind"]))
    return [Fault(**row) for row in rows.mappings()]


Kind: TypeAlias = Literal["task", "rating", "verifier"]

COUNTED: Final = "outcome"
_TASK: Final = {"task_success": True, "task_failure": False}
_GOOD: Final = frozenset(("thumbs_up", "pass", "passed", "good", "correct"))
_BAD: Final = frozenset(("thumbs_down", "fail", "failed", "bad", "wrong", "incorrect"))
_VERIFIER: Final = "verifier"
_PASSES: Final = 0.5  # the least score with which a verifier agrees
_RESULTS: Final = {True: "good", False: "bad"}


class Outcome(NamedTuple):
    """What was judged, and whether it was good."""

    kind: Kind
    is_good: bool


class _Request(NamedTuple):
    service: str
    segment: str
    trace_id: str | None
    started_at: int
    ended_at: int


def outcome_of(said: Feedback) -> Outcome | None:
    """What a judgment says; None where it says nothing that can be read: a comment, an unknown label without a score,
    a score outside [-1, 1].

    A label that is known decides, else the score: a verifier's is good from 0.5 on, anybody else's above 0.
    """
    label = (said.label or "").strip().casefold().replace("-", "_").replace(" ", "_")
    if label in _TASK:
        return Outcome("task", _TASK[label])
    is_verifier = said.source.casefold().startswith(_VERIFIER)
    kind: Kind = "verifier" if is_verifier else "rating"
    if label in _GOOD or label in _BAD:
        return Outcome(kind, label in _GOOD)
    if said.score is None or not -1.0 <= said.score <= 1.0:
        return None
    return Outcome(kind, said.score >= _PASSES if is_verifier else said.score > 0.0)


def count_outcomes(connection: sa.Connection, given: Mapping[str, Feedback]) -> list[Delta]:
    """Increments of the totals for judgments whose request is stored, each once for ever.

    given: judgments by identity.
    """
    outcomes = {identity: found for identity, said in given.items() if (found := outcome_of(said)) is not None}
    requests = _requests(connection, {clean(given[identity].request_id) for identity in outcomes})
    ready = {identity: of for identity in outcomes if (of := requests.get(clean(given[identity].request_id)))}
    first = totals.uncounted(connection, ((identity, COUNTED, of.started_at) for identity, of in ready.items()))
    return [
        delta
        for identity, _ in sorted(first)
        for delta in _deltas(given[identity], outcomes[identity], ready[identity])
    ]


def _requests(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, _Request]:
    """Those of these requests that are stored and were drawn at random."""
    found: dict[str, _Request] = {}
    columns = (request.c.request_id, *(request.c[name] for name in _Request._fields))
    for ids in chunks(sorted(request_ids)):
        rows = connection.execute(sa.select(*columns).where(request.c.request_id.in_(ids), request.c.head_sampled))
        found.update((request_id, _Request(*rest)) for request_id, *rest in rows)
    return found


def _deltas(said: Feedback, outcome: Outcome, of: _Request) -> list[Delta]:
    """Both results, so that neither series is absent; the exemplar is a bad one's."""
    at = (said.created_at or of.ended_at) / 1e9
    exemplar = Exemplar(of.trace_id, 1.0, at) if of.trace_id and not outcome.is_good else None
    labels = (("service", of.service), ("segment", of.segment), ("outcome", outcome.kind))
    counts = ((result, is_good == outcome.is_good) for is_good, result in _RESULTS.items())
    return [
        Delta(OUTCOMES.name, (*labels, ("result", result)), float(is_it), exemplar if is_it else None)
        for result, is_it in counts
    ]


def of_requests(connection: sa.Connection, given: Sequence[TraceJudgment]) -> list[Feedback]:
    """The judgments with the ids of their requests: of several in one trace the one that began first. A tenant's are
    of its own requests only; without a name it is the one that may judge all."""
    stored: dict[str, list[tuple[str, str]]] = {}
    for trace_ids in chunks(dict.fromkeys(each.trace_id for each in given)):
        columns = sa.select(request.c.trace_id, request.c.request_id, request.c.tenant_id)
        rows = connection.execute(
            columns.where(request.c.trace_id.in_(trace_ids)).order_by(request.c.started_at, request.c.request_id)
        )
        for row in rows:
            stored.setdefault(row.trace_id, []).append((row.request_id, row.tenant_id))
    return [replace(each.said, request_id=_request_id(each, stored.get(each.trace_id, ()))) for each in given]


def _request_id(given: TraceJudgment, stored: Iterable[tuple[str, str | None]]) -> str:
    tenant = clean(given.tenant)
    own = (request_id for request_id, tenant_id in stored if not tenant or tenant_id == tenant)
    return next(own, _waiting(tenant, given.trace_id))


def _waiting(tenant: str, trace_id: str) -> str:
    return f"{tenant}:{trace_id}" if tenant else trace_id


def take_over(connection: sa.Connection, records: Iterable[RequestRecord]) -> None:
    """Give requests that were stored just now what waits for their traces."""
    latest_first = sorted(records, key=lambda record: (record.started_at, record.request_id), reverse=True)
    waited = {key: record.request_id for record in latest_first for key in _waiting_for(record)}
    if not waited:
        return
    waiting = find(connection, sorted(waited))
    kept: set[str] = set()
    for ids in chunks(sorted(waiting)):
        kept.update(connection.scalars(sa.select(request.c.request_id).where(request.c.request_id.in_(ids))))
    _hand_over(connection, {key: waited[key] for key in waiting if key not in kept})


def _waiting_for(record: RequestRecord) -> Iterator[str]:
    """Under which other ids judgments wait for a request: one that came with a tenant's token is judged with it."""
    tenant = clean(record.tenant_id) or ""
    for each in dict.fromkeys((tenant, "")):
        key = _waiting(each, clean(record.trace_id or ""))
        if record.trace_id and key != record.request_id and (each or not _came_with(tenant, record)):
            yield key


def _came_with(tenant: str, record: RequestRecord) -> bool:
    return bool(tenant) and record.request_id.startswith(f"{tenant}:")


_LABELS: Final = ("service", "segment", "stage", "severity")


def judge_page(connection: sa.Connection, given: PageJudgment) -> PageJudgment | None:
    """Write an answer and count it, unless the same one is there. Returns the answer before."""
    former = get_page(connection, given.alert_id)
    row = {
        "alert_id": clean(given.alert_id),
        **{name: clean(getattr(given, name)) for name in _LABELS},
        "judgment": given.judgment,
        "judged_at": bigint(given.judged_at),
        "comment": clean(given.comment),
    }
    statement = insert(connection, page_judgment).values(row)
    rest = {name: statement.excluded[name] for name in row if name != "alert_id"}
    connection.execute(statement.on_conflict_do_update(index_elements=["alert_id"], set_=rest))
    if former is None or _counted(former) != _counted(given):
        totals.add(connection, _page_deltas(given))
    return former


def _counted(given: PageJudgment) -> tuple[str, ...]:
    return (*(getattr(given, name) for name in _LABELS), given.judgment)


def _page_deltas(given: PageJudgment) -> list[Delta]:
    """Every answer that might have been given, so that none of the series is absent."""
    labels = tuple((name, clean(getattr(given, name))) for name in _LABELS)
    return [
        Delta(PAGE_JUDGMENTS.name, (*labels, ("judgment", one)), float(one == given.judgment))
        for one in ATTRIBUTES["judgment"]
    ]


def get_page(connection: sa.Connection, alert_id: str) -> PageJudgment | None:
    """What was said of an alert."""
    query = sa.select(page_judgment).where(page_judgment.c.alert_id == clean(alert_id))
    row = connection.execute(query).mappings().first()
    return None if row is None else PageJudgment(**row)


def find_pages(connection: sa.Connection, service: str | None, limit: int) -> list[PageJudgment]:
    """The newest answers, newest first."""
    query = sa.select(page_judgment).order_by(page_judgment.c.judged_at.desc(), page_judgment.c.alert_id).limit(limit)
    if service is not None:
        query = query.where(page_judgment.c.service == clean(service))
    return [PageJudgment(**row) for row in connection.execute(query).mappings()]


def count_pages(connection: sa.Connection, service: str | None) -> list[PageJudgmentCount]:
    """How many alerts got each answer, by service and severity."""
    columns = (page_judgment.c.service, page_judgment.c.severity, page_judgment.c.judgment)
    query = sa.select(*columns, sa.func.count().label("count")).group_by(*columns).order_by(*columns)
    if service is not None:
        query = query.where(page_judgment.c.service == clean(service))
    return [PageJudgmentCount(**row) for row in connection.execute(query).mappings()]
