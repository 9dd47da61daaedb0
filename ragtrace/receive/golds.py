"""Reads gold sets: what a question needs, as a table of questions with chunk ids and required facets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from ragtrace.errors import RecordError
from ragtrace.receive.columns import columns_of, names_of
from ragtrace.receive.evaluations import items_of, rows_of
from ragtrace.receive.values import identifier, jsonish, question_in
from ragtrace.types import Facet, FacetKind, Gold

__all__ = ["COLUMNS", "read_golds"]

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("question", "query", "user_input", "text"),
    "chunk_ids": ("chunk_ids", "chunks", "evidence", "gold", "relevant", "doc_ids", "context_ids"),
    "query_class": ("query_class", "segment", "category"),
    "facets": ("facets", "required_facets"),
}
"""What is read of a row, and under which names it is looked for."""


def read_golds(path: Path, service: str, columns: Mapping[str, str] | None = None) -> Iterator[Gold]:
    """The gold sets of a JSON, JSONL or CSV file.

    Facets are `{"kind": ..., "value": ..., "weight": ..., "aliases": [...]}`, or a mapping of kinds to values.

    Raises: RecordError naming the row; OSError.
    """
    names = names_of(columns or {}, COLUMNS)
    for number, row in enumerate(rows_of(path), 1):
        where = f"{path}, row {number}"
        absent = [name for name in (columns or {}).values() if name not in row]
        if absent and number == 1:  # a later row of JSON may lack what is optional
            raise RecordError(f"{where} has no column {absent[0]!r}; it has {columns_of(row)}")
        given = {key: next((row[name] for name in wanted if row.get(name)), None) for key, wanted in names.items()}
        empty = next((name for name in names["question"] if name in row), None)
        if given["question"] is None and empty is not None:
            raise RecordError(f"{where} has no question: {empty!r} is empty; fill it, or leave the row out")
        yield _gold(where, given, service, row)


def _gold(where: str, given: Mapping[str, Any], service: str, row: Mapping[str, Any]) -> Gold:
    question = question_in(given["question"])
    if question is None:
        raise RecordError(
            f"{where} has no question; name its column (--column question=NAME); it has {columns_of(row)}"
        )
    chunk_ids = tuple(_ids(where, given["chunk_ids"]))
    facets = tuple(_facets(where, jsonish(given["facets"])))
    if not chunk_ids and not facets:
        remedy = f"name their columns (--column chunk_ids=NAME); it has {columns_of(row)}"
        raise RecordError(f"{where} has neither chunk ids nor facets; {remedy}")
    query_class = identifier(given["query_class"])
    return Gold(service=service, question=question, chunk_ids=chunk_ids, query_class=query_class, facets=facets)


def _ids(where: str, value: Any) -> Iterator[str]:
    for each in items_of(value):
        said = each.get("id", each.get("chunk_id", each.get("text"))) if isinstance(each, dict) else each
        for one in said.split() if isinstance(value, str) and isinstance(said, str) else [said]:
            found = identifier(one)
            if found is None:
                raise RecordError(f"{where} has a chunk id {one!r:.60}, where texts or whole numbers are expected")
            yield found


def _facets(where: str, value: Any) -> Iterator[Facet]:
    if isinstance(value, dict):
        pairs = [
            (kind, each) for kind, found in value.items() for each in (found if isinstance(found, list) else [found])
        ]
        value = [{"kind": kind, "value": each} for kind, each in pairs]
    for each in value if isinstance(value, list) else [] if value is None else [value]:
        try:
            yield msgspec.convert({**each, "source": "gold"} if isinstance(each, dict) else each, Facet)
        except msgspec.ValidationError as error:
            kinds = ", ".join(get_args(FacetKind))
            raise RecordError(f"{where} has a facet that cannot be read: {error}; kinds are {kinds}") from None
