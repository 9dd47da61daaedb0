"""The list of requests: the filter that a link carries, a page of rows with their first words, and the next page."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final
from urllib.parse import quote, urlencode

from ragtrace.errors import ConfigurationError, CorruptStore, RecordError
from ragtrace.export.findings import verdict_brief
from ragtrace.formats import parse_time
from ragtrace.registry.wording import REASONS, STATES, VERDICTS, reason_words
from ragtrace.store import Listing, Position, RequestRow, Store
from ragtrace.store.tables import DISTANT, STAGE_NAMES
from ragtrace.types import GenerateRun, RequestRecord
from ragtrace.web._access import Viewer

__all__ = ["CHOICES", "Row", "RowPage", "path_part", "query_part", "read_filter", "read_time", "rows_page"]

_LOG: Final = logging.getLogger("ragtrace.web")
_ROWS: Final = 25
_SCAN: Final = 4_000  # requests that are looked at for a page
_WORDS: Final = 160  # characters of a question or an answer
_LONGEST: Final = 300  # characters of a filter's value
_FURTHEST: Final = 4_000  # characters of a name in an address: what is longer was no name, and leads nowhere
_PARAMETERS: Final = {"tenant_id": None, "session_id": "session", "is_labeled": "labeled", "oldest_first": "order"}
_PLACE: Final = re.compile(r"(-?\d{1,19}):(.{1,2000})", re.DOTALL)

CHOICES: Final[dict[str, dict[str, str]]] = {
    "stage": {name: name for name in STAGE_NAMES},
    "verdict": VERDICTS,
    "doubt": {"suspected": STATES["suspected"], "not_known": STATES["not_known"]},
    "in_doubt": {name: name for name in STAGE_NAMES} | {DISTANT: reason_words(DISTANT)},
    "reason": REASONS,
    "status": {"ok": "ok", "error": "error"},
    "labeled": {"yes": "yes", "no": "no"},
    "order": {"newest": "newest first", "oldest": "oldest first"},
}
"""What the filters with closed lists allow, by parameter."""


@dataclass(frozen=True, slots=True)
class Row:
    """A request in the list. question, answer: their first words, None where they are not shown or not kept."""

    request: RequestRow
    verdict: str
    link: str
    question: str | None = None
    answer: str | None = None
    tokens: int | None = None
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True)
class RowPage:
    """A page of the list. more: the link to what comes behind; scanned_to: how far was looked, in nanoseconds, where
    the page ended there before it was full."""

    rows: tuple[Row, ...]
    more: str | None
    scanned_to: int | None


def path_part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name[:_FURTHEST], safe="")


def query_part(given: Mapping[str, object]) -> str:
    """The part of an address behind its question mark; what is None is left out."""
    return urlencode({name: str(value)[:_FURTHEST] for name, value in given.items() if value is not None})


def read_time(name: str, text: str) -> int:
    """A time of an address in nanoseconds: as a number of them, or as people write it. Raises: ConfigurationError."""
    number = int(text) if text.isdecimal() and len(text) < 20 else 2**63
    return number if number < 2**63 else parse_time(name, text)


def read_filter(query: Mapping[str, str], viewer: Viewer) -> tuple[Listing, Position | None]:
    """The filter of a link, for what the viewer may see; a session is in the order in which it went on, unless the link
    says otherwise. Raises: ConfigurationError naming the parameter."""
    given: dict[str, object] = {}
    for one in fields(Listing):
        name = _PARAMETERS.get(one.name, one.name)
        value = query.get(name, "").strip() if name else ""
        if not value or name is None:
            continue
        if len(value) > _LONGEST:
            raise ConfigurationError(f"{name} has {len(value)} characters; give at most {_LONGEST}")
        if name in CHOICES and value not in CHOICES[name]:
            raise ConfigurationError.of(name, value, ", ".join(CHOICES[name]))
        if one.name in ("since", "until"):
            given[one.name] = read_time(name, value)
        elif one.name in ("is_labeled", "oldest_first"):
            given[one.name] = value in ("yes", "oldest")
        else:
            given[one.name] = value
    if "search" in given:
        if given.get("oldest_first"):
            raise ConfigurationError("words are searched for newest first; leave out the order, or the words")
    elif "session_id" in given:
        given.setdefault("oldest_first", True)
    listing = replace(Listing(), **given)  # type: ignore[arg-type]  # by their names
    place = _PLACE.fullmatch(query.get("before", ""))
    before = Position(int(place[1]), place[2]) if place else None
    if before is not None and abs(before.started_at) >= 2**63:
        raise ConfigurationError("before is no place of the list; follow its links")
    return replace(listing, tenant_id=viewer.tenant), before


def rows_page(
    store: Store, listing: Listing, before: Position | None, viewer: Viewer, query: Mapping[str, str]
) -> RowPage:
    """The page behind a place."""
    page = store.list_requests(listing, before, limit=_ROWS, scan=_SCAN)
    ids = [row.request_id for row in page.rows]
    records, damaged = _readable(store, ids) if viewer.sees_content else ({}, set[str]())
    more = None
    if page.after is not None:
        kept = {name: value for name, value in query.items() if value and name != "before"}
        more = f"/requests?{query_part(kept | {'before': f'{page.after.started_at}:{page.after.request_id}'})}"
    return RowPage(
        tuple(_row(row, records.get(row.request_id), row.request_id in damaged) for row in page.rows),
        more,
        page.scanned_to.started_at if page.scanned_to else None,
    )


def _readable(store: Store, ids: Sequence[str]) -> tuple[dict[str, RequestRecord], set[str]]:
    """The records, and the ids of those that cannot be read: one that is damaged hides no other."""
    try:
        return store.get_records(ids), set()
    except (CorruptStore, RecordError):
        pass  # which of them it is, is found one by one
    records: dict[str, RequestRecord] = {}
    damaged: set[str] = set()
    for request_id in ids:
        try:
            records |= store.get_records([request_id])
        except (CorruptStore, RecordError) as error:
            _LOG.warning("a row is listed without its texts: %s", error)
            damaged.add(request_id)
    return records, damaged


def _row(row: RequestRow, record: RequestRecord | None, is_unreadable: bool = False) -> Row:
    verdict = verdict_brief(row.verdict, row.states, row.reasons)
    if row.status == "error" and row.verdict != "error":
        verdict = f"error; {verdict}"
    link = f"/requests/{path_part(row.request_id)}"
    if record is None:
        return Row(row, verdict, link, is_unreadable=is_unreadable)
    answer = record.generation.answer if record.generation else None
    tokens = sum(_tokens(record))
    return Row(row, verdict, link, _first(record.query.original), _first(answer), tokens or None)


def _tokens(record: RequestRecord) -> Iterator[int]:
    for run in record.stages:
        if isinstance(run, GenerateRun) and run.generation.usage is not None:
            yield run.generation.usage.input_tokens or 0
            yield run.generation.usage.output_tokens or 0


def _first(text: str | None) -> str | None:
    if not text:
        return None
    line = " ".join(text[: _WORDS * 4].split())
    return line if len(line) <= _WORDS and len(text) <= _WORDS * 4 else f"{line[:_WORDS]}…"
