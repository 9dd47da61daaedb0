"""Recognizes traces of which only late spans are at hand: the earlier ones were forgotten when their request was stored
long ago, and what was made of all of them stays. The late ones may be a request of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from ragtrace.errors import CorruptStore, RecordError
from ragtrace.store import request_identity
from ragtrace.store.content import read_record
from ragtrace.store.database import clean, look_up
from ragtrace.store.rows import Assembled, TraceJudgement
from ragtrace.store.tables import request
from ragtrace.types import GenerateRun, RequestRecord, RetrieveRun, replace

__all__ = ["judgements", "without"]

_LOG: Final = logging.getLogger("ragtrace.store")


class _Known(NamedTuple):
    """A stored request, with the spans of which it tells."""

    request_id: str
    ended_at: int
    span_ids: set[str]


def without(connection: sa.Connection, made: Sequence[Assembled]) -> list[Assembled]:
    """The traces, without the record of one that lacks spans of the request that is stored of it. A record that is of
    another request, which began after that one had ended, has an id of its own."""
    ids = dict.fromkeys(clean(each.record.request_id) for each in made if each.record)
    stored = look_up(connection, (request.c.request_id, request.c.ended_at, request.c.payload), ids)
    known = {each.request_id: each for each in _known(stored) if each.span_ids}
    return [_whole(connection, each, known) for each in made]


def _whole(connection: sa.Connection, made: Assembled, known: Mapping[str, _Known]) -> Assembled:
    stored = known.get(clean(made.record.request_id)) if made.record else None
    if made.record is None or stored is None or not made.span_ids or stored.span_ids <= made.span_ids:
        return made
    if stored.span_ids.isdisjoint(made.span_ids):
        apart = _apart(connection, made.record, made.span_ids, stored)
        if apart is not None:
            return made._replace(record=apart)
    _LOG.warning(
        "spans of trace %s came when the others had been forgotten: its request stays as it is; keep spans for longer"
        " (--keep of `ragtrace serve`) where they come so late",
        made.trace.trace_id,
    )
    return made._replace(record=None, judgements=tuple(replace(each, request_id="") for each in made.record.feedback))


def _apart(
    connection: sa.Connection, record: RequestRecord, span_ids: Set[str], stored: _Known
) -> RequestRecord | None:
    """A later request of a trace, under its own id: one that searched and answered after the first one had ended. None
    for spans that may be of that one, such as the call of a model that judges it."""
    columns = (request.c.request_id, request.c.ended_at, request.c.payload)
    given = f"{clean(record.request_id)}~"
    later = sa.select(*columns).where(
        request.c.trace_id == clean(record.trace_id), sa.func.substr(request.c.request_id, 1, len(given)) == given
    )
    for each in _known(map(tuple, connection.execute(later))):
        if not each.span_ids.isdisjoint(span_ids):
            return replace(record, request_id=each.request_id) if each.span_ids <= span_ids else None
    kinds = {type(run) for run in record.stages}
    follows = record.started_at >= stored.ended_at
    return request_identity.another(record) if follows and {RetrieveRun, GenerateRun} <= kinds else None


def _known(rows: Iterable[tuple[Any, ...]]) -> Iterator[_Known]:
    for request_id, ended_at, payload in rows:
        try:
            record, _ = read_record(request_id, payload)
        except (CorruptStore, RecordError) as error:
            _LOG.error("request %s is written anew: %s", request_id, error)
            continue
        yield _Known(request_id, ended_at, _span_ids(record))


def _span_ids(record: RequestRecord) -> set[str]:
    return {each for each in (record.span_id, *(run.span_id for run in record.stages)) if each}


def judgements(made: Sequence[Assembled]) -> list[TraceJudgement]:
    """What judges requests whose records are not among these."""
    return [
        TraceJudgement(each.trace.tenant, each.trace.trace_id, said)
        for each in made
        if each.record is None
        for said in each.judgements
    ]
