"""Reads evaluation sets as RAGAS, RAGChecker and spreadsheets hold them: question, contexts, answer, ground truth.

A row has no trace: its contexts are taken for what was retrieved and for what stood in the prompt, in this order, and
its time is the file's. A ground truth that names contexts becomes a gold set.
"""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ragtrace.errors import RecordError
from ragtrace.receive.values import identifier, question_in, text
from ragtrace.record.coercion import Chunk, Unreadable, read_chunks, told_apart
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    Gold,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    StageRun,
    content_hash,
)

__all__ = ["COLUMNS", "Row", "columns_of", "items_of", "names_of", "read_evaluations", "rows_of"]

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "query_id", "question_id", "sample_id"),
    "question": ("question", "query", "user_input", "input"),
    "contexts": ("contexts", "retrieved_contexts", "retrieved_context", "context", "documents"),
    "answer": ("answer", "response", "output", "generated_answer"),
    "reference_contexts": ("reference_contexts", "ground_truth_contexts", "gold_contexts", "supporting_contexts"),
    "segment": ("segment", "query_class", "category", "domain"),
    "session": ("session", "session_id"),
}
"""What is read of a row, and under which names it is looked for."""

_LISTS: Final = ("results", "data", "samples", "examples", "rows")
_FIELD_LIMIT: Final = 100_000_000  # bytes of one field of a CSV file


class Row(NamedTuple):
    """A row as a record, and its gold set where the row names evidence."""

    record: RequestRecord
    gold: Gold | None


def read_evaluations(
    path: Path, service: str, columns: Mapping[str, str] | None = None, at: int | None = None
) -> Iterator[Row]:
    """The rows of a JSON, JSONL or CSV file.

    Args:
        columns: what is read -> the file's own name of it, over `COLUMNS`.
        at: when the requests ran, in nanoseconds since the epoch; None: when the file was written.

    Raises: RecordError naming the row, where it has no question, or neither contexts nor an answer; OSError.
    """
    names = names_of(columns or {}, COLUMNS)
    moment = path.stat().st_mtime_ns if at is None else at
    for number, row in enumerate(rows_of(path), 1):
        where = f"{path}, row {number}"
        absent = [value for value in (columns or {}).values() if value not in row]
        if absent:
            raise RecordError(f"{where} has no column {absent[0]!r}; it has {columns_of(row)}")
        yield _read(where, row, names, service, moment)


