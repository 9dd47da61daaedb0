"""Training pairs, each a function of the seed and its number, so that a resumed run goes on where it was.

Some are labelled by people. Some are made: a supported claim, or a sentence of the evidence, with a number, a name, a
word or the sense turned, and where.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.text import sentences
from ragtrace.coverage.verifier import containment, gather, terms
from ragtrace.engines.training.examples import ENTAILED, Example, Label
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = [
    "LabelledClaim",
    "LabelledPair",
    "PairDraw",
    "contradicted",
    "made",
    "names_of",
    "numbers_of",
]

_Spans = tuple[tuple[int, int], ...]
_WEIGHTS: Final = {"ragtruth-qa": 2.0, "ragtruth-summary": 1.5, "ragtruth-data2txt": 2.0, "begin": 1.5, "wice": 0.5}
"""How often a set is drawn from, beside 1: by its number of claims, and by how like those verified later they are."""
_LEAST: Final = 0.6  # of the words of evidence: no two readings of a claim are alike
_GROUP: Final = 8  # batches whose pairs are sorted together
_ORDER: Final = 1  # tells the order of batches from the pairs
_SHARES: Final = {"as it is": 0.25, "contradicted": 0.3, "without": 0.2, "spliced": 0.2, "elsewhere": 0.05}
_SHORTEST, _LONGEST = 6, 45  # words of a sentence that is made a claim
_HOLDS: Final = 0.35  # a sentence with this share of the claim's terms may be what it rests on
_STILL: Final = 0.7  # evidence that holds this share without those sentences may still support it
_NUMBER: Final = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w])")
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_VERB: Final = re.compile(
    r"\b(is|are|was|were|can|will|should|must|has|have|had|does|do|did|could|would|may)\b(?! not\b)"
)
_NOT: Final = re.compile(r"\b(is|are|was|were|can|will|should|must|has|have|had|does|do|did|could|would|may) not\b")
_PAIRS: Final = [
    pair.split("/")
    for pair in (
        "increase/decrease increases/decreases increased/decreased increasing/decreasing higher/lower highest/lowest "
        "more/less most/least before/after minimum/maximum first/last always/never with/without above/below left/right "
        "hot/cold warm/cool north/south east/west largest/smallest larger/smaller longer/shorter earlier/later "
        "early/late open/closed male/female inside/outside public/private positive/negative better/worse best/worst "
        "many/few older/younger old/new high/low long/short large/small big/little up/down top/bottom front/back "
        "allowed/forbidden required/optional include/exclude includes/excludes included/excluded same/different "
        "common/rare dry/wet permanent/temporary easy/difficult safe/dangerous slow/fast slowly/quickly daily/weekly "
        "monthly/yearly both/neither"
    ).split()
]
_OPPOSITES: Final = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_OPPOSED: Final = re.compile(rf"\b({'|'.join(_OPPOSITES)})\b")


class LabelledPair(NamedTuple):
    """What the model reads, what it should say, and which parts of the claim have no support (None: not known)."""

    claim: str
    evidence: str
    label: Label
    wrong: _Spans | None


class PairDraw:
    """Draws pairs from `examples`: sets by weight, supported and unsupported alike often in each.

    Args:
        made: the share of pairs that are made from others.
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


class LabelledClaim(NamedTuple):
    """A claim, its texts, what they say of it, and which parts of it have no support (None: not known)."""

    claim: str
    evidence: Sequence[str]
    label: Label
    wrong: _Spans | None


def made(example: Example, other: Example, draw: Generator) -> LabelledClaim | None:
    """One from `example`, with what has to come from elsewhere taken from `other`; None where the way drawn fails."""
    claim = _base(example, draw)
    if claim is None:
        return None
    way = str(draw.choice(list(_SHARES), p=list(_SHARES.values())))
    if way == "as it is":
        return LabelledClaim(claim, example.evidence, "entailment", ())
    if way == "contradicted":
        text = " ".join(example.evidence)
        changed = contradicted(claim, names_of(text), numbers_of(text), draw)
        if changed is None:
            return None
        return LabelledClaim(changed.text, example.evidence, "contradiction", ((changed.start, changed.end),))
    if way == "without":
        return _without(claim, example.evidence)
    if other.source == example.source:
        return None
    if way == "elsewhere":
        return LabelledClaim(claim, other.evidence, "neutral", None)
    return _spliced(claim, example, other, draw)


def _base(example: Example, draw: Generator) -> str | None:
    """The claim itself, if it is supported; as often, or else, a sentence of the evidence."""
    own = without_citations(example.claim).strip()
    if example.supported and draw.integers(2) and _SHORTEST <= len(own.split()) <= _LONGEST:
        return own
    return _sentence(example, draw)


