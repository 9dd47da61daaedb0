"""Training pairs that nobody labelled: a supported claim, or a sentence of the evidence, turned by a known way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.text import sentences
from ragtrace.coverage.verifier import containment, terms
from ragtrace.engines.training.examples import Example, Label
from ragtrace.engines.training.perturbing import contradicted, names_of, numbers_of

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["LabelledClaim", "Spans", "made"]

Spans = tuple[tuple[int, int], ...]
_SHARES: Final = {"as it is": 0.25, "contradicted": 0.3, "without": 0.2, "spliced": 0.2, "elsewhere": 0.05}
_SHORTEST, _LONGEST = 6, 45  # words of a sentence that is made a claim
_HOLDS: Final = 0.35  # a sentence with this share of the claim's terms may be what it rests on
_STILL: Final = 0.7  # evidence that holds this share without those sentences may still support it


class LabelledClaim(NamedTuple):
    """A claim, its texts, what they say of it, and which parts of it have no support (None: not known)."""

    claim: str
    evidence: Sequence[str]
    label: Label
    wrong: Spans | None


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
