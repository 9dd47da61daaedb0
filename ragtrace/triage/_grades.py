"""What the grades of the judge of relevance say of a window: more retrieval that is INCORRECT, and since which release.

Grades stand in the analyses where the analyzer had such a judge. They prove no break; they say where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ragtrace.analyze.retrieval_grading import told_right
from ragtrace.grading import GradedRequest, confidently_wrong
from ragtrace.store import Release, Store
from ragtrace.triage._evidence import JudgedRequest, JudgedSample
from ragtrace.triage._releases import rollouts
from ragtrace.triage._statistics import Weighed, growth, has_risen, share_of
from ragtrace.triage.rendering import percent
from ragtrace.types import Grading

__all__ = ["graded_sentences"]

_READ: Final = 600  # requests whose analyses are read: shares to four points


class _Graded(NamedTuple):
    request: JudgedRequest
    grading: Grading


_Requests: TypeAlias = Sequence[_Graded]


def graded_sentences(store: Store, evidence: JudgedSample) -> tuple[str, ...]:
    """Types of questions that are confidently wrong first; then in how many requests retrieval was graded INCORRECT,
    where that is clearly more than before. Nothing where there are no grades."""
    graded = _graded(store, evidence)
    releases = rollouts(store.releases(evidence.sample.service), "retrieval")
    return tuple(filter(None, (_wrong(graded, evidence), _incorrect(graded, releases, evidence))))


def _graded(store: Store, evidence: JudgedSample) -> _Requests:
    """The graded requests, oldest first; of many every so manieth."""
    step = -(-len(evidence.requests) // _READ) or 1
    requests = evidence.requests[::step]
    analyses = store.get_analyses([each.row.request_id for each in requests])
    known = ((each, analyses.get(each.row.request_id)) for each in requests)
    return [_Graded(each, found.grading) for each, found in known if found is not None and found.grading is not None]


def _weighed(graded: Iterable[_Graded]) -> Weighed:
    return [(each.grading.action == "INCORRECT", each.request.weight) for each in graded]


def _incorrect(graded: _Requests, releases: Sequence[Release], evidence: JudgedSample) -> str:
    """The rise since the release at which it is largest; else since the window began."""
    seen = [each for each in releases if evidence.window.before <= each.at < evidence.window.until]
    risen = [
        (clear, f"{shares} since {each.component}={each.version}")
        for each in seen
        for clear, shares in _rise(graded, each.at)
    ]
    return max(risen or _rise(graded, evidence.window.since), default=(0.0, ""))[1]


def _rise(graded: _Requests, at: int) -> list[tuple[float, str]]:
    """How many standard errors more are graded INCORRECT from then on, with both shares; nothing if not clearly so."""
    now, before = (
        _weighed(each for each in graded if (each.request.row.started_at >= at) is later) for later in (True, False)
    )
    if not has_risen(now, before):
        return []
    grown, error = growth(now, before)
    was, share = percent(share_of(before).share), percent(share_of(now).share)
    return [(grown / error if error else 0.0, f"retrieval was graded INCORRECT in {share} (before in {was})")]


def _wrong(graded: _Requests, evidence: JudgedSample) -> str:
    """The types of questions of the window whose retrieval is trusted, and whose answers are wrong."""
    known = [
        GradedRequest(each.grading.action, is_right, each.grading.question_type, each.request.weight)
        for each in graded
        if each.request.row.started_at >= evidence.window.since
        and (is_right := told_right(each.request.row)) is not None
    ]
    cells = confidently_wrong(known)
    return "; ".join(
        f"questions of the type {cell.kind} are confidently wrong: retrieval is graded CORRECT, and answers are "
        f"right in {percent(cell.right)}"
        for cell in cells
    )