def _sentence(example: Example, draw: Generator) -> str | None:
    found = [each.text for text in example.evidence for each in sentences(text)]
    found = [each for each in found if _SHORTEST <= len(each.split()) <= _LONGEST]
    return found[int(draw.integers(len(found)))] if found else None


def _without(claim: str, evidence: Sequence[str]) -> LabelledClaim | None:
    """Beside what is left without the sentences that may have told it."""
    said = terms(claim)
    left = [
        " ".join(each.text for each in sentences(text) if len(terms(each.text) & said) < _HOLDS * len(said))
        for text in evidence
    ]
    left = [text for text in left if text]
    if not said or not left or containment(claim, " ".join(left)) >= _STILL:
        return None
    return LabelledClaim(claim, left, "neutral", None)


def _spliced(claim: str, example: Example, other: Example, draw: Generator) -> LabelledClaim | None:
    """With half of a sentence from elsewhere behind it."""
    tail = _sentence(other, draw)
    if tail is None:
        return None
    said = tail.split()
    end = " ".join(said[: max(_SHORTEST, len(said) // 2)] if draw.integers(2) else said[len(said) // 2 :])
    start = claim.rstrip(" .;:,")
    whole = f"{start}, and {end}"
    return LabelledClaim(whole, example.evidence, "neutral", ((len(start), len(whole)),))


class _Changed(NamedTuple):
    """A sentence with one thing turned: `text[start:end]`."""

    text: str
    start: int
    end: int


def contradicted(sentence: str, names: Sequence[str], numbers: Sequence[str], draw: Generator) -> _Changed | None:
    """`sentence` with one number, name or word exchanged, or negated; None where it has none of these.

    names, numbers: of the same text, to exchange by; `sentence`'s own are not taken.
    """
    ways = (
        lambda: _other_number(sentence, numbers, draw),
        lambda: _other_name(sentence, names, draw),
        lambda: _opposite(sentence, draw),
        lambda: _negated(sentence, draw),
    )
    for place in draw.permutation(len(ways)):
        changed = ways[place]()
        if changed is not None and changed.text != sentence:
            return changed
    return None


def names_of(text: str) -> list[str]:
    """Names inside of sentences, in their order, each once."""
    return list(dict.fromkeys(_NAME.findall(text)))


def numbers_of(text: str) -> list[str]:
    """Numbers as written, in their order, each once."""
    return list(dict.fromkeys(_NUMBER.findall(text)))


def _put(sentence: str, start: int, end: int, new: str) -> _Changed:
    return _Changed(sentence[:start] + new + sentence[end:], start, start + len(new))


def _one(pattern: re.Pattern[str], sentence: str, draw: Generator) -> re.Match[str] | None:
    found = list(pattern.finditer(sentence))
    return found[int(draw.integers(len(found)))] if found else None


def _other_number(sentence: str, numbers: Sequence[str], draw: Generator) -> _Changed | None:
    """By another number of the text, which no list of missing words tells, or by another digit."""
    match = _one(_NUMBER, sentence, draw)
    if match is None:
        return None
    others = [each for each in numbers if each not in sentence and len(each) == len(match.group())]
    if others and draw.integers(2):
        return _put(sentence, match.start(), match.end(), others[int(draw.integers(len(others)))])
    digits = list(match.group())
    places = [place for place, char in enumerate(digits) if char.isdigit()]
    place = places[int(draw.integers(len(places)))]
    digits[place] = str((int(digits[place]) + int(draw.integers(1, 9)) - 1) % 9 + 1)
    return _put(sentence, match.start(), match.end(), "".join(digits))


def _other_name(sentence: str, names: Sequence[str], draw: Generator) -> _Changed | None:
    match = _one(_NAME, sentence, draw)
    others = [name for name in names if name not in sentence]
    if match is None or not others:
        return None
    return _put(sentence, match.start(), match.end(), others[int(draw.integers(len(others)))])


def _opposite(sentence: str, draw: Generator) -> _Changed | None:
    match = _one(_OPPOSED, sentence, draw)
    return _put(sentence, match.start(), match.end(), _OPPOSITES[match.group()]) if match else None


def _negated(sentence: str, draw: Generator) -> _Changed | None:
    negative = _NOT.search(sentence)
    if negative is not None:
        return _put(sentence, negative.start(), negative.end(), negative.group(1))
    match = _one(_VERB, sentence, draw)
    return _put(sentence, match.start(), match.end(), f"{match.group()} not") if match else None
