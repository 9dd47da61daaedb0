"""What a prefill has to compute, how fast a device does that alone, and what becomes of it with little memory."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ragtrace.engines._token_tree import Edge, grow

__all__ = ["SHAPES", "Work", "large", "linears", "matrix_rate", "peak", "scarce", "timed", "work_of"]

_ROUNDS: Final = 5
_ROWS: Final = (2048, 8192)  # tokens of a product, of which the faster one counts
_WARM: Final = 3


@dataclass(frozen=True)
class Shape:
    """A Llama's: width, width of its feed-forward layers, layers, heads, and heads of keys and values."""

    width: int
    inner: int
    layers: int
    heads: int
    shared_heads: int
    vocabulary: int = 128_256
    tied: bool = True


SHAPES: Final = {
    0.001: Shape(64, 128, 2, 4, 2, vocabulary=2000),  # for a machine without a card
    1.0: Shape(2048, 8192, 16, 32, 8),
    3.0: Shape(3072, 8192, 28, 24, 8),
    8.0: Shape(4096, 14_336, 32, 32, 8, tied=False),
}
"""By billions of parameters: those of Llama 3.2 1B and 3B, and of Llama 3.1 8B."""


def large(billions: float, device: str, seed: int) -> Any:
    """A Llama of about so many billion parameters, with random weights in bfloat16."""
    torch.manual_seed(seed)
    shape = SHAPES[billions]
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.shared_heads,
        max_position_embeddings=8192,
        tie_word_embeddings=shape.tied,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).train(False)
    finally:
        torch.set_default_dtype(before)


@dataclass(frozen=True)
class Work:
    """Multiplications and additions of a prefill: of the layers' weights, of the attention, and of the logits."""

    tokens: int
    weights: float
    attention: float
    logits: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.weights + self.attention + self.logits


def work_of(model: Any, sequences: Sequence[Sequence[int]], own: int) -> Work:
    """What must be computed for the scores of the last `own` tokens, each shared beginning once.

    An embedding is looked up, which multiplies nothing; logits are those of the answer's tokens alone; a token attends
    to those before it, and what is masked counts nothing.
    """
    config = model.config
    runs = list(_runs(grow([list(sequence[:-1]) for sequence in sequences], own), 0))
    tokens = sum(length for _, length in runs)
    seen = sum(length * depth + length * (length + 1) // 2 for depth, length in runs)
    return Work(
        tokens=tokens,
        weights=2.0 * sum(layer.weight.numel() for layer in linears(model)) * tokens,
        attention=4.0 * config.num_hidden_layers * config.num_attention_heads * config.head_dim * seen,
        logits=2.0 * config.vocab_size * config.hidden_size * len(sequences) * own,
    )


def _runs(edges: Sequence[Edge], depth: int) -> Iterator[tuple[int, int]]:
    """How many tokens stand before each edge of a tree, and how many are in it."""
    for edge in edges:
        yield depth, len(edge.tokens)
        yield from _runs(edge.children, depth + len(edge.tokens))


def linears(model: Any) -> list[Any]:
    """The matrices that each token is multiplied with: not the embeddings, nor what makes logits of a state."""
    return [layer for layer in model.model.layers.modules() if isinstance(layer, torch.nn.Linear)]


def matrix_rate(model: Any) -> float:
    """Multiplications and additions per second of the products of a prefill by themselves, on its device.

    The model's own matrices one after the other, so that none stays in a cache; the best of several rounds behind a
    warm-up, each timed as a whole.
    """
    layers = linears(model)
    best = 0.0
    for rows in _ROWS:
        given = {
            layer.in_features: torch.randn(rows, layer.in_features, dtype=model.dtype, device=model.device)
            for layer in layers
        }

        def products(given: dict[int, Any] = given) -> None:
            for layer in layers:
                torch.nn.functional.linear(given[layer.in_features], layer.weight)

        with torch.inference_mode():
            for _ in range(_WARM):
                products()
            seconds = min(timed(products, model.device)[0] for _ in range(_ROUNDS))
        best = max(best, 2.0 * rows * sum(layer.weight.numel() for layer in layers) / seconds)
    return best


def timed(work: Callable[[], Any], device: Any) -> tuple[float, Any]:
    """How many seconds it takes until the device is done, and what it gives."""
    _finish(device)
    started = time.perf_counter()
    found = work()
    _finish(device)
    return time.perf_counter() - started, found


def _finish(device: Any) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def peak(work: Callable[[], Any], device: Any) -> tuple[int, Any]:
    """The most bytes on a card while it works, the model's included, and what it gives; 0 on a CPU."""
    if torch.device(device).type != "cuda":
        return 0, work()
    torch.cuda.reset_peak_memory_stats()
    found = work()
    return int(torch.cuda.max_memory_allocated()), found


@contextmanager
def scarce(model: Any, most: int, tokens: int) -> Iterator[list[str]]:
    """A block in which a card has so many bytes; on a CPU passes of more than so many tokens find no memory.

    What was said of it is collected.
    """
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("ragtrace").addHandler(handler)
    on_card = torch.device(model.device).type == "cuda"
    if on_card:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(most / torch.cuda.get_device_properties(model.device).total_memory)
    hook = None if on_card else model.register_forward_pre_hook(_refusing(tokens), with_kwargs=True)
    try:
        yield said
    finally:
        logging.getLogger("ragtrace").removeHandler(handler)
        if hook is not None:
            hook.remove()
        if on_card:
            torch.cuda.set_per_process_memory_fraction(1.0)


def _refusing(tokens: int) -> Callable[..., None]:
    def refuse(module: object, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        if given["input_ids"].numel() > tokens:
            raise torch.OutOfMemoryError("no more memory, as this benchmark wants it")

    return refuse
