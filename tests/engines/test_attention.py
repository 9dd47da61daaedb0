"""Attention times gradient, against what a model's answer does when tokens are attended to a little more."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.engines._gradients import attention_times_gradient
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.errors import ModelError

torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")
transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")

SEQUENCE, OWN = [1, 7, 12, 30, 22, 5, 11], 2
_SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


def _llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=50, initializer_range=0.3, **_SMALL)
    return transformers.LlamaForCausalLM(config).double().eval()


def _answer(model: Any, sequence: Sequence[int], own: int) -> float:
    """The mean log-probability of the last tokens."""
    with torch.no_grad():
        rows = model(torch.tensor([sequence])).logits[0].log_softmax(-1)
    return float(np.mean([rows[at - 1, sequence[at]] for at in range(len(sequence) - own, len(sequence))]))


def _changed(model: Any, layer: int, head: int, reader: int, place: int, by: float) -> float:
    """The same where one token of a layer and head attends so much more to another one."""
    inside, width = model.model.layers[layer].self_attn, _SMALL["hidden_size"] // _SMALL["num_attention_heads"]
    part, read = slice(head * width, (head + 1) * width), []

    def values(_module: Any, _given: Any, found: Any) -> None:
        read.append(found)

    def more(_module: Any, given: Any) -> Any:
        raised = given[0].clone()
        raised[:, reader, part] += by * read[-1][:, place, part]
        return (raised,)

    with ExitStack() as hooks:
        hooks.callback(inside.v_proj.register_forward_hook(values).remove)
        hooks.callback(inside.o_proj.register_forward_pre_hook(more).remove)
        return _answer(model, SEQUENCE, OWN)


def test_it_is_what_attending_more_would_add() -> None:
    """By differences of the model's answers for every single attention weight."""
    model, step = _llama(), 1e-2
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(torch.tensor([SEQUENCE]), output_attentions=True).attentions
    expected = np.zeros(len(SEQUENCE))
    sizes = (_SMALL["num_hidden_layers"], _SMALL["num_attention_heads"], len(SEQUENCE), len(SEQUENCE))
    for layer, head, reader, place in itertools.product(*map(range, sizes)):
        if place <= reader:
            up, down = (_changed(model, layer, head, reader, place, by) for by in (step, -step))
            expected[place] += max(0.0, float(weights[layer][0, head, reader, place]) * (up - down) / (2 * step))
    found = attention_times_gradient(model, SEQUENCE, OWN)
    assert expected.max() > 0.1
    np.testing.assert_allclose(found, expected[:-OWN], rtol=1e-2, atol=1e-3)


def test_the_model_is_left_as_it_was() -> None:
    """Its attention runs as before, and nothing is kept of the gradients."""
    model = _llama()
    before = model.config._attn_implementation
    attention_times_gradient(model, SEQUENCE, OWN)
    assert model.config._attn_implementation == before
    assert all(each.grad is None for each in model.parameters())


def test_frozen_weights_have_a_gradient_of_attention() -> None:
    """What was loaded for inference alone."""
    model = _llama()
    expected = attention_times_gradient(model, SEQUENCE, OWN)
    np.testing.assert_allclose(attention_times_gradient(model.requires_grad_(False), SEQUENCE, OWN), expected)


@pytest.mark.parametrize("fixture", ["tiny_causal_lm", "tiny_chat_lm"])
def test_tokens_of_the_prompt_have_their_places(fixture: str, request: pytest.FixtureRequest) -> None:
    """With a chat format and without; what stands around the prompt is left out."""
    folder: Path = request.getfixturevalue(fixture)
    prompt = "question : the limit ?"
    scores, places = CausalLM.load(folder).attention_gradients(prompt, "thirty days .")
    assert [prompt[start:end] for start, end in places] == prompt.split()
    assert len(scores) == len(places)
    assert np.isfinite(scores).all()


def test_without_memory_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the attention is put back."""
    model = _llama()
    before = model.config._attn_implementation

    def never(*_args: Any, **_kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(model, "forward", never)
    with pytest.raises(ModelError, match="attention of 7 tokens finds no memory"):
        attention_times_gradient(model, SEQUENCE, OWN)
    assert model.config._attn_implementation == before


def test_a_prompt_that_a_chat_changes_is_refused(tiny_chat_lm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tokens could not be found."""
    model = CausalLM.load(tiny_chat_lm)
    render = model._tokenizer.apply_chat_template

    def changed(turns: Any, **options: Any) -> Any:
        return render([{**turn, "content": turn["content"].upper()} for turn in turns], **options)

    monkeypatch.setattr(model._tokenizer, "apply_chat_template", changed)
    with pytest.raises(ModelError, match="changes the prompt"):
        model.attention_gradients("the limit", "days")
