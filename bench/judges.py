"""Judges of pairs on a CPU: pairs per second of one core by size and precision, and seconds for one request.

The weights are random: what is measured is how long a model of that size takes, not how it judges. A request has 10
claims, each beside three chunks and the best sentences of all, 50 candidates and one answer. int8 is torch's dynamic
quantization of linear layers.

Usage: python bench/judges.py [--rounds N] [--precisions float32,bf16,int8] [--sizes tiny,minilm]
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from ragtrace.engines.encoder import packaged_encoder
from ragtrace.engines.pair_classifier import RelevanceClassifier
from ragtrace.engines.verifier import EntailmentVerifier

SIZES: Final[dict[str, dict[str, int]]] = {
    "tiny": {"num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 2},
    "minilm": {},  # as the packaged encoder is
}
CLAIMS, EVIDENCES, CANDIDATES, PAIRS, ROUNDS = 10, 4, 50, 64, 3
WORDS: Final = 100  # of a chunk


def texts(count: int, words: int, draw: random.Random) -> list[str]:
    """Texts of words that the tokenizer knows, in sentences of twelve."""
    known = "the limit of this policy is due when a loss of value was found and written down by an owner".split()
    drawn = [[draw.choice(known) for _ in range(words)] for _ in range(count)]
    return [" ".join(f"{word}." if place % 12 == 11 else word for place, word in enumerate(each)) for each in drawn]


def classifier(size: str, precision: str, outputs: int) -> tuple[Any, Any, int]:
    """A model with random weights, its tokenizer, and its number of parameters."""
    import torch
    import transformers

    folder = packaged_encoder()
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(folder)
    names = ["contradiction", "neutral", "entailment"] if outputs == 3 else ["LABEL_0"]
    config.update({**SIZES[size], "id2label": dict(enumerate(names)), "num_labels": outputs})
    made: Any = transformers.AutoModelForSequenceClassification
    model = made.from_config(config).eval()
    count = sum(each.numel() for each in model.parameters())
    model = quantized(model) if precision == "int8" else model
    return model, transformers.AutoTokenizer.from_pretrained(folder), count


def measure(size: str, precision: str, rounds: int) -> None:
    """Print the medians of one size and precision. Times are the process's own: what else runs counts less."""
    known: dict[str, Any] = {"precision": "bf16" if precision == "bf16" else "float32", "cache_bytes": 0}
    model, tokenizer, count = classifier(size, precision, 1)
    relevance = RelevanceClassifier("random", model, tokenizer, **known)
    verifier = EntailmentVerifier("random", *classifier(size, precision, 3)[:2], **known)
    draw = random.Random(0)
    questions, chunks = texts(PAIRS, 10, draw), texts(PAIRS, WORDS, draw)
    claims, answer = texts(CLAIMS, 16, draw), " ".join(texts(1, 160, draw))
    relevance.relevant(list(zip(questions, chunks, strict=True))[:8])
    pairs, requests = [], []
    for _ in range(rounds):
        began = time.process_time()
        relevance.relevant(list(zip(questions, chunks, strict=True)))
        pairs.append(PAIRS / (time.process_time() - began))
        began = time.process_time()
        verifier.verify([(claim, chunk) for claim in claims for chunk in chunks[:EVIDENCES]])
        relevance.relevant([(questions[0], chunk) for chunk in chunks[:CANDIDATES]])
        relevance.in_role("answers").answers([(questions[0], answer)])
        requests.append(time.process_time() - began)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"  {size:6s} {count / 1e6:5.1f} million, {precision:7s}: {median(pairs):6.1f} pairs per second of one core, "
        f"{median(requests):5.2f} s for a request; {memory:.0f} MiB at most so far",
        flush=True,
    )


def quantized(model: Any) -> Any:
    """The model with linear layers of int8."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this will move to torchao
        quantize: Any = torch.ao.quantization.quantize_dynamic
        return quantize(model, {torch.nn.Linear}, dtype=torch.qint8)


def main(arguments: Sequence[str]) -> None:
    """Print one line for each size and precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--precisions", default="float32,bf16,int8")
    parser.add_argument("--sizes", default=",".join(SIZES))
    given = parser.parse_args(arguments)
    print(f"{CLAIMS} claims beside {EVIDENCES} texts each, {CANDIDATES} candidates of {WORDS} words, one answer")
    for size in given.sizes.split(","):
        for precision in given.precisions.split(","):
            measure(size, precision, given.rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
