"""Teacher-forced scores: shared beginnings, batches and single prompts give the same; how far a model reads."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.engines import _scoring as scoring
from ragtrace.engines._scoring import positions, same_scale, score_batched, score_shared, window
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.errors import ModelError

torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")
transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")

OWN = 5
_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50}
_LONG = {"rope_theta": 10000.0, "short_factor": [1.0] * 32, "long_factor": [2.0] * 32}


def _llama(**options: Any) -> Any:
    config = transformers.LlamaConfig(intermediate_size=64, max_position_embeddings=256, **_SMALL, **options)
    return transformers.LlamaForCausalLM(config)


def _gpt2() -> Any:
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=256)
    return transformers.GPT2LMHeadModel(config)


def _qwen() -> Any:
    config = transformers.Qwen3Config(intermediate_size=64, head_dim=8, num_key_value_heads=2, **_SMALL)
    return transformers.Qwen3ForCausalLM(config)


def _made(make: Any) -> Any:
    torch.manual_seed(0)
    return make().eval()


def _sequences() -> list[list[int]]:
    """Prompts of all subsets of four documents, with a question and an answer."""
    draw = np.random.default_rng(0)
    documents = [draw.integers(10, 50, size=length).tolist() for length in (7, 3, 12, 5)]
    tail = draw.integers(10, 50, size=4 + OWN).tolist()
    subsets = [chosen for size in range(5) for chosen in itertools.combinations(range(4), size)]
    return [[1, *itertools.chain.from_iterable([2 + n, *documents[n]] for n in chosen), *tail] for chosen in subsets]


@pytest.mark.parametrize("make", [_llama, _gpt2, _qwen], ids=["llama", "gpt2", "qwen3"])
def test_all_ways_agree(make: Any) -> None:
    """One by one, padded at the left, and shared in packs of any size."""
    model, sequences = _made(make), _sequences()
    single = score_batched(model, sequences, OWN, batch=1)
    np.testing.assert_allclose(score_batched(model, sequences, OWN, batch=7), single, atol=1e-4)
    for size in (1, 13, 40, 1000):
        np.testing.assert_allclose(score_shared(model, sequences, OWN, pack_size=size), single, atol=1e-4)


@pytest.mark.parametrize("size", [13, 60])
def test_passes_side_by_side_give_the_same(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """To the last bit, whichever pass ends first; at least two run at a time."""
    model, sequences = _made(_llama), _sequences()
    wanted = score_shared(model, sequences, OWN, pack_size=size)
    forward, together, most = model.forward, threading.Semaphore(0), 0
    running: set[int] = set()

    def slow(*args: Any, **kwargs: Any) -> Any:
        nonlocal most
        running.add(threading.get_ident())
        most = max(most, len(running))
        together.acquire(timeout=0.02)
        try:
            return forward(*args, **kwargs)
        finally:
            running.discard(threading.get_ident())

    monkeypatch.setattr(model, "forward", slow)
    walk = scoring.Walk(model, sequences, OWN, size, workers=3)
    walk.read()
    np.testing.assert_array_equal(walk.scores, wanted)
    assert most > 1


def test_an_error_of_one_pass_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised where the scores were asked for."""
    model, calls = _made(_llama), itertools.count()
    forward = model.forward

    def failing(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == 3:
            raise RuntimeError("no such kernel")
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", failing)
    with pytest.raises(RuntimeError, match="no such kernel"):
        scoring.Walk(model, _sequences(), OWN, 13, workers=2).read()


def test_short_rests_of_several_beginnings_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left behind each of eight documents fits into a pass with the others, whose tokens it does not see."""
    model, draw = _made(_llama), np.random.default_rng(1)
    documents = draw.integers(10, 50, size=(8, 10)).tolist()
    tails = draw.integers(10, 50, size=(2, 3)).tolist()
    answer = draw.integers(10, 50, size=OWN).tolist()
    sequences = [[1, *document, *tail, *answer] for document in documents for tail in tails]
    wanted = score_batched(model, sequences, OWN, batch=1)
    forward, sizes = model.forward, []

    def counting(*args: Any, **kwargs: Any) -> Any:
        sizes.append(kwargs["input_ids"].numel())
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", counting)
    np.testing.assert_allclose(score_shared(model, sequences, OWN, pack_size=60), wanted, atol=1e-5)
    assert len(sizes) < sum(sizes) / 60 + len(documents) / 2


def test_scores_are_log_probabilities() -> None:
    """They are those of the tokens that follow, by the model's own plain forward pass."""
    model, (sequence, *_) = _made(_llama), _sequences()[::-1]
    logits = model(input_ids=torch.tensor([sequence])).logits[0].log_softmax(-1).detach().numpy()
    wanted = [logits[place - 1, sequence[place]] for place in range(len(sequence) - OWN, len(sequence))]
    np.testing.assert_allclose(score_shared(model, [sequence], OWN)[0], wanted, atol=1e-5)


def test_out_of_memory_loses_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A pass that finds no memory is tried again with half as much, shared or not."""
    model, sequences = _made(_llama), _sequences()
    wanted = score_batched(model, sequences, OWN, batch=1)
    forward = model.forward

    def limited(*args: Any, **kwargs: Any) -> Any:
        if kwargs["input_ids"].numel() > 80:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", limited)
    np.testing.assert_allclose(score_shared(model, sequences, OWN, pack_size=500), wanted, atol=1e-4)
    np.testing.assert_allclose(score_batched(model, sequences, OWN, batch=16), wanted, atol=1e-4)
    assert "out of memory" in caplog.text


@pytest.mark.parametrize("size", [None, 20])
@pytest.mark.parametrize("when", [1, 2, 4])
def test_no_memory_to_keep_a_beginning(monkeypatch: pytest.MonkeyPatch, when: int, size: int | None) -> None:
    """What stands behind it is read with it once more, in smaller passes."""
    model, sequences = _made(_llama), _sequences()
    wanted = score_batched(model, sequences, OWN, batch=1)
    select, count = scoring._select, itertools.count(1)

    def full(*given: Any) -> Any:
        if next(count) == when:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return select(*given)

    monkeypatch.setattr(scoring, "_select", full)
    np.testing.assert_allclose(score_shared(model, sequences, OWN, pack_size=size or 60), wanted, atol=1e-4)
    assert next(count) > when


def test_memory_for_less_than_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long beginning is read in pieces; what does not fit is named as it is."""
    model, sequences = _made(_llama), _sequences()
    wanted = score_batched(model, sequences, OWN, batch=1)
    forward, most = model.forward, OWN

    def limited(*args: Any, **kwargs: Any) -> Any:
        if kwargs["input_ids"].numel() > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", limited)
    np.testing.assert_allclose(score_shared(model, sequences, OWN), wanted, atol=1e-4)
    most = OWN - 1
    with pytest.raises(ModelError, match=rf"no memory for {OWN} tokens behind \d+ others"):
        score_shared(model, sequences, OWN)


@pytest.mark.parametrize("score", [score_batched, score_shared])
def test_no_memory_at_all(monkeypatch: pytest.MonkeyPatch, score: Any) -> None:
    """A model that does not fit at all is an error, not an endless loop."""
    model = _made(_llama)

    def never(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(model, "forward", never)
    with pytest.raises(ModelError, match="no memory"):
        score(model, _sequences(), OWN)


@pytest.mark.parametrize("score", [score_batched, score_shared])
def test_numbers_that_are_none(score: Any) -> None:
    """NaN logits are an error that says what to do."""
    model = _made(_llama)
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN"):
        score(model, _sequences(), OWN)


def test_each_shared_token_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model reads as many tokens as the tree has."""
    model, sequences = _made(_llama), _sequences()
    read = 0
    forward = model.forward

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal read
        read += kwargs["input_ids"].numel()
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", counting)
    score_shared(model, sequences, OWN, pack_size=30)
    inner = {tuple(sequence[:end]) for sequence in sequences for end in range(1, len(sequence) - OWN)}
    assert read == len(inner) + len(sequences) * OWN


def test_an_answer_behind_prompts(tiny_causal_lm: Path) -> None:
    """A loaded model scores a text's tokens behind prompts, and says where they stand in it."""
    model = CausalLM.load(tiny_causal_lm)
    prompts, answer = ["the limit is", "question : the limit is"], "thirty days ."
    shared = model.score(prompts, answer)
    assert shared.shape == (2, 3)
    np.testing.assert_allclose(shared, model.score(prompts, answer, method="batched"), atol=1e-4)
    places = model.answer_places(prompts[0], answer)
    assert [answer[start:end] for start, end in places] == ["thirty", "days", "."]


def test_an_empty_answer(tiny_causal_lm: Path) -> None:
    """Nothing to score is a clear error."""
    with pytest.raises(ModelError, match="empty"):
        CausalLM.load(tiny_causal_lm).score(["the limit"], "  ")


def test_a_prompt_past_the_context(tiny_causal_lm: Path) -> None:
    """A prompt that does not fit with its answer is a clear error."""
    with pytest.raises(ModelError, match="do not fit"):
        CausalLM.load(tiny_causal_lm).score(["limit " * 127], "thirty days .")


def test_no_prompts(tiny_causal_lm: Path) -> None:
    """No prompt gives no rows."""
    assert CausalLM.load(tiny_causal_lm).score([], "thirty days .").shape == (0, 3)


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
