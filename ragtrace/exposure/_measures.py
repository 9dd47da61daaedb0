"""Exposure of items in rankings, and its measures: disparity, relevance, utility, attribution, with exact bounds.

A language model reads the first k documents and none below: machine-user attention is 1 for the ranks 1 … k, else 0.
An item's exposure is how often it is read; it is compared with the exposure that its usefulness deserves. Items may be
joined to groups, as all documents of one provider: a group's exposure is the sum of its items'.

A measure is normalized by its exact least and greatest value over all exposures of the same total, and has no
normalized value where the two coincide. A published implementation sums relevance over the useful items only, against
a bound that holds the others too: its best ranking scores 0.84 at 10 items, 3 of them useful, and k = 5.

Source: Kim and Diaz, "Towards Fair RAG: On the Impact of Fair Ranking in Retrieval-Augmented Generation", section 3.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.errors import ConfigurationError
from ragtrace.exposure._plackett_luce import check_depth
from ragtrace.numeric import is_integer, real_array

__all__ = [
    "Measure",
    "attributed_exposure",
    "attribution_rate",
    "disparity",
    "expected_utility",
    "exposure",
    "group_sums",
    "relevance",
    "target_exposure",
]

Group = TypeVar("Group", bound=Hashable)

_SLACK = 1e-9  # what rounding leaves in a sum of shares

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure with the least and the greatest value that it could have. `reason`: why there is no normalized one."""

    value: float
    least: float
    most: float
    normalized: float | None
    reason: str | None = None


def exposure(rankings: Sequence[Sequence[int]], items: int, k: int, weights: ArrayLike | None = None) -> _Floats:
    """Each item's exposure: the share of rankings that have it among the first k.

    rankings: positions of items, best first; what stands behind the k-th place does not count. weights: one for each
    ranking, at least 0, as one over the probability of a request to be looked at; None: all alike.
    Returns: `(items,)`, in [0, 1].
    Raises: ConfigurationError for no rankings, an item that is not there or stands in a ranking twice.
    """
    return _mean_attention(rankings, [[True] * len(ranking) for ranking in rankings], items, k, weights)


def attributed_exposure(
    rankings: Sequence[Sequence[int]],
    used: Sequence[Sequence[bool]],
    items: int,
    k: int,
    weights: ArrayLike | None = None,
) -> _Floats:
    """Each item's attributed exposure: the share of rankings that have it among the first k and whose answer uses it.

    used: for each ranking and place whether the answer made of this ranking follows from the item.
    Returns: `(items,)`, in [0, 1], nowhere above `exposure`.
    Raises: ConfigurationError as `exposure`, and where `used` has another shape.
    """
    if [len(each) for each in used] != [len(each) for each in rankings]:
        raise ConfigurationError("used has another shape than rankings; say for each place whether it was used")
    return _mean_attention(rankings, used, items, k, weights)


def _mean_attention(
    rankings: Sequence[Sequence[int]],
    counted: Sequence[Sequence[bool]],
    items: int,
    k: int,
    weights: ArrayLike | None,
) -> _Floats:
    check_depth(k)
    check_depth(items, "items")
    if len(rankings) == 0:
        raise ConfigurationError("there are no rankings; give at least one")
    shares = _shares(weights, len(rankings))
    found = np.zeros(items)
    for ranking, is_counted, share in zip(rankings, counted, shares, strict=True):
        read = list(ranking)[:k]
        if odd := [item for item in read if not is_integer(item) or not 0 <= item < items]:
            raise ConfigurationError.of("an item of a ranking", odd[0], f"a position from 0 to {items - 1}")
        if len(set(read)) < len(read):
            raise ConfigurationError(f"the ranking {read} holds an item more than once; give each one place")
        found[[item for item, is_one in zip(read, is_counted, strict=False) if is_one]] += share
    return np.minimum(found, 1.0)


def _shares(weights: ArrayLike | None, count: int) -> _Floats:
    if weights is None:
        return np.full(count, 1 / count)
    values = real_array(weights, "weights", ConfigurationError)
    if values.shape != (count,) or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise ConfigurationError(f"weights must be {count} finite numbers of at least 0, and not all 0")
    return np.asarray(values / values.sum())


def attribution_rate(used: Sequence[bool], k: int) -> float:
    """The share of the first k places that the answer uses, in [0, 1]. used: one for each place."""
    check_depth(k)
    read = list(used)[:k]
    if not read:
        raise ConfigurationError("the ranking is empty; give at least one place")
    return sum(map(bool, read)) / len(read)


def target_exposure(useful: Sequence[bool] | NDArray[np.bool_], k: int) -> _Floats:
    """The exposure that each item deserves: useful items share the first places, the others what is left.

    useful: `(n,)`. With m useful items and k of at most n: 1 for a useful one and (k − m)/(n − m) for the others where
    m ≤ k; else k/m and 0. Returns: `(n,)`, in [0, 1], with the sum min(k, n).
    """
    check_depth(k)
    flags = np.asarray(useful, dtype=bool)
    if flags.ndim != 1 or flags.size == 0:
        raise ConfigurationError(f"useful has the shape {flags.shape}; give one flag for each item")
    items, good = len(flags), int(flags.sum())
    depth = min(k, items)
    if good > depth:
        return np.where(flags, depth / good, 0.0)
    return np.where(flags, 1.0, (depth - good) / (items - good) if items > good else 1.0)


