"""The training pairs, each a function of the seed and its number, so that a resumed run goes on where it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ragtrace.coverage.gathering import gather
from ragtrace.coverage.text import sentences
from ragtrace.engines.training.examples import Example, Label
from ragtrace.engines.training.perturbing import contradicted, names_of
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["LabelledPair", "PairDraw"]

_WEIGHTS: Final = {"ragtruth-qa": 3.0, "ragtruth-summary": 2.0, "ragtruth-data2txt": 1.0}
"""How often a set is drawn from, beside 1: answers of language models to passages are what is verified later."""
_GROUP: Final = 8  # batches whose pairs are sorted together
_ORDER: Final = 1  # tells the order of batches from the pairs
_SHORTEST, _LONGEST = 6, 45  # words of a sentence that is made a claim


class LabelledPair(NamedTuple):
    """What the model reads, and what it should say."""

    claim: str
    evidence: str
    label: Label


class PairDraw:
    """Draws pairs from `examples`: sets by weight, supported and unsupported alike often in each.

    Args:
        made: the share of pairs whose claim is a sentence of the evidence: as it stands, without that sentence in the
            evidence, contradicted, or of another source.
        words: about how long the evidence is; its sentences that are nearest to the claim are taken.
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
        self._seed, self._made, self._words = seed, made, words
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
        if draw.random() < self._made:
            made = self._make(draw)
            if made is not None:
                return made
        pool = self._pools[self._datasets[int(draw.choice(len(self._datasets), p=self._shares))]]
        side = pool[bool(draw.integers(2))] or pool[True] or pool[False]
        chosen = side[int(draw.integers(len(side)))]
        return LabelledPair(chosen.claim, self._evidence(chosen.claim, chosen.evidence), chosen.label)

    def _make(self, draw: Generator) -> LabelledPair | None:
        example = self._examples[int(draw.integers(len(self._examples)))]
        claims = [each for text in example.evidence for each in _sentences(text)]
        if not claims:
            return None
        claim = claims[int(draw.integers(len(claims)))]
        way = int(draw.integers(4))
        if way == 0:
            return LabelledPair(claim, self._evidence(claim, example.evidence), "entailment")
        if way == 1:
            names = names_of(" ".join(example.evidence))
            changed = contradicted(claim, names, draw)
            return LabelledPair(changed, self._evidence(claim, example.evidence), "contradiction") if changed else None
        if way == 2:
            without = [text.replace(claim, " ") for text in example.evidence]
            return (
                LabelledPair(claim, self._evidence(claim, without), "neutral") if any(map(str.strip, without)) else None
            )
        other = self._examples[int(draw.integers(len(self._examples)))]
        if other.source == example.source:
            return None
        return LabelledPair(claim, self._evidence(claim, other.evidence), "neutral")

    def _evidence(self, claim: str, texts: Sequence[str]) -> str:
        return gather(claim, texts, limit=self._words)


def _sentences(text: str) -> list[str]:
    """Those that can stand as a claim."""
    return [each.text for each in sentences(text) if _SHORTEST <= len(each.text.split()) <= _LONGEST]
