"""The gold sets: what a question needs, known beforehand and found by the question's words."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable

import msgspec
import sqlalchemy as sa

from ragtrace.store._content import read_gold, write_gold
from ragtrace.store.database import chunks, clean, insert
from ragtrace.store.tables import gold
from ragtrace.types import Gold, content_hash

__all__ = ["find", "forget", "listed", "put", "question_hash"]


def question_hash(question: str) -> str:
    """The key of a question: case, white space and Unicode's forms of one letter make no difference."""
    return content_hash(" ".join(unicodedata.normalize("NFKC", question).casefold().split()))


def put(connection: sa.Connection, golds: Iterable[Gold]) -> int:
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


def find(connection: sa.Connection, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Gold]:
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


def listed(connection: sa.Connection, service: str | None, limit: int) -> list[Gold]:
    """Up to `limit` gold sets, by service and question."""
    query = sa.select(gold.c.body).order_by(gold.c.service, gold.c.question, gold.c.question_hash).limit(limit)
    if service is not None:
        query = query.where(gold.c.service == clean(service))
    return [read_gold(body) for body in connection.scalars(query)]


def forget(connection: sa.Connection, service: str, question: str) -> bool:
    """Delete what is known of a question. False where nothing was."""
    given = sa.delete(gold).where(gold.c.service == clean(service), gold.c.question_hash == question_hash(question))
    return bool(connection.execute(given).rowcount)
