"""Evaluation sets as RAGAS, RAGChecker and spreadsheets hold them, and gold sets: what a question needs.

A row of an evaluation set has no trace: its contexts are taken for what was retrieved and for what stood in the prompt,
in this order, and its time is the file's. A ground truth that names contexts becomes a gold set.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import msgspec

from ragtrace.errors import RecordError
from ragtrace.receive._spans import identifier, jsonish, question_in, text
from ragtrace.receive.columns import ColumnReader, Named, columns_of, is_empty, names_of, with_star
from ragtrace.record.coercion import Chunk, Unreadable, read_chunks, told_apart
from ragtrace.types import (
    Candidate,
    Facet,
    FacetKind,
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

__all__ = ["EvaluationRow", "Evaluations", "ids_in_cell", "read_evaluations", "read_golds", "rows_of"]

_LISTS: Final = ("results", "data", "samples", "examples", "rows")
_FIELD_LIMIT: Final = 100_000_000  # bytes of one field of a CSV file
_SEPARATOR: Final = re.compile(r"sep=(.)\s*", re.IGNORECASE)
_MARK_NAMES: Final = {",": "comma", ";": "semicolon", "\t": "tab"}
_NESTED: Final = ("inputs", "outputs")  # of LangSmith
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
_NUMPY: Final = re.compile(rf"\[\s*(?:{_QUOTED.pattern})(?:\s+(?:{_QUOTED.pattern}))+\s*\]", re.DOTALL)
"""A list of texts as numpy writes it: without commas, so that Python would read it as one text."""
NAMELESS: Final = "(a column without a name)"
_USUAL: Final = 0.5  # share of the rows that have the same number of contexts, from which fewer is worth a word
_NAMED: Final = 5  # rows with fewer contexts that are named


class EvaluationRow(NamedTuple):
    """A row as a record, and its gold set where the row names evidence."""

    record: RequestRecord
    gold: Gold | None


class Evaluations:
    """The rows of an evaluation file, and behind the last one what is known of its columns."""

    def __init__(self, path: Path, service: str, columns: Mapping[str, str], at: int | None) -> None:
        self._path = path
        self._service = service
        self._at = at
        self._columns = ColumnReader(columns)
        self._counts: dict[int, int] = {}

    def __iter__(self) -> Iterator[EvaluationRow]:
        moment = self._path.stat().st_mtime_ns if self._at is None else self._at
        for number, row in enumerate(rows_of(self._path), 1):
            if all(map(is_empty, row.values())):
                continue  # spreadsheets write lines that hold nothing
            where = f"{self._path}, row {number}"
            row = _flat(row)
            given = self._columns.of(where, row)
            contexts = _contexts(where, given["contexts"])
            self._counts[number] = len(contexts)
            yield _read(where, row, self._columns, given, contexts, self._service, moment)

    @property
    def read(self) -> dict[str, list[str]]:
        """What was read of the rows -> the columns that it was read from."""
        return self._columns.read

    @property
    def left_out(self) -> list[str]:
        """The columns that hold something and were not read."""
        return self._columns.left_out

    @property
    def warnings(self) -> list[str]:
        """Rows with fewer contexts than most rows have, or that no row has any; a sentence each."""
        counts = Counter(self._counts.values())
        if not counts:
            return []
        usual, often = max(counts.items(), key=lambda each: (each[1], each[0]))
        if not any(counts):
            return [self._without_contexts()]
        fewer = [(number, count) for number, count in self._counts.items() if count < usual]
        if not fewer or often < max(2, _USUAL * len(self._counts)):
            return []
        told = [f"row {number} has {_counted(count)}" for number, count in fewer[:_NAMED]]
        told += [f"{len(fewer) - _NAMED:,} more have fewer"] * (len(fewer) > _NAMED)
        return [f"{', '.join(told)}, where {often:,} of {len(self._counts):,} rows have {usual}"]

    def _without_contexts(self) -> str:
        groups = self._columns.unread_groups
        if not groups:
            return "no row has contexts; if a column holds them, give --column contexts=NAME"
        first, last = groups[0][0], groups[0][-1]
        return f"no row has contexts; if they stand in {first} … {last}, give --column 'contexts={with_star(first)}'"


def _counted(contexts: int) -> str:
    return f"{contexts} context{'s' if contexts > 1 else ''}" if contexts else "none"


def read_evaluations(
    path: Path, service: str, columns: Mapping[str, str] | None = None, at: int | None = None
) -> Evaluations:
    """The rows of a JSON, JSONL or CSV file.

    Args:
        columns: what is read -> the file's own name of it, over `columns.COLUMNS`; with a star for the numbers of
            contexts in columns of their own (`Passage *`).
        at: when the requests ran, in nanoseconds since the epoch; None: when the file was written.

    Raises: RecordError for columns that are none; while it is read RecordError naming the row, where it has no
    question, or neither contexts nor an answer; OSError.
    """
    return Evaluations(path, service, columns or {}, at)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON, JSONL, CSV or TSV file. Raises: RecordError, OSError."""
    if path.suffix.lower() in (".csv", ".tsv"):
        yield from _table(path)
        return
    try:
        body = path.read_text(encoding="utf-8-sig")
        try:
            rows = json.loads(body)
        except json.JSONDecodeError as error:
            rows = _lines(path, body, error)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is neither JSON nor JSON lines: {error}") from None
    if isinstance(rows, dict):
        rows = next((rows[name] for name in _LISTS if isinstance(rows.get(name), list)), [rows])
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict):
            raise RecordError(f"{path} holds {type(row).__name__}, where rows should be objects with a question")
        yield row


