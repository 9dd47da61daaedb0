"""Layer 1 of a claim's support against human labels, and what it costs.

RAGTruth QA (MIT): each sentence of an answer that overlaps a span which annotators marked as unsupported, against the
others. Everything was chosen on one half of the sources (`bench/words.py` fits the weights), the figures are of the
other; intervals are over resampled sources. Then requests per second.

Usage: python bench/support.py; RAGTRACE_BENCH_DATA names the folder of the data sets.
"""

from __future__ import annotations

import math
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA, read_rows
from ragtrace.coverage import judge_claims
from ragtrace.coverage.citations import SUPPORTED
from ragtrace.coverage.support import Evidence, Statement, lexical
from ragtrace.coverage.support.readings import Reading
from ragtrace.coverage.text import content_words
from ragtrace.engines.verifier_examples import is_held_out
from ragtrace.types import Candidate, Claim, PackedChunk

DRAWS: Final = 1000
BINS: Final = 10
SUPPORTED_RATE: Final = 0.898  # share of supported claims in the development half
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """One factual claim with its label. `marked`: the answer has a marked span, be it in this claim or not."""

    source: str
    answer: tuple[str, int]
    claim: Claim
    measures: lexical.Measures
    bare: float
    unsupported: bool
    only_implicit: bool
    marked: bool


def read_samples(path: Path) -> list[Sample]:
    """The factual claims of all answers."""
    found: list[Sample] = []
    for row in read_rows(path):
        texts = [text.strip() for text in re.split(r"passage \d+:", row["source"]["passages"]) if text.strip()]
        packed = [PackedChunk(chunk_id=str(at), position=at, text=text) for at, text in enumerate(texts, start=1)]
        for number, response in enumerate(row["responses"]):
            found += _of_answer(str(row["source_id"]), number, packed, row["source"]["question"], response)
    return found


def _of_answer(source: str, number: int, packed: list[PackedChunk], question: str, response: Any) -> Iterable[Sample]:
    claims = [each for each in judge_claims(response["response"], packed, query=question)[0] if each.factual]
    readings = [Evidence.read(chunk.chunk_id, chunk.text or "").reading for chunk in packed]
    ground = lexical.Ground(readings, Reading(question))
    known = {word for chunk in packed for word in content_words(chunk.text or "")}
    for claim in claims:
        labels = [each for each in response["labels"] if each["start"] < claim.end and each["end"] > claim.start]
        words = set(content_words(claim.text))
        yield Sample(
            source=source,
            answer=(source, number),
            claim=claim,
            measures=lexical.measure(Statement.read(claim), ground),
            bare=len(words - known) / max(1, len(words)),
            unsupported=bool(labels),
            only_implicit=bool(labels) and all(each["implicit_true"] for each in labels),
            marked=bool(response["labels"]),
        )


def auroc(truth: Floats, score: Floats) -> float:
    """The probability that a true case scores higher than another; ties count half."""
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    ordered = score[order]
    first = np.searchsorted(ordered, ordered, side="left")
    last = np.searchsorted(ordered, ordered, side="right")
    ranks[order] = (first + last + 1) / 2
    positives = truth.sum()
    return float((ranks[truth > 0].sum() - positives * (positives + 1) / 2) / (positives * (len(truth) - positives)))


def balanced_accuracy(truth: Floats, support: Floats, threshold: float = SUPPORTED) -> float:
    """Mean of the share of unsupported claims below the threshold and of supported ones from it on."""
    below = support < threshold
    return float((below[truth > 0].mean() + (~below[truth == 0]).mean()) / 2)


def at_rate(support: Floats, rate: float = SUPPORTED_RATE) -> Floats:
    """What the support, a probability where both kinds are alike likely, is at the data's own rate."""
    clipped = np.clip(support, 1e-9, 1 - 1e-9)
    shifted: Floats = 1 / (1 + np.exp(-(np.log(clipped / (1 - clipped)) + math.log(rate / (1 - rate)))))
    return shifted


def calibration_error(truth: Floats, support: Floats) -> float:
    """Expected calibration error over ten bins of equal width."""
    chosen = np.minimum((support * BINS).astype(int), BINS - 1)
    gaps = [abs(support[chosen == at].mean() - (1 - truth[chosen == at]).mean()) * (chosen == at).mean()
            for at in range(BINS) if (chosen == at).any()]  # fmt: skip
    return float(sum(gaps))


def over_answers(samples: Sequence[Sample], support: Floats) -> tuple[list[str], Floats, Floats]:
    """Of each answer its source, whether it is marked, and its score: how many claims are expected to be unsupported
    at the data's own rate, each counted by its weight, as answer coverage counts it."""
    risk: defaultdict[tuple[str, int], float] = defaultdict(float)
    marked: dict[tuple[str, int], bool] = {}
    for sample, value in zip(samples, 1 - at_rate(support), strict=True):
        risk[sample.answer] += value * sample.claim.weight
        marked[sample.answer] = sample.marked
    return [key[0] for key in risk], np.array([float(marked[key]) for key in risk]), np.array(list(risk.values()))


