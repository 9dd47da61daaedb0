"""Where the prompt ends and the answer begins, in tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.attribution import shapley_values
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.continuations import bare, continued
from ragtrace.errors import ModelError

ANSWER = "thirty days."
FULL, EMPTY = "Answer\n\n[1] The loss must be reported within thirty days.", "Answer\n\n"


@pytest.fixture(scope="module")
def model(byte_level_lm: Path) -> CausalLM:
    """Whose tokens begin with their space."""
    return CausalLM.load(byte_level_lm)


class Slow:
    """A tokenizer that does not say where its tokens stand."""

    is_fast = False

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str, **options: Any) -> Any:
        """The ids alone."""
        return {"input_ids": self._tokenizer(text, **options)["input_ids"]}


@pytest.mark.parametrize("answer", [ANSWER, " thirty", "\nthirty", "日本"])
@pytest.mark.parametrize(
    "prompt", ["Answer:", "Answer: ", "Answer:\n", "Answer:\n\n", "[1]", "x\t", "", "Answer:\u00a0"]
)
@pytest.mark.parametrize("is_fast", [True, False])
def test_both_are_the_tokens_of_one_text(prompt: str, answer: str, is_fast: bool, model: CausalLM) -> None:
    """No white space is doubled or lost."""
    tokenizer = model._tokenizer
    gap = " " if prompt and not prompt[-1].isspace() and not answer[0].isspace() else ""
    found = continued(tokenizer if is_fast else Slow(tokenizer), prompt, answer)
    assert found.before + found.own == tokenizer(prompt + gap + answer)["input_ids"]
    assert tokenizer.decode(found.own).strip() == answer.strip()
    assert tokenizer.decode(found.before, skip_special_tokens=True).strip() == prompt.strip()
    if is_fast:
        assert found.places is not None
        assert "".join(answer[a:b] for a, b in dict.fromkeys(found.places)).strip() == answer.strip()


def test_an_end_that_the_tokenizer_adds_is_left_out(model: CausalLM) -> None:
    """Nothing stands behind it."""
    tokenizers = pytest.importorskip("tokenizers")
    before = model._tokenizer.backend_tokenizer.post_processor
    expected = continued(model._tokenizer, "Answer:", ANSWER)
    model._tokenizer.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    try:
        assert continued(model._tokenizer, "Answer:", ANSWER) == expected
    finally:
        model._tokenizer.backend_tokenizer.post_processor = before


def test_a_turn_of_its_own(model: CausalLM) -> None:
    """The answer's tokens alone, fast or slow."""
    found, slow = bare(model._tokenizer, ANSWER), bare(Slow(model._tokenizer), ANSWER)
    assert found.own == slow.own
    assert (found.before, slow.places) == ([], None)


@pytest.mark.parametrize("like", [FULL, EMPTY])
def test_scores_do_not_depend_on_the_order_of_prompts(like: str, model: CausalLM) -> None:
    """Also where prompts end in different ways: the answer's tokens are those behind one of them."""
    prompts = [FULL, EMPTY, FULL + "\n", "Answer:", "Answer: "]
    found = model.score(prompts, ANSWER, like=like)
    np.testing.assert_allclose(model.score(prompts[::-1], ANSWER, like=like)[::-1], found, atol=1e-5)
    for prompt, row in zip(prompts, found, strict=True):
        np.testing.assert_allclose(model.score([prompt], ANSWER, like=like)[0], row, atol=1e-5)
    assert found.shape[1] == len(model.answer_places(like, ANSWER))
    np.testing.assert_allclose(found[prompts.index(like)], model.score([like], ANSWER)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("like", "prompt", "text"),
    [
        (FULL, EMPTY, "Answer\n\n thirty days."),
        (FULL, "Answer: ", "Answer: thirty days."),
        (EMPTY, "Answer:", "Answer: thirty days."),
        (EMPTY, "Answer:\n", "Answer:\nthirty days."),
    ],
)
def test_what_the_model_reads_where_ends_differ(like: str, prompt: str, text: str, model: CausalLM) -> None:
    """One space at most, as far as the tokens of the answer allow."""
    own, (head,) = model._cut([prompt], ANSWER, like)
    assert model._tokenizer.decode([*head, *own], skip_special_tokens=True) == text


def test_different_ends_without_a_choice_are_refused(model: CausalLM) -> None:
    """The columns would depend on which prompt comes first."""
    for prompts in ([FULL, EMPTY], [EMPTY, FULL]):
        with pytest.raises(ModelError, match=r"end in different ways.* give like="):
            model.score(prompts, ANSWER)


def test_a_prompt_without_tokens_is_refused(model: CausalLM) -> None:
    """Nothing stands before the answer's first token."""
    before = model._tokenizer.backend_tokenizer.post_processor
    tokenizers = pytest.importorskip("tokenizers")
    model._tokenizer.backend_tokenizer.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    try:
        with pytest.raises(ModelError, match=r"a prompt is empty.* record the whole prompt, .* or give a model"):
            model.score([""], ANSWER)
    finally:
        model._tokenizer.backend_tokenizer.post_processor = before


def test_a_game_whose_documents_stand_last(model: CausalLM) -> None:
    """Each order of its rows gives the same values, exact or estimated in several rounds."""
    documents = [f"[{at}] The loss {at} thirty" + ("\n" if at % 2 else "") for at in range(6)]

    def prompt(row: Any) -> str:
        return "Answer\n\n" + "".join(each for each, stays in zip(documents, row, strict=True) if stays)

    full = prompt([True] * 6)

    def game(rows: Any, step: int = 1) -> Any:
        return model.score([prompt(row) for row in rows[::step]], ANSWER, like=full)[::step]

    found = shapley_values(game, 6, method="exact")
    np.testing.assert_allclose(
        shapley_values(lambda rows: game(rows, -1), 6, method="exact").values, found.values, atol=1e-5
    )
    first = shapley_values(game, 6, budget=16)
    assert shapley_values(game, 6, budget=48, continue_from=first.log).values.shape == found.values.shape
