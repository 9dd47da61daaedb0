"""Fair exposure at scale, and the experiment of "Towards Fair RAG" on public data.

`scale`: 100,000 requests of 1,000 providers: the report's time and memory, and the totals that a scrape shows.
`public`: CLAP-NQ, SciFact and MTRAG (where they are there), found by rare words, answered by quoting sentences.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.datasets import DATA, READERS
from ragtrace.analyze._totals import analysis_deltas
from ragtrace.analyze.exposure_experiment import ExperimentQuestion, ExperimentSettings, run_experiment
from ragtrace.analyze.exposure_report import exposure_report
from ragtrace.coverage.text import content_words, sentences
from ragtrace.export.exposition import exposition
from ragtrace.export.exposure_experiment import HELD, NAMES, alpha_text, experiment_page, mean_text
from ragtrace.store import Finished, Store
from ragtrace.types import (
    Analysis,
    Candidate,
    Claim,
    PackedChunk,
    Packing,
    PackRun,
    RequestRecord,
    RetrieveRun,
)

_START: Final = 1_700_000_000_000_000_000
_QUOTED: Final = 2  # sentences of an answer


class Passage(NamedTuple):
    """What the index finds."""

    chunk_id: str
    text: str
    score: float


class Index:
    """Passages by the rare words that they share with a question (BM25 with k1 = 1.2, b = 0.75)."""

    def __init__(self, passages: dict[str, str]) -> None:
        self._texts = passages
        self._counts = {name: Counter(content_words(text)) for name, text in passages.items()}
        self._lengths = {name: counts.total() for name, counts in self._counts.items()}
        self._mean = sum(self._lengths.values()) / len(passages)
        seen = Counter(word for counts in self._counts.values() for word in counts)
        self._rarity = {word: math.log(1 + (len(passages) - n + 0.5) / (n + 0.5)) for word, n in seen.items()}

    def find(self, question: str) -> list[Passage]:
        """The twenty best."""
        words = [word for word in set(content_words(question)) if word in self._rarity]
        scores = {name: sum(self._weight(name, word) for word in words) for name in self._texts}
        best = sorted(scores, key=lambda name: -scores[name])[:20]
        return [Passage(name, self._texts[name], scores[name]) for name in best]

    def quote(self, question: str, found: list[Passage]) -> str:
        """The sentences that share the rarest words with the question, in the order of the passages."""
        asked = set(content_words(question))
        said = [each for passage in found for each in _sentences(passage.text)]
        ranked = sorted(range(len(said)), key=lambda place: -self._fit(asked, said[place]))[:_QUOTED]
        return " ".join(said[place] for place in sorted(ranked)) or "Nothing was found."

    def _fit(self, asked: set[str], sentence: str) -> float:
        words = set(content_words(sentence))
        return sum(self._rarity.get(word, 0.0) for word in words & asked) / math.sqrt(len(words) + 4)

    def _weight(self, name: str, word: str) -> float:
        count = self._counts[name].get(word, 0)
        return self._rarity[word] * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * self._lengths[name] / self._mean))


@cache
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(each.text for each in sentences(text))


def public(folder: Path, limit: int, samples: int, out: Path | None) -> None:
    """The experiment on each data set, useful by gold and by utility."""
    for name, read in READERS.items():
        try:
            data = read(folder)
        except FileNotFoundError:
            print(f"{name}: not in {folder}")
            continue
        index = Index(dict(data.passages))
        cases = random.Random(1).sample(list(data.cases), min(limit, len(data.cases)))
        questions = [
            ExperimentQuestion(
                each.case_id, each.asked, " ".join(one.text for one in each.answer), tuple(each.evidence)
            )
            for each in cases
        ]
        for useful in ("gold", "utility"):
            began = time.process_time()
            settings = ExperimentSettings(samples=samples, useful=useful)
            report = run_experiment(questions, index.find, index.quote, settings)
            seconds = time.process_time() - began
            asked = f"{report.questions} questions, {report.answered:,} answers"
            print(f"{name}, useful by {useful}: {asked}, {seconds:.0f} s of processor")
            for each in report.alphas:
                print(f"  alpha {alpha_text(each.alpha):>2}  " + "  ".join(mean_text(each.means[one]) for one in NAMES))
            for finding in report.findings:
                print(f"  {HELD[finding.holds]}: {finding.claim} ({finding.figure})")
            if out is not None:
                (out / f"{name}-{useful}.html").write_text(experiment_page(report), encoding="utf-8")


def requests(count: int, providers: int) -> Iterator[tuple[RequestRecord, Analysis]]:
    """Requests of twenty candidates and five places, each with a useful document, two that are used, one citation."""
    draw = random.Random(5)
    for number in range(count):
        names = [f"p{draw.randrange(providers):04}" for _ in range(20)]
        candidates = tuple(
            Candidate(chunk_id=f"c{place}", rank=place + 1, score=1 / (place + 1), source=name, text="words")
            for place, name in enumerate(names)
        )
        chunks = tuple(PackedChunk(chunk_id=f"c{place}", position=place + 1) for place in range(5))
        record = RequestRecord(
            request_id=f"r{number:06}",
            service="scale",
            stages=(RetrieveRun(candidates=candidates), PackRun(packing=Packing(chunks=chunks))),
            started_at=_START + number,
            ended_at=_START + number + 1,
        )
        claim = Claim(start=0, end=9, text="It is so.", support=0.9, supports={f"c{number % 5}": 0.9, "c7": 0.8})
        analysis = Analysis(
            request_id=record.request_id,
            analyzer_version="v",
            reference="proxy",
            reference_chunks=(f"c{number % 9}",),
            claims=(claim,),
        )
        yield record, analysis


def scale(count: int, providers: int) -> None:
    """Time and memory of the report over all requests; how many series their totals have."""
    with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{folder}/scale.db") as store:
        _fill(store, count, providers)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began, used = time.perf_counter(), time.process_time()
        report = exposure_report(store, "scale", since=_START, until=_START + count + 1, limit=count)
        seconds, processor = time.perf_counter() - began, time.process_time() - used
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"report: {report.requests:,} requests, {providers:,} providers: {seconds:.1f} s ({processor:.1f} s of")
        print(f"processor), {most:.0f} MB at most, {before:.0f} MB before it; {len(report.providers)} rows")
        began = time.perf_counter()
        text = exposition(store).decode()
        named = [line for line in text.splitlines() if line.startswith("ragtrace_provider_exposure_total{")]
        print(f"scrape: {len(named)} series of exposure, {time.perf_counter() - began:.2f} s")


def _fill(store: Store, count: int, providers: int) -> None:
    rows: list[tuple[RequestRecord, Analysis]] = []
    seconds = 0.0
    for number, row in enumerate(requests(count, providers), 1):
        rows.append(row)
        if len(rows) == 500 or number == count:
            store.write([record for record, _ in rows])
            known: dict[str, Any] = {record.request_id: (record, analysis) for record, analysis in rows}
            done = []
            for job in store.claim("bench", limit=len(rows)):
                record, analysis = known[job.request_id]
                began = time.process_time()
                deltas = analysis_deltas(record, analysis, now=record.ended_at, provider="source")
                seconds += time.process_time() - began
                done.append(Finished(job, analysis, deltas))
            store.finish(done)
            rows = []
    print(f"totals of one request: {1e3 * seconds / count:.2f} ms of processor")


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("scale", "public"))
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--providers", type=int, default=1_000)
    parser.add_argument("--limit", type=int, default=100, help="questions of each data set")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, help="folder for the pages")
    given = parser.parse_args()
    if given.only != "public":
        scale(given.requests, given.providers)
    if given.only != "scale":
        public(given.data, given.limit, given.samples, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
