"""Reads the questions of a replay: JSON lines, CSV or plain lines, each mistake with the number of its line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from ragtrace.errors import ConfigurationError
from ragtrace.receive.evaluations import ids_in_cell
from ragtrace.types import Facet, Gold, content_hash

__all__ = ["Fields", "Question", "is_usable_id", "read_questions"]

Row: TypeAlias = tuple[int, Mapping[str, Any]]  # the number of its line, and what stands there

_LONGEST_ID: Final = 200
_DRAWN: Final = 12  # characters of an id that is made from the question
_FORMATS: Final = ".jsonl (or .ndjson), .csv (or .tsv), or .txt with a question on each line"


@dataclass(frozen=True, slots=True)
class Fields:
    """Under which names the file holds what."""

    id: str = "id"
    question: str = "question"
    segment: str = "segment"
    gold: str = "gold"
    session: str = "session"
    document: str = "document"
    facets: str = "facets"
    answer: str = "answer"


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `gold`: the chunks that answer it; `facets`: what the evidence must meet; `answer`: a reference
    answer; each may be empty. `is_unanswerable`: no chunk answers it, so that declining is right."""

    id: str
    text: str
    segment: str | None = None
    session: str | None = None
    document: str | None = None
    gold: tuple[str, ...] = ()
    facets: tuple[Facet, ...] = ()
    answer: str = ""
    is_unanswerable: bool = False

    @property
    def says_what_is_needed(self) -> bool:
        """Whether it is an entry of a gold set."""
        return bool(self.gold or self.facets or self.is_unanswerable)

    def as_gold(self, service: str) -> Gold:
        """The question as an entry of the store's gold set."""
        return Gold(
            service=service,
            question=self.text,
            chunk_ids=self.gold,
            query_class=self.segment,
            facets=self.facets,
            answer=self.answer,
            is_unanswerable=self.is_unanswerable,
        )


def read_questions(file: Path, fields: Fields | None = None) -> tuple[Question, ...]:
    """The questions of a file, in its order. One without an id gets one that follows from its text.

    Raises: ConfigurationError for a file that cannot be read, a line that cannot be understood, an empty question, an
        id that is given twice, and a field that was named and that no line has.
    """
    fields = fields or Fields()
    rows = list(_read_rows(file))
    _check_fields(file, rows, fields)
    first: dict[str, int] = {}
    questions = []
    for number, row in rows:
        question = _question(f"{file} line {number}", row, fields)
        if question.id in first:
            raise ConfigurationError(
                f"{file} line {number} has the id {question.id!r} of line {first[question.id]}; give each question "
                "an id of its own"
            )
        first[question.id] = number
        questions.append(question)
    if not questions:
        raise ConfigurationError(f"{file} holds no question; give {_FORMATS}")
    _check_gold(file, questions)
    return tuple(questions)


def _read_rows(file: Path) -> Iterator[Row]:
    read = _READERS.get(file.suffix.lower())
    if read is None:
        raise ConfigurationError.of("questions", str(file), _FORMATS)
    try:
        text = file.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"questions {str(file)!r} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = file.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"{file} line {line} is not UTF-8; save the file as UTF-8") from None
    return read(file, text)


