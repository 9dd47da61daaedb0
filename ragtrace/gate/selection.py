"""Selections: which requests are one side of a comparison, in one line of text, and the reading of those in a file.

A version that was rolled out twice is refused: its two times are two candidates, though they have one name. A file has
a record in each line, analyzed here where its analysis does not stand beside it.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ragtrace.errors import ConfigurationError, InputError, RecordError
from ragtrace.formats import parse_time, written_time
from ragtrace.gate._sameness import MOST, Trace, trace_of
from ragtrace.registry.instruments import ANSWER_COVERAGE
from ragtrace.store import MeasuredRequest, Release, RequestFilter, Store
from ragtrace.store.address import Address
from ragtrace.store.populations import is_of_versions, traits_of
from ragtrace.store.rows import UNANSWERED, unanswered, verifier_of
from ragtrace.store.service_traits import is_enough
from ragtrace.types import Analysis, Gold, RequestRecord, decode_record

if TYPE_CHECKING:
    from ragtrace.analyze.analysis import ServiceView

__all__ = ["ALLOWED", "Selection", "find_in_file", "measured_in_file", "parse", "refuse_two_rollouts", "service_views"]

ALLOWED: Final = (
    "replay:NAME, version:COMPONENT=VERSION[,...], other:COMPONENT=VERSION[,...], window:SINCE..UNTIL, service:NAME, "
    "a JSONL file of records or a store's URL, joined by &"
)
"""The parts of a selection, for help and errors."""

_PART: Final = re.compile(r"(replay|version|other|window|service):(.*)", re.DOTALL)
_URL: Final = re.compile(r"[a-z][a-z0-9+]*://")
_FEWEST: Final = 10  # requests on both sides of a pause, and of other versions in it
_CHANCE: Final = 1e-6  # that a canary, of which requests come now and then, pauses so long by itself


@dataclass(frozen=True, slots=True)
class Selection:
    """One side of a comparison. text: as it was given, without a password. url: a store; file: a JSONL of records;
    neither: the store that both sides share. others: versions of which the requests carry other ones. since, until:
    nanoseconds."""

    text: str
    url: str | None = field(default=None, repr=False)
    file: str | None = None
    service: str | None = None
    replay: str | None = None
    versions: tuple[tuple[str, str], ...] = field(default=())
    others: tuple[tuple[str, str], ...] = field(default=())
    since: int | None = None
    until: int | None = None

    @property
    def is_controlled(self) -> bool:
        """Whether somebody chose the questions, so that the other side is expected to have the same ones."""
        return self.replay is not None or self.file is not None


def parse(option: str, text: str, now: int | None = None) -> Selection:
    """Read a selection. `option` is named in the errors; `now` is the present in nanoseconds.

    Raises: ConfigurationError.
    """
    present = time.time_ns() if now is None else now
    parts = _split_parts(text)
    if not parts:
        raise ConfigurationError.of(option, text, ALLOWED)
    selection = Selection("&".join(map(_without_password, parts)))
    seen: set[str] = set()
    for part in parts:
        part_match = _PART.fullmatch(part)
        kind = part_match[1] if part_match else "source"
        if kind in seen and kind not in ("version", "other"):
            what = "two sources of requests" if kind == "source" else f"two parts {kind}:"
            raise ConfigurationError(f"{option} {selection.text!r} has {what}; give one")
        seen.add(kind)
        selection = _with(option, selection, part_match, part, present)
    return selection


def _split_parts(text: str) -> list[str]:
    """Split at `&`, but for one inside of a URL's query or a file's name."""
    parts: list[str] = []
    for piece in filter(str.strip, text.split("&")):
        starts = _PART.match(piece.strip()) or _URL.match(piece.strip())
        if parts and not starts and not _PART.match(parts[-1]):
            parts[-1] += f"&{piece}"
        else:
            parts.append(piece.strip())
    return [part.strip() for part in parts]


def _without_password(part: str) -> str:
    return Address.parse(part).shown if _URL.match(part) else part


def _with(option: str, selection: Selection, part_match: re.Match[str] | None, part: str, now: int) -> Selection:
    if part_match is None:
        return replace(selection, url=part) if _URL.match(part) else replace(selection, file=part)
    kind, value = part_match[1], part_match[2].strip()
    if not value:
        raise ConfigurationError.of(option, part, f"a value behind {kind}:")
    if kind in ("version", "other"):
        known = selection.versions if kind == "version" else selection.others
        versions = tuple((dict(known) | _versions(option, kind, value)).items())
        return replace(selection, versions=versions) if kind == "version" else replace(selection, others=versions)
    if kind == "window":
        since, until = _window(option, value, now)
        return replace(selection, since=since, until=until)
    return replace(selection, replay=value) if kind == "replay" else replace(selection, service=value)


def _versions(option: str, kind: str, text: str) -> dict[str, str]:
    versions: dict[str, str] = {}
    for pair in text.split(","):
        component, equals, version = (part.strip() for part in pair.partition("="))
        if not (component and equals and version):
            raise ConfigurationError.of(option, f"{kind}:{text}", f"{kind}:COMPONENT=VERSION, as in reranker=v17")
        if component in versions:
            raise ConfigurationError.of(option, f"{kind}:{text}", f"one version of {component}")
        versions[component] = version
    return versions


def _window(option: str, text: str, now: int) -> tuple[int | None, int]:
    since, dots, until = (part.strip() for part in text.partition(".."))
    if not dots or not since:
        raise ConfigurationError.of(option, f"window:{text}", "window:SINCE..UNTIL, as in window:2h ago..now")
    start, end = parse_time(f"{option}: SINCE", since, now), parse_time(f"{option}: UNTIL", until or "now", now)
    if start >= end:
        given = f"{written_time(start)} is not before {written_time(end)}"
        raise ConfigurationError(f"{option} 'window:{text}' is empty: {given}; give the earlier time first")
    return max(0, start), max(1, end)


class _Pause(NamedTuple):
    """When other versions were in use alone: from the first of their requests to the last, or by the releases."""

    since: int
    until: int


def refuse_two_rollouts(side: str, selection: Selection, store: Store, service: str, times: Sequence[int]) -> None:
    """Whether the versions of a selection were in use, then not, then again. times: of its requests, nanoseconds.

    A selection with a window of its own says which of the times it means. Raises: InputError, with both windows.
    """
    if not selection.versions or selection.since is not None or selection.replay is not None:
        return
    first, last = min(times), max(times)
    known = store.releases(service)
    if not any(each.component == component and each.version != version
               for component, version in selection.versions for each in known):  # fmt: skip
        return
    pause = _recorded(selection, known, first, last) or _seen(selection, store, service, first, last)
    if pause is None:
        return
    windows = (f"{written_time(first)}..{written_time(pause.since)}", f"{written_time(pause.until)}..now")
    choices = " or ".join(f"'{selection.text}&window:{window}'" for window in windows)
    raise InputError(
        f"the {side} {selection.text!r} was in use twice, with other versions between {written_time(pause.since)} and "
        f"{written_time(pause.until)}; say which time is meant: {choices}"
    )


def _recorded(selection: Selection, known: Sequence[Release], first: int, last: int) -> _Pause | None:
    """By the releases: the version was there, another one came, and somebody recorded that the version came back."""
    for component, version in selection.versions:
        of_component = [release for release in known if release.component == component]
        back = next((release.recorded_at for release in of_component if release.version == version), None)
        if back is None:
            continue
        between = [release.at for release in of_component if release.version != version and first < release.at < back]
        if between and last >= back:
            return _Pause(min(between), back)
    return None


def _seen(selection: Selection, store: Store, service: str, first: int, last: int) -> _Pause | None:
    """By the requests: the longest time in which there was none of the selection and many of other versions, where that
    is no chance."""
    wanted = dict(selection.versions)
    of_all = store.measured(RequestFilter(service, first, last + 1), ())
    requests = [(each.started_at, wanted.items() <= each.traits.versions.items()) for each in of_all
             if wanted.keys() <= each.traits.versions.keys()]  # fmt: skip
    places = [place for place, (_, is_own) in enumerate(requests) if is_own]
    gaps = ((two - one - 1, number) for number, (one, two) in enumerate(pairwise(places)))
    others, number = max((gap for gap in gaps if _FEWEST <= gap[1] + 1 <= len(places) - _FEWEST), default=(0, 0))
    if others < _FEWEST:
        return None
    before, after = places[number], places[number + 1]
    share = min(
        _own_share(is_own for _, is_own in requests[: before + 1]), _own_share(is_own for _, is_own in requests[after:])
    )
    if len(places) * (1 - share) ** others > _CHANCE:
        return None
    return _Pause(requests[before + 1][0], requests[after - 1][0])


def _own_share(own: Iterable[bool]) -> float:
    marks = list(own)
    return sum(marks) / (len(marks) + 1)


_BATCH: Final = 200
_MOST_TEXTS: Final = 1_000  # chunks of a service, from which on more tell little of its words


class _Line(msgspec.Struct, frozen=True):
    """What `ragtrace show --json` prints: a record with its analysis."""

    record: msgspec.Raw = msgspec.Raw()
    analysis: Analysis | None = None


_LINES: Final = msgspec.json.Decoder(_Line)


def measured_in_file(
    side: str,
    selection: Selection,
    golds: Store | None,
    metrics: Sequence[str],
    service: str | None,
    views: Mapping[str, ServiceView] | None = None,
    traces: dict[str, Trace] | None = None,
) -> Iterator[MeasuredRequest]:
    """The requests of a file that the selection's other parts allow. golds: a store whose gold sets are the reference
    of the questions that have one. views: of `service_views`. traces: gets what each of the first `MOST` requests did.

    Raises: InputError naming the line.
    """
    batch: list[tuple[RequestRecord, Analysis | None]] = []
    for read in _selected(side, selection, service):
        if traces is not None and len(traces) <= MOST:
            traces[read[0].request_id] = trace_of(read[0])
        batch.append(read)
        if len(batch) == _BATCH:
            yield from _measured(batch, golds, metrics, views or {})
            batch = []
    yield from _measured(batch, golds, metrics, views or {})


def find_in_file(
    selection: Selection, service: str | None, request_ids: frozenset[str]
) -> dict[str, tuple[RequestRecord, Analysis]]:
    """These requests of a file, by id, each with its analysis. Raises: InputError naming the line."""
    views: Mapping[str, ServiceView] | None = None
    found: dict[str, tuple[RequestRecord, Analysis]] = {}
    for record, analysis in _selected("side", selection, service):
        if record.request_id in request_ids:
            if analysis is None and views is None:
                views = service_views([("side", selection, service)])
            found[record.request_id] = record, analysis or _analyze(record, {}, (views or {}).get(record.service))
    return found


def service_views(sides: Iterable[tuple[str, Selection, str | None]]) -> dict[str, ServiceView]:
    """What the records of all files tell of their services, so that both sides are analyzed alike: whether the answers
    of a side cite, and how usual words are. sides: name, selection and service of each.

    Raises: InputError naming the line.
    """
    tallies: dict[str, _ServiceTally] = {}
    for side, selection, service in sides:
        if selection.file is not None:
            for record, analysis in _selected(side, selection, service):
                if analysis is None:
                    tallies.setdefault(record.service, _ServiceTally()).add(side, record)
    return {service: tally.view() for service, tally in tallies.items()}


@dataclass(slots=True)
class _ServiceTally:
    """Of one service's records: how many answers each side has, how many of them cite, and the texts that it found."""

    answers: Counter[str] = field(default_factory=Counter)
    cited: Counter[str] = field(default_factory=Counter)
    texts: dict[str, None] = field(default_factory=dict)

    def add(self, side: str, record: RequestRecord) -> None:
        """Count a record."""
        from ragtrace.coverage import find_citations, first_number

        if record.generation and record.generation.answer and record.packing:
            first = first_number(record.generation.prompt_template)
            marks = find_citations(record.generation.answer, record.packing.chunks, record.candidates, first=first)
            self.answers[side] += 1
            self.cited[side] += any(mark.chunk_id is not None for mark in (*marks, *record.generation.citations))
        if len(self.texts) < _MOST_TEXTS:
            self.texts.update((candidate.text, None) for candidate in record.candidates if candidate.text)

    def view(self) -> ServiceView:
        """What it comes to."""
        from ragtrace.analyze.analysis import ServiceView
        from ragtrace.coverage import Background

        is_citing = any(is_enough(count, self.cited[side]) for side, count in self.answers.items())
        return ServiceView(cites=is_citing, background=Background.of(self.texts))


