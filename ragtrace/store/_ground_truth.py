"""Ground truth: what people say of single requests (labels, and the drawings by which these were chosen), and what a
question is known beforehand to need (gold sets, found by the question's words).

A label belongs to its request and goes with it. It holds whatever judges later: only the verdict beside it is of its
time. Outcomes and answers to alerts stand in tables of their own (`store/_feedback.py`)."""

from __future__ import annotations

import json
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from ragtrace.store._content import read_gold, write_gold
from ragtrace.store.database import bigint, chunks, clean, insert
from ragtrace.store.rows import COVERAGE, CorrectedRate, Drawing, Drawn, RequestLabel
from ragtrace.store.tables import diagnosis, drawing, drawn, gold, request, request_label
from ragtrace.types import Gold, content_hash

__all__ = [
    "draw",
    "drawings",
    "drawn_of",
    "find_golds",
    "find_labels",
    "forget_gold",
    "list_golds",
    "put_golds",
    "put_labels",
    "question_hash",
    "save_rates",
]

_THEN: Final = ("verdict", "judge", "analyzer_version")


def draw(connection: sa.Connection, given: Drawing, requests: Sequence[Drawn]) -> None:
    """Write a drawing with its requests, in place of what it had before; those that are gone are left out."""
    row = {
        "drawing_id": given.drawing_id,
        "service": clean(given.service),
        "since": bigint(given.since),
        "until": bigint(given.until),
        "versions": json.dumps(given.versions, sort_keys=True),
        "judge": given.judge,
        "drawn_at": bigint(given.drawn_at),
        "uniform": given.uniform,
        "population": given.population,
        "rates": None,
    }
    statement = insert(connection, drawing).values(row)
    rest = {name: statement.excluded[name] for name in row if name != "drawing_id"}
    connection.execute(statement.on_conflict_do_update(index_elements=["drawing_id"], set_=rest))
    connection.execute(sa.delete(drawn).where(drawn.c.drawing_id == given.drawing_id))
    there = _stored(connection, [each.request_id for each in requests])
    rows = [{"drawing_id": given.drawing_id, **asdict(each)} for each in requests if each.request_id in there]
    if rows:
        connection.execute(sa.insert(drawn), rows)


def drawings(connection: sa.Connection, service: str | None = None) -> list[Drawing]:
    """The drawings, newest first."""
    query = sa.select(drawing).order_by(drawing.c.drawn_at.desc(), drawing.c.drawing_id)
    if service is not None:
        query = query.where(drawing.c.service == clean(service))
    return [_drawing(row) for row in connection.execute(query).mappings()]


def _drawing(row: sa.RowMapping) -> Drawing:
    rates = tuple(CorrectedRate(**each) for each in json.loads(row["rates"] or "[]"))
    return Drawing(**{**row, "versions": json.loads(row["versions"]), "rates": rates})


def drawn_of(connection: sa.Connection, drawing_id: str) -> list[Drawn]:
    """The requests of a drawing that are still stored, in the order of the draw."""
    columns = [drawn.c[name] for name in Drawn.__slots__]
    query = sa.select(*columns).where(drawn.c.drawing_id == drawing_id).order_by(drawn.c.place, drawn.c.request_id)
    return [Drawn(*row) for row in connection.execute(query)]


def save_rates(connection: sa.Connection, drawing_id: str, rates: Sequence[CorrectedRate]) -> None:
    """Keep the rates of a drawing for the exporter, in place of those before."""
    body = json.dumps([asdict(each) for each in rates])
    connection.execute(sa.update(drawing).where(drawing.c.drawing_id == drawing_id).values(rates=body))


def put_labels(connection: sa.Connection, given: Iterable[RequestLabel]) -> set[str]:
    """Write labels, each in place of what the labeler said of the request before, with the verdict of now where the
    label has none. Returns the ids of their requests that are stored; the labels of others are not written."""
    labels = {(clean(each.request_id), clean(each.labeler)): each for each in given}
    there = _stored(connection, sorted({request_id for request_id, _ in labels}))
    verdicts = _verdicts(connection, sorted(there))
    rows = [_row(labels[key], key, verdicts) for key in sorted(labels) if key[0] in there]
    if rows:
        statement = insert(connection, request_label)
        rest = {column.name: statement.excluded[column.name] for column in request_label.c if not column.primary_key}
        connection.execute(statement.on_conflict_do_update(index_elements=["request_id", "labeler"], set_=rest), rows)
    return there


def _stored(connection: sa.Connection, request_ids: Sequence[str]) -> set[str]:
    """Those of these requests that are stored, locked against their deletion."""
    there: set[str] = set()
    for ids in chunks(request_ids):
        query = sa.select(request.c.request_id).where(request.c.request_id.in_(ids)).order_by(request.c.request_id)
        there.update(connection.scalars(query.with_for_update(read=True)))
    return there


