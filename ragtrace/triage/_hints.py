"""Hints of a triage, which prove no break and say where to look: grades of retrieval, and starved providers.

Grades stand in the analyses where the analyzer had a judge of relevance: whether more retrieval is INCORRECT, and since
which release. A starved provider is one whose documents lost places in prompts that they deserve, since a release.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ragtrace.analyze.exposure_report import NO_PROVIDER, OTHERS, UNNAMED, exposure_report, replacements
from ragtrace.analyze.retrieval_grading import told_right
from ragtrace.config import SETTINGS, variable
from ragtrace.formats import joined, percent
from ragtrace.grading import GradedRequest, confidently_wrong
from ragtrace.registry.instruments import STAGES
from ragtrace.sample_statistics import holm
from ragtrace.store import Release, Store
from ragtrace.triage._evidence import JudgedRequest, JudgedSample, Window
from ragtrace.triage._releases import rollouts
from ragtrace.triage._report import StarvedProvider
from ragtrace.triage._statistics import NEAR, Weighed, chance_of_growth, has_risen, likelihood_gain, share_of
from ragtrace.types import Grading, Stage

__all__ = ["graded_sentences", "starved_providers", "starved_sentence"]

_FEW: Final = 40  # requests by which it is known that none is graded
_READ: Final = 600  # requests whose analyses are read: shares to four points
_LEVEL: Final = 0.05  # the chance that any of the releases looked at is named where grades did not change


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
    """The graded requests, oldest first; of many every so manieth. Where none of a few over the whole time is graded,
    no more are read."""
    few = _read(store, evidence.requests, _FEW)
    return _read(store, evidence.requests, _READ) if few else few


def _read(store: Store, requests: Sequence[JudgedRequest], most: int) -> _Requests:
    """Those of up to `most` of the requests, evenly in time, that are graded."""
    requests = requests[:: -(-len(requests) // most) or 1]
    analyses = store.get_analyses([each.row.request_id for each in requests])
    known = ((each, analyses.get(each.row.request_id)) for each in requests)
    return [_Graded(each, found.grading) for each, found in known if found is not None and found.grading is not None]


def _weighed(graded: Iterable[_Graded]) -> Weighed:
    return [(each.grading.action == "INCORRECT", each.request.weight) for each in graded]


def _incorrect(graded: _Requests, releases: Sequence[Release], evidence: JudgedSample) -> str:
    """The rise since the release that explains it best, and all that explain it as well; where none does, the rise
    since the window began."""
    seen = [each for each in releases if evidence.window.before <= each.at < evidence.window.until]
    chances = holm([_chance(*_parted(graded, each.at)) for each in seen])
    risen = [
        (*rise, f"{each.component}={each.version}")
        for each, chance in zip(seen, chances, strict=True)
        if chance <= _LEVEL and (rise := _rise(*_parted(graded, each.at))) is not None
    ]
    if not risen:
        since = _rise(*_parted(graded, evidence.window.since))
        return since[1] if since else ""
    most, shares, _ = max(risen)
    names = [name for gain, _, name in risen if gain >= most - NEAR]
    if len(names) == 1:
        return f"{shares} since {names[0]}"
    return f"{shares} since one of {', '.join(names)}, which fit alike"


def _parted(graded: _Requests, at: int) -> tuple[Weighed, Weighed]:
    """The requests from then on, and those before."""
    later, earlier = (
        [each for each in graded if (each.request.row.started_at >= at) is is_later] for is_later in (True, False)
    )
    return _weighed(later), _weighed(earlier)


def _chance(now: Weighed, before: Weighed) -> float:
    return chance_of_growth(now, before) if now and before else 1.0


def _rise(now: Weighed, before: Weighed) -> tuple[float, str] | None:
    """The log-likelihood that a rise gains, with both shares; None if no more are clearly graded INCORRECT."""
    if not has_risen(now, before):
        return None
    was, share = percent(share_of(before).share), percent(share_of(now).share)
    return likelihood_gain(now, before), f"retrieval was graded INCORRECT in {share} (before in {was})"


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


_LIMIT: Final = 300  # requests of each window: they are read with their texts
_STAGES: Final[tuple[Stage, ...]] = ("retrieval", "ranking")


def starved_providers(
    store: Store, service: str, segment: str | None, window: Window, broken: Collection[Stage]
) -> tuple[StarvedProvider, ...]:
    """Those whose share of the places in prompts fell, and further than what they deserve, where a release of retrieval
    or ranking came and neither is broken; never what has no name or many. What names a provider is the analyzer's
    setting."""
    by = os.environ.get(variable("provider")) or SETTINGS["provider"].default
    if by == NO_PROVIDER or set(_STAGES) & set(broken):
        return ()
    components = {component for stage in STAGES if stage.name in _STAGES for component in stage.components}
    released = [
        each for each in replacements(store, service, window.before, window.until) if each.component in components
    ]
    if not released:
        return ()
    found = exposure_report(
        store,
        service,
        since=window.since,
        until=window.until,
        by=by,
        segment=segment,
        before=(window.before, window.since),
        limit=_LIMIT,
    )
    now = {each.provider: each.exposed.value or 0.0 for each in found.providers}
    return tuple(
        StarvedProvider(
            provider=each.provider,
            now=now[each.provider],
            before=now[each.provider] - (each.exposed.value or 0.0),
            releases=tuple(f"{release.component}={release.version}" for release in released),
        )
        for each in found.changes
        if each.starved and each.provider not in (OTHERS, UNNAMED)
    )


def starved_sentence(starved: Collection[StarvedProvider]) -> str:
    """One sentence for the conclusion; nothing where nobody is starved."""
    if not starved:
        return ""
    lost = joined([f"{each.provider} from {percent(each.before)} to {percent(each.now)}" for each in starved])
    releases = joined(next(iter(starved)).releases)
    return f"places in prompts fell that documents deserve, and no stage broke by it: {lost}; released then: {releases}"
