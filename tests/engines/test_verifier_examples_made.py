"""Training pairs that are made from labelled ones."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from ragtrace.engines.verifier_examples import Example, LabelledClaim, made

TEXTS: Final = (
    "The deductible of the policy is 30 euros in every year. The contract was signed in May by both of the parties.",
    "A claim must be reported within 14 days after the damage.",
)
ONE: Final = Example("any", "one", "Damage is to be reported within 14 days after it occurred.", TEXTS, "entailment")
OTHER: Final = Example(
    "any", "two", "Bees are striped.", ("The bees of the northern valley sleep longer than others do.",), "neutral"
)


@pytest.fixture(scope="module")
def found() -> list[LabelledClaim]:
    """What many draws make."""
    drawn = [made(ONE, OTHER, np.random.default_rng(seed)) for seed in range(400)]
    return [each for each in drawn if each is not None]


def test_each_label_is_made(found: list[LabelledClaim]) -> None:
    """All three, and the claim itself as well as sentences of the evidence."""
    assert {each.label for each in found} == {"entailment", "neutral", "contradiction"}
    assert {each.claim for each in found if each.label == "entailment"} == {
        ONE.claim,
        "The deductible of the policy is 30 euros in every year.",
        "The contract was signed in May by both of the parties.",
        "A claim must be reported within 14 days after the damage.",
    }


def test_what_is_wrong_is_named(found: list[LabelledClaim]) -> None:
    """Without the named part, a contradicted claim is a piece of a true one; a spliced one ends with it."""
    true = {each.claim for each in found if each.label == "entailment"}
    for each in found:
        if each.label == "contradiction":
            assert each.wrong is not None
            (start, end) = each.wrong[0]
            assert any(claim.startswith(each.claim[:start]) and claim.endswith(each.claim[end:]) for claim in true)
    spliced = [each for each in found if each.label == "neutral" and each.wrong]
    assert spliced
    assert all(each.claim[each.wrong[0][0] :].startswith(", and ") for each in spliced if each.wrong)
    assert all(
        any(claim.startswith(each.claim[: each.wrong[0][0]]) for claim in true) for each in spliced if each.wrong
    )


def test_the_sentence_that_told_it_is_taken_away(found: list[LabelledClaim]) -> None:
    """Evidence without the sentence that held most of the claim makes it neutral."""
    without = [
        each for each in found if each.label == "neutral" and each.wrong is None and each.evidence != OTHER.evidence
    ]
    assert without
    for each in without:
        assert each.claim not in " ".join(each.evidence)


def test_no_sentence_long_enough() -> None:
    """Nothing is made of texts without a sentence that could be a claim."""
    short = Example("any", "one", "It ends.", ("It ends.",), "entailment")
    assert all(made(short, OTHER, np.random.default_rng(seed)) is None for seed in range(50))