def group_sums(values: ArrayLike, groups: Sequence[Group]) -> dict[Group, float]:
    """The sum of the items' values in each group, in the order in which the groups come. values: `(n,)`."""
    numbers = real_array(values, "values", ConfigurationError)
    if numbers.shape != (len(groups),):
        raise ConfigurationError(f"values have the shape {numbers.shape}; give one for each of {len(groups)} items")
    sums: dict[Group, float] = {}
    for group, value in zip(groups, numbers.tolist(), strict=True):
        sums[group] = sums.get(group, 0.0) + value
    return sums


def disparity(exposures: ArrayLike, sizes: ArrayLike | None = None) -> Measure:
    """EE-D = ‖ε‖²: how far exposure stands on few. Normalized 0 is as even as can be, 1 as uneven.

    exposures: `(n,)`, of items in [0, 1], or of groups in [0, size]. sizes: `(n,)`, how many items each group has;
    None: items. Bounds over everything with the same total: for n items and k places [k²/n, k].
    """
    values, capacity = _checked(exposures, sizes)
    total = float(values.sum())
    least = float(np.sum(_level(capacity, total) ** 2))
    most = float(np.sum(_filled(capacity, total, np.argsort(-capacity, kind="stable")) ** 2))
    return _normalized(float(values @ values), least, most, "every exposure of this total is equally even")


def relevance(exposures: ArrayLike, targets: ArrayLike, sizes: ArrayLike | None = None) -> Measure:
    """EE-R = ε·ε*: how far exposure goes where it is deserved, over *all* items. Normalized 1 is the best there is.

    exposures, targets: `(n,)`, of items or of groups with their `sizes`. Bounds over all exposures with the same total.
    """
    values, capacity = _checked(exposures, sizes)
    deserved, _ = _checked(targets, sizes, "targets")
    if deserved.shape != values.shape:
        raise ConfigurationError(f"targets have the shape {deserved.shape}, exposures {values.shape}; give one each")
    total, order = float(values.sum()), np.argsort(deserved, kind="stable")
    least = float(deserved @ _filled(capacity, total, order))
    most = float(deserved @ _filled(capacity, total, order[::-1]))
    return _normalized(float(values @ deserved), least, most, "every item deserves the same, or all are shown")


def expected_utility(utilities: ArrayLike, best: float | None = None) -> Measure:
    """EU: the mean worth of the answers under the rankings, normalized by the best that was observed.

    utilities: `(rankings,)`, at least 0. best: the greatest worth that was seen under any ranking of this request;
    None: the greatest of these.
    """
    values = real_array(utilities, "utilities", ConfigurationError)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all() or (values < 0).any():
        raise ConfigurationError("utilities must be a row of finite numbers of at least 0, one for each ranking")
    most = float(values.max()) if best is None else float(best)
    if most + _SLACK < values.max():
        raise ConfigurationError.of("best", best, f"at least the greatest utility, {values.max():g}")
    return _normalized(float(values.mean()), 0.0, most, "no answer was worth anything")


def _checked(values: ArrayLike, sizes: ArrayLike | None, name: str = "exposures") -> tuple[_Floats, _Floats]:
    numbers = real_array(values, name, ConfigurationError)
    if numbers.ndim != 1 or numbers.size == 0:
        raise ConfigurationError(f"{name} have the shape {numbers.shape}; give one for each item or group")
    capacity = np.ones(len(numbers)) if sizes is None else real_array(sizes, "sizes", ConfigurationError)
    if capacity.shape != numbers.shape or not (np.isfinite(capacity) & (capacity > 0)).all():
        raise ConfigurationError(f"sizes must be {len(numbers)} numbers above 0: how many items each group has")
    if not ((numbers >= -_SLACK) & (numbers <= capacity + _SLACK)).all():
        odd = int(np.argmin((numbers >= -_SLACK) & (numbers <= capacity + _SLACK)))
        raise ConfigurationError.of(f"{name}[{odd}]", float(numbers[odd]), f"a number from 0 to {capacity[odd]:g}")
    return numbers, capacity


def _level(capacity: _Floats, total: float) -> _Floats:
    """The evenest exposures of this total: all alike, but for those whose capacity is less."""
    found = np.zeros(len(capacity))
    left = min(total, float(capacity.sum()))
    for place, item in enumerate(order := np.argsort(capacity, kind="stable")):
        found[item] = min(float(capacity[item]), left / (len(order) - place))
        left -= found[item]
    return found


def _filled(capacity: _Floats, total: float, order: NDArray[np.intp]) -> _Floats:
    """The exposures that fill one after the other in this order."""
    before = np.cumsum(capacity[order]) - capacity[order]
    found = np.zeros(len(capacity))
    found[order] = np.clip(total - before, 0.0, capacity[order])
    return found


def _normalized(value: float, least: float, most: float, reason: str) -> Measure:
    if most - least <= _SLACK * max(1.0, abs(most)):
        return Measure(value, least, most, None, reason)
    return Measure(value, least, most, min(max((value - least) / (most - least), 0.0), 1.0))