def _verdicts(connection: sa.Connection, request_ids: Sequence[str]) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    columns = [diagnosis.c[name] for name in ("request_id", *_THEN)]
    for ids in chunks(request_ids):
        query = sa.select(*columns).where(diagnosis.c.request_id.in_(ids), diagnosis.c.kind == COVERAGE)
        rows = connection.execute(query).mappings()
        found.update((row["request_id"], {name: row[name] for name in _THEN}) for row in rows)
    return found


def _row(given: RequestLabel, key: tuple[str, str], verdicts: dict[str, dict[str, str | None]]) -> dict[str, Any]:
    now = verdicts.get(key[0], dict.fromkeys(_THEN))
    then = {name: getattr(given, name) for name in _THEN} if given.verdict is not None else now
    return {
        "request_id": key[0],
        "labeler": key[1],
        "labeled_at": bigint(given.labeled_at),
        "first_broken": given.first_broken,
        "stages": json.dumps(given.stages),
        "needed": None if given.needed is None else json.dumps([clean(each) for each in given.needed]),
        "note": clean(given.note),
        **then,
    }


def find_labels(
    connection: sa.Connection,
    *,
    request_ids: Sequence[str] | None = None,
    service: str | None = None,
    labeler: str | None = None,
) -> list[RequestLabel]:
    """Labels by request and labeler: of these requests, of a service, of a labeler; all by default."""
    query = sa.select(request_label).order_by(request_label.c.request_id, request_label.c.labeler)
    if service is not None:
        of_service = sa.select(request.c.request_id).where(request.c.service == clean(service))
        query = query.where(request_label.c.request_id.in_(of_service))
    if labeler is not None:
        query = query.where(request_label.c.labeler == clean(labeler))
    some = [None] if request_ids is None else list(chunks(sorted(set(request_ids))))
    return [
        _label(row)
        for ids in some
        for row in connection.execute(
            query if ids is None else query.where(request_label.c.request_id.in_(ids))
        ).mappings()
    ]


def _label(row: sa.RowMapping) -> RequestLabel:
    needed = None if row["needed"] is None else tuple(json.loads(row["needed"]))
    return RequestLabel(**{**row, "stages": json.loads(row["stages"]), "needed": needed})


def question_hash(question: str) -> str:
    """The key of a question: case, white space and Unicode's forms of one letter make no difference."""
    return content_hash(" ".join(unicodedata.normalize("NFKC", question).casefold().split()))


def put_golds(connection: sa.Connection, golds: Iterable[Gold]) -> int:
    """Store gold sets, replacing those of the same service and question. Returns how many."""
    rows = {
        (clean(entry.service), question_hash(entry.question)): {
            "service": clean(entry.service),
            "question_hash": question_hash(entry.question),
            "body": write_gold(entry),
            "question": clean(entry.question),
            "query_class": clean(entry.query_class),
            "chunk_ids": _json(entry.chunk_ids),
            "facets": _json(entry.facets),
        }
        for entry in golds
    }
    if rows:
        statement = insert(connection, gold)
        rest = {column.name: statement.excluded[column.name] for column in gold.c if not column.primary_key}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["service", "question_hash"], set_=rest),
            [rows[key] for key in sorted(rows)],
        )
    return len(rows)


def _json(value: object) -> str:
    """What SQL people read; the body is what counts."""
    return clean(msgspec.json.encode(value).decode())


def find_golds(connection: sa.Connection, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Gold]:
    """The gold sets of these (service, question) pairs, under the pairs as given."""
    asked: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for service, question in dict.fromkeys(pairs):
        asked[service][question_hash(question)].append(question)
    found: dict[tuple[str, str], Gold] = {}
    for service, questions in asked.items():
        for hashes in chunks(questions):
            columns = sa.select(gold.c.question_hash, gold.c.body)
            rows = connection.execute(columns.where(gold.c.service == clean(service), gold.c.question_hash.in_(hashes)))
            for row in rows:
                known = read_gold(row.body)
                found.update(((service, question), known) for question in questions[row.question_hash])
    return found


def list_golds(connection: sa.Connection, service: str | None, limit: int) -> list[Gold]:
    """Up to `limit` gold sets, by service and question."""
    query = sa.select(gold.c.body).order_by(gold.c.service, gold.c.question, gold.c.question_hash).limit(limit)
    if service is not None:
        query = query.where(gold.c.service == clean(service))
    return [read_gold(body) for body in connection.scalars(query)]


def forget_gold(connection: sa.Connection, service: str, question: str) -> bool:
    """Delete what is known of a question. False where nothing was."""
    given = sa.delete(gold).where(gold.c.service == clean(service), gold.c.question_hash == question_hash(question))
    return bool(connection.execute(given).rowcount)