def _json_rows(file: Path, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
                json.dumps(row, ensure_ascii=False).encode()  # escapes can write what no text can hold
            except (ValueError, RecursionError) as error:
                raise ConfigurationError(f"{file} line {number} is no JSON: {error}") from None
            if not isinstance(row, dict):
                raise ConfigurationError(f'{file} line {number} is no JSON object; give {{"id": ..., "question": ...}}')
            yield number, row


def _table_rows(file: Path, text: str) -> Iterator[Row]:
    lines = csv.reader(io.StringIO(text), strict=True, delimiter="\t" if file.suffix.lower() == ".tsv" else ",")
    header: list[str] = []
    while True:
        number = lines.line_num + 1
        try:
            line = next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            raise ConfigurationError(f"{file} line {number} is no row of a table: {error}") from None
        if not header:
            header = [name.strip() for name in line]
        elif len(line) > len(header):
            raise ConfigurationError(f"{file} line {number} has {len(line)} cells, its header {len(header)}")
        elif any(line):
            yield number, dict(zip(header, line, strict=False))


def _text_rows(_file: Path, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, {"question": line}


_READERS: Final = {
    ".jsonl": _json_rows, ".ndjson": _json_rows, ".csv": _table_rows, ".tsv": _table_rows, ".txt": _text_rows,
}  # fmt: skip


def _check_fields(file: Path, rows: Iterable[Row], fields: Fields) -> None:
    """Whether each name that was given stands somewhere; the usual ones may be missing."""
    known = dict.fromkeys(name for _, row in rows for name in row)
    usual = Fields()
    for what in Fields.__slots__:
        name = getattr(fields, what)
        if name not in known and name != getattr(usual, what):
            raise ConfigurationError(f"{file} has no field {name!r} for the {what}; it has {', '.join(known)}")


def _question(place: str, row: Mapping[str, Any], fields: Fields) -> Question:
    if fields.question not in row:
        raise ConfigurationError(
            f"{place} has no field {fields.question!r}; it has {', '.join(map(str, row)) or 'none'}; name the one with "
            "the question by --question-field"
        )
    text = row[fields.question]
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(f"{place} has an empty question; give its text, or take the line out")
    text = text.strip()
    gold = _gold(place, row.get(fields.gold))
    facets = _facets(place, row.get(fields.facets))
    return Question(
        id=_label(place, row, fields.id, "id") or _id_of(text),
        text=text,
        segment=_label(place, row, fields.segment, "segment"),
        session=_label(place, row, fields.session, "session"),
        document=_label(place, row, fields.document, "document"),
        gold=gold or (),
        facets=facets,
        answer=_answer(place, row.get(fields.answer)),
        is_unanswerable=gold == () and not facets,
    )


def _answer(place: str, value: Any) -> str:
    """A text, or the first of several."""
    first = value[0] if isinstance(value, list) and value else value
    if first is None or first == []:
        return ""
    if not isinstance(first, str):
        raise ConfigurationError(f"{place} has an answer that is no text: {value!r}")
    return first.strip()


def _id_of(text: str) -> str:
    """Case and white space make no difference, as they make none for gold sets."""
    return content_hash(" ".join(text.casefold().split()))[:_DRAWN]


def _label(place: str, row: Mapping[str, Any], name: str, what: str) -> str | None:
    value = row.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigurationError(f"{place}: its {what} is neither text nor a whole number: {value!r}")
    label = str(value).strip()
    if not is_usable_id(label):
        raise ConfigurationError(f"{place}: its {what} cannot be used; give 1 to {_LONGEST_ID} printable letters")
    return label


def is_usable_id(text: str) -> bool:
    """Whether it can be the id, the segment or the session of a question."""
    label = text.strip()
    return bool(label) and len(label) <= _LONGEST_ID and label.isprintable()


def _gold(place: str, value: Any) -> tuple[str, ...] | None:
    """Chunk ids: a list, or text as the cell of a table holds them. Empty for `[]`: no chunk answers. None: unsaid."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    chunk_ids: Any = value
    if isinstance(value, str):
        chunk_ids = [] if value.strip() == "[]" else ids_in_cell(value)
    if not isinstance(chunk_ids, list) or any(
        isinstance(chunk_id, bool) or not isinstance(chunk_id, str | int) for chunk_id in chunk_ids
    ):
        raise ConfigurationError(f"{place} has gold that is no list of chunk ids: {value!r}")
    found = tuple(dict.fromkeys(name for chunk_id in chunk_ids if (name := str(chunk_id).strip())))
    return None if chunk_ids and not found else found


def _facets(place: str, value: Any) -> tuple[Facet, ...]:
    if value is None or value == "":
        return ()
    try:
        return msgspec.convert(value, tuple[Facet, ...])
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f'{place} has facets that cannot be read: {error}; give a list of {{"kind": ..., "value": ...}}'
        ) from None


def _check_gold(file: Path, questions: Iterable[Question]) -> None:
    """Gold is found by the question's words, so that one text has one gold set."""
    known: dict[str, Question] = {}
    for question in questions:
        other = known.setdefault(_id_of(question.text), question)
        said, before = ((one.gold, one.facets, one.is_unanswerable) for one in (question, other))
        if said != before:
            raise ConfigurationError(
                f"{file}: {other.id!r} and {question.id!r} ask the same and have different gold; give both the same"
            )
