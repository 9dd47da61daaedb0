"""Several tests at once: p-values adjusted for being the smallest of many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["holm"]


def holm(p_values: Sequence[float], chances: Sequence[Callable[[float], float]] | None = None) -> list[float]:
    """Adjusted p-values in the given order, each at most 1: reject where one is at most alpha.

    chances: of each test the probability, where there is nothing to find, of a p-value as small as the one given or
    smaller; None: that p-value itself. A test that cannot get so small then takes nothing from the others.

    Sources: Holm (1979), "A simple sequentially rejective multiple test procedure"; of discrete tests Tarone (1990), "A
    modified Bonferroni method for discrete data", and Westfall and Wolfinger (1997), "Multiple tests with discrete
    distributions".
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted, highest = [1.0] * len(p_values), 0.0
    for step, at in enumerate(order):
        p = p_values[at]
        as_small = (len(p_values) - step) * p if chances is None else sum(chances[each](p) for each in order[step:])
        highest = max(highest, min(1.0, as_small))
        if highest == 1.0:
            break
        adjusted[at] = highest
    return adjusted
