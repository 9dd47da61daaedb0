"""Recognizes traces of which only late spans are at hand: the earlier ones were forgotten when their request was stored
long ago, and what was made of all of them stays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore, RecordError
from ragtrace.store.bulk import look_up
from ragtrace.store.payload import read_record
from ragtrace.store.span_rows import Assembled, TraceJudgement
from ragtrace.store.tables import request
from ragtrace.store.text import clean
from ragtrace.types import RequestRecord, replace

__all__ = ["judgements", "without"]

_LOG: Final = logging.getLogger("ragtrace.store")


def without(connection: sa.Connection, made: Sequence[Assembled]) -> list[Assembled]:
    """The traces, without the record of one that lacks spans of the request that is stored of it."""
    known = {request_id: span_ids for request_id, span_ids in _stored(connection, made) if span_ids}
    return [_whole(each, known.get(clean(each.record.request_id))) if each.record else each for each in made]


def _whole(made: Assembled, known: set[str] | None) -> Assembled:
    if known is None or not made.span_ids or known <= made.span_ids:
        return made
    _LOG.warning(
        "spans of trace %s came when the others had been forgotten: its request stays as it is; keep spans for longer"
        " (--keep of `ragtrace serve`) where they come so late",
        made.trace.trace_id,
    )
    said = () if made.record is None else made.record.feedback
    return made._replace(record=None, judgements=tuple(replace(each, request_id="") for each in said))


def _stored(connection: sa.Connection, made: Sequence[Assembled]) -> Iterator[tuple[str, set[str]]]:
    """The requests of these traces that are stored already, each with the spans of which it tells."""
    ids = dict.fromkeys(clean(each.record.request_id) for each in made if each.record)
    for request_id, payload in look_up(connection, (request.c.request_id, request.c.payload), ids):
        try:
            record, _ = read_record(request_id, payload)
        except (CorruptStore, RecordError) as error:
            _LOG.error("request %s is written anew: %s", request_id, error)
            continue
        yield request_id, _span_ids(record)


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
