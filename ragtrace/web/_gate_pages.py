"""The release gate's pages: the stored runs with their reports, and two replays question by question.

A page reads this store alone: a selection that names a file or another store is shown by its name, never opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ragtrace.errors import ConfigurationError, InputError, RagtraceError
from ragtrace.formats import plain, show_command
from ragtrace.gate.question_pairs import with_questions
from ragtrace.gate.replay_diff import CHANGES, Change, diff_body, diff_replays
from ragtrace.gate.reports.html import report_body
from ragtrace.gate.runs import read_report
from ragtrace.gate.selection import parse
from ragtrace.gate.types import QuestionPair
from ragtrace.html_page import Html, tag
from ragtrace.store import GateRun, Store
from ragtrace.web._access import Viewer
from ragtrace.web._judgments import as_sent
from ragtrace.web._request_list import path_part

__all__ = ["GateList", "GatePage", "comparing", "gate_list", "gate_report"]

_RUNS: Final = 50
_REPLAYS: Final = 200  # of a service
_QUESTIONS: Final = 50


@dataclass(frozen=True, slots=True)
class GateList:
    """The newest runs that a viewer may see, and by service the replays that may be compared, newest first."""

    runs: tuple[GateRun, ...]
    replays: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class GatePage:
    """A report or a comparison: its page, its service, and how many questions it shows with their texts."""

    body: Html
    service: str
    questions: int


def gate_list(store: Store, viewer: Viewer) -> GateList:
    """Of services that are wholly the viewer's."""
    replays = {service: names[:_REPLAYS] for service, names in _replays(store, viewer).items() if len(names) > 1}
    return GateList(tuple(store.gate_runs(tenant=viewer.tenant, limit=_RUNS)), replays)


def gate_report(store: Store, viewer: Viewer, run_id: str) -> GatePage | None:
    """The report of the run with this id, whole; None where there is none, or it is not the viewer's to see."""
    try:
        report = read_report(store, run_id)
    except ConfigurationError:
        return None
    service = report.service
    if report.run_id != run_id or not service or not viewer.owns(service):
        return None
    is_here = all(_is_here(viewer, side.name) for side in (report.baseline, report.candidate))
    if viewer.sees_content and is_here:
        report = with_questions(report, store.full_url)
    else:
        report = msgspec.structs.replace(report, questions=())
    body = report_body(report)
    if is_here:
        examples = [pair for each in report.breaks for pair in each.requests]
        body = _linked(body, [*examples, *map(_ids, report.questions)])
    return GatePage(body, service, len(report.questions))


def comparing(store: Store, viewer: Viewer, query: Mapping[str, str]) -> GatePage | None:
    """Two replays by name (`a`, `b`), with the changes and words that are asked for; None where there is no such replay
    that is the viewer's to see. Raises: ConfigurationError."""
    given = query.get("a", ""), query.get("b", "")
    known = _replays(store, viewer)
    named = {service: {as_sent(name): name for name in names} for service, names in known.items()}
    if any(as_sent(name) not in {each for names in named.values() for each in names} for name in given):
        return None
    if as_sent(given[0]) == as_sent(given[1]):
        raise ConfigurationError("both replays are the same; choose two")
    service = _common(named, given, query.get("service", ""))
    kind = query.get("only", "")
    if kind and kind not in CHANGES:
        raise ConfigurationError.of("only", kind, ", ".join(CHANGES))
    only: tuple[Change, ...] = tuple(each for each in CHANGES if each == kind)
    words = query.get("question", "") if viewer.sees_content else None
    one, two = (_selection(named[service][as_sent(name)], service) for name in given)
    try:
        found = diff_replays(one, two, store=store.full_url, only=only, containing=words, limit=_QUESTIONS)
    except InputError as error:
        raise ConfigurationError(str(error)) from None
    if not viewer.sees_content:
        found = msgspec.structs.replace(found, listed=(), left_out=0)
    return GatePage(_linked(diff_body(found), map(_ids, found.listed)), service, len(found.listed))


def _ids(pair: QuestionPair) -> tuple[str, str]:
    """The requests of both sides, "" for one that is not there."""
    return pair.baseline.request_id if pair.baseline else "", pair.candidate.request_id


def _linked(body: Html, pairs: Iterable[tuple[str, str]]) -> Html:
    """The body with links to these requests of this store, in place of the commands that show them in a terminal."""
    text = str(body)
    for request_id in dict.fromkeys(one for pair in pairs for one in pair if one):
        link = tag("a", plain(request_id), href=f"/requests/{path_part(request_id)}", class_="mono")
        for command in (show_command(request_id), plain(request_id)):
            text = text.replace(tag("code", command), link)
    return Html(text)


def _replays(store: Store, viewer: Viewer) -> dict[str, list[str]]:
    """By service that is wholly the viewer's its replays, newest first; those that a selection can name."""
    found: dict[str, list[str]] = {}
    for name, service in store.replayed_services(viewer.tenant):
        if _is_named(name, service):
            found.setdefault(service, []).append(name)
    return found


def _is_named(name: str, service: str) -> bool:
    """Whether a selection of both means just these: not with an `&`, or a space at an end."""
    try:
        found = parse("replay", _selection(name, service))
    except ConfigurationError:
        return False
    return (found.replay, found.service) == (name, service) and "&" not in name + service


def _selection(name: str, service: str) -> str:
    return f"replay:{name}&service:{service}"


def _common(named: Mapping[str, Mapping[str, str]], given: Sequence[str], wanted: str) -> str:
    """The one service that has both replays. Raises: ConfigurationError."""
    services = [each for each, names in named.items() if all(as_sent(name) in names for name in given)]
    if wanted:
        services = [each for each in services if as_sent(each) == as_sent(wanted)]
    if not services:
        raise ConfigurationError("these two replays are not of one service; choose two of the same")
    if len(services) > 1:
        raise ConfigurationError(f"both replays are of {len(services)} services; choose them in the list of one")
    return services[0]


def _is_here(viewer: Viewer, selection: str) -> bool:
    """Whether a selection reads this store, and a service of the viewer's."""
    try:
        found = parse("selection", selection)
    except RagtraceError:
        return False
    return found.url is None and found.file is None and (found.service is None or viewer.owns(found.service))
