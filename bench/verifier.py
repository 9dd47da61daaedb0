"""Layer 2 of a claim's support: pairs per second by batch size, and how well a trained verifier tells claims apart.

Without a verifier (RAGTRACE_VERIFIER names its folder) only the speed is measured, of one with random weights and the
size of the packaged encoder's. The figures are of held-out sources; RAGTRACE_BENCH_DATA names the folder of the data.

Usage: python bench/verifier.py [--claims N] [--threads N] [--precision float32|bf16]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))


from bench.datasets import DATA
from ragtrace.coverage.verifier import WORDS
from ragtrace.engines.encoder import packaged_encoder
from ragtrace.engines.models import NumberFormat, as_precision
from ragtrace.engines.verifier import EntailmentVerifier
from ragtrace.engines.verifier_evaluation import IntervalEstimate, evaluate
from ragtrace.engines.verifier_examples import Example, read_examples
from ragtrace.engines.verifier_training import TrainingSettings, train

SIZES: Final = (1, 4, 8, 16, 32, 64)
PAIRS: Final = 128
ROUNDS: Final = 3
SENTENCE: Final = "The deductible of policy {} is {} euros from the first of May, unless the contract says otherwise."


def pairs() -> list[tuple[str, str]]:
    """Claims of one sentence and evidence of about `WORDS` words, no two alike."""
    draw = random.Random(0)
    said = [
        [SENTENCE.format(draw.randrange(10**6), draw.randrange(10**4)) for _ in range(WORDS // 16)]
        for _ in range(PAIRS)
    ]
    return [(sentences[0], " ".join(sentences)) for sentences in said]


def print_speed(verifier: EntailmentVerifier, threads: int) -> None:
    """The median of interleaved rounds for each batch size; the fastest is marked.

    One thread's time is that of its core, so that what else runs on the machine counts less.
    """
    alone = verifier.device == "cpu" and threads == 1
    clock = time.process_time if alone else time.perf_counter
    given = pairs()
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    verifier.verify(given[:8])
    for _ in range(ROUNDS):
        for size in SIZES:
            verifier.batch_size = size
            started = clock()
            verifier.verify(given)
            seconds[size].append(clock() - started)
    rates = {size: PAIRS / sorted(taken)[ROUNDS // 2] for size, taken in seconds.items()}
    best = max(rates, key=lambda size: rates[size])
    unit = "pairs per second of one core" if alone else "pairs per second"
    for size, rate in rates.items():
        print(f"  batches of {size:3d}: {rate:7.1f} {unit}{'  <- fastest' if size == best else ''}")
    verifier.batch_size = best


def print_figures(verifier: EntailmentVerifier, claims: int | None) -> None:
    """Each data set's figures on its held-out sources, merged with layer 1 as the analyzer merges them."""
    for found in evaluate(verifier, read_examples(DATA), claims=claims):
        print(f"  {found.dataset} by {found.judge}: {found.claims} claims of {found.sources} sources,", end=" ")
        print(f"{found.unsupported} unsupported")
        print(f"    claims AUROC {_said(found.claims_auroc)}, without implicit_true {_said(found.certain_auroc)}")
        print(f"    answers AUROC {_said(found.answers_auroc)}")
        print(f"    balanced accuracy {_said(found.accuracy)}, ECE {found.ece:.3f}")


def _said(found: IntervalEstimate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return "undefined"
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def _untrained(precision: NumberFormat, threads: int) -> EntailmentVerifier:
    """As large as a trained one: made by a training of one pair."""
    examples = [
        Example("any", "one", "The limit is 30 days.", ("The limit is 30 days.",), "entailment"),
        Example("any", "two", "The limit is 40 days.", ("The limit is 30 days.",), "contradiction"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        train(
            packaged_encoder(),
            examples,
            Path(folder),
            TrainingSettings(pairs=1, batch_size=1, threads=threads, made=0.0),
        )
        return EntailmentVerifier.load(folder, precision=precision, threads=threads, cache_bytes=0)


def main(arguments: Sequence[str]) -> None:
    """Print speed, and figures where a verifier is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=int, help="of each data set, at most")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", type=as_precision, default="float32")
    given = parser.parse_args(arguments)
    folder = os.environ.get("RAGTRACE_VERIFIER")
    if folder:
        verifier = EntailmentVerifier.load(folder, precision=given.precision, threads=given.threads, cache_bytes=0)
    else:
        verifier = _untrained(given.precision, given.threads)
    name = verifier.name if folder else "random weights"
    print(f"{name} on {verifier.device}, {given.threads} threads, {given.precision}")
    print_speed(verifier, given.threads)
    if not folder:
        print("skipped: no figures without a verifier; set RAGTRACE_VERIFIER to the folder of a trained one")
    elif not DATA.is_dir():
        print(f"skipped: no {DATA}; set RAGTRACE_BENCH_DATA")
    else:
        print_figures(verifier, given.claims)


if __name__ == "__main__":
    main(sys.argv[1:])
