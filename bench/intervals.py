"""How often the 90 % intervals of Shapley values hold on real models, one model left out, and how often the two flags
are right.

    python bench/intervals.py tables MODEL FILE.npz --questions clapnq_dev_answerable.jsonl --players 7 --requests 8
    python bench/intervals.py requests FILE.jsonl --questions clapnq_dev_answerable.jsonl --players 5 --requests 8
    python bench/intervals.py measure FILE.npz FILE.npz ...
    python bench/intervals.py flags FILE.npz FILE.npz ...
    python bench/intervals.py    # on the copying model of the tests alone

`tables` writes complete value tables: the sentences of a passage are the documents of a prompt, and a causal language
model scores the answer that people wrote behind each of the 2^k subsets. `measure` takes files MODEL_kN.npz. Errors of
estimates are scaled by the factor that is right for the other models, each of which counts alike, and checked on the
one that is left out, beside the factor that the estimator has. `flags` puts beside how surely an estimate claims that
retrieval was wasted, that noise distracts, or that neither is so, how often that is true of the exact values, for
rankings at random; prompts whose documents hardly add anything have no flags.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment import flag_probabilities, normal_draws
from ragtrace.attribution import CoalitionLog, known_values
from ragtrace.attribution.game import all_coalitions
from ragtrace.sample_statistics import TWO_SIDED_95, wilson

REPOSITORY = Path(__file__).parents[1]
COPIER = REPOSITORY / "tests" / "models" / "copier"
NORMAL = 1.6449  # two-sided 90 %
MULTIPLES = (2, 3, 4, 6, 8)  # subsets for each document
SEEDS = range(4)
UNUSED = 0.1  # nats a token below which documents are not used, and have no flags
SURE = (0.5, 0.7, 0.9, 0.98, 1.01)
PROMPTS = (
    "Answer the question with the help of the documents below.\n\n{}\nQuestion: {}\nAnswer:",
    "{}\nAccording to these notes: {}\n",
)


def questions(path: Path, players: int) -> Iterator[tuple[str, list[str], str]]:
    """Question, sentences and answer of each passage with enough sentences."""
    for line in path.read_text().splitlines():
        row = json.loads(line)
        sentences = [each for each in row["passages"][0]["sentences"] if each.strip()]
        answer = " ".join(row["output"][0]["answer"].split()[:16])
        if len(sentences) >= players and answer:
            yield row["input"], [each.strip()[:200] for each in sentences[:players]], answer


def write_tables(given: argparse.Namespace) -> None:
    """The tables of one model, by two prompts in turn."""
    from ragtrace.engines.causal_lm import CausalLM

    model, tables = CausalLM.load(given.model), {}
    for at, (question, texts, answer) in enumerate(
        islice(questions(given.questions, given.players), given.start, given.start + given.requests)
    ):
        subsets = [
            [text for text, kept in zip(texts, row, strict=True) if kept] for row in all_coalitions(given.players)
        ]
        listed = ["".join(f"[{number}] {text}\n" for number, text in enumerate(subset, 1)) for subset in subsets]
        prompts = [PROMPTS[at % len(PROMPTS)].format(documents, question) for documents in listed]
        tables[f"t{at}"] = model.score(prompts, answer, like=prompts[-1])
        np.savez_compressed(given.file, allow_pickle=False, **tables)
        print(f"{at + 1} of {given.requests}", flush=True)


def write_requests(given: argparse.Namespace) -> None:
    """The same questions, sentences and answers as an evaluation set, for `ragtrace import`."""
    with given.file.open("w", encoding="utf-8") as file:
        for at, (question, texts, answer) in enumerate(
            islice(questions(given.questions, given.players), given.start, given.start + given.requests)
        ):
            row = {"id": f"clapnq-{at}", "question": question, "contexts": texts, "answer": answer}
            file.write(f"{json.dumps(row)}\n")


def copied_tables(players: int, requests: int) -> list[NDArray[np.float64]]:
    """Tables of the copying model of the tests."""
    from ragtrace.engines.causal_lm import CausalLM
    from tests.models.copying import make, prompt_of

    model, tables = CausalLM.load(COPIER), []
    for seed in range(100, 100 + requests):
        asked = make(random.Random(seed), players)
        kept = [
            [text for text, stays in zip(asked.documents, row, strict=True) if stays] for row in all_coalitions(players)
        ]
        prompts = [prompt_of(texts, asked.question) for texts in kept]
        tables.append(model.score(prompts, asked.answer, like=prompts[-1]))
    return tables


def ratios(table: NDArray[np.float64], method: str) -> dict[int, list[float]]:
    """By subsets for each document: the shares' errors in units of their standard error."""
    k = int(np.log2(len(table)))
    log = CoalitionLog(k, all_coalitions(k), table)
    truth, found = known_values(log).scores, dict[int, list[float]]()
    for multiple in MULTIPLES:
        if multiple * k >= len(table):
            continue
        for seed in SEEDS:
            estimate = known_values(log, method=method, budget=multiple * k, seed=seed)
            if estimate.reason is None:
                errors = np.sqrt(np.diagonal(estimate.covariance))
                found.setdefault(multiple, []).extend(np.abs(estimate.scores - truth) / np.maximum(errors, 1e-12))
    return found


