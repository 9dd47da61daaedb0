"""What it costs to score an answer behind many subsets of the documents: shared beginnings beside one by one.

Ratios of one run, the ways in turn. The model has random weights, which cost what trained ones do. The small model's
answer is also attributed to its documents by other tools where they are installed (`peers/coalitions/`).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.prefill import SHAPES, large, matrix_rate, peak, scarce, timed, work_of
from bench.prompts import ANSWER, DOCUMENT, DOCUMENTS, VOCABULARY, Peer, Prompts, Request
from ragtrace.attribution import shapley_values
from ragtrace.engines._scoring import Scores, score_batched, score_shared

SEED: Final = 7
FEW: Final = 6  # sequences that are compared between devices
ALONE, SHARED = "one by one", "shared"


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


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--coalitions", type=int, default=100)
    parser.add_argument("--all", action="store_true", help="also all 1,024 coalitions, the exact values")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--billions", type=float, choices=tuple(SHAPES), help="a larger model in bfloat16 on a GPU")
    parser.add_argument("--device", default="cuda", help="where a larger model runs")
    parser.add_argument("--pack-sizes", type=int, nargs="*", default=[], help="tokens of a pass, to compare")
    given = parser.parse_args()
    if given.billions and given.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use; --device cpu --billions 0.001 runs the same on a CPU")
    if not given.billions:
        torch.set_num_threads(1)  # the safe default beside other work
    model = large(given.billions, given.device, SEED) if given.billions else small()
    say_where(model)
    prompts = Prompts(SEED)
    some = prompts.some(given.coalitions)
    times, scores = compare(model, some, given.rounds, given.pack_sizes)
    single = times[ALONE]
    if given.billions:
        show_rate(model, some, times[SHARED])
        with_little_memory(model, some, scores[ALONE])
        agreement(model.device, some)
    elif not given.no_peers:
        beside_peers(model, prompts, given.coalitions, given.rounds)
    if given.all:
        every = prompts.some(2**DOCUMENTS)
        taken, _ = timed(lambda: score_shared(model, every, ANSWER), model.device)
        print(f"all {len(every)} coalitions: {taken / single:.2f} x the time of {len(some)} one by one")


def say_where(model: Any) -> None:
    """What is measured, where, and with what."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    device = torch.device(model.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} CPU threads"
    print(f"{parameters / 1e6:.0f} million parameters, {DOCUMENTS} documents of {DOCUMENT} tokens, answer {ANSWER}")
    print(f"{model.dtype} on {name}, torch {torch.__version__}, transformers {transformers.__version__}")


def compare(
    model: Any, some: list[list[int]], rounds: int, pack_sizes: Sequence[int]
) -> tuple[dict[str, float], dict[str, Scores]]:
    """The median seconds of each way, in turn and behind a warm-up, and what it gives. Logits: those of the answer."""
    ways: dict[str, Callable[[list[list[int]]], Scores]] = {
        ALONE: lambda given: score_batched(model, given, ANSWER, batch=1),
        "batched, padded": lambda given: score_batched(model, given, ANSWER, batch=16),
        SHARED: lambda given: score_shared(model, given, ANSWER),
    }
    for size in pack_sizes:
        ways[f"shared, {size}"] = partial(_shared, model, size)
    on_card = torch.device(model.device).type == "cuda"
    peaks = {name: peak(partial(score, some if on_card else some[:2]), model.device)[0] for name, score in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    scores: dict[str, Scores] = {}
    for _ in range(rounds):
        for name, score in ways.items():
            taken, scores[name] = timed(partial(score, some), model.device)
            times[name].append(taken)
    found = {name: float(np.median(taken)) for name, taken in times.items()}
    for name, taken in found.items():
        apart = np.abs(scores[name] - scores[ALONE]).max()
        memory = f", {peaks[name] / 2**30:.1f} GiB at most" if on_card else ""
        print(f"{name:16} {found[ALONE] / taken:5.2f} x as fast, max |difference of log p| {apart:.1e}{memory}")
    return found, scores


def _shared(model: Any, size: int, given: list[list[int]]) -> Scores:
    return score_shared(model, given, ANSWER, pack_size=size)


def show_rate(model: Any, sequences: list[list[int]], taken: float) -> None:
    """How much of the device's matrix rate the tokens that remain were read with."""
    work, rate = work_of(model, sequences, ANSWER), matrix_rate(model)
    print(
        f"{work.total / taken / rate:.0%} of the matrix rate ({rate / 1e12:.3g} TFLOP/s) for the {work.tokens} tokens "
        f"that remain; {work.weights / taken / rate:.0%} by the layers' weights alone, without attention and logits"
    )


def with_little_memory(model: Any, sequences: list[list[int]], alone: Scores) -> None:
    """Shared and batched where half of what they take beside the model is there: nothing may be missing."""
    ways: dict[str, Callable[[], Scores]] = {
        SHARED: lambda: score_shared(model, sequences, ANSWER),
        "batched, padded": lambda: score_batched(model, sequences, ANSWER, batch=16),
    }
    held = sum(parameter.numel() * parameter.itemsize for parameter in model.parameters())
    least = {SHARED: ANSWER, "batched, padded": max(map(len, sequences))}  # tokens of the smallest passes
    for name, score in ways.items():
        most, usual = peak(score, model.device)
        with scarce(model, held + (most - held) // 2, least[name]) as said:
            found = score()
        halved = sum("out of memory" in each for each in said)
        apart = np.abs(found - alone).max()
        print(
            f"{name:16} with half the memory: halved {halved} times, {int(np.isnan(found).sum())} scores missing, max "
            f"|difference of log p| {apart:.1e} (else {np.abs(usual - alone).max():.1e})"
        )


def agreement(device: Any, sequences: list[list[int]]) -> None:
    """The small model in float32 on the CPU, and where the larger one is."""
    model, some = small(), sequences[-FEW:]
    here = score_batched(model, some, ANSWER, batch=1)
    there = model.to(device)
    for name, found in (
        (ALONE, score_batched(there, some, ANSWER, batch=1)),
        ("batched, padded", score_batched(there, some, ANSWER)),
        (SHARED, score_shared(there, some, ANSWER)),
    ):
        print(f"{name:16} in float32 beside the CPU: max |difference of log p| {np.abs(found - here).max():.1e}")


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
