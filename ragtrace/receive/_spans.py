"""A span as it arrived, what a dialect reads out of it, and its attributes' values, read without trust in their types.

Values stay as they came (lists of mappings, texts, messages): ragtrace.record.coercion reads them, as it reads what a
decorated function returns. What does not fit is as good as absent.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from ragtrace.config import SWITCH
from ragtrace.record import conventions as names
from ragtrace.record.coercion import Unreadable, read_grades, read_sampled_ranking
from ragtrace.types import DroppedChunk, Feedback, HostGrades, RetrievalAction, SampledRanking, TokenUsage

__all__ = [
    "NOTHING",
    "Attributes",
    "Dialect",
    "GradedDocuments",
    "Groups",
    "Judgment",
    "Packed",
    "ReceivedSpan",
    "Reranked",
    "Retrieved",
    "SpanEvent",
    "SpanGeneration",
    "SpanReading",
    "Status",
    "Step",
    "column",
    "columns",
    "grouped",
    "has_gaps",
    "identifier",
    "jsonish",
    "listed",
    "mapping",
    "number",
    "question_in",
    "text",
    "usage",
    "whole",
]


Attributes: TypeAlias = dict[str, Any]
Status: TypeAlias = Literal["unset", "ok", "error"]


class SpanEvent(msgspec.Struct, frozen=True, gc=False):
    """An event on a span; `at` in nanoseconds since the epoch."""

    name: str
    at: int
    attributes: Attributes


_RANKING: Final = {
    "alpha": names.RANKING_ALPHA,
    "log_probability": names.RANKING_LOG_PROBABILITY,
    "places": names.RANKING_PLACES,
}


class ReceivedSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One span. Ids are lower-case hex, times are nanoseconds since the epoch.

    `dropped` and `dropped_events` count the attributes and the events that the sender's limits took away: what is
    missing then is not known to be absent.
    """

    trace_id: str
    span_id: str
    name: str
    parent_id: str | None = None
    started_at: int = 0
    ended_at: int = 0
    attributes: Attributes = {}
    events: tuple[SpanEvent, ...] = ()
    status: Status = "unset"
    message: str = ""
    scope: str = ""
    resource: Attributes = {}
    dropped: int = 0
    dropped_events: int = 0

    @property
    def service(self) -> str:
        """The service's name by OpenTelemetry's resource conventions."""
        return str(self.resource.get("service.name") or "unknown_service")

    @property
    def cites(self) -> bool | None:
        """Whether answers are meant to cite their sources, as the span or else its resource says; None where neither
        does."""
        said = self.attributes.get(names.CITES, self.resource.get(names.CITES))
        return SWITCH.get(str(said).strip().lower())

    @property
    def sampled_ranking(self) -> SampledRanking | None:
        """How the order of the candidates was drawn, where the span says so in numbers that can be."""
        if not any(name in self.attributes for name in _RANKING.values()):  # nearly always
            return None
        with suppress(Unreadable):
            return read_sampled_ranking({field: self.attributes.get(name) for field, name in _RANKING.items()})
        return None

    @property
    def graded(self) -> HostGrades | None:
        """The grades of the host's own evaluator, where the span has them by chunk, and the action that it took."""
        ids, grades = self.attributes.get(names.GRADE_IDS), self.attributes.get(names.GRADES)
        action = self.attributes.get(names.GRADE_ACTION)
        by_chunk = None
        if isinstance(ids, list) and isinstance(grades, list) and len(ids) == len(grades):
            by_chunk = {
                chunk_id: grade for chunk_id, grade in zip(ids, grades, strict=True) if isinstance(chunk_id, str | int)
            }
        if by_chunk is None and action is None:
            return None
        with suppress(Unreadable):
            return read_grades({"grades": by_chunk, "action": action})
        return None


