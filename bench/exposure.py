"""Fair exposure at scale, and the experiment of "Towards Fair RAG" on public data.

`scale`: 100,000 requests of 1,000 providers: the report's time and memory, and the totals that a scrape shows.
`public`: CLAP-NQ, SciFact and MTRAG (where they are there), found by rare words, answered by quoting sentences.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from bench.datasets import DATA, READERS
from ragtrace.analyze._totals import analysis_deltas
from ragtrace.analyze.exposure_experiment import ExperimentQuestion, ExperimentSettings, run_experiment
from ragtrace.analyze.exposure_report import exposure_report
from ragtrace.demo.corrective import Passage, WordIndex
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


_HEADINGS: Final = re.compile(r"\b(BACKGROUND|OBJECTIVE|METHODS|RESULTS|CONCLUSIONS?)\b")


def provider_of(name: str, text: str) -> str:
    """Who provides a passage: in SciFact, whose files name neither authors nor years, whether its journal wants
    abstracts in parts; else the passage's first line, an article or a collection."""
    if name == "scifact":
        return "abstract in parts" if _HEADINGS.search(text) else "abstract in one"
    return text.partition("\n")[0]


def public(folder: Path, limit: int, samples: int, out: Path | None) -> None:
    """The experiment on each data set: by item, useful by gold and by utility; and by provider."""
    for name, read in READERS.items():
        try:
            data = read(folder)
        except FileNotFoundError:
            print(f"{name}: not in {folder}")
            continue
        index = WordIndex(dict(data.passages))
        cases = random.Random(1).sample(list(data.cases), min(limit, len(data.cases)))
        questions = [
            ExperimentQuestion(
                each.case_id, each.asked, " ".join(one.text for one in each.answer), tuple(each.evidence)
            )
            for each in cases
        ]
        providers = {chunk_id: provider_of(name, text) for chunk_id, text in data.passages.items()}
        kinds: tuple[tuple[Literal["gold", "utility"], str], ...] = (
            ("gold", "item"), ("utility", "item"), ("gold", "source"),
        )  # fmt: skip
        for useful, by in kinds:
            began = time.process_time()
            settings = ExperimentSettings(samples=samples, useful=useful, by=by)
            report = run_experiment(questions, partial(_find, index, providers), partial(_quote, index), settings)
            seconds = time.process_time() - began
            asked = f"{report.questions} questions, {report.answered:,} answers"
            print(f"{name}, by {by}, useful by {useful}: {asked}, {seconds:.0f} s of processor")
            for each in report.alphas:
                print(f"  alpha {alpha_text(each.alpha):>2}  " + "  ".join(mean_text(each.means[one]) for one in NAMES))
            for finding in report.findings:
                print(f"  {HELD[finding.holds]}: {finding.claim} ({finding.figure})")
            if out is not None:
                (out / f"{name}-{by}-{useful}.html").write_text(experiment_page(report), encoding="utf-8")


def _find(index: WordIndex, providers: Mapping[str, str], question: str) -> list[Passage]:
    """The passages with their providers."""
    return [replace(each, source=providers[each.chunk_id]) for each in index.find(question)]


def _quote(index: WordIndex, question: str, found: Sequence[Passage]) -> str:
    return index.quote(question, (each.text for each in found))


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
