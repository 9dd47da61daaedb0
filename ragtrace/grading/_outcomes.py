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
from ragtrace.wilson import TWO_SIDED_95, wilson

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
    """One request: its action, whether its answer was right, and the kind of its question."""

    action: Action
    is_right: bool
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """How many requests got an action, and the share of these whose answer was right, with its 95 % interval."""

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
    cells: defaultdict[tuple[Action, str], list[bool]] = defaultdict(list)
    for request in requests:
        cells[request.action, request.kind if by_kind else ""].append(request.is_right)
    found = []
    for (action, kind), right in cells.items():
        low, high = wilson(sum(right), len(right), TWO_SIDED_95)
        found.append(ActionOutcome(action, kind, len(right), sum(right) / len(right), low, high))
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
        of_kind = sum(request.kind == cell.kind for request in requests)
        others = [each.is_right for each in requests if each.action == "CORRECT" and each.kind != cell.kind]
        usual, _ = wilson(sum(others), len(others), TWO_SIDED_95)
        if 2 * cell.requests > of_kind and cell.high < usual:
            found.append(cell)
    return sorted(found, key=lambda cell: cell.right)
