"""Integrated Gradients of MiniLM: a query of 18 tokens, passages of 128; ours beside captum, pair by pair in turn.

The peer gets 100 Gauss-Legendre nodes, 16 in a pass, and the query's vector for nothing. Where captum is not
installed, the same computation stands in for it, and the figures say so. All of it on one torch thread by default, in
CPU seconds (beside a GPU in seconds of the wall).

Usage: python bench/ig.py [--pairs N] [--accuracy N] [--threads N]
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import torch

from ragtrace.attribution import Attribution, Rule, integrated_gradients_of_many
from ragtrace.demo._corpus import load_corpus, load_questions
from ragtrace.engines._gradients import TokenGradients
from ragtrace.engines.encoder import Encoder, packaged_encoder

QUERY, PASSAGE, SPECIAL = 18, 128, 2  # tokens
Ours = tuple[str, Rule, int, float]
OURS: Final[tuple[Ours, ...]] = (
    ("midpoint, 16, to 0.5 %", "midpoint", 16, 0.005),
    ("gregory, 14, to 0.5 %", "gregory", 14, 0.005),
    ("midpoint, 32, to 0.01 %", "midpoint", 32, 0.0001),
    ("gregory, 27, to 0.01 %", "gregory", 27, 0.0001),
)
Explain = Callable[[str, str], float]


def clock() -> float:
    """Seconds of this process's CPU, which neighbors on the machine do not lengthen; of the wall beside a GPU."""
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def texts(encoder: Encoder, pairs: int) -> list[tuple[str, str]]:
    """Questions and passages of exactly these lengths from the demo's wordings."""
    corpus, rng = load_corpus(), np.random.default_rng(0)
    chunks = [chunk.text for chunk in corpus.chunks]
    asked = [question.text for question in load_questions()]
    long = [text for text in asked if encoder.count_tokens(text) >= QUERY - SPECIAL]
    found: list[tuple[str, str]] = []
    while len(found) < pairs:
        query = encoder.truncate(str(rng.choice(long)), QUERY - SPECIAL)
        passage = encoder.truncate(" ".join(rng.choice(chunks, 8)), PASSAGE - SPECIAL)
        if encoder.count_tokens(query) == QUERY - SPECIAL and encoder.count_tokens(passage) == PASSAGE - SPECIAL:
            found.append((query, passage))
    return found


def ours(gradients: TokenGradients, rule: Rule, nodes: int, tolerance: float | None) -> list[Attribution]:
    """All documents in one call."""
    return integrated_gradients_of_many(
        gradients.value_and_grad,
        gradients.inputs,
        gradients.baselines,
        n_steps=nodes,
        rule=rule,
        tolerance=tolerance,
        value=gradients.value,
    )


def off(found: Attribution) -> float:
    """The completeness error as a share of what there is to explain."""
    return abs(found.completeness_delta / float(found.values.sum() - found.completeness_delta))


def captum() -> Callable[..., Any] | None:
    """The peer's adapter, when it is installed."""
    path = Path(__file__).parent / "peers" / "gradients" / "captum.py"
    spec = importlib.util.spec_from_file_location("peer_captum", path)
    assert spec is not None
    assert spec.loader is not None
    adapter: Any = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(adapter)
    except ImportError as error:
        print(f"captum: not installed ({error}); the same computation stands in for it")
        return None
    found: Callable[..., Any] = adapter.attribute
    return found


def with_captum(adapter: Callable[..., Any], encoder: Encoder, gradients: TokenGradients, threads: int | None) -> float:
    """One pair through captum, on the same model; returns its completeness error."""
    (text,) = gradients.texts
    ids, real = text.features["input_ids"], [token.part == "document" for token in gradients.tokens[0]]
    baseline = torch.where(torch.tensor([real], device=ids.device), text.tokenizer.unk_token_id, ids)

    def score(given: Any) -> Any:
        features = {"input_ids": given, "attention_mask": torch.ones_like(given)}
        return gradients.score({**text.features, **features}, [0] * len(given))

    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    values = adapter(score, text.layer, ids, baseline).sum().item()
    with torch.no_grad():
        difference = (score(ids) - score(baseline)).item()
    torch.set_num_threads(before)
    return abs(float(values) / float(difference) - 1)


