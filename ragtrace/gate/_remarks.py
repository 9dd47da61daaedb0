"""Remarks of a comparison, which decide nothing and which its reader must know: its blind spots, and who lost exposure.

Blind spots are requests that were left out, values and judgments that only the candidate lacks, segments that it has
not, sides that mix versions. Exposure is by provider, whose documents stand in prompts: a release may leave every stage
as sound as it was and pass over one owner's documents all the same. Which key names the owner is the analyzer's
setting.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze.exposure_report import NO_PROVIDER, OTHERS, UNNAMED, ProviderExposure, compared_exposures
from ragtrace.config import SETTINGS, variable
from ragtrace.formats import joined, percent, plain
from ragtrace.gate._metrics import METRICS, is_doubtful, is_state
from ragtrace.gate.reports.content import enumerated
from ragtrace.gate.selection import Selection
from ragtrace.gate.types import Comparison, GateReport, Policy, Population, ProviderShift, Rule
from ragtrace.store import Store

__all__ = ["blind_spots", "with_providers"]

_SHOWN: Final = 3
_FEWEST: Final = 5  # requests: less is chance
_IN_PART: Final = 0.1  # of a segment's requests, the least share that is told

_Indices = NDArray[np.int64]
_Loss = tuple[str, str | None, int, int]


def blind_spots(comparison: Comparison, policy: Policy, left_out: Sequence[str] = ()) -> tuple[str, ...]:
    """What a reader must know of a comparison, in sentences. left_out: the metrics of rules that neither side defines.

    A request without a value counts nowhere, so a metric can stay as it was while half of the candidate's answers have
    none. That is told where more are missing than the metric's margin could hide.
    """
    return (*_of_comparison(comparison, left_out), *_unseen_losses(comparison, policy))


def _of_comparison(comparison: Comparison, left_out: Sequence[str]) -> Iterator[str]:
    for side, population in (("baseline", comparison.baseline), ("candidate", comparison.candidate)):
        yield from _of_side(side, population)
    if comparison.paired and any(comparison.unmatched):
        before, after = comparison.unmatched
        yield f"Without a partner, and left out: {before} of the baseline's requests and {after} of the candidate's."
    if left_out:
        yield f"Neither side has them, so they are not judged: {', '.join(left_out)}."


def _of_side(side: str, population: Population) -> Iterator[str]:
    if population.excluded:
        reasons = ", ".join(f"{number} {reason}" for reason, number in population.excluded.items())
        yield f"Left out of the {side}: {reasons}."
    if population.stateless:
        yield (
            f"{population.stateless:,} requests of the {side} were judged by an earlier version of the analyzer, which "
            "gave the stages no states: run ragtrace analyze --redo."
        )
    mixed = {component: counts for component, counts in population.versions.items() if len(counts) > 1}
    if mixed:
        versions = "; ".join(f"{component} {_counted(counts)}" for component, counts in mixed.items())
        yield f"The {side} mixes versions: {versions}."


def _counted(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    more = ", ..." if len(ordered) > _SHOWN else ""
    return ", ".join(f"{version} ({number})" for version, number in ordered[:_SHOWN]) + more


def _unseen_losses(comparison: Comparison, policy: Policy) -> Iterator[str]:
    sides = _compared_rows(comparison)
    rules = [rule for rule in policy.rules if not is_doubtful(rule.metric)]
    lost = [loss for rule in rules for loss in _lost(comparison, sides, rule)]
    values = [_loss_text(loss) for loss in lost if not is_state(loss[0])]
    judged = [_loss_text(loss) for loss in lost if is_state(loss[0])]
    if values:
        yield (
            "Where only the candidate has no value, nothing is compared, and a loss stays unseen: "
            f"{enumerated(values)}."
        )
    if judged:
        yield (
            "Where only the candidate's stage is suspected or not known, it is not compared, and a break stays unseen: "
            f"{enumerated(judged)}."
        )
    gone = _gone(comparison)
    if gone:
        missing = [f"{segment} ({number:,} of the baseline's requests)" for segment, number in gone]
        yield (
            "The candidate has no request of segments that the baseline has, and they are not judged: "
            f"{enumerated(missing)}; `required_segments` in the policy blocks that."
        )
    known = {name for side in (comparison.baseline, comparison.candidate) for name in side.segments if name}
    strange = sorted({name for rule in policy.rules for name in rule.segment_margins} - known)
    if strange:
        yield (
            f"The policy has margins for segments that no request is of: {enumerated(strange)}; the segments are "
            f"{enumerated(sorted(known)) or 'not recorded'}."
        )


def _gone(comparison: Comparison) -> list[tuple[str, int]]:
    """Segments of the baseline that no request of the candidate is of, and none is a partner of, the largest first."""
    baseline = comparison.baseline
    present = set(comparison.candidate.segments)
    if comparison.paired:
        present.update(baseline.segments[row] for row in _compared_rows(comparison)[0])
    counts = Counter(name for name in baseline.segments if name and name not in present)
    return [(name, number) for name, number in counts.most_common() if number >= _FEWEST]


def _compared_rows(comparison: Comparison) -> tuple[_Indices, _Indices]:
    if comparison.pairs is not None:
        return comparison.pairs[:, 0], comparison.pairs[:, 1]
    return np.arange(len(comparison.baseline)), np.arange(len(comparison.candidate))


def _lost(comparison: Comparison, sides: tuple[_Indices, _Indices], rule: Rule) -> Iterator[_Loss]:
    """Over all requests, else in the segments where it shows."""
    metric = rule.metric
    known = [
        _defined(population, metric)[rows]
        for population, rows in zip((comparison.baseline, comparison.candidate), sides, strict=True)
    ]
    same = comparison.unchanged.get(rule.stage) if rule.stage is not None else None
    if same is not None:
        known[1] = known[1] | (same & known[0])
    tolerated = rule.margin if rule.relative or rule.kind != "quantity" else _IN_PART
    lack = _count_missing(known[0], known[1], tolerated)
    if lack is not None:
        yield metric, None, *lack
        return
    if not known[0].any():
        return
    names = [np.array(comparison.baseline.segments, dtype=object)[sides[0]]]
    names.append(names[0] if comparison.paired else np.array(comparison.candidate.segments, dtype=object)[sides[1]])
    for segment in sorted(set(names[0]) - {""}):
        parts = [of_side[where == segment] for of_side, where in zip(known, names, strict=True)]
        lack = _count_missing(parts[0], parts[1], max(_IN_PART, rule.margin_of(segment) if rule.margin < 1 else 0.0))
        if lack is not None:
            yield metric, segment, *lack


def _defined(population: Population, metric: str) -> NDArray[np.bool_]:
    values = population.scores.get(metric)
    return np.zeros(len(population), dtype=np.bool_) if values is None else ~np.isnan(values)


def _count_missing(before: NDArray[np.bool_], after: NDArray[np.bool_], tolerated: float) -> tuple[int, int] | None:
    """How many values the candidate lacks, and of how many requests, where that is more than is tolerated."""
    if not (len(before) and len(after)):
        return None
    share = float(before.mean() - after.mean())
    number = round(share * len(after))
    return (number, len(after)) if share > tolerated and number >= _FEWEST else None


def _loss_text(found: _Loss) -> str:
    metric, segment, number, of = found
    where = "" if segment is None else f"in segment {segment} "
    known = METRICS[metric]
    name = known.stage if is_state(metric) else known.title
    return f"{name} {where}({number:,} of {of:,} requests)"


_MOST: Final = 2_000  # requests of a side: they are read with their texts


def with_providers(
    report: GateReport, selections: Sequence[Selection], populations: Sequence[Population], store: str | None
) -> GateReport:
    """The report with exposure by provider on both sides, and a remark on who is starved; as it is where the setting
    says that nothing counts by provider, a side is a file, or fewer than two providers have a name.

    store: the URL that selections without a source are read from. Raises: StoreError.
    """
    by = os.environ.get(variable("provider")) or SETTINGS["provider"].default
    urls = [None if selection.file else selection.url or store for selection in selections]
    if by == NO_PROVIDER or not all(urls):
        return report
    with ExitStack() as opened:
        stores = {url: opened.enter_context(Store.open(url)) for url in dict.fromkeys(urls) if url}
        before, after = (
            (stores[url], _weights(side)) for url, side in zip(urls, populations, strict=True) if url is not None
        )
        then, now, changes = compared_exposures(before, after, by=by)
    starved = {each.provider for each in changes if each.starved} - {OTHERS, UNNAMED}
    if len({each.provider for each in now} - {OTHERS, UNNAMED}) < 2:
        return report
    earlier = {each.provider: each for each in then}
    shifts = tuple(
        _shift(earlier[each.provider], each, each.provider in starved)
        for each in sorted(now, key=lambda each: each.provider not in starved)
    )
    remark = _remark([each for each in shifts if each.starved])
    return msgspec.structs.replace(
        report, providers=shifts, providers_by=by, warnings=(*report.warnings, *([remark] if remark else []))
    )


def _weights(side: Population) -> Mapping[str, float]:
    """The weight of each request, of many of a part that is spread evenly."""
    step = -(-len(side) // _MOST)
    return dict(zip(list(side.request_ids)[::step], side.weights[::step].tolist(), strict=True))


def _shift(before: ProviderExposure, after: ProviderExposure, starved: bool) -> ProviderShift:
    return ProviderShift(
        provider=after.provider,
        exposed=(before.exposed.value, after.exposed.value),
        deserved=(before.deserved.value, after.deserved.value),
        attributed=(before.attributed.value, after.attributed.value),
        starved=starved,
    )


def _remark(starved: Sequence[ProviderShift]) -> str:
    """One sentence; empty where nobody is starved."""
    lost = [
        f"{plain(each.provider)} from {percent(each.exposed[0] or 0.0)} to {percent(each.exposed[1] or 0.0)}"
        for each in starved
    ]
    return f"places in prompts fell that documents deserve: {joined(lost)}; it decides nothing here" if lost else ""