class _Stated(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what is read."""


class Retrieved(_Stated, frozen=True, kw_only=True):
    """A retriever's call. `found` is what `read_chunks` takes, None where the span does not say it or it cannot be
    read; an empty list says that nothing was found. `incomplete`: candidates are missing that it may have returned.

    `ranks`: those of what is left, where they are known; else they are counted from 1.
    """

    query: str | None = None
    found: Any = None
    ranks: tuple[int, ...] | None = None
    top_k: int | None = None
    incomplete: bool = False


class Reranked(_Stated, frozen=True, kw_only=True):
    """A reranker's call. `given` and `kept` are None where the span does not say what went in or came out;
    `given_ids` are the ids of what went in, where the span names them all."""

    given: Any = None
    given_ids: tuple[str, ...] = ()
    kept: Any = None
    incomplete: bool = False


class Packed(_Stated, frozen=True, kw_only=True):
    """A packing that a span states; most dialects have none, and the prompt shows it."""

    chunks: Any = ()
    dropped: tuple[DroppedChunk, ...] = ()
    budget: int | None = None


class SpanGeneration(_Stated, frozen=True, kw_only=True):
    """A call of a language model. `prompt` is a text or a list of messages; `incomplete`: the span's limits took parts
    of them away."""

    prompt: Any = None
    answer: str | None = None
    model: str | None = None
    usage: TokenUsage | None = None
    finish_reason: str | None = None
    incomplete: bool = False


Step: TypeAlias = Retrieved | Reranked | Packed | SpanGeneration


class Judgment(_Stated, frozen=True, kw_only=True):
    """A judgment of the answer that a span or an event carries."""

    source: str
    score: float | None = None
    label: str | None = None
    comment: str | None = None
    at: int = 0

    def feedback(self, request_id: str, ended_at: int) -> Feedback:
        """The judgment of this request; `ended_at` is when it was made where it does not say so itself."""
        return Feedback(
            request_id=request_id,
            score=self.score,
            label=self.label,
            source=self.source,
            comment=self.comment,
            created_at=self.at or ended_at,
        )


class GradedDocuments(_Stated, frozen=True, kw_only=True):
    """Grades in [-1, 1] that another tool's span gives documents, in their order; `found` is what `read_chunks` takes.
    `source`: the step or the evaluator. `action`: what was done then, where it says so."""

    source: str
    found: Any = ()
    grades: tuple[float, ...] = ()
    action: RetrievalAction | None = None


class SpanReading(_Stated, frozen=True, kw_only=True):
    """All that one span says. `question` and `answer` count for the request when the span is its root, or the nearest
    below it that says so. `request_id`: the sender's own id of the request, which also says that the span is its root.
    `is_second_hand`: a record of the same request comes, or has come, by a channel that tells more. `error`: what the
    sender says of a failure elsewhere than in the span's status.
    """

    step: Step | None = None
    question: str | None = None
    answer: str | None = None
    request_id: str | None = None
    is_second_hand: bool = False
    error: str | None = None
    service: str | None = None
    session_id: str | None = None
    tenant_id: str | None = None
    segment: str | None = None
    query_class: str | None = None
    flags: tuple[str, ...] = ()
    head_sampled: bool | None = None
    head_probability: float | None = None
    versions: dict[str, str] = {}
    judgments: tuple[Judgment, ...] = ()
    graded: tuple[GradedDocuments, ...] = ()


NOTHING = SpanReading()


class Dialect(Protocol):
    """A vocabulary of span attributes."""

    @property
    def name(self) -> str:
        """How it is called in reports."""
        ...

    def recognizes(self, span: ReceivedSpan) -> bool:
        """Whether the span speaks it. Cheap: it is asked for every span."""
        ...

    def read(self, span: ReceivedSpan) -> SpanReading:
        """What the span says. Values of the wrong type are passed over, never an error."""
        ...


Groups: TypeAlias = dict[int, dict[str, Any]]
"""What a flattened list held, by its places."""

_Places: TypeAlias = list[tuple[int, list[tuple[int, str]]]]
"""The places of a list, each with its attributes: their place among all, and the rest of their names."""


class _Layout(NamedTuple):
    """The flattened lists of a span, by the beginning of their names. columns: of a list all of whose places have the
    same attributes, what takes all values of each, by the rest of its name."""

    lists: dict[str, _Places]
    columns: dict[str, dict[str, Callable[[Sequence[Any]], tuple[Any, ...]]]]


_DIGITS: Final = 8  # of a place
_USUAL: Final = 256  # characters of a name that is worth remembering
_FEW: Final = 512  # names of a span that are worth remembering,
_SHORT: Final = 32_768  # and their characters
_MOST: Final = 2**53  # whole numbers above are no counts of anything


def text(attributes: Mapping[str, Any], *names: str) -> str | None:
    """The first of these attributes that is a text with something in it."""
    for name in names:
        found = attributes.get(name)
        if isinstance(found, str) and found:
            return found
    return None


def identifier(value: Any) -> str | None:
    """An id, which some senders give as a number."""
    if isinstance(value, bool):
        return None
    return str(value) if isinstance(value, int) or (isinstance(value, str) and value) else None


def number(value: Any) -> float | None:
    """A finite number, also one that was written as a text."""
    if type(value) is float:
        return value if isfinite(value) else None
    if isinstance(value, bool):
        return None
    try:
        found = float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None
    return found if found is not None and isfinite(found) else None


def whole(attributes: Mapping[str, Any], *names: str) -> int | None:
    """The first of these attributes that is a whole number >= 0."""
    for name in names:
        found = number(attributes.get(name))
        if found is not None and 0 <= found < _MOST and found == int(found):
            return int(found)
    return None


def usage(given: int | None, made: int | None) -> TokenUsage | None:
    """Token counts; None where none is known."""
    return None if given is None and made is None else TokenUsage(input_tokens=given, output_tokens=made)


def jsonish(value: Any) -> Any:
    """The value that a text holds as JSON; other texts, and other values, as they are."""
    if not isinstance(value, str) or value[:1] not in ("{", "[", '"'):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        pass  # what follows reads more: halves of characters, NaN
    try:
        found = json.loads(value)
        return _whole_characters(found) if "\\ud" in value or "\\uD" in value else found
    except (ValueError, RecursionError):
        return value


def _whole_characters(found: Any) -> Any:
    """Halves of characters, as JavaScript writes a text that was cut, become U+FFFD: no record can hold them."""
    said = json.dumps(found, ensure_ascii=False)
    return json.loads(said.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def mapping(value: Any) -> dict[str, Any]:
    """A mapping, also one that was written as JSON; empty for all else."""
    found = jsonish(value)
    return found if isinstance(found, dict) else {}


def listed(value: Any, *names: str) -> list[Any] | None:
    """The mappings and texts of a list, also one in JSON, or one that a mapping holds under one of these names.

    None where there is no such list, or nothing in it can be read: what it held is not known then.
    """
    found = jsonish(value)
    if isinstance(found, dict):
        found = next((found[name] for name in names if isinstance(found.get(name), list)), None)
    if not isinstance(found, list):
        return None
    items = [each for each in found if isinstance(each, dict | str)]
    return items if items or not found else None


def grouped(attributes: Attributes, prefix: str) -> Groups:
    """Flattened lists put together again: `prefix.N.rest = value` becomes {N: {rest: value}}, by N."""
    lists = _layout_of(tuple(attributes)).lists
    values = list(attributes.values())
    return {number: {rest: values[at] for at, rest in group} for number, group in lists.get(prefix, ())}


def columns(attributes: Attributes, prefix: str) -> dict[str, tuple[Any, ...]] | None:
    """The same by `rest`, in the order of the places; sooner by far. None where there are fewer than two places, the
    first is not 0, one is missing, or one has what another has not."""
    taking = _layout_of(tuple(attributes)).columns.get(prefix)
    if taking is None:
        return None
    values = tuple(attributes.values())
    return {rest: take(values) for rest, take in taking.items()}


def column(attributes: Attributes, prefix: str, rest: str) -> dict[int, Any]:
    """Of each place of a flattened list one value, None where it lacks that: {N: `prefix.N.rest`}. Sooner than all."""
    lists, columns = _layout_of(tuple(attributes))
    values = list(attributes.values())
    if prefix in columns and rest in columns[prefix]:
        return dict(enumerate(columns[prefix][rest](values)))
    return {
        number: next((values[at] for at, name in group if name == rest), None)
        for number, group in lists.get(prefix, ())
    }


def has_gaps(*lists: dict[int, Any] | Sequence[int]) -> bool:
    """Whether the first of these places are missing: the SDK drops the oldest attributes first."""
    return any(len(places) != next(reversed(places), -1) + 1 for places in lists)


def _layout_of(names: tuple[str, ...]) -> _Layout:
    is_usual = len(names) <= _FEW and sum(map(len, names)) <= _SHORT
    return _known_layout(names) if is_usual else _layout(names)


@lru_cache(maxsize=64)
def _known_layout(names: tuple[str, ...]) -> _Layout:
    """A sender's names come again with every trace."""
    return _layout(names)


def _layout(names: Iterable[str]) -> _Layout:
    """The lists of flattened names."""
    found: defaultdict[str, defaultdict[int, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    for at, name in enumerate(names):
        prefix, number, rest = _known_place(name) if len(name) <= _USUAL else _place(name)
        if prefix is not None:
            found[prefix][number].append((at, rest))
    lists = {prefix: sorted(groups.items()) for prefix, groups in found.items()}
    columns = {prefix: taking for prefix, places in lists.items() if (taking := _columns_of(places))}
    return _Layout(lists, columns)


def _columns_of(places: _Places) -> dict[str, Callable[[Sequence[Any]], tuple[Any, ...]]] | None:
    first = [rest for _, rest in places[0][1]]
    if len(places) < 2 or places[-1][0] != len(places) - 1 or len(set(first)) < len(first):
        return None
    if any([rest for _, rest in group] != first for _, group in places):
        return None
    return {rest: itemgetter(*(group[at][0] for _, group in places)) for at, rest in enumerate(first)}


@lru_cache(maxsize=16_384)
def _known_place(name: str) -> tuple[str | None, int, str]:
    return _place(name)


def _place(name: str) -> tuple[str | None, int, str]:
    """The list of an attribute's name, its place and what follows."""
    parts = name.split(".")
    for number, part in enumerate(parts[1:-1], 1):
        if part.isdecimal() and len(part) < _DIGITS:
            return ".".join(parts[:number]), int(part), ".".join(parts[number + 1 :])
    return None, 0, ""


_OTHERS: Final = ("assistant", "ai", "system", "developer", "tool", "function")
"""Whose messages ask nothing."""

_QUESTIONS = ("question", "query", "input", "query_str", "q", "prompt", "text", "user_input", "str_or_query_bundle")


def question_in(value: Any, depth: int = 4) -> str | None:
    """The question in what a chain was given: a text, a mapping with a usual key, the last message of a user."""
    value = jsonish(value)
    if isinstance(value, str):
        return value or None
    if depth and isinstance(value, dict):
        wrapped = ("inputs", "kwargs", "query_bundle", "kwds", "messages", "args", "input")
        for name in (*_QUESTIONS, *wrapped):
            if name in value and (found := question_in(value[name], depth - 1)):
                return found
        if value.get("role", value.get("type")) not in _OTHERS and isinstance(value.get("content"), str):
            return value["content"] or None
        return None
    if depth and isinstance(value, list):
        return _last(value, depth)
    return None


def _last(values: Iterable[Any], depth: int) -> str | None:
    found = [question_in(each, depth - 1) for each in values]
    return next((each for each in reversed(found) if each), None)
