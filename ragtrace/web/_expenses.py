"""What the stages of a window's requests took, as the overview shows it: time, tokens and cost by stage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragtrace.store import Glance

__all__ = ["ExpenseLine", "expense_lines"]

_SOURCES: Final = {"reported": "as reported", "tokenizer": "by the tokenizer", "estimate": "estimated"}
_STAGES: Final = ("retrieve", "rerank", "pack", "generate")


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


@dataclass(slots=True)
class _Sums:
    micros: list[tuple[float, float]] = field(default_factory=list)  # with weights
    read: list[tuple[float, float]] = field(default_factory=list)
    written: list[tuple[float, float]] = field(default_factory=list)
    cost: list[tuple[float, float]] = field(default_factory=list)
    sources: Counter[str] = field(default_factory=Counter)


def expense_lines(glances: Iterable[Glance]) -> Iterator[ExpenseLine]:
    """A line for each stage that ran, weighted to be of the traffic."""
    sums: dict[str, _Sums] = {}
    for glance in glances:
        if glance.expenses:
            weight = 1.0 / glance.head_probability if glance.head_probability else 1.0
            for stage, taken in json.loads(glance.expenses).items():
                _add(sums.setdefault(stage, _Sums()), taken, weight)
    for stage in _STAGES:
        if stage in sums:
            yield _line(stage, sums[stage])


def _add(sums: _Sums, taken: Sequence[Any], weight: float) -> None:
    micros, read, written, counted, cost = taken
    for values, value in ((sums.micros, micros), (sums.read, read), (sums.written, written), (sums.cost, cost)):
        if value is not None:
            values.append((value, weight))
    if counted is not None:
        sums.sources[counted] += 1


def _line(stage: str, sums: _Sums) -> ExpenseLine:
    whole = sums.sources.total()
    known = sums.sources.most_common()
    told = (_SOURCES[name] if count == whole else f"{_SOURCES[name]} {count / whole:.0%}" for name, count in known)
    return ExpenseLine(
        stage=stage,
        requests=len(sums.micros),
        median_ms=_quantile(sums.micros, 0.5) / 1_000,
        slow_ms=_quantile(sums.micros, 0.95) / 1_000,
        read=_mean(sums.read),
        written=_mean(sums.written),
        counted=", ".join(told),
        cost=_mean(sums.cost),
        priced=len(sums.cost),
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
