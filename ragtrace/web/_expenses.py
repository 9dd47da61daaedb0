"""Expenses of a window by stage, as the overview shows them: time, tokens and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from ragtrace.store import DiagnosisSummary
from ragtrace.types import TokenSource

__all__ = ["ExpenseLine", "expense_lines"]

_SOURCES: Final[dict[TokenSource, str]] = {
    "reported": "as reported",
    "tokenizer": "by the tokenizer",
    "estimate": "estimated",
}
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
