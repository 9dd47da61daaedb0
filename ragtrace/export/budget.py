"""The budget of label values: which of them keep their name, and which are summed as `other`.

A place is given once and for good: the exporter notes it in the store. So no later value, no restart, no other host's
clock and no clock that is set back moves a series into `other`, where its count would look like an increase.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["MAX_SEGMENTS", "MAX_SOURCES", "OTHER", "Budget"]

MAX_SEGMENTS: Final = 50
MAX_SOURCES: Final = 50
OTHER: Final = "other"


class Budget:
    """Names the values of labels, for each service the first ones up to the limit of the label.

    Args:
        limits: how many values of a label keep their name; a label without a limit keeps all.
        known: by label and service, the values that have a place, in their order.

    `new` holds the values that got a place here, by label and service; `folded` those without one.
    """

    def __init__(self, limits: Mapping[str, int], known: Mapping[tuple[str, str], Sequence[str]] | None = None) -> None:
        self._limits = dict(limits)
        self._taken = {key: len(values) for key, values in (known or {}).items()}
        self._named = {key: set(values[: self._limits.get(key[0], 0)]) for key, values in (known or {}).items()}
        self._waiting = {key: set(values) - self._named[key] for key, values in (known or {}).items()}
        self.new: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.folded: dict[tuple[str, str], set[str]] = defaultdict(set)

    def named(self, label: str, service: str, value: str) -> str:
        """`value`, or `other` where the service's places for this label are taken."""
        limit = self._limits.get(label)
        if limit is None or value == OTHER:
            return value
        key = (label, service)
        named = self._named.setdefault(key, set())
        if value in named:
            return value
        if value not in self._waiting.get(key, ()) and self._taken.get(key, 0) < limit:
            self._taken[key] = self._taken.get(key, 0) + 1
            named.add(value)
            self.new[key].append(value)
            return value
        self.folded[key].add(value)
        return OTHER
