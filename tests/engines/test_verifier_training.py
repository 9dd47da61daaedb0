"""Training: deterministic, resumable, and it learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragtrace.engines.text_pairs import encode_pairs
from ragtrace.engines.verifier import EntailmentVerifier
from ragtrace.engines.verifier_examples import Example, TrainingPair, read_examples
from ragtrace.engines.verifier_training import TrainingSettings, pieces_of, train
from ragtrace.errors import ConfigurationError, ModelError
from tests.engines.verifiers import save_encoder, write_ragtruth

SETTINGS = TrainingSettings(pairs=40, batch_size=4, threads=1, learning_rate=5e-3, head_learning_rate=5e-3)

LEARNING = replace(SETTINGS, pairs=3200, batch_size=16, made=0.0, learning_rate=3e-3, head_learning_rate=3e-3)


@pytest.fixture
def examples(tmp_path: Path) -> list[Example]:
    """Claims of thirty sources."""
    return read_examples(write_ragtruth(tmp_path / "data", range(30)))


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A tiny encoder."""
    return save_encoder(tmp_path / "encoder")


def weights(folder: Path) -> bytes:
    """The trained weights as they are saved."""
    return (folder / "model.safetensors").read_bytes()


class Killed(BaseException):
    """What no handler of ours expects."""


def killed_at(step: int) -> Callable[[int, float], None]:
    """What ends a run at a step, as a kill does."""

    def on_step(number: int, _: float) -> None:
        if number == step:
            raise Killed

    return on_step


def test_the_same_seed_gives_the_same_weights(examples: list[Example], encoder: Path, tmp_path: Path) -> None:
    """Byte for byte; another seed gives others. Random numbers of the process are left alone."""
    import torch

    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    for name in ("one", "two"):
        train(encoder, examples, tmp_path / name, SETTINGS)
    assert torch.rand(1) == expected
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    train(encoder, examples, tmp_path / "three", replace(SETTINGS, seed=1))
    assert weights(tmp_path / "three") != weights(tmp_path / "one")


@pytest.mark.parametrize("step", [1, 3, 4, 9])
def test_killed_and_resumed(step: int, examples: list[Example], encoder: Path, tmp_path: Path) -> None:
    """A run that was killed at any step ends with the weights of one that was not, and leaves no checkpoint."""
    train(encoder, examples, tmp_path / "whole", SETTINGS)
    with pytest.raises(Killed):
        train(encoder, examples, tmp_path / "out", SETTINGS, checkpoint_every=3, on_step=killed_at(step))
    assert not (tmp_path / "out" / "model.safetensors").exists()
    steps: list[int] = []
    train(encoder, examples, tmp_path / "out", SETTINGS, checkpoint_every=3, on_step=lambda at, _: steps.append(at))
    assert steps[0] == (step - 1) // 3 * 3 + 1
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")
    assert not (tmp_path / "out" / "checkpoint.pt").exists()


def test_another_budget(examples: list[Example], encoder: Path, tmp_path: Path) -> None:
    """A run goes on with fewer or more pairs, at the learning rates of that budget."""
    steps: list[int] = []
    with pytest.raises(Killed):
        train(encoder, examples, tmp_path / "out", SETTINGS, checkpoint_every=1, on_step=killed_at(6))
    less = replace(SETTINGS, pairs=32)
    train(encoder, examples, tmp_path / "out", less, on_step=lambda at, _: steps.append(at))
    assert steps == [6, 7, 8]


