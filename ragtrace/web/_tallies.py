"""Tallies of a window by stage, as the overview shows them: states of requests with their shares, and expenses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from ragtrace.sample_statistics import wilson
from ragtrace.store import DiagnosisSummary
from ragtrace.store.tables import STAGE_NAMES
from ragtrace.types import TokenSource

__all__ = [
    "STATE_WORDS",
    "ExpenseLine",
    "Share",
    "Tallies",
    "Tally",
    "expense_lines",
    "share_among",
    "tallied",
    "tallied_slices",
    "united",
    "weight_of",
]

STATE_WORDS: Final = {"sound": "sound", "suspected": "suspected", "not_known": "not known", "broken": "broken"}
_Z: Final = 1.96

_SOURCES: Final[dict[TokenSource, str]] = {
    "reported": "as reported",
    "tokenizer": "by the tokenizer",
    "estimate": "estimated",
}
_STAGES: Final = ("retrieve", "rerank", "pack", "generate")


@dataclass(frozen=True, slots=True)
class Share:
    """A share of requests with its 95 % interval; count and of are requests that were looked at."""

    value: float
    low: float
    high: float
    count: int
    of: int


class Tally:
    """Weighted counts of the states of one stage in some requests, and apart of those in which it is judged and no
    earlier stage is broken or suspected."""

    __slots__ = ("counts", "judged", "of", "squares", "weights", "whole")

    def __init__(self) -> None:
        self.judged = [0.0, 0.0, 0.0, 0, 0]  # all, their squares, broken; numbers of all and of broken ones
        self.whole = self.squares = 0.0
        self.of = 0
        self.weights = dict.fromkeys(STATE_WORDS, 0.0)
        self.counts = dict.fromkeys(STATE_WORDS, 0)

    def add(self, weight: float, state: str, times: int, *, in_scope: bool = True) -> None:
        """So many requests of one weight. in_scope: no earlier stage is broken or suspected."""
        if in_scope and state in ("sound", "broken"):
            bad = times if state == "broken" else 0
            added = weight * times, weight * weight * times, weight * bad, times, bad
            self.judged = [one + more for one, more in zip(self.judged, added, strict=True)]
        self.whole += weight * times
        self.squares += weight * weight * times
        self.of += times
        self.weights[state] += weight * times
        self.counts[state] += times

    def unite(self, other: Tally, sign: int = 1) -> Tally:
        """Add the requests of another tally; with -1 take them away."""
        self.whole += sign * other.whole
        self.squares += sign * other.squares
        self.of += sign * other.of
        self.judged = [one + sign * more for one, more in zip(self.judged, other.judged, strict=True)]
        for state in STATE_WORDS:
            self.weights[state] += sign * other.weights[state]
            self.counts[state] += sign * other.counts[state]
        return self

    def indicator(self) -> Share | None:
        """The share of broken requests among those judged in scope, with a Wilson interval by the effective size; None
        where there is none."""
        whole, squares, broken, of, count = self.judged
        return _share(whole, squares, int(of), broken, int(count))


def _share(whole: float, squares: float, of: int, part: float, count: int) -> Share | None:
    if of <= 0 or whole <= 0:
        return None
    size, share = whole * whole / max(squares, 1e-300), min(1.0, max(0.0, part / whole))
    low, high = wilson(share * size, size, _Z)
    return Share(share, low, high, count, of)


Tallies = dict[tuple[object, int], Tally]
"""By slice or by segment, and stage (its place in the path)."""


def tallied(keyed: Iterable[tuple[object, DiagnosisSummary]]) -> Tallies:
    """The states of requests under their keys. Most requests are alike, and are counted together."""
    found: Tallies = {}
    alike = Counter((key, one.states, one.head_probability) for key, one in keyed)
    for (key, states, probability), count in alike.items():
        weight, in_scope = weight_of(probability), True
        for place, state in enumerate(states):
            if state is not None:
                tally = found.get((key, place))
                if tally is None:
                    tally = found[key, place] = Tally()
                tally.add(weight, state, count, in_scope=in_scope)
                in_scope = in_scope and state not in ("broken", "suspected")
    return found


def tallied_slices(slices: Sequence[Sequence[DiagnosisSummary]]) -> Tallies:
    return tallied((number, one) for number, ones in enumerate(slices) for one in ones)


def weight_of(probability: float) -> float:
    return 1.0 / probability if probability else 1.0


def share_among(ones: Iterable[DiagnosisSummary], ids: Container[str]) -> Share | None:
    """The share of these requests among others."""
    whole = squares = part = 0.0
    count = of = 0
    for one in ones:
        weight = weight_of(one.head_probability)
        whole, squares, of = whole + weight, squares + weight * weight, of + 1
        if one.request_id in ids:
            part, count = part + weight, count + 1
    return _share(whole, squares, of, part, count)


def united(tallies: Tallies) -> list[Tally]:
    """By stage."""
    found = [Tally() for _ in STAGE_NAMES]
    for (_, place), tally in tallies.items():
        found[place].unite(tally)
    return found


@dataclass(frozen=True, slots=True)
class ExpenseLine:
    """One stage. median_ms, slow_ms: of its wall time, the second at the 95th percentile. read, written, cost: means of
    a request, None where none is known; counted: by whom the tokens were counted, with shares; priced: of how many."""

    stage: str
    requests: int
    median_ms: float
    slow_ms: float
    read: float | None
    written: float | None
    counted: str
    cost: float | None
    priced: int


_Taken: TypeAlias = tuple[int, int | None, int | None, TokenSource | None, float | None]
_READ: Final = msgspec.json.Decoder(dict[str, _Taken])


def expense_lines(glances: Iterable[DiagnosisSummary]) -> Iterator[ExpenseLine]:
    """A line for each stage that ran, weighted to be of the traffic."""
    by_stage: dict[str, list[tuple[float, _Taken]]] = {stage: [] for stage in _STAGES}
    for glance in glances:
        if glance.expenses:
            weight = 1.0 / glance.head_probability if glance.head_probability else 1.0
            for stage, taken in _READ.decode(glance.expenses).items():
                by_stage[stage].append((weight, taken))
    return (_line(stage, taken) for stage, taken in by_stage.items() if taken)


def _line(stage: str, taken: Sequence[tuple[float, _Taken]]) -> ExpenseLine:
    sources = Counter(one[3] for _, one in taken if one[3] is not None)
    known = sources.most_common()
    whole = sources.total()
    told = (_SOURCES[name] if count == whole else f"{_SOURCES[name]} {count / whole:.0%}" for name, count in known)
    micros = [(one[0], weight) for weight, one in taken]
    cost = [(one[4], weight) for weight, one in taken if one[4] is not None]
    return ExpenseLine(
        stage=stage,
        requests=len(taken),
        median_ms=_quantile(micros, 0.5) / 1_000,
        slow_ms=_quantile(micros, 0.95) / 1_000,
        read=_mean([(one[1], weight) for weight, one in taken if one[1] is not None]),
        written=_mean([(one[2], weight) for weight, one in taken if one[2] is not None]),
        counted=", ".join(told),
        cost=_mean(cost),
        priced=len(cost),
    )


def _mean(values: Sequence[tuple[float, float]]) -> float | None:
    whole = sum(weight for _, weight in values)
    return sum(value * weight for value, weight in values) / whole if whole else None


def _quantile(values: Sequence[tuple[float, float]], share: float) -> float:
    """The smallest value that this share of the weight does not exceed."""
    left = share * sum(weight for _, weight in values)
    for value, weight in sorted(values):
        left -= weight
        if left <= 0:
            return value
    return max(value for value, _ in values)