def claims(table: NDArray[np.float64], method: str) -> Iterator[tuple[float, bool]]:
    """How sure an estimate is of each flag, in [0.5, 1], and whether the exact values agree."""
    k = int(np.log2(len(table)))
    log = CoalitionLog(k, all_coalitions(k), table)
    truth = known_values(log).scores
    if abs(table[-1].mean() - table[0].mean()) < UNUSED:
        return
    for multiple in MULTIPLES:
        for seed in SEEDS if multiple * k < len(table) else ():
            estimate = known_values(log, method=method, budget=multiple * k, seed=seed)
            order = np.random.default_rng([seed, k, multiple]).permutation(k)
            draws = normal_draws(estimate.scores[order], estimate.covariance[np.ix_(order, order)], seed=0)
            claimed, right = flag_probabilities(draws), flag_probabilities(truth[order][None])
            if estimate.reason is not None or claimed is None or right is None:
                continue
            for said, is_so in zip(astuple(claimed), astuple(right), strict=True):
                yield max(said, 1 - said), (said >= 0.5) == (is_so >= 0.5)


def measure_flags(given: argparse.Namespace) -> None:
    """For each model, by how sure the estimates are: how often they are right."""
    found: dict[str, list[tuple[float, bool]]] = {}
    for name, tables in read_tables(given.files):
        found.setdefault(name, []).extend(one for table in tables for one in claims(table, given.method))
    print(f"{given.method}: flags of 2 to 8 k subsets, by how surely they are claimed; right [95 %]")
    for name, values in found.items():
        for low, high in pairwise(SURE):
            inside = [(sure, is_right) for sure, is_right in values if low <= sure < high]
            if inside:
                rights = sum(is_right for _, is_right in inside)
                ends = wilson(rights, len(inside), TWO_SIDED_95)
                print(
                    f"{name:12} claimed {np.mean([sure for sure, _ in inside]):.2f}: right {rights / len(inside):.3f} "
                    f"[{ends[0]:.3f}, {ends[1]:.3f}] of {len(inside)}"
                )


def factor(by_model: Mapping[str, list[float]]) -> float:
    """What errors are multiplied by so that 90 % of the intervals hold, each model counting alike."""
    values = np.concatenate([np.array(each) for each in by_model.values()])
    weights = np.concatenate([np.full(len(each), 1 / len(each)) for each in by_model.values()])
    order = np.argsort(values)
    held = weights[order].cumsum() / weights.sum()
    return float(values[order][np.searchsorted(held, 0.9)]) / NORMAL


def read_tables(files: Sequence[Path]) -> Iterator[tuple[str, list[NDArray[np.float64]]]]:
    """The tables of each file by its model's name; without files those of the copying model."""
    for path in files:
        with np.load(path) as held:
            tables = [held[name].astype(np.float64) for name in held.files if name[0] == "t" and name[1:].isdecimal()]
        yield path.stem.split("_k")[0], tables
    if not files:
        yield from (("copier", copied_tables(players, 14)) for players in (5, 7, 8))


def measure(given: argparse.Namespace) -> None:
    """For each model and number of subsets: coverage as it is, and by the factor of the other models."""
    found: dict[str, dict[int, list[float]]] = {}
    for name, tables in read_tables(given.files):
        for table in tables:
            for multiple, values in ratios(table, given.method).items():
                found.setdefault(name, {}).setdefault(multiple, []).extend(values)
    print(f"{given.method}: intervals that hold (nominal .90)")
    for multiple in MULTIPLES:
        show(f"N = {multiple}k", {model: each[multiple] for model, each in found.items() if multiple in each})
    show("all of these", {model: [one for values in each.values() for one in values] for model, each in found.items()})


def show(budget: str, at: Mapping[str, list[float]]) -> None:
    """A line for each model: as it is, and by the factor of the others."""
    for model, values in at.items():
        others = {name: each for name, each in at.items() if name != model}
        own = (np.array(values) <= NORMAL).mean()
        scale = factor(others) if others else 0.0
        left_out = f"{(np.array(values) <= NORMAL * scale).mean():.3f} by {scale:.2f} of the others" if others else ""
        print(f"{budget:12}  {model:20} {own:.3f} as it is  {left_out}")


def main() -> None:
    """Reads the command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.set_defaults(run=measure, files=[], method="gp")
    commands = options.add_subparsers()
    tables = commands.add_parser("tables")
    tables.add_argument("model")
    tables.set_defaults(run=write_tables)
    requests = commands.add_parser("requests")
    requests.set_defaults(run=write_requests)
    for command in (tables, requests):
        command.add_argument("file", type=Path)
        command.add_argument("--questions", type=Path, required=True)
        command.add_argument("--players", type=int, default=7)
        command.add_argument("--requests", type=int, default=8)
        command.add_argument("--start", type=int, default=0)
    measured = commands.add_parser("measure")
    measured.add_argument("files", type=Path, nargs="+")
    measured.add_argument("--method", default="gp")
    measured.set_defaults(run=measure)
    flagged = commands.add_parser("flags")
    flagged.add_argument("files", type=Path, nargs="*")
    flagged.add_argument("--method", default="gp")
    flagged.set_defaults(run=measure_flags)
    given = options.parse_args()
    given.run(given)


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    main()
