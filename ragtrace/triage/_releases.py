"""Releases: those that could have broken a stage, by when they came; what proves no break and began with one; and what
the release gate had said of them.

What proves no break: grades of retrieval, which stand in the analyses where the analyzer had a judge of relevance, and
say whether more retrieval is INCORRECT, and since which release; and starved providers, whose documents lost places in
prompts that they deserve, since a release.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ragtrace.analyze.diagnosis import is_new, is_rollout
from ragtrace.analyze.exposure_report import NO_PROVIDER, OTHERS, UNNAMED, exposure_report, replacements
from ragtrace.analyze.retrieval_grading import told_right
from ragtrace.config import SETTINGS, variable
from ragtrace.formats import clock, joined, percent, written_time
from ragtrace.grading import GradedRequest, confidently_wrong
from ragtrace.registry.instruments import STAGES
from ragtrace.registry.wording import release_words
from ragtrace.sample_statistics import holm
from ragtrace.store import GateRun, Release, Store
from ragtrace.triage._checks import Stretch
from ragtrace.triage._evidence import COMPONENTS, JudgedRequest, JudgedSample, Window
from ragtrace.triage._report import StarvedProvider, Suspect
from ragtrace.triage._statistics import NEAR, Weighed, chance_of_growth, has_risen, likelihood_gain, share_of
from ragtrace.triage.rendering import span
from ragtrace.types import Grading, Stage, replace

__all__ = [
    "gate_note",
    "graded_sentences",
    "rollouts",
    "starved_providers",
    "starved_sentence",
    "suspect_words",
    "suspected",
    "suspects",
]

_SLACK: Final = 0.05  # of the time looked at: a rollout takes a while until its first bad answer
_LONGEST: Final = 900_000_000_000
_SHOWN: Final = 5
_ID_SHOWN: Final = 12  # characters of a run's id
_SAID: Final = {"pass": "passed", "block": "blocked", "undecided": "could not decide"}


def rollouts(releases: Iterable[Release], stage: Stage | None = None) -> list[Release]:
    """The releases that changed a service that ran, of the stage's components where one is given: those that replaced
    another version, and the first versions of components that were new to it."""
    known = sorted(releases, key=lambda each: each.at)
    components = {release.component for release in known} if stage is None else set(COMPONENTS[stage])
    return [release for release in known if release.component in components and is_rollout(release, known)]


def suspects(
    stage: Stage, risen: Stretch | None, broken: Sequence[JudgedRequest], releases: Iterable[Release], window: Window
) -> tuple[Suspect, ...]:
    """The stage's rollouts, the likeliest first: those that fit the beginning of the break, by how many broken requests
    point at each, one that replaced another version before one that is new; then the nearest."""
    all_releases = list(releases)
    votes = Counter(judged.row.suspected_rollout for judged in broken)
    slack = min(_LONGEST, int(_SLACK * (window.until - window.before)))
    fitting = [
        replace(
            _suspect(release, risen, slack, votes, len(broken), is_first=is_new(release, all_releases)),
            prompt=_prompt(release, all_releases),
        )
        for release in rollouts(all_releases, stage)
        if release.at <= window.until
    ]
    order = {"fits": 0, "unknown": 1, "early": 1, "late": 1}
    fitting.sort(
        key=lambda suspect: (
            order[suspect.fit],
            -suspect.votes,
            suspect.is_new,
            abs(suspect.offset_seconds or 0.0),
            suspect.release,
        )
    )
    return tuple(fitting[:_SHOWN])


def _prompt(release: Release, known: Iterable[Release]) -> str | None:
    """The version of the prompt that was in use when a hash of it came."""
    named = [each for each in known if each.component == "prompt" and each.at <= release.at]
    return max(named, key=lambda each: each.at).version if named and release.component == "prompt_hash" else None


def _suspect(
    release: Release, risen: Stretch | None, slack: int, votes: Counter[str | None], of: int, *, is_first: bool
) -> Suspect:
    name = f"{release.component}={release.version}"
    if risen is None:
        offset, fit = None, "unknown"
    else:
        offset = (risen.latest - release.at) / 1e9
        fit = "early" if release.at < risen.earliest - slack else "late" if release.at > risen.latest else "fits"
    return Suspect(
        release=name,
        at=written_time(release.at),
        fit=fit,  # type: ignore[arg-type]  # one of its three words
        offset_seconds=offset,
        votes=votes[name],
        of=of,
        is_new=is_first,
    )


def suspected(stage: Stage, risen: Stretch | None, suspects_first: Sequence[Suspect]) -> tuple[str | None, str]:
    """The release to suspect, and in a sentence why; None where none fits."""
    if not suspects_first:
        components = ", ".join(COMPONENTS[stage])
        none = f"no version of this stage's components ({components}) is known to have replaced another, or to be new"
        return None, f"{none}: no rollout explains it"
    first = suspects_first[0]
    if risen is None:
        latest = max(suspects_first, key=lambda suspect: suspect.at)
        return None, (
            "when it began is not seen in the time looked at, so no release is named; the last one of this stage was "
            f"{suspect_words(latest)} at {clock(latest.at)}: look further back with an earlier --since"
        )
    began = clock(written_time(risen.latest))
    if first.fit != "fits":
        nearest = min(suspects_first, key=lambda suspect: abs(suspect.offset_seconds or 0.0))
        side = "before" if (nearest.offset_seconds or 0.0) > 0 else "after"
        away = span(nearest.offset_seconds or 0.0)
        return None, (
            f"no release fits: it began at {began}; the nearest of this stage, {suspect_words(nearest)}, came {away} "
            f"{side}; look for a change without a version: data, configuration, traffic, a provider"
        )
    how = ", new to this service" if first.is_new else ""
    why = f"it began at {began}, and {suspect_words(first)} came at {clock(first.at)}{how}"
    why += f"; {first.votes} of {first.of} broken requests point at it" if first.votes else ""
    others = [suspect for suspect in suspects_first[1:] if suspect.fit == "fits"]
    if others:
        why += "; " + ", ".join(map(_with_votes, others)) + " came then, too"
    return first.release, why


def _with_votes(suspect: Suspect) -> str:
    return suspect_words(suspect) + (f" ({suspect.votes} of {suspect.of})" if suspect.votes else "")


def suspect_words(suspect: Suspect) -> str:
    """The release as people read it."""
    return release_words(suspect.release, suspect.prompt)


def gate_note(store: Store, service: str, release: str | None) -> str:
    """What the last gate run with this `component=version` decided, or since when there was none; "" without a suspect,
    and where the service has never been gated."""
    if release is None:
        return ""
    component, _, version = release.partition("=")
    judged = store.gate_runs_of(service, component, version, limit=1)
    if judged:
        return _gate_decision(judged[0], release)
    earlier = store.gate_runs_of(service, component, limit=1)
    if earlier:
        run = earlier[0]
        carried = ", ".join(f"{name}={each}" for name, each in run.versions if name == component)
        said = f"which {_SAID[run.decision]} with {carried}"
        return f"no gate since {_at(run)}, {said}: {release} was not judged{_look(run)}"
    latest = store.gate_runs(service, limit=1)
    if latest:
        run = latest[0]
        return f"no gate with {release}: the last one of {service}, at {_at(run)}, {_SAID[run.decision]}{_look(run)}"
    return ""


def _gate_decision(run: GateRun, release: str) -> str:
    stage = f" for its {run.first_broken}" if run.decision == "block" and run.first_broken else ""
    against = f", compared with {run.baseline}" if run.decision == "pass" else ""
    return f"last gate {_SAID[run.decision]} with {release} at {_at(run)}{stage}{against}{_look(run)}"


def _at(run: GateRun) -> str:
    return clock(written_time(run.created_at))


def _look(run: GateRun) -> str:
    return f" (ragtrace gate show {run.run_id[:_ID_SHOWN]})"


# what proves no break

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
