"""Shortcuts are taken where a model allows them, and nowhere else."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import numpy as np
import pytest

from ragtrace.engines import _scoring as scoring
from ragtrace.engines._scoring import abilities, score_batched, score_verified, score_whole
from ragtrace.errors import ModelError

torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")
transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")

OWN = 5
_WIDTH = {"vocab_size": 97, "hidden_size": 32, "num_attention_heads": 4, "initializer_range": 0.15}
_COMMON: dict[str, Any] = _WIDTH | {"intermediate_size": 64, "num_hidden_layers": 3, "num_key_value_heads": 2}
_GPT = {"vocab_size": 97, "hidden_size": 32, "num_heads": 4, "num_layers": 2, "initializer_range": 0.3}
_MPT = {"vocab_size": 97, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 1024, "initializer_range": 0.3}
_STATE = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2}


def made(kind: str, dtype: str = "float32", **options: Any) -> Any:
    """A model of random weights by the name of its configuration."""
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(**options)
    return transformers.AutoModelForCausalLM.from_config(config).to(getattr(torch, dtype)).eval()


def sequences(length: int = 12) -> list[list[int]]:
    """Prompts of all subsets of four documents, with a question and an answer."""
    draw = np.random.default_rng(0)
    documents = [draw.integers(5, 97, size=length).tolist() for _ in range(4)]
    head, tail = draw.integers(5, 97, size=7).tolist(), draw.integers(5, 97, size=6 + OWN).tolist()
    subsets = [chosen for size in range(5) for chosen in itertools.combinations(range(4), size)]
    return [[*head, *itertools.chain.from_iterable(documents[n] for n in chosen), *tail] for chosen in subsets]


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of sharing."""
    return [each.getMessage() for each in caplog.records if "cannot share" in each.getMessage()]


UNSHARED: dict[str, tuple[str, dict[str, Any]]] = {
    "sliding window": ("Mistral", _COMMON | {"sliding_window": 16}),
    "window in some layers": ("Gemma2", _COMMON | {"head_dim": 8, "sliding_window": 16}),
    "small differences": ("Cohere2", _COMMON | {"sliding_window": 16}),
    "chosen window": ("Qwen2", _COMMON | {"use_sliding_window": True, "sliding_window": 48, "max_window_layers": 1}),
    "distances in the pass": ("Mpt", _MPT),
    "window in the pass": ("GPTNeo", _GPT | {"attention_types": [[["global", "local"], 1]], "window_size": 100}),
    "state": ("Mamba", _STATE | {"state_size": 8, "pad_token_id": 0}),
    "state without a mask": ("Rwkv", _STATE | {"attention_hidden_size": 32}),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", UNSHARED)
def test_what_cannot_be_shared_is_read_whole(case: str, dtype: str, caplog: pytest.LogCaptureFixture) -> None:
    """Every row is that of its sequence alone, in any precision, and a warning says why it takes longer."""
    kind, options = UNSHARED[case]
    model = made(kind, dtype, **options)
    alone = score_batched(model, sequences(), OWN, batch=1)
    found = score_verified(model, sequences(), OWN)
    np.testing.assert_allclose(found, alone, atol=1e-4 if dtype == "float32" else 0.06)
    assert warned(caplog)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("Llama", _COMMON),
        ("Qwen2", _COMMON | {"use_sliding_window": False, "sliding_window": 16}),
        ("Gemma2", _COMMON | {"head_dim": 8, "sliding_window": 128}),
        ("Mixtral", _COMMON | {"num_local_experts": 4}),
    ],
    ids=["plain", "window not used", "window not reached", "experts"],
)
def test_what_can_be_shared_is(kind: str, options: Any, dtype: str, caplog: pytest.LogCaptureFixture) -> None:
    """Rounding is no reason not to, nor a window that no text reaches."""
    model = made(kind, dtype, **options)
    found = score_verified(model, sequences(), OWN)
    np.testing.assert_allclose(
        found, score_batched(model, sequences(), OWN, batch=1), atol=1e-4 if dtype == "float32" else 0.1
    )
    assert not warned(caplog)


def test_a_window_that_the_settings_do_not_tell(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Random texts are shorter than it; the sample of those that are scored shows it."""
    monkeypatch.setattr(scoring, "window", lambda _config: None)
    model = made("Mistral", **_COMMON, sliding_window=120)
    assert abilities(model).unshared is None
    given = sequences(length=40)
    np.testing.assert_allclose(score_verified(model, given, OWN), score_batched(model, given, OWN, batch=1), atol=1e-4)
    assert "would differ" in warned(caplog)[0]


def test_positions_that_longer_texts_change(caplog: pytest.LogCaptureFixture) -> None:
    """A model whose rotation depends on the longest text of a pass reads each text by itself, once one is so long."""
    scaled = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    model = made("Llama", **_COMMON, rope_parameters=scaled, max_position_embeddings=40)
    given = sequences()
    alone = score_batched(model, given, OWN, batch=1)
    np.testing.assert_allclose(score_verified(model, given, OWN), alone, atol=1e-4)
    np.testing.assert_allclose(score_whole(model, given, OWN), alone, atol=1e-4)
    assert "pass positions of 40" in warned(caplog)[0]


def test_a_model_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it allows is kept with it."""
    model = made("Llama", **_COMMON)
    first = abilities(model)
    monkeypatch.setattr(model, "forward", lambda **_given: pytest.fail("tried again"))
    assert abilities(model) is first
    assert first.pads
    assert first.unshared is None


def test_what_was_compared_is_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A game asks in several calls: of one answer only what is longer, or further from its place; of another all."""
    model, texts = made("Llama", **_COMMON), sequences()
    batched, alone = scoring.score_batched, list[int]()

    def counting(model: Any, sequences: Any, own: int, **given: Any) -> Any:
        alone.extend(map(len, sequences))
        return batched(model, sequences, own, **given)

    scoring.abilities(model)
    monkeypatch.setattr(scoring, "score_batched", counting)
    scores = scoring.score_verified(model, texts, OWN)
    assert max(map(len, texts)) in alone
    alone.clear()
    np.testing.assert_allclose(scoring.score_verified(model, texts[:4], OWN), scores[:4], atol=1e-5)
    assert not alone
    scoring.score_verified(model, [[*text[:-1], text[-1] - 1] for text in texts], OWN)
    assert max(map(len, texts)) in alone


def test_a_text_alone_needs_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to share."""
    monkeypatch.setattr(scoring, "abilities", lambda _model: pytest.fail("tried"))
    assert score_verified(made("Llama", **_COMMON), sequences()[:1], OWN).shape == (1, OWN)


def test_logits_that_are_no_numbers() -> None:
    """They are an error, and no reason to read whole prompts."""
    model = made("Llama", **_COMMON)
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN"):
        score_verified(model, sequences(), OWN)


def test_memory_for_the_tree_alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Where no whole text fits, what was read of the tree in small passes is not lost."""
    model = made("Llama", **_COMMON)
    wanted = score_batched(model, sequences(), OWN, batch=1)
    abilities(model)
    forward = model.forward

    def limited(*args: Any, **kwargs: Any) -> Any:
        if kwargs["input_ids"].numel() > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", limited)
    with caplog.at_level(logging.WARNING, logger="ragtrace"):
        np.testing.assert_allclose(score_verified(model, sequences(), OWN), wanted, atol=1e-4)
    assert not warned(caplog)
