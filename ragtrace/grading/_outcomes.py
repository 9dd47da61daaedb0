"""How often an action was right: thresholds fitted to outcomes, outcomes by action, and where trust is misplaced.

Source: Yan et al. (2024), "Corrective Retrieval Augmented Generation", and its reproduction, Tables 3 and 4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ragtrace.errors import ConfigurationError
from ragtrace.grading._actions import Action
from ragtrace.numeric import is_real
from ragtrace.wilson import TWO_SIDED_95, share_and_size, wilson

__all__ = ["ActionOutcome", "FittedThreshold", "GradedRequest", "confidently_wrong", "fit_upper", "outcomes"]

_ENOUGH: Final = 10  # requests of a cell below which nothing is said of it


@dataclass(frozen=True, slots=True)
class FittedThreshold:
    """The least score from which CORRECT is right often enough, with the share that was, its 95 % interval, and the
    requests at or above it. threshold: None where no score will do, with the reason."""

    threshold: float | None
    share: float | None
    low: float | None
    high: float | None
    requests: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class GradedRequest:
    """One request: its action, whether its answer was right, the kind of its question, and for how many requests it
    stands: one over the probability with which it was drawn."""

    action: Action
    is_right: bool
    kind: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """How many requests got an action, and the share of that traffic whose answer was right, with its 95 %
    interval."""

    action: Action
    kind: str
    requests: int
    right: float
    low: float
    high: float


def fit_upper(best_scores: Sequence[float], is_right: Sequence[bool], wanted: float) -> FittedThreshold:
    """The least threshold from which on the retrieval was right in at least `wanted` of the requests, surely.

    best_scores: `(requests,)`, each request's best document. is_right: whether the evidence was really there, by a
    label or an outcome. wanted: a share in (0, 1). Sure: the lower end of the 95 % interval reaches it. Every
    score is tried, so of many that barely reach it the least one is a little lucky: judge it on other requests.
    """
    if len(best_scores) != len(is_right):
        raise ConfigurationError(
            f"{len(best_scores)} scores and {len(is_right)} labels; give one of each for a request"
        )
    if not (is_real(wanted) and 0 < wanted < 1):
        raise ConfigurationError.of("wanted", wanted, "a share above 0 and below 1")
    ordered = sorted(zip(best_scores, is_right, strict=True), key=lambda pair: -pair[0])
    found: FittedThreshold | None = None
    right = 0
    for count, (score, is_one) in enumerate(ordered, 1):
        right += is_one
        if count < len(ordered) and ordered[count][0] == score:
            continue  # a threshold parts no equal scores
        low, high = wilson(right, count, TWO_SIDED_95)
        if low >= wanted:
            found = FittedThreshold(score, right / count, low, high, count)
    if found is not None:
        return found
    reason = f"no threshold is right in {wanted:.0%} for sure on {len(ordered)} requests: label more, or want less"
    return FittedThreshold(None, None, None, None, 0, reason)


def outcomes(requests: Iterable[GradedRequest], *, by_kind: bool = False) -> list[ActionOutcome]:
    """The share of right answers by action (and by the kind of question), most requests first."""
    cells: defaultdict[tuple[Action, str], list[tuple[bool, float]]] = defaultdict(list)
    for request in requests:
        cells[request.action, request.kind if by_kind else ""].append((request.is_right, request.weight))
    found = []
    for (action, kind), right in cells.items():
        share, size = share_and_size(right)
        found.append(ActionOutcome(action, kind, len(right), share, *wilson(share * size, size, TWO_SIDED_95)))
    return sorted(found, key=lambda cell: (-cell.requests, cell.kind, cell.action))


def confidently_wrong(requests: Sequence[GradedRequest]) -> list[ActionOutcome]:
    """Kinds of questions whose retrieval is mostly called CORRECT and whose answers are then worse than usual.

    Usual is the share of right answers under CORRECT over the other kinds; worse, surely: the upper end of the kind's
    interval lies below the lower end of that one. Kinds of fewer than ten such requests are left out. The worst first.
    """
    trusted = [
        cell for cell in outcomes(requests, by_kind=True) if cell.action == "CORRECT" and cell.requests >= _ENOUGH
    ]
    found = []
    for cell in trusted:
        is_trusted = [(each.action == "CORRECT", each.weight) for each in requests if each.kind == cell.kind]
        others = [
            (each.is_right, each.weight) for each in requests if each.action == "CORRECT" and each.kind != cell.kind
        ]
        if not others:
            continue
        share, size = share_and_size(others)
        usual, _ = wilson(share * size, size, TWO_SIDED_95)
        if share_and_size(is_trusted)[0] > 0.5 and cell.high < usual:
            found.append(cell)
    return sorted(found, key=lambda cell: cell.right)