def interval(sources: Sequence[str], figure: Callable[[NDArray[np.int64]], float]) -> str:
    """A figure of all rows with its 95 % interval over resampled sources."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for at, source in enumerate(sources):
        rows[source].append(at)
    generator = np.random.default_rng(0)
    names = list(rows)
    draws = []
    for _ in range(DRAWS):
        drawn = generator.integers(len(names), size=len(names))
        draws.append(figure(np.concatenate([rows[names[at]] for at in drawn])))
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return f"{figure(np.arange(len(sources))):.3f} ({low:.3f} to {high:.3f})"


def print_figures(samples: Sequence[Sample], title: str) -> None:
    """All figures of one set of claims."""
    truth = np.array([float(sample.unsupported) for sample in samples])
    support = np.array([sample.claim.support or 0.0 for sample in samples])
    bare = np.array([sample.bare for sample in samples])
    sources = [sample.source for sample in samples]
    certain = np.array([not sample.only_implicit for sample in samples])
    kept = [source for source, keep in zip(sources, certain, strict=True) if keep]
    answers, marked, risk = over_answers(samples, support)
    own = at_rate(support)
    print(f"{title}: {len(samples)} claims of {len(answers)} answers to {len(set(sources))} questions, "
          f"{int(truth.sum())} unsupported")  # fmt: skip
    for name, of, figure in (
        ("sentences, AUROC", sources, lambda at: auroc(truth[at], -support[at])),
        ("  bare out-of-context words", sources, lambda at: auroc(truth[at], bare[at])),
        ("  without implicit_true", kept, lambda at: auroc(truth[certain][at], -support[certain][at])),
        ("answers, AUROC", answers, lambda at: auroc(marked[at], risk[at])),
        (f"balanced accuracy at {SUPPORTED}", sources, lambda at: balanced_accuracy(truth[at], support[at])),
        ("ECE at the data's rate", sources, lambda at: calibration_error(truth[at], own[at])),
    ):
        print(f"  {name:30s} {interval(of, figure)}")


def synthetic(path: Path, number: int) -> tuple[str, list[PackedChunk], list[Candidate]]:
    """A request of 50 candidates of 600 characters, cut anew from real passages, 8 of them packed; of the answer's six
    claims two rest on what was not packed."""
    text = _passages(path)
    draw = random.Random(number)
    cuts = [text[at : at + 600] for at in (draw.randrange(len(text) - 600) for _ in range(50))]
    said = [[part for part in re.split(r"(?<=[.!?]) ", cut)[1:-1] if 40 < len(part) < 200] for cut in cuts]
    packed_says = [part for parts in said[:8] for part in parts]
    others_say = [part for parts in said[8:] for part in parts]
    answer = " ".join([*draw.sample(packed_says, 4), *draw.sample(others_say, 2)])
    packed = [PackedChunk(chunk_id=str(at), position=at, text=cut) for at, cut in enumerate(cuts[:8], start=1)]
    return answer, packed, [Candidate(chunk_id=str(at), rank=at, text=cut) for at, cut in enumerate(cuts, start=1)]


@cache
def _passages(path: Path) -> str:
    rows = read_rows(path)
    return " ".join(re.sub(r"passage \d+:|\s+", " ", row["source"]["passages"]) for row in rows)


def print_throughput(path: Path, requests: int = 100, rounds: int = 5) -> None:
    """Requests judged per second of CPU time, with chunks that were read before and with new ones."""
    known = [synthetic(path, number) for number in range(requests)]
    _rate(known)
    seen = median(_rate(known) for _ in range(rounds))
    new = median(_rate([synthetic(path, number) for number in range(at * requests, (at + 1) * requests)])
                 for at in range(1, rounds + 1))  # fmt: skip
    print("requests judged per second and core: 50 candidates of 600 characters, 8 packed, 6 claims")
    print(f"  chunks read before             {seen:.0f}\n  every chunk new                {new:.0f}")


def _rate(made: Sequence[tuple[str, list[PackedChunk], list[Candidate]]]) -> float:
    started = time.process_time()
    for answer, packed, candidates in made:
        judge_claims(answer, packed, candidates, query="What is known about it?")
    return len(made) / (time.process_time() - started)


def main() -> None:
    """Print the figures."""
    path = DATA / "ragtruth" / "qa.jsonl"
    if not path.exists():
        print(f"skipped: no {path}; set RAGTRACE_BENCH_DATA")
        return
    samples = read_samples(path)
    print_figures([sample for sample in samples if is_held_out(sample.source)], "RAGTruth QA, held-out half")
    print_throughput(path)


if __name__ == "__main__":
    main()
