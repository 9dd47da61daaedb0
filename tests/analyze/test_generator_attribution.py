"""The game over a request's prompts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragtrace.analyze._generator_attribution import explain_documents
from ragtrace.analyze.alignment_report._rescoring import Skipped, settling_of
from ragtrace.analyze.prompts import SubsetPrompts
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    RequestRecord,
    RetrieveRun,
)
from tests.analyze.examples import request

TEXTS = {f"c{at}": f"The loss {at} thirty" + (":\n" if at % 2 else "") for at in range(1, 6)}
TEMPLATE = "Answer\n\n" + "".join(f"{{chunk:{each}}}" for each in TEXTS)


def documents_last() -> RequestRecord:
    """A request whose prompt ends with its documents: without some of them, and without any, it ends differently."""
    chunks = tuple(PackedChunk(chunk_id=each, position=at, text=TEXTS[each]) for at, each in enumerate(TEXTS, 1))
    found = tuple(Candidate(chunk_id=each, rank=at, text=TEXTS[each]) for at, each in enumerate(TEXTS, 1))
    generation = Generation(answer="thirty days.", prompt_template=TEMPLATE)
    return request(
        RetrieveRun(candidates=found), PackRun(packing=Packing(chunks=chunks)), GenerateRun(generation=generation)
    )


def test_documents_at_the_prompts_end(byte_level_lm: Path) -> None:
    """The answer has the tokens that it has behind the full prompt, whatever the subset ends with."""
    prompts, model = SubsetPrompts.of(documents_last()), CausalLM.load(byte_level_lm)
    full = prompts.of_documents(prompts.documents)
    found = explain_documents(prompts, model, ranking=prompts.documents)
    assert found.exact
    assert list(found.answer_spans) == model.answer_places(full, prompts.answer)
    scores = model.score([prompts.of_documents(()), full], prompts.answer, like=full)
    assert (found.empty, found.full) == pytest.approx(tuple(scores.mean(axis=1)), abs=1e-5)
    np.testing.assert_allclose(np.sum(found.values, axis=0), scores[1] - scores[0], atol=1e-4)


def test_documents_at_the_end_of_a_reports_prompts(byte_level_lm: Path) -> None:
    """The analysis of stability scores the same game."""
    skipped = Skipped()
    found = settling_of([documents_last()], CausalLM.load(byte_level_lm), most=32, skipped=skipped)
    assert found
    assert not skipped.reasons