def names_of(columns: Mapping[str, str], known: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """What is read -> a file's names of it: those that are known, unless `columns` names its own.

    Raises: RecordError for a column that is none that is read.
    """
    unknown = sorted(columns.keys() - known.keys())
    if unknown:
        raise RecordError(f"column {unknown[0]!r} is none that is read; there are {', '.join(known)}")
    return {**known, **{key: (value,) for key, value in columns.items()}}


def columns_of(row: Mapping[str, Any]) -> str:
    """The names of a row's columns, for a message."""
    return ", ".join(map(str, row))


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON, JSONL, CSV or TSV file. Raises: RecordError, OSError."""
    if path.suffix.lower() in (".csv", ".tsv"):
        csv.field_size_limit(_FIELD_LIMIT)
        with path.open(encoding="utf-8-sig", newline="") as opened:
            try:
                yield from csv.DictReader(opened, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            except (UnicodeDecodeError, csv.Error) as error:
                raise RecordError(f"{path} is no table in UTF-8: {error}; save it as CSV in UTF-8") from None
        return
    try:
        body = path.read_text(encoding="utf-8-sig")
        try:
            found = json.loads(body)
        except json.JSONDecodeError as error:
            found = _lines(path, body, error)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is neither JSON nor JSON lines: {error}") from None
    if isinstance(found, dict):
        found = next((found[name] for name in _LISTS if isinstance(found.get(name), list)), [found])
    for each in found if isinstance(found, list) else []:
        if not isinstance(each, dict):
            raise RecordError(f"{path} holds {type(each).__name__}, where rows should be objects with a question")
        yield each


def _lines(path: Path, body: str, whole: json.JSONDecodeError) -> list[Any]:
    """JSON lines. Raises: RecordError naming the line; `whole` where the first is none: it is one document then."""
    found: list[Any] = []
    for number, line in enumerate(body.splitlines(), 1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError as error:
                if not found:
                    raise whole from None
                raise RecordError(
                    f"{path}, line {number} is no JSON: {error.msg} at character {error.pos + 1}"
                ) from None
    return found


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if not _is_empty(row.get(name))), None)


def _is_empty(value: Any) -> bool:
    """Nothing, also as pandas writes it: NaN is the only value that is not itself."""
    return value in (None, "", []) or value != value


def _absent(where: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]], *wanted: str) -> RecordError:
    """That nothing of what is wanted can be read in a row, and what mends it."""
    there = [name for key in wanted for name in names[key] if name in row]
    what = "neither contexts nor an answer" if len(wanted) > 1 else f"no {wanted[0]}"
    if not there:
        return RecordError(f"{where} has {what}; name the column (--column {wanted[0]}=NAME); it has {columns_of(row)}")
    name = next((each for each in there if not _is_empty(row[each])), there[0])
    holds = "is empty" if _is_empty(row[name]) else "holds none"
    return RecordError(f"{where} has {what}; column {name!r} {holds}; fill it in or leave the row out")


def _read(where: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]], service: str, at: int) -> Row:
    given = {key: _first(row, wanted) for key, wanted in names.items()}
    question, answer = question_in(given["question"]), text(given, "answer")
    candidates = _contexts(where, given["contexts"])
    if question is None:
        raise _absent(where, row, names, "question")
    if not candidates and answer is None:
        raise _absent(where, row, names, "contexts", "answer")
    stages: list[StageRun] = [
        RetrieveRun(name="contexts", started_at=at, ended_at=at, query=question, candidates=candidates)
    ]
    chunks = tuple(
        PackedChunk(chunk_id=each.chunk_id, position=place, text=each.text) for place, each in enumerate(candidates, 1)
    )
    if chunks:
        stages.append(PackRun(name="contexts", started_at=at, ended_at=at, packing=Packing(chunks=chunks)))
    if answer is not None:
        stages.append(GenerateRun(name="answer", started_at=at, ended_at=at, generation=Generation(answer=answer)))
    ids = (each.chunk_id for each in candidates)
    said = "\n".join([service, identifier(given["id"]) or "", question, answer or "", *ids])
    record = RequestRecord(
        request_id=content_hash(said),
        service=service,
        segment=identifier(given["segment"]) or "default",
        session_id=identifier(given["session"]),
        started_at=at,
        ended_at=at,
        query=Query(original=question),
        stages=tuple(stages),
    )
    evidence = tuple(each.chunk_id for each in _contexts(where, given["reference_contexts"]))
    return Row(record, Gold(service=service, question=question, chunk_ids=evidence) if evidence else None)


def _contexts(where: str, value: Any) -> tuple[Candidate, ...]:
    """Contexts as a list, or as the text of one in JSON or in Python; any other text is one context."""
    found = items_of(value)
    if not found:
        return ()
    try:
        chunks = read_chunks(found)
    except Unreadable as error:
        raise RecordError(f"{where} has contexts that cannot be read: {error}") from None
    if chunks.unread:
        raise RecordError(f"{where} has a context of type {chunks.unread[0]} with neither an id nor a text")
    unique: dict[str, Chunk] = {}
    for _, chunk in told_apart(chunks.ranked):
        unique.setdefault(chunk.identity, chunk)
    return tuple(chunk.candidate(rank) for rank, chunk in enumerate(unique.values(), 1))


def items_of(value: Any) -> list[Any]:
    """What a cell of a table holds: a list, also one that was written as a text in JSON or in Python, or one value.
    Texts become items with a text."""
    if isinstance(value, str):
        for read in (json.loads, ast.literal_eval):
            if value[:1] == "[":
                try:
                    return items_of(read(value))
                except (ValueError, SyntaxError, RecursionError, MemoryError):
                    continue
        return [{"text": value}] if value.strip() else []
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return [{"text": each} if isinstance(each, str) else each for each in items]