def _selected(side: str, selection: Selection, service: str | None) -> Iterator[tuple[RequestRecord, Analysis | None]]:
    path = Path(selection.file or "")
    for number, line in _file_lines(side, path):
        read = _read_line(f"{path}, line {number}", line)
        if _is_wanted(read[0], selection, service):
            yield read


def _file_lines(side: str, path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as opened:
            yield from ((number, line) for number, line in enumerate(opened, 1) if line.strip())
    except OSError as error:
        raise InputError(f"the {side} {str(path)!r} cannot be read: {error.strerror}; give {ALLOWED}") from error


def _read_line(where: str, line: bytes) -> tuple[RequestRecord, Analysis | None]:
    try:
        parsed = _LINES.decode(line)
        body = bytes(parsed.record)
        record = decode_record(body or line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, RecordError) as error:
        raise InputError(
            f"{where}: {error}; give a record (docs/reference/record.schema.json), or what ragtrace show --json prints"
        ) from error
    return record, parsed.analysis


def _is_wanted(record: RequestRecord, selection: Selection, service: str | None) -> bool:
    if service is not None and record.service != service:
        return False
    if selection.replay is not None and traits_of(record).replay != selection.replay:
        return False
    if (selection.since or 0) > record.started_at or (selection.until or record.started_at + 1) <= record.started_at:
        return False
    return is_of_versions(record.versions, dict(selection.versions), dict(selection.others))


def _measured(
    batch: Sequence[tuple[RequestRecord, Analysis | None]],
    golds: Store | None,
    metrics: Sequence[str],
    views: Mapping[str, ServiceView],
) -> Iterator[MeasuredRequest]:
    known: Mapping[tuple[str, str], Gold] = {}
    if golds is not None:
        known = golds.find_golds({(record.service, record.query.original) for record, found in batch if found is None})
    for record, analysis in batch:
        yield _of_record(record, analysis or _analyze(record, known, views.get(record.service)), metrics)


def _analyze(record: RequestRecord, golds: Mapping[tuple[str, str], Gold], view: ServiceView | None) -> Analysis:
    from ragtrace.analyze import analyze_record
    from ragtrace.analyze.analysis import ServiceView

    return analyze_record(record, golds.get((record.service, record.query.original)), service=view or ServiceView())


def _of_record(record: RequestRecord, analysis: Analysis, metrics: Sequence[str]) -> MeasuredRequest:
    scores = {score.metric: score.value for score in analysis.scores}
    reasons = {score.metric: score.reason for score in analysis.scores}
    scores[UNANSWERED] = unanswered(scores.get(ANSWER_COVERAGE.id), reasons.get(ANSWER_COVERAGE.id))
    diagnosis = analysis.diagnosis
    return MeasuredRequest(
        request_id=record.request_id,
        segment=record.segment,
        started_at=record.started_at,
        ended_at=record.ended_at,
        status=record.status,
        head_sampled=record.head_sampled,
        head_probability=record.head_probability,
        traits=traits_of(record),
        analyzer_version=analysis.analyzer_version,
        reference=analysis.reference,
        verdict=diagnosis.verdict,
        states={found.stage: found.state for found in diagnosis.stages},
        cause=diagnosis.cause,
        values=tuple(scores.get(metric) for metric in metrics),
        judge=diagnosis.judge,
        verifier=verifier_of(analysis),
    )
