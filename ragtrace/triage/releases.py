"""Which release could have broken a stage: when the share of bad requests rose, against when versions came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ragtrace.analyze.diagnosis import is_rollout
from ragtrace.registry.instruments import STAGES
from ragtrace.store import Release
from ragtrace.triage.checks import Stretch
from ragtrace.triage.evidence import Judged, Window
from ragtrace.triage.report import Suspect
from ragtrace.triage.wording import clock, span, written
from ragtrace.types import Stage

__all__ = ["rollouts", "suspected", "suspects"]

_SLACK: Final = 0.05  # of the time looked at: a rollout takes a while until its first bad answer
_LONGEST: Final = 900_000_000_000
_SHOWN: Final = 5
_COMPONENTS: Final = {stage.name: stage.components for stage in STAGES}


def rollouts(releases: Iterable[Release], stage: Stage | None = None) -> list[Release]:
    """The releases that replaced another version of their component, of the stage's components where one is given.
    A component's first version was not rolled out, as far as anybody knows."""
    known = sorted(releases, key=lambda each: each.at)
    components = {release.component for release in known} if stage is None else set(_COMPONENTS[stage])
    return [release for release in known if release.component in components and is_rollout(release, known)]


def suspects(
    stage: Stage, risen: Stretch | None, broken: Sequence[Judged], releases: Iterable[Release], window: Window
) -> tuple[Suspect, ...]:
    """The stage's rollouts, the likeliest first: those that fit the beginning of the break, by how many broken requests
    point at each; then the nearest."""
    votes = Counter(each.row.suspected_rollout for each in broken)
    slack = min(_LONGEST, int(_SLACK * (window.until - window.before)))
    found = [_suspect(each, risen, slack, votes, len(broken)) for each in rollouts(releases, stage)]
    found = [each for each in found if each.at <= written(window.until)]
    order = {"fits": 0, "unknown": 1, "early": 1, "late": 1}
    found.sort(key=lambda each: (order[each.fit], -each.votes, abs(each.offset_seconds or 0.0), each.release))
    return tuple(found[:_SHOWN])


def _suspect(release: Release, risen: Stretch | None, slack: int, votes: Counter[str | None], of: int) -> Suspect:
    name = f"{release.component}={release.version}"
    if risen is None:
        offset, fit = None, "unknown"
    else:
        offset = (risen.latest - release.at) / 1e9
        fit = "early" if release.at < risen.earliest - slack else "late" if release.at > risen.latest else "fits"
    return Suspect(
        release=name,
        at=written(release.at),
        fit=fit,  # type: ignore[arg-type]  # one of its three words
        offset_seconds=offset,
        votes=votes[name],
        of=of,
    )


def suspected(stage: Stage, risen: Stretch | None, found: Sequence[Suspect]) -> tuple[str | None, str]:
    """The release to suspect, and in a sentence why; None where none fits."""
    components = ", ".join(_COMPONENTS[stage])
    if not found:
        none = f"no version of this stage's components ({components}) is known to have replaced another"
        return None, f"{none}: no rollout explains it"
    first = found[0]
    if risen is None:
        latest = max(found, key=lambda each: each.at)
        return None, (
            "when it began is not seen in the time looked at, so no release is named; the last one of this stage was "
            f"{latest.release} at {clock(latest.at)}: look further back with an earlier --since"
        )
    began = clock(written(risen.latest))
    if first.fit != "fits":
        nearest = min(found, key=lambda each: abs(each.offset_seconds or 0.0))
        side = "before" if (nearest.offset_seconds or 0.0) > 0 else "after"
        away = span(nearest.offset_seconds or 0.0)
        return None, (
            f"no release fits: it began at {began}; the nearest of this stage, {nearest.release}, came {away} {side}; "
            "look for a change without a version: data, configuration, traffic, a provider"
        )
    why = f"it began at {began}, and {first.release} came at {clock(first.at)}"
    why += f"; {first.votes} of {first.of} broken requests point at it" if first.votes else ""
    others = [each for each in found[1:] if each.fit == "fits"]
    if others:
        why += "; " + ", ".join(f"{each.release} ({each.votes} of {each.of})" for each in others) + " came then, too"
    return first.release, why
