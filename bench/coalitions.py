"""What it costs to score an answer behind many subsets of the documents: shared beginnings beside one by one.

Ratios of one run, the ways in turn. The model has random weights, which cost what trained ones do.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ragtrace.engines.scoring import Scores, score_batched, score_shared

DOCUMENTS: Final = 10
DOCUMENT, QUESTION, ANSWER = 120, 20, 64  # tokens
VOCABULARY: Final = 2000
SEED: Final = 7


def small() -> Any:
    """A Llama of 19 million parameters."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=384,
        intermediate_size=1024,
        num_hidden_layers=10,
        num_attention_heads=6,
        num_key_value_heads=6,
        max_position_embeddings=2048,
    )
    return LlamaForCausalLM(config).train(False)


def large(billions: float) -> Any:
    """A Llama of about so many billion parameters in bfloat16 on the GPU."""
    torch.manual_seed(SEED)
    width = {1.0: 2048, 3.0: 3072, 8.0: 4096}[billions]
    layers = {1.0: 16, 3.0: 28, 8.0: 32}[billions]
    config = LlamaConfig(
        vocab_size=128_000,
        hidden_size=width,
        intermediate_size=width * 4 if billions < 8 else 14_336,
        num_hidden_layers=layers,
        num_attention_heads=width // 128,
        num_key_value_heads=8,
        max_position_embeddings=8192,
    )
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaForCausalLM(config).train(False)
        torch.set_default_dtype(torch.float32)
    return model


class Prompts:
    """Prompts of subsets: numbered documents, the question, the answer."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._documents = [self._tokens(DOCUMENT) for _ in range(DOCUMENTS)]
        self._tail = self._tokens(QUESTION) + self._tokens(ANSWER)

    def _tokens(self, count: int) -> list[int]:
        return [self._draw.randrange(20, VOCABULARY) for _ in range(count)]

    def of(self, subset: Sequence[int]) -> list[int]:
        """The tokens of a subset's prompt and of the answer."""
        listed = [token for place, which in enumerate(subset) for token in (2 + place, *self._documents[which])]
        return [1, *listed, *self._tail]

    def some(self, count: int) -> list[list[int]]:
        """The prompts of distinct random subsets, the empty and the full one among them."""
        chosen = {0, 2**DOCUMENTS - 1}
        while len(chosen) < count:
            chosen.add(self._draw.randrange(2**DOCUMENTS))
        return [self.of([place for place in range(DOCUMENTS) if mask >> place & 1]) for mask in sorted(chosen)]


def seconds(score: Callable[[], Scores]) -> tuple[float, Scores]:
    """How long it takes, and what it gives."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    started = time.perf_counter()
    found = score()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started, found


def matrix_rate(model: Any) -> float:
    """Multiplications and additions per second of a matrix product of the model's width and type on its device."""
    width = model.config.hidden_size
    left = torch.randn(4096, width, dtype=model.dtype, device=model.device)
    right = torch.randn(width, 4 * width, dtype=model.dtype, device=model.device)
    best = min(seconds(lambda: (left @ right).sum()[None, None].float().cpu().numpy())[0] for _ in range(5))
    return float(2 * 4096 * width * 4 * width / best)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--coalitions", type=int, default=100)
    parser.add_argument("--all", action="store_true", help="also all 1,024 coalitions, the exact values")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--billions", type=float, choices=(1.0, 3.0, 8.0), help="a larger model in bfloat16 on a GPU")
    given = parser.parse_args()
    if not given.billions:
        torch.set_num_threads(1)  # the safe default beside other work
    model = large(given.billions) if given.billions else small()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters / 1e6:.0f} million parameters, {DOCUMENTS} documents of {DOCUMENT} tokens, answer {ANSWER}")
    prompts = Prompts(SEED)
    some = prompts.some(given.coalitions)
    ways: dict[str, Callable[[], Scores]] = {
        "one by one": lambda: score_batched(model, some, ANSWER, batch=1),
        "batched, padded": lambda: score_batched(model, some, ANSWER, batch=16),
        "shared": lambda: score_shared(model, some, ANSWER),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    scores: dict[str, Scores] = {}
    for _ in range(given.rounds):
        for name, score in ways.items():
            taken, scores[name] = seconds(score)
            times[name].append(taken)
    single = float(np.median(times["one by one"]))
    for name, taken_all in times.items():
        taken = float(np.median(taken_all))
        apart = np.abs(scores[name] - scores["one by one"]).max()
        print(f"{name:16} {single / taken:5.2f} x as fast, max |difference of log p| {apart:.1e}")
    if given.billions:
        show_rate(model, some, float(np.median(times["shared"])), parameters)
    if given.all:
        every = prompts.some(2**DOCUMENTS)
        taken, _ = seconds(lambda: score_shared(model, every, ANSWER))
        print(f"all {len(every)} coalitions: {taken / single:.2f} x the time of {len(some)} one by one")


def show_rate(model: Any, sequences: list[list[int]], taken: float, parameters: int) -> None:
    """How much of the card's matrix rate the tokens that remain were read with."""
    tokens = len({tuple(sequence[:end]) for sequence in sequences for end in range(1, len(sequence))})
    rate = 2 * parameters * tokens / taken
    print(f"{rate / matrix_rate(model):.0%} of the matrix rate of this card for the {tokens} tokens that remain")


if __name__ == "__main__":
    main()
