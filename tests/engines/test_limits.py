"""How far a model reads, by its settings."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.limits import positions, same_scale, window
from ragtrace.errors import ModelError

transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")

_LONG = {"rope_theta": 10000.0, "short_factor": [1.0] * 32, "long_factor": [2.0] * 32}


def config(kind: str, **options: Any) -> Any:
    """Settings by the name of their class."""
    return getattr(transformers, f"{kind}Config")(**options)


def of_images(**options: Any) -> Any:
    """Settings of a model of texts and images."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = sizes | {"vocab_size": 97, "num_key_value_heads": 2, "head_dim": 8} | options
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return config("Gemma3", text_config=text, vision_config=vision | {"image_size": 28, "patch_size": 14})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (config("Llama", max_position_embeddings=64), 64),
        (config("GPT2", n_positions=64), 64),
        (config("Mpt", max_seq_len=64), 64),
        (of_images(max_position_embeddings=64), 64),
        (config("Bloom"), None),
        (config("Mamba"), None),
    ],
    ids=lambda each: getattr(each, "model_type", str(each)),
)
def test_positions(given: Any, expected: int | None) -> None:
    """Whatever they are called, and wherever they stand."""
    assert positions(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (config("Llama"), None),
        (config("Mistral", sliding_window=16), 16),
        (config("Mistral", sliding_window=None), None),
        (config("Qwen2", use_sliding_window=False, sliding_window=16), None),
        (config("Qwen2", use_sliding_window=True, sliding_window=16), 16),
        (config("Llama4Text", attention_chunk_size=16), 16),
        (config("GPTNeo", window_size=16), 16),
        (config("RecurrentGemma", attention_window_size=16), 16),
        (config("ModernBertDecoder", local_attention=16), 8),
        (of_images(sliding_window=16), 16),
    ],
    ids=str,
)
def test_windows(given: Any, expected: int | None) -> None:
    """That of the layers that have one."""
    assert window(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (config("Llama"), None),
        (config("Llama", rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1.0}), None),
        (
            config(
                "Llama",
                rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1.0},
                max_position_embeddings=64,
            ),
            64,
        ),
        (
            config(
                "Phi3",
                rope_parameters={"rope_type": "longrope", "original_max_position_embeddings": 64} | _LONG,
                max_position_embeddings=128,
                original_max_position_embeddings=64,
                hidden_size=128,
                num_attention_heads=2,
            ),
            64,
        ),
    ],
    ids=["plain", "linear", "dynamic", "long"],
)
def test_positions_of_one_scale(given: Any, expected: int | None) -> None:
    """Only where longer texts change those of shorter ones."""
    assert same_scale(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        of_images(max_position_embeddings=64),
        config("Mpt", vocab_size=97, d_model=32, n_heads=4, n_layers=2, max_seq_len=64),
    ],
    ids=["images", "distances"],
)
def test_a_prompt_past_them_is_refused(given: Any, byte_level_lm: Any) -> None:
    """Before the model reads it."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(byte_level_lm)
    model = CausalLM("m", transformers.AutoModelForCausalLM.from_config(given), tokenizer)
    with pytest.raises(ModelError, match="do not fit the 64 positions"):
        model.score(["x " * 100], "thirty days")
