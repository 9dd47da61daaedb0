"""The release gate's pages: the stored runs with their reports, and two replays question by question.

A page reads this store alone: a selection that names a file or another store is shown by its name, never opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from ragtrace.errors import ConfigurationError, InputError, RagtraceError
from ragtrace.gate.question_pairs import with_questions
from ragtrace.gate.replay_diff import CHANGES, Change, diff_replays
from ragtrace.gate.reports.differences import diff_body
from ragtrace.gate.reports.html import report_body
from ragtrace.gate.runs import read_report
from ragtrace.gate.selection import parse
from ragtrace.html_page import Html
from ragtrace.store import GateRun, Store
from ragtrace.web._access import Viewer

__all__ = ["Comparing", "GateList", "comparing", "gate_list", "gate_report"]

_RUNS: Final = 50
_REPLAYS: Final = 200
_QUESTIONS: Final = 50


@dataclass(frozen=True, slots=True)
class GateList:
    """The newest runs that a viewer may see, and the replays that may be compared."""

    runs: tuple[GateRun, ...]
    replays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparing:
    """A comparison: its page, and how many questions are listed with their texts."""

    body: Html
    questions: int


def gate_list(store: Store, viewer: Viewer) -> GateList:
    """Of services that are wholly the viewer's."""
    runs = [run for run in store.gate_runs(limit=_RUNS * 20) if viewer.owns(run.service)]
    known = store.replays()[-_REPLAYS:] if viewer.tenant is None else store.replays()
    replays = [name for name in known if viewer.tenant is None or _selection(store, viewer, name)]
    return GateList(tuple(runs[:_RUNS]), tuple(replays[-_REPLAYS:]))


def gate_report(store: Store, viewer: Viewer, run_id: str) -> tuple[Html, int] | None:
    """The report of the run with this id, whole, and how many questions it shows with their texts; None where there is
    none, or it is not the viewer's to see."""
    try:
        report = read_report(store, run_id)
    except ConfigurationError:
        return None
    if report.run_id != run_id or not report.service or not viewer.owns(report.service):
        return None
    if viewer.sees_content and all(_is_here(viewer, side.name) for side in (report.baseline, report.candidate)):
        report = with_questions(report, store.full_url)
    else:
        report = msgspec.structs.replace(report, questions=())
    return report_body(report), len(report.questions)


def comparing(store: Store, viewer: Viewer, query: Mapping[str, str]) -> Comparing | None:
    """Two replays by name (`a`, `b`), with the changes and words that are asked for; None where there is no such replay
    that is the viewer's to see. Raises: ConfigurationError."""
    names = query.get("a", ""), query.get("b", "")
    sides = [_selection(store, viewer, name) for name in names]
    if None in sides:
        return None
    if names[0] == names[1]:
        raise ConfigurationError("both replays are the same; choose two")
    kind = query.get("only", "")
    if kind and kind not in CHANGES:
        raise ConfigurationError.of("only", kind, ", ".join(CHANGES))
    only: tuple[Change, ...] = tuple(each for each in CHANGES if each == kind)
    words = query.get("question", "") if viewer.sees_content else None
    one, two = map(str, sides)
    try:
        found = diff_replays(one, two, store=store.full_url, only=only, containing=words, limit=_QUESTIONS)
    except InputError as error:
        raise ConfigurationError(str(error)) from None
    if not viewer.sees_content:
        found = msgspec.structs.replace(found, listed=(), left_out=0)
    return Comparing(diff_body(found), len(found.listed))


def _selection(store: Store, viewer: Viewer, name: str) -> str | None:
    """A replay as one side of a comparison; None where there is none of this name, or not all of its requests are of
    one service that is wholly the viewer's."""
    services = {each.service for each in store.replayed(name)} if name else set()
    if len(services) != 1 or not viewer.owns(service := services.pop()) or "&" in name + service:
        return None
    return f"replay:{name}&service:{service}"


def _is_here(viewer: Viewer, selection: str) -> bool:
    """Whether a selection reads this store, and a service of the viewer's."""
    try:
        found = parse("selection", selection)
    except RagtraceError:
        return False
    return found.url is None and found.file is None and (found.service is None or viewer.owns(found.service))
