"""Layer 3: the chunk that a claim was taken from, by what is lost without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze import analyze_record
from ragtrace.analyze.alignment import LEAST, chunk_drops, resting_on
from ragtrace.analyze.attribution import explain_record
from ragtrace.explanations import GeneratorAttribution
from ragtrace.types import Claim, GenerateRun, Generation, RequestRecord
from tests.analyze.engines import AdditiveGenerator, spans_of
from tests.analyze.examples import RERANK, RETRIEVE, TEXTS, packed, request

ANSWER = "We pay up to €4,000 for it. Bicycles are insured up to €900."
FIRST = ANSWER.index("Bicycles")


class ByClaim(AdditiveGenerator):
    """The old edition carries the first sentence's words, the chunk on theft those of the second."""

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """-1 for each token, -5 without its chunk."""
        carriers = [TEXTS["old"] if start < FIRST else TEXTS["theft"] for start, _ in spans_of(answer)]
        return np.array([[-1.0 if text in prompt else -5.0 for text in carriers] for prompt in prompts])


def record() -> RequestRecord:
    """A request whose prompt has three chunks."""
    runs = (RETRIEVE, RERANK, packed("theft", "water", "old"), GenerateRun(generation=Generation(answer=ANSWER)))
    return request(*runs)


def explained(engine: AdditiveGenerator) -> GeneratorAttribution:
    """What leaving chunks out of that prompt finds."""
    found = explain_record(record(), generator=engine, parts=["generator"]).generator
    assert found is not None
    return found


def test_each_claim_rests_on_the_chunk_without_which_it_loses_most() -> None:
    """By its own tokens; support and contradiction stay as they were."""
    found = explained(ByClaim({}))
    assert chunk_drops(found, 0, FIRST) == pytest.approx({"theft": 0.0, "water": 0.0, "old": 4.0})
    assert chunk_drops(found, FIRST, len(ANSWER)) == pytest.approx({"theft": 4.0, "water": 0.0, "old": 0.0})
    before = analyze_record(record()).claims
    after = resting_on(before, found)
    assert [(claim.best_chunk, claim.layer) for claim in after] == [("old", "ablation"), ("theft", "ablation")]
    assert after[0].reason == "without old each token is 4.00 nats less likely"
    assert [(claim.support, claim.contradiction) for claim in after] == [
        (claim.support, claim.contradiction) for claim in before
    ]


def test_a_claims_first_token_may_begin_with_the_space_before_it() -> None:
    """As in "Yes. No." by a byte-level tokenizer: it is a token of that claim, of a short one the only one."""
    found = GeneratorAttribution(
        chunk_ids=("a",), answer_spans=((0, 3), (3, 4), (4, 7), (7, 8)), drops=((1.0, 3.0, 5.0, 7.0),)
    )
    assert [chunk_drops(found, *claim)["a"] for claim in ((0, 4), (5, 8), (5, 7))] == [2.0, 6.0, 5.0]


def changed(**more: Any) -> tuple[Claim, Claim]:
    """A claim on the first sentence, before and after."""
    claim = Claim(start=0, end=FIRST, text=ANSWER[:FIRST], best_chunk="water", **more)
    return claim, resting_on([claim], explained(ByClaim({})))[0]


@pytest.mark.parametrize("more", [{"contradiction": 0.9}, {"factual": False}])
def test_contradicted_and_empty_claims_keep_what_they_have(more: dict[str, Any]) -> None:
    """A contradicted claim must go on naming the chunk that contradicts it."""
    before, after = changed(**more)
    assert after == before


@pytest.mark.parametrize(("worth", "chunk"), [(LEAST * 0.9, "water"), (LEAST * 1.1, "old")])
def test_a_small_loss_tells_nothing(worth: float, chunk: str) -> None:
    """Below a tenth of a nat for each token the chunk of the earlier layers stays."""
    claim = Claim(start=0, end=FIRST, text=ANSWER[:FIRST], best_chunk="water")
    (after,) = resting_on([claim], explained(AdditiveGenerator({TEXTS["old"]: worth})))
    assert after.best_chunk == chunk


def test_without_an_attribution_nothing_changes() -> None:
    """No model, no spans of tokens, or no such subset: the claims stay."""
    claim = Claim(start=0, end=4, text="Some")
    bare = GeneratorAttribution(chunk_ids=("a",), drops=((),), answer_spans=((0, 4),))
    placeless = GeneratorAttribution(chunk_ids=("a",), drops=((3.0,),))
    assert resting_on([claim], None) == (claim,)
    assert resting_on([claim], bare) == resting_on([claim], placeless) == (claim,)
