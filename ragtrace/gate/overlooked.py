"""What a comparison cannot see: values that only the candidate lacks, segments that it has not, and margins of segments
that nobody asked in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate.metrics import BROKEN, METRICS
from ragtrace.gate.model import Comparison, Policy, Population, Rule

__all__ = ["overlooked"]

_SHOWN: Final = 3
_FEWEST: Final = 5  # requests: less is chance
_IN_PART: Final = 0.1  # of a segment's requests, the least share that is told

Rows = NDArray[np.int64]
Lost = tuple[str, str | None, int, int]


def overlooked(comparison: Comparison, policy: Policy) -> tuple[str, ...]:
    """What a reader must know of it, in sentences.

    A request without a value counts nowhere, so a metric can stay as it was while half of the candidate's answers have
    none. That is told where more are missing than the metric's margin could hide.
    """
    return tuple(_sentences(comparison, policy))


def _sentences(comparison: Comparison, policy: Policy) -> Iterator[str]:
    sides = _rows(comparison)
    rules = sorted(policy.rules, key=lambda rule: rule.metric in BROKEN.values())  # they follow from the scores
    lost = [each for rule in rules for each in _lost(comparison, sides, rule)]
    if lost:
        yield (
            "Where only the candidate has no value, nothing is compared, and a loss stays unseen: "
            f"{_enumerated([_told(each) for each in lost])}."
        )
    gone = _gone(comparison)
    if gone:
        told = [f"{segment} ({number:,} of the baseline's requests)" for segment, number in gone]
        yield (
            "The candidate has no request of segments that the baseline has, and they are not judged: "
            f"{_enumerated(told)}; `required_segments` in the policy blocks that."
        )
    known = {name for side in (comparison.baseline, comparison.candidate) for name in side.segments if name}
    strange = sorted({name for rule in policy.rules for name in rule.segment_margins} - known)
    if strange:
        yield (
            f"The policy has margins for segments that no request is of: {_enumerated(strange)}; the segments are "
            f"{_enumerated(sorted(known)) or 'not recorded'}."
        )


def _gone(comparison: Comparison) -> list[tuple[str, int]]:
    """Segments of the baseline that no request of the candidate is of, and none is a partner of, the largest first."""
    baseline = comparison.baseline
    present = set(comparison.candidate.segments)
    if comparison.paired:
        present.update(baseline.segments[row] for row in _rows(comparison)[0])
    counts = Counter(name for name in baseline.segments if name and name not in present)
    return [(name, number) for name, number in counts.most_common() if number >= _FEWEST]


def _rows(comparison: Comparison) -> tuple[Rows, Rows]:
    if comparison.pairs is not None:
        return comparison.pairs[:, 0], comparison.pairs[:, 1]
    return np.arange(len(comparison.baseline)), np.arange(len(comparison.candidate))


def _lost(comparison: Comparison, sides: tuple[Rows, Rows], rule: Rule) -> Iterator[Lost]:
    """Over all requests, else in the segments where it shows."""
    metric = rule.metric
    known = [
        _defined(population, metric)[rows]
        for population, rows in zip((comparison.baseline, comparison.candidate), sides, strict=True)
    ]
    tolerated = rule.margin if rule.relative or rule.kind != "quantity" else _IN_PART
    found = _missing(known[0], known[1], tolerated)
    if found is not None:
        yield metric, None, *found
        return
    if not known[0].any():
        return
    names = [np.array(comparison.baseline.segments, dtype=object)[sides[0]]]
    names.append(names[0] if comparison.paired else np.array(comparison.candidate.segments, dtype=object)[sides[1]])
    for segment in sorted(set(names[0]) - {""}):
        parts = [of_side[where == segment] for of_side, where in zip(known, names, strict=True)]
        found = _missing(parts[0], parts[1], max(_IN_PART, rule.margin_of(segment) if rule.margin < 1 else 0.0))
        if found is not None:
            yield metric, segment, *found


def _defined(population: Population, metric: str) -> NDArray[np.bool_]:
    values = population.scores.get(metric)
    return np.zeros(len(population), dtype=np.bool_) if values is None else ~np.isnan(values)


def _missing(before: NDArray[np.bool_], after: NDArray[np.bool_], tolerated: float) -> tuple[int, int] | None:
    """How many values the candidate lacks, and of how many requests, where that is more than is tolerated."""
    if not (len(before) and len(after)):
        return None
    share = float(before.mean() - after.mean())
    number = round(share * len(after))
    return (number, len(after)) if share > tolerated and number >= _FEWEST else None


def _told(found: Lost) -> str:
    metric, segment, number, of = found
    where = "" if segment is None else f"in segment {segment} "
    return f"{METRICS[metric].title} {where}({number:,} of {of:,} requests)"


def _enumerated(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