def shown(name: str, ratios: Iterable[float], errors: Iterable[float], gradients: float) -> None:
    """One line."""
    ratios, errors = list(ratios), list(errors)
    print(
        f"{name:26s} {median(ratios):5.2f} x ({min(ratios):.2f} to {max(ratios):.2f})   "
        f"error {median(errors):.4%} median, {max(errors):.4%} worst   {gradients:5.1f} gradients"
    )


def speed(encoder: Encoder, pairs: list[tuple[str, str]], threads: int | None) -> None:
    """How many times faster than the peer, pair by pair."""
    adapter = captum()
    rows: dict[str, list[tuple[float, float, int]]] = {name: [] for name, *_ in OURS}
    peer: list[float] = []
    for query, passage in [pairs[0], *pairs]:  # the first is not counted
        prepared = encoder.gradients(query, [passage], threads=threads)
        prepared.batch_tokens = 16 * PASSAGE
        started = clock()
        if adapter is not None:
            error = with_captum(adapter, encoder, prepared, threads)
        else:
            error = off(ours(prepared, "gauss-legendre", 100, None)[0])
        whole = clock() - started
        peer.append(error)
        for name, rule, nodes, tolerance in OURS:
            started = clock()
            fresh = encoder.gradients(query, [passage], threads=threads)
            (found,) = ours(fresh, rule, nodes, tolerance)
            rows[name].append((whole / (clock() - started), off(found), found.n_evaluations))
    print(f"\n{len(pairs)} pairs; times faster than {'captum' if adapter else 'the same computation'} at 100 nodes")
    shown("peer, gauss-legendre 100", [1.0], peer[1:], 100)
    for name, row in rows.items():
        ratios, errors, gradients = zip(*row[1:], strict=True)
        shown(name, ratios, errors, float(np.mean(gradients)))


def accuracy(encoder: Encoder, pairs: list[tuple[str, str]], threads: int | None) -> None:
    """Completeness errors before any doubling."""
    print(f"\n{len(pairs)} further pairs, nodes not doubled")
    for rule in ("gauss-legendre", "midpoint", "gregory"):
        for nodes in (14, 16, 27, 32):
            errors = [off(ours(encoder.gradients(q, [d], threads=threads), rule, nodes, None)[0]) for q, d in pairs]
            print(f"{rule:14s} {nodes:3d}   error {median(errors):.4%} median, {max(errors):.4%} worst")


def throughput(encoder: Encoder, pairs: list[tuple[str, str]], threads: int | None, rounds: int = 2) -> None:
    """Ten documents in one call, beside bare gradients in batches of several sizes."""
    query, documents = pairs[0][0], [passage for _, passage in (pairs * 10)[:10]]
    prepared = encoder.gradients(query, documents, threads=threads)
    sizes = (160, 320, 640) if torch.cuda.is_available() else (16, 40, 160)
    rates: dict[int, list[float]] = {size: [] for size in sizes}
    whole: list[float] = []
    for _ in range(rounds):
        for size in sizes:
            prepared.batch_tokens = size * PASSAGE
            points, owners = np.stack([prepared.inputs[0]] * size), np.zeros(size, dtype=np.intp)
            started = clock()
            prepared.value_and_grad(points, owners)
            rates[size].append(size / (clock() - started))
        prepared.batch_tokens = None
        started = clock()
        found = ours(prepared, "gregory", 16, None)
        whole.append(sum(each.n_evaluations for each in found) / (clock() - started))
    print("\n10 documents in one call, gradients per second")
    for size in sizes:
        ratio = median(w / rate for w, rate in zip(whole, rates[size], strict=True))
        print(f"{ratio:6.1%} of bare batches of {size:3d} ({median(rates[size]):.1f} per second)")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3, help="pairs beside the peer")
    parser.add_argument("--accuracy", type=int, default=0, help="further pairs, for the error of each rule")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    given = parser.parse_args()
    encoder = Encoder.load(packaged_encoder())
    pairs = texts(encoder, given.pairs + given.accuracy)
    speed(encoder, pairs[: given.pairs], given.threads)
    if given.accuracy:
        accuracy(encoder, pairs[given.pairs :], given.threads)
    throughput(encoder, pairs, given.threads)


if __name__ == "__main__":
    main()
