"""Evidence selection: which sentences of a text support a claim (WiCE) or answer a question (CLAP-NQ).

The proxy reference, given each sentence as a candidate, beside the first k of BM25 and of MiniLM's cosine; k is the one
that is best on the development half of the sources.

Usage: python bench/selection.py; RAGTRACE_BENCH_DATA names the folder of the data sets.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA
from ragtrace.coverage import extract_facets, proxy_reference
from ragtrace.engines.training.examples import is_held_out
from ragtrace.errors import RagtraceError
from ragtrace.types import Candidate

MOST: Final = 5  # the largest k that is tried
DRAWS: Final = 1000
Ranker = Callable[["Task"], list[int]]


@dataclass(frozen=True, slots=True)
class Task:
    """One text to choose sentences from; any of the `wanted` sets of places is right."""

    source: str
    query: str
    sentences: tuple[str, ...]
    wanted: tuple[frozenset[int], ...]


def read_wice(folder: Path) -> Iterator[Task]:
    """Claims that their evidence supports at least partly (ODC-BY annotations, CC BY-SA text)."""
    for row in _rows(folder / "wice" / "entailment" / "dev.jsonl"):
        wanted = tuple(frozenset(places) for places in row["supporting_sentences"] if places)
        if wanted:
            yield Task(row["meta"]["id"], row["claim"], tuple(row["evidence"]), wanted)


def read_clapnq(folder: Path) -> Iterator[Task]:
    """Questions with the sentences that annotators selected (Apache-2.0)."""
    for row in _rows(folder / "clapnq" / "clapnq_dev_answerable.jsonl"):
        given = tuple(row["passages"][0]["sentences"])
        selected = set(row["output"][0]["selected_sentences"])
        places = frozenset(place for place, text in enumerate(given) if text in selected)
        if places:
            yield Task(row["id"], row["input"], given, (places,))


def print_selection(folder: Path) -> None:
    """The mean F1 of each way on the held-out half of both sets."""
    for name, reader in (("WiCE", read_wice), ("CLAP-NQ", read_clapnq)):
        try:
            tasks = list(reader(folder))
        except FileNotFoundError as error:
            print(f"{name}: skipped, no {error.filename}")
            continue
        held_out = [task for task in tasks if is_held_out(task.source)]
        development = [task for task in tasks if not is_held_out(task.source)]
        print(f"{name}: F1 of the sentences chosen, {len(held_out)} held-out texts")
        _print("proxy reference", [_f1(_proxy(task), task) for task in held_out])
        for title, make in (("BM25", _bm25), ("MiniLM", _minilm)):
            try:
                ranker = make()
            except (ImportError, RagtraceError) as error:
                print(f"  {title}: skipped, {error}")
                continue
            k = max(range(1, MOST + 1), key=lambda k: _mean([_f1(ranker(task)[:k], task) for task in development]))
            _print(f"{title}, first {k}", [_f1(ranker(task)[:k], task) for task in held_out])


def _proxy(task: Task) -> list[int]:
    candidates = [
        Candidate(chunk_id=str(place), rank=place + 1, text=text) for place, text in enumerate(task.sentences)
    ]
    return [int(chosen) for chosen in proxy_reference(task.query, extract_facets(task.query), candidates)]


def _bm25() -> Ranker:
    import bm25s  # type: ignore[import-untyped]

    def rank(task: Task) -> list[int]:
        index = bm25s.BM25()
        index.index(bm25s.tokenize(list(task.sentences), show_progress=False), show_progress=False)
        words = bm25s.tokenize([task.query], show_progress=False, return_ids=False)[0]
        return [int(place) for place in np.argsort(-index.get_scores(words), kind="stable")]

    return _remembering(rank)


def _minilm() -> Ranker:
    from ragtrace.engines.encoder import Encoder, packaged_encoder

    encoder = Encoder.load(packaged_encoder())

    def rank(task: Task) -> list[int]:
        vectors = encoder.encode([task.query, *task.sentences], batch_size=64, threads=None)
        return [int(place) for place in np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")]

    return _remembering(rank)


def _remembering(rank: Ranker) -> Ranker:
    known: dict[str, list[int]] = {}

    def remembered(task: Task) -> list[int]:
        if task.source not in known:
            known[task.source] = rank(task)
        return known[task.source]

    return remembered


def _f1(chosen: Sequence[int], task: Task) -> float:
    """The best over the sets that are right."""
    given = set(chosen)
    return max(2 * len(given & wanted) / (len(given) + len(wanted)) for wanted in task.wanted)


def _print(title: str, values: Sequence[float]) -> None:
    generator = np.random.default_rng(0)
    array = np.array(values)
    draws = [array[generator.integers(len(array), size=len(array))].mean() for _ in range(DRAWS)]
    low, high = np.percentile(draws, [2.5, 97.5])
    print(f"  {title:30s} {array.mean():.3f} ({low:.3f} to {high:.3f})")
    sys.stdout.flush()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    print_selection(DATA)