def test_another_runs_checkpoint(examples: list[Example], encoder: Path, tmp_path: Path) -> None:
    """Other settings or other data do not go on from it; a broken file is named."""
    with pytest.raises(Killed):
        train(encoder, examples, tmp_path / "out", SETTINGS, checkpoint_every=1, on_step=killed_at(5))
    with pytest.raises(ConfigurationError, match="other data, settings or another encoder"):
        train(encoder, examples, tmp_path / "out", replace(SETTINGS, seed=1))
    with pytest.raises(ConfigurationError, match="other data, settings or another encoder"):
        train(encoder, examples[:-1], tmp_path / "out", SETTINGS)
    (tmp_path / "out" / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(ModelError, match="remove it to begin again"):
        train(encoder, examples, tmp_path / "out", SETTINGS)


def test_it_learns(examples: list[Example], encoder: Path, tmp_path: Path) -> None:
    """What it was trained on, it tells apart; loaded as any other model, with no calibration yet."""
    import numpy as np

    from ragtrace.engines.verifier_evaluation import auroc, supports_of

    train(encoder, examples, tmp_path / "out", LEARNING)
    verifier = EntailmentVerifier.load(tmp_path / "out")
    assert verifier.calibration is None
    found = auroc(supports_of(verifier, examples), np.array([each.supported for each in examples]))
    assert found is not None
    assert found > 0.95


def test_an_encoder_of_another_kind(examples: list[Example], tmp_path: Path) -> None:
    """Only encoders of the BERT architecture have the token types that mark shared words."""
    transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")
    save_encoder(tmp_path / "roberta")
    config = transformers.RobertaConfig(
        vocab_size=40, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    transformers.RobertaModel(config).save_pretrained(tmp_path / "roberta")
    with pytest.raises(ConfigurationError, match="one of the BERT architecture"):
        train(tmp_path / "roberta", examples, tmp_path / "out", SETTINGS)


@pytest.mark.parametrize("change", [{"pairs": 0}, {"batch_size": 0}, {"threads": 0}, {"made": 1.0}])
def test_settings(change: dict[str, float]) -> None:
    """Numbers that cannot be used are refused."""
    with pytest.raises(ConfigurationError, match="is not usable"):
        replace(SETTINGS, **change)  # type: ignore[arg-type]


def test_word_pieces_of_the_claim(encoder: Path) -> None:
    """Those that overlap a part without support are wrong; pairs about which nothing is known are left out."""
    transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    pairs = [
        TrainingPair("the limit is 40", "the limit is 30 .", "contradiction", ((13, 15),)),
        TrainingPair("the policy ends", "the policy ends in may .", "unsupported", None),
        TrainingPair("the policy", "the policy ends .", "entailment", ()),
    ]
    features = encode_pairs(tokenizer, [(pair.claim, pair.evidence) for pair in pairs], 64, marked=True)
    rows, places, wrong = pieces_of(tokenizer, pairs, [len(each["input_ids"]) for each in features])
    said = [
        (row, tokenizer.convert_ids_to_tokens(features[row]["input_ids"][place]))
        for row, place in zip(rows, places, strict=True)
    ]
    assert said == [(0, "the"), (0, "limit"), (0, "is"), (0, "40"), (2, "the"), (2, "policy")]
    assert wrong == [False, False, False, True, False, False]


def test_parts_without_support_are_learned(examples: list[Example], encoder: Path, tmp_path: Path) -> None:
    """The loss over word pieces changes the weights, and leaves nothing of its own behind."""
    for name, spans in (("with", 1.0), ("without", 0.0)):
        train(encoder, examples, tmp_path / name, replace(SETTINGS, spans=spans))
    assert weights(tmp_path / "with") != weights(tmp_path / "without")
    assert len(weights(tmp_path / "with")) == len(weights(tmp_path / "without"))


def test_what_words_say_changes_nothing(examples: list[Example], encoder: Path, tmp_path: Path) -> None:
    """A run goes on also when layer 1 judges otherwise by now: nothing is learned from it."""
    with pytest.raises(Killed):
        train(encoder, examples, tmp_path / "out", SETTINGS, checkpoint_every=1, on_step=killed_at(5))
    train(encoder, [replace(each, lexical=0.1) for each in examples], tmp_path / "out", SETTINGS)
    train(encoder, examples, tmp_path / "whole", SETTINGS)
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")