def _table(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a table. What parts its cells is what its first line has most of, or says (`sep=;`)."""
    csv.field_size_limit(_FIELD_LIMIT)
    with path.open(encoding="utf-8-sig", newline="") as opened:
        try:
            first = opened.readline()
            said = _SEPARATOR.fullmatch(first)
            if said is None:
                opened.seek(0)
            usual = "\t" if path.suffix.lower() == ".tsv" else ","
            mark = said[1] if said else max((usual, ",", ";", "\t"), key=first.count)
            lines = csv.reader(opened, delimiter=mark)
            names = _distinct_names(next(lines, []))
            for number, cells in enumerate((line for line in lines if line), 1):
                if any(cells[len(names) :]):
                    raise RecordError(
                        f"{path}, row {number} has {len(cells)} cells where the header names {len(names)}; put texts "
                        f"that hold a {_MARK_NAMES.get(mark, mark)} in quotation marks"
                    )
                yield dict(zip_longest(names, cells[: len(names)]))
        except (UnicodeDecodeError, csv.Error) as error:
            raise RecordError(f"{path} is no table in UTF-8: {error}; save it as CSV in UTF-8") from None


def _distinct_names(names: Sequence[str]) -> list[str]:
    """The names of a header; one that stands there again has a number, as pandas numbers it."""
    seen: Counter[str] = Counter()
    found = []
    for name in (name or NAMELESS for name in names):
        found.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of LangSmith with what stands below `inputs` and `outputs` under names of their own, joined by a dot."""
    nested = [name for name in _NESTED if isinstance(row.get(name), dict)]
    if not nested or "question" in row:
        return dict(row)
    inner = {f"{name}.{key}": value for name in nested for key, value in row[name].items()}
    return {**inner, **{name: value for name, value in row.items() if name not in nested}}


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


def _absent(where: str, row: Mapping[str, Any], columns: ColumnReader, *wanted: str) -> RecordError:
    """That nothing of what is wanted can be read in a row, and what mends it."""
    there = [name for what in wanted for name in columns.present(what, row)]
    said = "neither contexts nor an answer" if len(wanted) > 1 else f"no {wanted[0]}"
    if not there:
        return RecordError(f"{where} has {said}; name the column (--column {wanted[0]}=NAME); it has {columns_of(row)}")
    name = next((each for each in there if not is_empty(row[each])), there[0])
    holds = "is empty" if is_empty(row[name]) else "holds none"
    return RecordError(f"{where} has {said}; column {name!r} {holds}; fill it in or leave the row out")


def _read(
    where: str,
    row: Mapping[str, Any],
    columns: ColumnReader,
    fields: Mapping[str, Any],
    candidates: tuple[Candidate, ...],
    service: str,
    moment: int,
) -> EvaluationRow:
    question, answer = question_in(fields["question"]), text(fields, "answer")
    if question is None:
        raise _absent(where, row, columns, "question")
    if not candidates and answer is None:
        raise _absent(where, row, columns, "contexts", "answer")
    stages: list[StageRun] = [
        RetrieveRun(name="contexts", started_at=moment, ended_at=moment, query=question, candidates=candidates)
    ]
    chunks = tuple(
        PackedChunk(chunk_id=candidate.chunk_id, position=place, text=candidate.text)
        for place, candidate in enumerate(candidates, 1)
    )
    if chunks:
        stages.append(PackRun(name="contexts", started_at=moment, ended_at=moment, packing=Packing(chunks=chunks)))
    if answer is not None:
        stages.append(
            GenerateRun(name="answer", started_at=moment, ended_at=moment, generation=Generation(answer=answer))
        )
    ids = (candidate.chunk_id for candidate in candidates)
    said = "\n".join([service, identifier(fields["id"]) or "", question, answer or "", *ids])
    record = RequestRecord(
        request_id=content_hash(said),
        service=service,
        segment=identifier(fields["segment"]) or "default",
        session_id=identifier(fields["session"]),
        started_at=moment,
        ended_at=moment,
        query=Query(original=question),
        stages=tuple(stages),
    )
    evidence = tuple(chunk.chunk_id for chunk in _contexts(where, fields["reference_contexts"]))
    return EvaluationRow(record, Gold(service=service, question=question, chunk_ids=evidence) if evidence else None)


def _contexts(where: str, value: Any) -> tuple[Candidate, ...]:
    """Contexts in columns of their own, as a list, or as the text of one in JSON or in Python; any other text is one
    context."""
    if isinstance(value, list) and value and isinstance(value[0], Named):
        found = [_context(where, each) for each in value]
    else:
        found = _items_of(value)
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


def _context(where: str, named: Named) -> Any:
    column, value = named
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, dict):
        raise RecordError(
            f"{where}, column {column!r} holds {value!r:.60}; a context is a text, or an object with an id or a text; "
            "mend it, or empty it"
        )
    return value


