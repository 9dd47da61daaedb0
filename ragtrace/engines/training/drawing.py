"""The training pairs, each a function of the seed and its number, so that a resumed run goes on where it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.verifier import gather
from ragtrace.engines.training.examples import ENTAILED, Example, Label
from ragtrace.engines.training.making import LabelledClaim, Spans, made
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["LabelledPair", "PairDraw"]

_WEIGHTS: Final = {"ragtruth-qa": 2.0, "ragtruth-summary": 1.5, "ragtruth-data2txt": 2.0, "begin": 1.5, "wice": 0.5}
"""How often a set is drawn from, beside 1: by its number of claims, and by how like those verified later they are."""
_LEAST: Final = 0.6  # of the words of evidence: no two readings of a claim are alike
_GROUP: Final = 8  # batches whose pairs are sorted together
_ORDER: Final = 1  # tells the order of batches from the pairs


class LabelledPair(NamedTuple):
    """What the model reads, what it should say, and which parts of the claim have no support (None: not known)."""

    claim: str
    evidence: str
    label: Label
    wrong: Spans | None


class PairDraw:
    """Draws pairs from `examples`: sets by weight, supported and unsupported alike often in each.

    Args:
        made: the share of pairs that are made from others (`making`).
        words: about how long the evidence is at most; its sentences that are nearest to the claim are taken.
    """

    def __init__(self, examples: Sequence[Example], *, seed: int, made: float, words: int) -> None:
        self._pools: dict[str, dict[bool, list[Example]]] = defaultdict(lambda: defaultdict(list))
        for each in examples:
            self._pools[each.dataset][each.supported].append(each)
        if not any(len(pool) == 2 for pool in self._pools.values()):
            raise ConfigurationError("nothing to learn from: give both supported and unsupported claims")
        self._examples = list(examples)
        self._datasets = sorted(self._pools)
        weights = [_WEIGHTS.get(each, 1.0) for each in self._datasets]
        self._shares = [weight / sum(weights) for weight in weights]
        self._seed, self._made_share, self._words = seed, made, words
        self._group: tuple[int, list[LabelledPair]] = (-1, [])

    def batch(self, step: int, size: int, total: int) -> list[LabelledPair]:
        """The pairs of a step, when each step reads `size` and all together read `total`.

        Of so many steps the pairs are sorted by length, which spares padding, and their batches come in random order.
        """
        import numpy as np

        group, place = divmod(step, _GROUP)
        first, last = group * _GROUP * size, min((group + 1) * _GROUP * size, total)
        if self._group[0] != group:
            drawn = [self.pair(number) for number in range(first, last)]
            self._group = group, sorted(drawn, key=lambda pair: len(pair.claim) + len(pair.evidence))
        batches = -(-(last - first) // size)
        chosen = int(np.random.default_rng((self._seed, group, _ORDER)).permutation(batches)[place])
        return self._group[1][chosen * size : (chosen + 1) * size]

    def pair(self, number: int) -> LabelledPair:
        """The pair of this number."""
        import numpy as np

        draw = np.random.default_rng((self._seed, number))
        found = self._made(draw) if draw.random() < self._made_share else None
        claim, evidence, label, wrong = found or self._labelled(draw)
        limit = int(draw.integers(int(_LEAST * self._words), self._words, endpoint=True))
        return LabelledPair(claim, gather(claim, evidence, limit=limit), label, wrong)

    def _labelled(self, draw: Generator) -> LabelledClaim:
        pool = self._pools[self._datasets[int(draw.choice(len(self._datasets), p=self._shares))]]
        side = pool[bool(draw.integers(2))] or pool[True] or pool[False]
        chosen = side[int(draw.integers(len(side)))]
        wrong = () if chosen.label == ENTAILED else chosen.wrong
        return LabelledClaim(without_citations(chosen.claim).rstrip(), chosen.evidence, chosen.label, wrong)

    def _made(self, draw: Generator) -> LabelledClaim | None:
        one, other = (self._examples[int(draw.integers(len(self._examples)))] for _ in range(2))
        return made(one, other, draw)
