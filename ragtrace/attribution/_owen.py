"""Owen values by a tree of parts: Shapley values in which parts that belong together enter and leave together.

A tree joins players (words) to parts (sentences, the two sides of a pair) and these to the whole. At each joint both
children share what their part is worth as two players would; an exact result needs about n² evaluations of n players in
a balanced tree, not 2^n. With a budget the joints that are worth most are opened first, and what stays closed is spread
over its players.

Source: Owen (1977), "Values of games with a priori unions"; Lundberg's PartitionExplainer, whose order and spreading
this follows.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import Coalitions, Game, Values
from ragtrace.errors import AttributionError
from ragtrace.numeric import is_integer

__all__ = ["OwenValues", "PartitionTree", "balanced_tree", "owen_values"]

PartitionTree: TypeAlias = "int | tuple[PartitionTree, PartitionTree]"
"""A player by its number, or two parts."""

_AT_ONCE: Final = 16  # joints whose coalitions are evaluated in one call


@dataclass(frozen=True, slots=True)
class OwenValues:
    """values: `(k, m)`, of each player for each output; they sum to the full game's value less the empty one's.

    empty, full: `(m,)`. evaluations: coalitions that were evaluated. is_exact: no joint stayed closed.
    """

    values: Values
    empty: NDArray[np.float64]
    full: NDArray[np.float64]
    evaluations: int
    is_exact: bool

    @property
    def completeness_delta(self) -> float:
        """By how much the sum misses the difference of full and empty game, the largest over the outputs: rounding."""
        return float(np.abs(self.values.sum(axis=0) - (self.full - self.empty)).max(initial=0.0))


@dataclass(slots=True)
class _Joint:
    """A part that is to share its worth, given who is there already. weight: of this order of entering."""

    part: PartitionTree
    there: NDArray[np.bool_]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    weight: float

    @property
    def worth(self) -> NDArray[np.float64]:
        return (self.after - self.before) * self.weight


def balanced_tree(players: Sequence[int]) -> PartitionTree:
    """A tree that halves neighbors. Raises: AttributionError without players."""
    if not players:
        raise AttributionError("a tree needs players; give at least one")
    if len(players) == 1:
        return int(players[0])
    middle = (len(players) + 1) // 2
    return balanced_tree(players[:middle]), balanced_tree(players[middle:])


def owen_values(game: Game, tree: PartitionTree, budget: int | None = None) -> OwenValues:
    """The Owen values of the players of a tree.

    game: takes `(n, k)` coalitions, returns `(n, m)` values. budget: about the most coalitions that are evaluated, at
    least 2; None: as many as an exact result needs.
    Raises: AttributionError where the players are not 0 to k − 1, each once, or the budget is below 2.
    """
    players = _players(tree)
    if sorted(players) != list(range(len(players))):
        raise AttributionError(f"the tree has the players {sorted(players)[:9]}; give each of 0 to k - 1 once")
    if budget is not None and (not is_integer(budget) or budget < 2):
        raise AttributionError(f"a budget of {budget!r} evaluations is not usable; give an integer of at least 2")
    known = _Known(game)
    none = np.zeros(len(players), dtype=np.bool_)
    empty, full = known.of([none, ~none])
    values: Values = np.zeros((len(players), len(empty)))
    queue = _Queue()
    queue.add(_Joint(tree, none, empty, full, 1.0))
    while queue and (budget is None or len(known) < budget):
        joints = []
        for joint in queue.take(_AT_ONCE if budget is None else max(1, min(_AT_ONCE, (budget - len(known)) // 2))):
            if isinstance(joint.part, int):
                values[joint.part] += joint.worth
            else:
                joints.append((joint, joint.part))
        entered = [_entered(joint, child) for joint, children in joints for child in children]
        worths = known.of(entered) if entered else []
        for place, (joint, children) in enumerate(joints):
            both = slice(2 * place, 2 * place + 2)
            for opened in _opened(joint, children, entered[both], worths[both]):
                queue.add(opened)
    for joint in queue.joints:
        within = _players(joint.part)
        values[within] += joint.worth / len(within)
    is_exact = all(isinstance(joint.part, int) for joint in queue.joints)
    return OwenValues(values, empty, full, len(known), is_exact)


def _players(part: PartitionTree) -> list[int]:
    """The players of a part, from left to right."""
    if isinstance(part, tuple):
        return [player for child in part for player in _players(child)]
    return [part]


def _entered(joint: _Joint, child: PartitionTree) -> NDArray[np.bool_]:
    """Who is there once one child of a joint has entered."""
    there = joint.there.copy()
    there[_players(child)] = True
    return there


def _opened(
    joint: _Joint,
    children: tuple[PartitionTree, PartitionTree],
    entered: Sequence[NDArray[np.bool_]],
    worths: Sequence[NDArray[np.float64]],
) -> list[_Joint]:
    """Each child enters first, or after the other one, as often."""
    (one, other), half = children, joint.weight / 2
    return [
        _Joint(one, joint.there, joint.before, worths[0], half),
        _Joint(other, entered[0], worths[0], joint.after, half),
        _Joint(other, joint.there, joint.before, worths[1], half),
        _Joint(one, entered[1], worths[1], joint.after, half),
    ]


class _Known:
    """The coalitions that were evaluated, none of them twice."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._values: dict[bytes, NDArray[np.float64]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def of(self, coalitions: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.float64]]:
        keys = [coalition.tobytes() for coalition in coalitions]
        new = {key: each for key, each in zip(keys, coalitions, strict=True) if key not in self._values}
        if new:
            asked: Coalitions = np.stack(list(new.values()))
            said = np.asarray(self._game(asked), dtype=np.float64)
            if said.ndim != 2 or len(said) != len(asked) or not np.isfinite(said).all():
                raise AttributionError(f"the game gave an array of shape {said.shape}; give finite ({len(asked)}, m)")
            self._values |= dict(zip(new, said, strict=True))
        return [self._values[key] for key in keys]


class _Queue:
    """Joints, the one of the greatest worth first; of equals the one that came first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Joint]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def joints(self) -> list[_Joint]:
        """Those that wait."""
        return [joint for _, _, joint in self._heap]

    def add(self, joint: _Joint) -> None:
        self._count += 1
        heapq.heappush(self._heap, (-float(np.abs(joint.worth).max(initial=0.0)), self._count, joint))

    def take(self, most: int) -> list[_Joint]:
        """The first ones: those that are worth at least half as much as the very first."""
        taken: list[_Joint] = []
        least = self._heap[0][0] / 2
        while self._heap and len(taken) < most and self._heap[0][0] <= least:
            taken.append(heapq.heappop(self._heap)[2])
        return taken