def _items_of(value: Any) -> list[Any]:
    """What a cell of a table holds: a list, also one that was written as a text in JSON or in Python, or one value.
    Texts become items with a text."""
    if isinstance(value, str):
        if _NUMPY.fullmatch(value):
            return [{"text": ast.literal_eval(each)} for each in _QUOTED.findall(value)]
        for read in (json.loads, ast.literal_eval):
            if value[:1] == "[":
                try:
                    return _items_of(read(value))
                except (ValueError, SyntaxError, RecursionError, MemoryError):
                    continue
        return [{"text": value}] if value.strip() else []
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return [{"text": each} if isinstance(each, str) else each for each in items]


_GOLD_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("question", "query", "user_input", "text"),
    "chunk_ids": ("chunk_ids", "chunks", "evidence", "gold", "relevant", "doc_ids", "context_ids"),
    "query_class": ("query_class", "segment", "category"),
    "facets": ("facets", "required_facets"),
    "answer": ("answer", "reference", "reference_answer", "expected_output", "ground_truth"),
}
"""What is read of a row, and under which names it is looked for."""


def read_golds(path: Path, service: str, columns: Mapping[str, str] | None = None) -> Iterator[Gold]:
    """The gold sets of a JSON, JSONL or CSV file.

    An empty list of chunk ids, and no facets, says that no chunk answers the question.

    Facets are `{"kind": ..., "value": ..., "weight": ..., "aliases": [...]}`, or a mapping of kinds to values.

    Raises: RecordError naming the row; OSError.
    """
    names = names_of(columns or {}, _GOLD_COLUMNS)
    for number, row in enumerate(rows_of(path), 1):
        where = f"{path}, row {number}"
        absent = [name for name in (columns or {}).values() if name not in row]
        if absent and number == 1:  # a later row of JSON may lack what is optional
            raise RecordError(f"{where} has no column {absent[0]!r}; it has {columns_of(row)}")
        given = {key: next((row[name] for name in wanted if row.get(name)), None) for key, wanted in names.items()}
        empty = next((name for name in names["question"] if name in row), None)
        if given["question"] is None and empty is not None:
            raise RecordError(f"{where} has no question: {empty!r} is empty; fill it, or leave the row out")
        yield _gold(where, given, service, row, names["chunk_ids"])


def _gold(
    where: str, given: Mapping[str, Any], service: str, row: Mapping[str, Any], chunk_columns: Iterable[str]
) -> Gold:
    question = question_in(given["question"])
    if question is None:
        raise RecordError(
            f"{where} has no question; name its column (--column question=NAME); it has {columns_of(row)}"
        )
    chunk_ids = tuple(_ids(where, given["chunk_ids"]))
    facets = tuple(_facets(where, jsonish(given["facets"])))
    is_unanswerable = not chunk_ids and not facets and any(jsonish(row.get(name)) == [] for name in chunk_columns)
    if not chunk_ids and not facets and not is_unanswerable:
        remedy = f"name their columns (--column chunk_ids=NAME); it has {columns_of(row)}; [] says that none answers it"
        raise RecordError(f"{where} has neither chunk ids nor facets; {remedy}")
    return Gold(
        service=service,
        question=question,
        chunk_ids=chunk_ids,
        query_class=identifier(given["query_class"]),
        facets=facets,
        answer=given["answer"] if isinstance(given["answer"], str) else "",
        is_unanswerable=is_unanswerable,
    )


def ids_in_cell(text: str) -> list[str]:
    """The ids in a cell of a table: between semicolons where it has one, else between white space."""
    return [one.strip() for one in text.split(";") if one.strip()] if ";" in text else text.split()


def _ids(where: str, value: Any) -> Iterator[str]:
    for each in _items_of(value):
        said = each.get("id", each.get("chunk_id", each.get("text"))) if isinstance(each, dict) else each
        for one in ids_in_cell(said) if isinstance(value, str) and isinstance(said, str) else [said]:
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
