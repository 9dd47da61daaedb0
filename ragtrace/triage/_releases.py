"""Releases that could have broken a stage, by when they came, and what the release gate had said of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ragtrace.analyze.diagnosis import is_new, is_rollout
from ragtrace.formats import clock, written_time
from ragtrace.registry.wording import release_words
from ragtrace.store import GateRun, Release, Store
from ragtrace.triage._checks import Stretch
from ragtrace.triage._evidence import COMPONENTS, JudgedRequest, Window
from ragtrace.triage._report import Suspect
from ragtrace.triage.rendering import span
from ragtrace.types import Stage, replace

__all__ = ["gate_note", "rollouts", "suspect_words", "suspected", "suspects"]

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
