"""Evidence selection: which sentences of a text support a claim (WiCE) or answer a question (CLAP-NQ).

Each sentence is a candidate. The score of the proxy reference, with and without MiniLM's cosine as the retriever's
score, beside BM25 and the cosine alone. Each way has the cut-off (the first k, or from a share of the best score on)
that is best on the development half of the sources. The proxy reference itself, meant for chunks, is shown as it is.

Usage: python bench/selection.py; RAGTRACE_BENCH_DATA names the folder of the data sets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA, read_rows
from ragtrace.coverage import extract_facets, proxy_reference
from ragtrace.coverage._reference import proxy_scores
from ragtrace.engines.verifier_examples import is_held_out
from ragtrace.errors import RagtraceError
from ragtrace.types import Candidate, replace

MOST: Final = 5  # the largest k that is tried, and the most sentences from a share of the best score on
SHARES: Final = tuple(step / 10 for step in range(1, 10))
DRAWS: Final = 1000
Scorer = Callable[["Task"], NDArray[np.float64]]
Cut = Callable[[NDArray[np.float64]], list[int]]


@dataclass(frozen=True, slots=True)
class Task:
    """One text to choose sentences from; any of the `wanted` sets of places is right."""

    source: str
    query: str
    sentences: tuple[str, ...]
    wanted: tuple[frozenset[int], ...]


def read_wice(folder: Path) -> Iterator[Task]:
    """Claims that their evidence supports at least partly (ODC-BY annotations, CC BY-SA text)."""
    for row in read_rows(folder / "wice" / "entailment" / "dev.jsonl"):
        wanted = tuple(frozenset(places) for places in row["supporting_sentences"] if places)
        if wanted:
            yield Task(row["meta"]["id"], row["claim"], tuple(row["evidence"]), wanted)


def read_clapnq(folder: Path) -> Iterator[Task]:
    """Questions with the sentences that annotators selected (Apache-2.0)."""
    for row in read_rows(folder / "clapnq" / "clapnq_dev_answerable.jsonl"):
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
        _print("proxy reference", [_f1(_reference(task), task) for task in held_out])
        for title, make in (
            ("proxy score", _proxy),
            ("proxy score and MiniLM", _both),
            ("BM25", _bm25),
            ("MiniLM", _minilm),
        ):
            try:
                scorer = make()
            except (ImportError, RagtraceError) as error:
                print(f"  {title}: skipped, {error}")
                continue
            name, cut = max(_cuts(), key=lambda each: _mean([_f1(each[1](scorer(task)), task) for task in development]))
            _print(f"{title}, {name}", [_f1(cut(scorer(task)), task) for task in held_out])


def _cuts() -> Iterator[tuple[str, Cut]]:
    for k in range(1, MOST + 1):
        yield f"first {k}", partial(_first, k=k)
    for share in SHARES:
        yield f"from {share} of the best", partial(_from, share=share)


def _first(scores: NDArray[np.float64], k: int) -> list[int]:
    return [int(place) for place in np.argsort(-scores, kind="stable")[:k]]


def _from(scores: NDArray[np.float64], share: float) -> list[int]:
    return [place for place in _first(scores, MOST) if scores[place] >= share * scores.max()]


def _reference(task: Task) -> list[int]:
    return [int(chosen) for chosen in proxy_reference(task.query, extract_facets(task.query), _candidates(task))]


def _proxy() -> Scorer:
    """Without facets: a claim's dates and names are what is looked for, not what is asked of a chunk."""
    return _remembering(lambda task: _best_part(task, _candidates(task)))


def _both() -> Scorer:
    cosine = _minilm()

    def score(task: Task) -> NDArray[np.float64]:
        found = cosine(task)
        rank = {int(place): at for at, place in enumerate(np.argsort(-found, kind="stable"), start=1)}
        return _best_part(task, [
            replace(each, score=float(found[place]), rank=rank[place]) for place, each in enumerate(_candidates(task))
        ])  # fmt: skip

    return _remembering(score)


def _best_part(task: Task, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    parts = list(proxy_scores(task.query, (), candidates))
    return np.max(parts, axis=0) if parts else np.zeros(len(candidates))


def _candidates(task: Task) -> list[Candidate]:
    return [Candidate(chunk_id=str(at), rank=at + 1, text=text) for at, text in enumerate(task.sentences)]


def _bm25() -> Scorer:
    import bm25s  # type: ignore[import-untyped]

    def score(task: Task) -> NDArray[np.float64]:
        index = bm25s.BM25()
        index.index(bm25s.tokenize(list(task.sentences), show_progress=False), show_progress=False)
        words = bm25s.tokenize([task.query], show_progress=False, return_ids=False)[0]
        return np.asarray(index.get_scores(words), dtype=np.float64)

    return _remembering(score)


@lru_cache(maxsize=1)
def _minilm() -> Scorer:
    from ragtrace.engines.encoder import Encoder, packaged_encoder

    encoder = Encoder.load(packaged_encoder())

    def score(task: Task) -> NDArray[np.float64]:
        vectors = encoder.encode([task.query, *task.sentences], batch_size=64, threads=None)
        return np.asarray(vectors[1:] @ vectors[0], dtype=np.float64)

    return _remembering(score)


def _remembering(score: Scorer) -> Scorer:
    known: dict[str, NDArray[np.float64]] = {}

    def remembered(task: Task) -> NDArray[np.float64]:
        if task.source not in known:
            known[task.source] = score(task)
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


if __name__ == "__main__":
    print_selection(DATA)
