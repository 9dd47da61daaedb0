"""Scores of reduced precision beside those in float32."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest

from ragtrace.engines import causal_lm
from ragtrace.engines.causal_lm import CausalLM, CheckedScoring
from ragtrace.explanations import Precision
from tests.models.copying import make, prompt_of
from tests.models.test_copier import FOLDER

torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")

EXAMPLE = make(random.Random(1), 4)
PROMPTS = [prompt_of(EXAMPLE.documents[:count], EXAMPLE.question) for count in range(5)]


@pytest.fixture
def reduced() -> CausalLM:
    """The copying model in bfloat16, on the CPU."""
    return CausalLM.load(FOLDER, dtype="bfloat16")


@pytest.fixture(scope="module")
def precise() -> CausalLM:
    """The same in float32."""
    return CausalLM.load(FOLDER, dtype="float32")


def test_the_difference_is_that_of_the_sample(reduced: CausalLM, precise: CausalLM) -> None:
    """Of the prompts behind which the answer is least and most probable, against float32 one by one."""
    found = CheckedScoring(reduced)
    scores = found.score(PROMPTS, EXAMPLE.answer)

    order = np.argsort(scores.mean(axis=1))
    expected = max(
        np.abs(scores[at] - precise.score([PROMPTS[at]], EXAMPLE.answer, method="batched")[0]).max()
        for at in (order[0], order[-1])
    )
    assert expected > 0
    assert found.precision is not None
    assert found.precision.difference == pytest.approx(expected, abs=1e-4)
    assert (found.precision.dtype, found.precision.prompts) == ("bfloat16", 2)


def test_what_is_close_enough_stays(reduced: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are those of the low precision, and only the first call is checked."""
    monkeypatch.setattr(causal_lm, "TOLERANCE", 10.0)
    found = CheckedScoring(reduced)
    np.testing.assert_array_equal(found.score(PROMPTS, EXAMPLE.answer), reduced.score(PROMPTS, EXAMPLE.answer))
    assert found.precision is not None
    assert not found.precision.repeated
    monkeypatch.setattr(reduced, "in_float32", lambda: pytest.fail("checked a second time"))
    found.score(PROMPTS, EXAMPLE.answer)


def test_what_is_too_far_off_is_repeated_in_float32(
    reduced: CausalLM, precise: CausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That call and all further ones."""
    monkeypatch.setattr(causal_lm, "TOLERANCE", 0.0)
    found = CheckedScoring(reduced)
    for prompts in (PROMPTS, PROMPTS[:2]):
        np.testing.assert_allclose(
            found.score(prompts, EXAMPLE.answer), precise.score(prompts, EXAMPLE.answer), atol=1e-5
        )
    assert found.precision is not None
    assert found.precision.repeated


def test_a_run_that_was_in_float32_goes_on_in_it(reduced: CausalLM, precise: CausalLM) -> None:
    """Nothing is found out again."""
    known = Precision(dtype="bfloat16", prompts=2, difference=0.7, repeated=True)
    found = CheckedScoring(reduced, known)
    np.testing.assert_allclose(found.score(PROMPTS, EXAMPLE.answer), precise.score(PROMPTS, EXAMPLE.answer), atol=1e-5)
    assert found.precision == known


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[enforce fail] can't allocate memory: 8 bytes")])
def test_without_memory_for_float32_nothing_is_compared(reduced: CausalLM, error: Exception) -> None:
    """The scores stay, and the precision says why there is no difference."""

    def full() -> Any:
        raise error

    reduced._load_float32 = full
    found = CheckedScoring(reduced)
    np.testing.assert_array_equal(found.score(PROMPTS, EXAMPLE.answer), reduced.score(PROMPTS, EXAMPLE.answer))
    assert found.precision == Precision(
        dtype="bfloat16", skipped=f"there is no memory for {FOLDER.name!r} in float32 as well"
    )


def test_without_memory_to_run_float32_nothing_is_compared(reduced: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy was loaded, and finds none for a single prompt."""

    def never(*_args: Any, **_kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(reduced.in_float32()._model, "forward", never)
    found = CheckedScoring(reduced)
    assert np.isfinite(found.score(PROMPTS, EXAMPLE.answer)).all()
    assert found.precision is not None
    assert found.precision.difference is None
    assert "finds no memory" in (found.precision.skipped or "")


def test_other_errors_are_not_hidden(reduced: CausalLM) -> None:
    """Only want of memory skips the comparison."""

    def full() -> Any:
        raise RuntimeError("a bug")

    reduced._load_float32 = full
    with pytest.raises(RuntimeError, match="a bug"):
        CheckedScoring(reduced).score(PROMPTS, EXAMPLE.answer)


def test_float32_has_nothing_to_compare(precise: CausalLM) -> None:
    """Its own copy in float32 is itself."""
    found = CheckedScoring(precise)
    found.score(PROMPTS, EXAMPLE.answer)
    assert found.precision is None
    assert precise.in_float32() is precise


def test_a_model_without_a_folder_is_copied(precise: CausalLM) -> None:
    """Its weights are those of the low precision."""
    made = CausalLM("copy", copy.deepcopy(precise._model).bfloat16(), precise._tokenizer)
    copied = made.in_float32()
    assert (made.dtype, copied.dtype) == ("bfloat16", "float32")
    assert made.in_float32() is copied
