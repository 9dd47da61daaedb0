"""Live traffic: a canary against what runs beside it, with the segments of both in the proportions of the baseline.

A canary seldom gets the mix of requests that the rest gets, and a harder mix looks like a worse version. So the
candidate's requests are weighted to the baseline's shares of segments (direct standardization): over all requests, the
difference is then the mean over segments of the differences within each, by the baseline's mix. A segment that one side
has next to nothing of cannot be standardized: it is left out and named, and where such segments hold much of the
baseline's traffic the candidate cannot pass. Intervals take the weights as they are, which
counts the differences among segments as noise, so that they are rather too wide than too narrow.
Source: Fleiss, Levin and Paik (2003), "Statistical Methods for Rates and Proportions", chapter 19.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragtrace.errors import ConfigurationError, InputError
from ragtrace.gate._remarks import with_providers
from ragtrace.gate.reports.content import MOST_LEFT_OUT, share_left_out
from ragtrace.gate.reports.sentences import headline, next_steps
from ragtrace.gate.runs import compare, load_sides, with_texts_and_labels
from ragtrace.gate.selection import parse
from ragtrace.gate.types import GateReport, Policy, Population, SegmentMix
from ragtrace.times import written_time
from ragtrace.triage.rendering import percent

__all__ = ["compare_live", "judge_live", "live_selection", "standardize"]

_FEWEST: Final = 10  # requests of each side, below which a segment cannot be standardized
_HEAVY: Final = 10.0  # a factor from which on a few requests carry a segment


def judge_live(
    service: str,
    baseline: str | None,
    candidate: str,
    *,
    since: int,
    until: int,
    policy: Policy,
    store: str | None,
) -> GateReport:
    """Hold the requests of one set of versions against those of another in the same window, as independent samples.

    baseline, candidate: `COMPONENT=VERSION[,...]`; without a baseline all that ran beside the candidate is it: requests
    that carried other versions of its components. since, until: nanoseconds. policy: checked.
    Raises: ConfigurationError, InputError, StoreError.
    """
    canary = live_selection("--candidate", candidate, service, since, until)
    beside = (
        canary.replace("version:", "other:", 1)
        if baseline is None
        else live_selection("--baseline", baseline, service, since, until)
    )
    selections = [parse("--baseline", beside), parse("--candidate", canary)]
    before, after = load_sides(selections, policy, store, service).populations
    report = compare_live(before, after, policy, service=service)
    return with_texts_and_labels(with_providers(report, selections, (before, after), store), store)


def compare_live(
    baseline: Population, candidate: Population, policy: Policy, *, service: str | None = None
) -> GateReport:
    """Judge a candidate in the segments that both sides share. Where those that are left out hold too much of the
    baseline's traffic, nothing passes.

    Raises: ConfigurationError, InputError.
    """
    before, after, mix = standardize(baseline, candidate)
    report = compare(before, after, msgspec.structs.replace(policy, pairing="unpaired"), service=service)
    report = msgspec.structs.replace(report, mix=mix, warnings=(*report.warnings, *_remarks(mix)))
    if report.decision == "block" or share_left_out(report) <= MOST_LEFT_OUT:
        return report
    report = msgspec.structs.replace(report, decision="undecided")
    return msgspec.structs.replace(report, headline=headline(report), next_steps=next_steps(report))


def live_selection(option: str, versions: str, service: str, since: int, until: int) -> str:
    """The selection of requests with these versions in a window. versions: `model=m-8`, or `version=model=m-8`.

    Raises: ConfigurationError for anything else.
    """
    text = versions.strip()
    for prefix in ("version:", "version="):
        if text.startswith(prefix) and "=" in text[len(prefix) :]:
            text = text[len(prefix) :]
            break
    if "&" in text or "=" not in text:
        raise ConfigurationError.of(option, versions, "COMPONENT=VERSION[,...], as in model=m-8")
    return f"version:{text}&service:{service}&window:{written_time(since)}..{written_time(until)}"


def standardize(baseline: Population, candidate: Population) -> tuple[Population, Population, tuple[SegmentMix, ...]]:
    """Both sides in the segments that they share, the candidate's requests weighted to the baseline's mix; and the mix.

    Where no segment has enough requests, all that both sides have are kept: the gate then says how many it takes.

    Raises: InputError where the sides have no segment in common.
    """
    shares = _shares(baseline), _shares(candidate)
    counts = _counts(baseline), _counts(candidate)
    names = sorted({*counts[0], *counts[1]})
    fewest = {name: min(each.get(name, 0) for each in counts) for name in names}
    shared = [name for name in names if fewest[name] >= _FEWEST] or [name for name in names if fewest[name]]
    if not shared:
        raise InputError(
            f"the baseline {baseline.name!r} and the candidate {candidate.name!r} have no segment in common; give a "
            "longer window by --since"
        )
    whole = [sum(side[name] for name in shared) for side in shares]
    factors = {name: shares[0][name] / whole[0] / (shares[1][name] / whole[1]) for name in shared}
    mix = tuple(
        SegmentMix(
            segment=name,
            baseline=shares[0].get(name, 0.0),
            candidate=shares[1].get(name, 0.0),
            factor=factors.get(name),
        )
        for name in names
    )
    before, after = _within(baseline, factors), _within(candidate, factors)
    weights = after.weights * np.array([factors[name] for name in after.segments])
    return before, replace(after, weights=weights), mix


def _counts(side: Population) -> dict[str, int]:
    names, numbers = np.unique(np.array(side.segments, dtype=object), return_counts=True)
    return dict(zip(names.tolist(), numbers.tolist(), strict=True))


def _shares(side: Population) -> dict[str, float]:
    segments = np.array(side.segments, dtype=object)
    whole = float(side.weights.sum())
    return {name: float(side.weights[segments == name].sum()) / whole for name in set(side.segments)}


def _within(side: Population, segments: Mapping[str, float]) -> Population:
    """The requests of these segments; the others are counted as excluded."""
    rows: NDArray[np.int64] = np.flatnonzero([name in segments for name in side.segments])
    left_out = len(side) - len(rows)
    excluded = (
        {**side.excluded, "in a segment that one side has too little of": left_out} if left_out else side.excluded
    )
    return replace(
        side,
        request_ids=[side.request_ids[row] for row in rows],
        questions=[side.questions[row] for row in rows],
        segments=[side.segments[row] for row in rows],
        clusters=[side.clusters[row] for row in rows],
        causes=[side.causes[row] for row in rows],
        weights=side.weights[rows],
        scores={metric: values[rows] for metric, values in side.scores.items()},
        states={stage: codes[rows] for stage, codes in side.states.items()},
        excluded=excluded,
        traces=(),  # of pairs alone
    )


def _remarks(mix: tuple[SegmentMix, ...]) -> list[str]:
    found = []
    left_out = [each for each in mix if each.factor is None]
    if left_out:
        names = ", ".join(each.segment or "(none)" for each in left_out[:3]) + (" ..." if len(left_out) > 3 else "")
        shares = [
            percent(sum(share)) for share in zip(*((each.baseline, each.candidate) for each in left_out), strict=True)
        ]
        found.append(
            f"segments with fewer than {_FEWEST} requests on a side are left out: {names} ({shares[0]} of the "
            f"baseline's requests, {shares[1]} of the candidate's)"
        )
    found += [
        f"requests of the candidate in segment {each.segment or '(none)'} count {each.factor:.0f} times: it got "
        f"{percent(each.candidate)} of its requests there, the baseline {percent(each.baseline)}"
        for each in mix
        if each.factor is not None and each.factor >= _HEAVY
    ]
    return found
