"""What it costs to score an answer behind many subsets of the documents: shared beginnings beside one by one.

Ratios of one run, the ways in turn. The model has random weights, which cost what trained ones do. The small model's
answer is also attributed to its documents by other tools where they are installed (`peers/coalitions/`).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.prompts import ANSWER, DOCUMENT, DOCUMENTS, VOCABULARY, Peer, Prompts, Request
from ragtrace.attribution import shapley_values
from ragtrace.engines.scoring import Scores, score_batched, score_shared

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
    parser.add_argument("--no-peers", action="store_true")
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
    if not (given.no_peers or given.billions):
        beside_peers(model, prompts, given.coalitions, given.rounds)
    if given.all:
        every = prompts.some(2**DOCUMENTS)
        taken, _ = seconds(lambda: score_shared(model, every, ANSWER))
        print(f"all {len(every)} coalitions: {taken / single:.2f} x the time of {len(some)} one by one")


def show_rate(model: Any, sequences: list[list[int]], taken: float, parameters: int) -> None:
    """How much of the card's matrix rate the tokens that remain were read with."""
    tokens = len({tuple(sequence[:end]) for sequence in sequences for end in range(1, len(sequence))})
    rate = 2 * parameters * tokens / taken
    print(f"{rate / matrix_rate(model):.0%} of the matrix rate of this card for the {tokens} tokens that remain")


@dataclass
class Read:
    """What a model was given to read since this began."""

    passes: int = 0
    tokens: int = 0
    texts: set[bytes] = field(default_factory=set)

    def __call__(self, module: object, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        """A hook before each pass."""
        ids = args[0] if args else given.get("input_ids")
        if ids is None:
            ids = given["inputs_embeds"][..., 0]
        self.passes += 1
        self.tokens += ids.numel()
        self.texts.add(ids.detach().cpu().numpy().tobytes())


def ours(prompts: Prompts) -> Peer:
    """`auto` over shared beginnings, on the same request."""

    def attribute(request: Request, subsets: int) -> NDArray[np.float64]:
        def game(coalitions: NDArray[np.bool_]) -> Scores:
            sequences = [prompts.of(np.flatnonzero(row).tolist()) for row in coalitions]
            return score_shared(request.model, sequences, ANSWER)

        return shapley_values(game, DOCUMENTS, budget=subsets).values

    computes = "Shapley values per answer token with their errors; each subset once, a pass reads parts of several"
    return Peer("ragtrace, auto", computes, attribute, whole=False)


def installed() -> list[Peer]:
    """What the adapters offer whose tool is installed; a line for each other."""
    found: list[Peer] = []
    for path in sorted((Path(__file__).parent / "peers" / "coalitions").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"peer_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        adapter: Any = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(adapter)
            found += adapter.peers()
        except ImportError as error:
            print(f"{path.stem}: skipped, not installed ({error})")
    return found


def beside_peers(model: Any, prompts: Prompts, subsets: int, rounds: int) -> None:
    """How long each tool takes, in multiples of ours, and what it gave the model to read."""
    request = prompts.request(model)
    tools = [ours(prompts), *installed()]
    times: dict[str, list[float]] = {tool.name: [] for tool in tools}
    reads: dict[str, Read] = {}
    for _ in range(rounds):
        for tool in tools:
            reads[tool.name] = Read()
            hook = model.base_model.register_forward_pre_hook(reads[tool.name], with_kwargs=True)
            started = time.process_time()  # one thread; neighbors on the machine do not lengthen it
            values = tool.attribute(request, subsets)
            times[tool.name].append(time.process_time() - started)
            hook.remove()
            assert len(values) == DOCUMENTS
            assert np.isfinite(values).all()
    print(f"\none attribution with {subsets} subsets, in multiples of our time")
    base = float(np.median(times[tools[0].name]))
    for tool in tools:
        read = reads[tool.name]
        ratio = float(np.median(times[tool.name])) / base
        distinct = f" ({len(read.texts)} distinct subsets)" if tool.whole else ""
        what = f"{read.passes} passes{distinct}, {read.tokens} tokens"
        print(f"{tool.name:29}{ratio:6.2f} x   {what}\n{'':6}{tool.computes}")


if __name__ == "__main__":
    main()
