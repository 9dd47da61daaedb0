"""The inputs of a replay: its questions, and the application's own function that answers them.

Questions are JSON lines, CSV or plain lines; each mistake is told with the number of its line. The function is found by
`module:function`, and called whatever kind of function it is.
"""

from __future__ import annotations

import asyncio
import contextvars
import csv
import functools
import inspect
import io
import json
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypeVar

import msgspec

from ragtrace.errors import ConfigurationError
from ragtrace.object_loading import load_object
from ragtrace.receive.evaluations import ids_in_cell
from ragtrace.types import Facet, Gold, content_hash

__all__ = ["Caller", "EventLoop", "Fields", "Question", "is_usable_id", "load_pipeline", "read_questions"]

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


T = TypeVar("T")
Pipeline = Callable[[str], Any]

_ALLOWED: Final = "module:function, as in app.rag:answer, or module:factory() for a function that makes it"


def load_pipeline(name: str) -> Pipeline:
    """The function that `module:function` names; with `()` behind it, what that function returns.

    The module is looked for in the current folder too. Raises: ConfigurationError.
    """
    function = load_object(name, "pipeline", _ALLOWED)
    if not callable(function) or isinstance(function, type):
        raise ConfigurationError(
            f"pipeline {name!r} is {_kind(function)} and no function that takes a question; give {_ALLOWED}"
        )
    _check_arguments(name, function)
    return function  # type: ignore[no-any-return]


def _kind(found: Any) -> str:
    return f"class {found.__qualname__}" if isinstance(found, type) else f"of type {type(found).__qualname__}"


def _check_arguments(name: str, function: Pipeline) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some of C tell nothing
        return
    try:
        signature.bind("question")
    except TypeError as error:
        raise ConfigurationError(
            f"pipeline {name!r} takes {signature} ({error}); give a function that can be called with the question alone"
        ) from None


class EventLoop:
    """One event loop, in a thread of its own, for all that a pipeline awaits; it runs from its first use on."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """What `work` gives, in the context of the caller; it is cancelled when that takes longer than `timeout`."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="ragtrace-replay-loop", daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.done():  # it is the work's own
                raise
            future.cancel()
            raise _too_long(timeout) from None
        except KeyboardInterrupt:
            future.cancel()
            raise


class Caller:
    """Calls a pipeline with one question after the other. Each worker of a replay has one of its own.

    With a timeout, a function that is not async runs in a thread beside the caller's: nothing can stop it, so a thread
    in which it hangs is left behind.
    """

    def __init__(self, pipeline: Pipeline, loop: EventLoop, timeout: float | None = None) -> None:
        self._pipeline = pipeline
        self._loop = loop
        self._timeout = timeout
        self._is_async = _is_async(pipeline)
        self._thread: _Thread | None = None

    def __call__(self, question: str) -> None:
        """Ask, and read a stream to its end. Raises: what the pipeline raises; TimeoutError when it takes too long."""
        if self._timeout is None or self._is_async:
            self._ask(question, self._timeout)
        else:
            self._ask_beside(question, self._timeout)

    def _ask(self, question: str, timeout: float | None = None) -> None:
        value = self._pipeline(question)
        if inspect.isgenerator(value):
            deque(value, maxlen=0)
        elif inspect.isasyncgen(value) or inspect.isawaitable(value):
            self._loop.run(_read(value), timeout)

    def _ask_beside(self, question: str, timeout: float) -> None:
        self._thread = self._thread or _Thread()
        try:
            self._thread.run(functools.partial(self._ask, question), timeout)
        except queue.Empty:
            self._thread = None
            raise _too_long(timeout) from None


def _is_async(pipeline: Pipeline) -> bool:
    of_object = type(pipeline).__call__  # of an object that is called like a function
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        for each in (pipeline, of_object, inspect.unwrap(pipeline))
    )


async def _read(value: Any) -> None:
    """Wait for a value, and read a stream to its end."""
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        async for _ in value:
            pass
    elif inspect.isgenerator(value):
        deque(value, maxlen=0)


def _too_long(timeout: float | None) -> TimeoutError:
    return TimeoutError(f"no answer within {timeout:g} s")


class _Thread:
    """A thread that runs what it is given, in the context of whom it was given by."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], None], queue.SimpleQueue[BaseException | None]] | None]
        self._work = queue.SimpleQueue()
        threading.Thread(target=self._run, name="ragtrace-replay-call", daemon=True).start()

    def run(self, work: Callable[[], None], timeout: float) -> None:
        """Wait for the end of `work`. Raises: what it raises; queue.Empty when it goes on, and then ends the thread."""
        ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._work.put((functools.partial(contextvars.copy_context().run, work), ended))
        try:
            error = ended.get(timeout=timeout)
        except BaseException:
            self._work.put(None)  # once it is through
            raise
        if error is not None:
            raise error

    def _run(self) -> None:
        while (given := self._work.get()) is not None:
            work, ended = given
            try:
                work()
            except BaseException as error:
                ended.put(error)
            else:
                ended.put(None)
