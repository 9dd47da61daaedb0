"""Owns what arrives beside records: feedback, which may come days later or before its record, and faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from ragtrace.store.bulk import chunks, look_up
from ragtrace.store.database import insert
from ragtrace.store.once import uncounted
from ragtrace.store.tables import fault, feedback
from ragtrace.store.text import bigint, clean
from ragtrace.types import Fault, Feedback, RequestRecord, content_hash, replace

__all__ = ["add_faults", "add_feedback", "carried", "faults", "feedback_of", "hand_over", "judgements", "united"]

_FAULT: Final = "fault"
_FIELDS: Final = tuple(feedback.c[name] for name in Feedback.__struct_fields__)


def add_feedback(connection: sa.Connection, given: Sequence[Feedback]) -> None:
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


def feedback_of(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, list[Feedback]]:
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


def hand_over(connection: sa.Connection, given: Mapping[str, str]) -> None:
    """Give the feedback of one id to another one, for some pairs of them."""
    for request_id, said in feedback_of(connection, sorted(given)).items():
        to = given[request_id]
        connection.execute(sa.delete(feedback).where(feedback.c.request_id == request_id))
        add_feedback(connection, [_of_another(each, to) for each in said])


def _of_another(given: Feedback, request_id: str) -> Feedback:
    """The same judgement of another request; an identity that says what it judges goes along."""
    nameless = replace(given, feedback_id="")
    identity = "" if _identity(nameless) == given.feedback_id else given.feedback_id
    return replace(nameless, request_id=request_id, feedback_id=identity)


def carried(records: Mapping[str, RequestRecord]) -> list[Feedback]:
    """The judgements that these records carry, by the ids that the requests have in the store. They are stored apart as
    well: another record of the same request may be the newer one, and carry none."""
    return [replace(each, request_id=request_id) for request_id, record in records.items() for each in record.feedback]


def judgements(connection: sa.Connection, given: Iterable[Feedback], new: Iterable[str]) -> dict[str, Feedback]:
    """Judgements that may count from now on, by identity: those that arrive, and those that waited for the requests
    that are new."""
    waited = (each for found in feedback_of(connection, new).values() for each in found)
    return {_identity(each): each for each in (*given, *waited)}


def united(request_id: str, carried: Sequence[Feedback], joined: Sequence[Feedback]) -> tuple[Feedback, ...]:
    """The feedback that a record carried, then what came by itself, each once."""
    known = {_identity(replace(each, request_id=request_id)): each for each in reversed(carried)}
    return (*reversed(known.values()), *(each for each in joined if each.feedback_id not in known))


def _identity(given: Feedback) -> str:
    """Its id; where it has none, a hash of who says what of which request, whenever: the same judgement may come on a
    span, in a log and by ragtrace's own channel."""
    if given.feedback_id:
        return clean(given.feedback_id)
    said = replace(given, request_id=clean(given.request_id), created_at=0)
    return content_hash(msgspec.json.encode(said).decode())


def add_faults(connection: sa.Connection, given: Sequence[Fault]) -> None:
    """Add up faults by place and kind. One that carries its time is counted once, however often it is written."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for each in _uncounted(connection, given):
        key = (clean(each.service), clean(each.where), clean(each.kind))
        row = rows.setdefault(key, dict(zip(("service", "where", "kind"), key, strict=True)) | {"count": 0, "at": 0})
        row["count"] += each.count
        if bigint(each.at) >= row["at"]:
            row["message"], row["at"] = clean(each.message), bigint(each.at)
    if rows:
        connection.execute(_add(connection), [rows[key] for key in sorted(rows)])


def _uncounted(connection: sa.Connection, given: Sequence[Fault]) -> list[Fault]:
    timed = {content_hash(msgspec.json.encode(each).decode()): each for each in given if each.at}
    new = uncounted(connection, ((key, _FAULT, bigint(each.at)) for key, each in timed.items()))
    return [each for each in given if not each.at] + [timed[key] for key, _ in sorted(new)]


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
