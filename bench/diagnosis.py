"""How often the first broken stage is named right, on requests with faults injected into known stages.

Questions of SciFact, CLAP-NQ and MTRAG go through the demo's pipeline, healthy and with faults of each stage at three
strengths, one and two at a time. Each request is diagnosed with the oracle reference and with the proxy alone. The
injection decides what is right. Figures are of the held-out half of the questions; --half development shows the other.

Usage: python bench/diagnosis.py [--questions N] [--half development] [--sets scifact ...] [--examples N] [--json]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

import ragtrace
from bench.datasets import DATA, READERS, DataSet, half_of, read
from bench.faults.model import passage
from bench.faults.requests import Plan, Request, components_for, requests_of
from ragtrace.analyze import analyze_record
from ragtrace.demo.pipeline import PolicyAssistant
from ragtrace.demo.retrieval import DenseIndex, Retriever
from ragtrace.engines.encoder import Encoder, packaged_encoder
from ragtrace.store import Store
from ragtrace.types import Analysis, Gold, Reference, RequestRecord
from ragtrace.wilson import wilson

SERVICE: Final = "diagnosis-bench"
QUESTIONS: Final = 80
NAMED: Final = ("healthy", "undetermined", "retrieval", "ranking", "generation", "citation")
REFERENCES: Final[Sequence[Reference]] = ("oracle", "proxy")
TARGETS: Final = {"oracle": (0.95, 0.90, 0.03), "proxy": (0.80, 0.70, 0.10)}
_BATCH: Final = 100
_FLUSH_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Result:
    """One request: what the injection broke, and what each reference names."""

    data: str
    request_id: str
    faults: tuple[str, ...]
    strength: int
    truth: str
    oracle: str
    proxy: str

    def named(self, reference: Reference) -> str:
        """The stage named, or the verdict where none is."""
        return self.oracle if reference == "oracle" else self.proxy


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """One request's result with what it came from, for a look at the errors."""

    result: Result
    request: Request
    record: RequestRecord
    by_oracle: Analysis
    by_proxy: Analysis


def main() -> None:
    """Print the figures of the data sets that are there."""
    options = _options()
    found: list[Diagnosed] = []
    for name in options.sets:
        try:
            data = read(name, options.data)
        except FileNotFoundError:
            print(f"{name}: not in {options.data}; give --data or RAGTRACE_BENCH_DATA", file=sys.stderr)
            continue
        cases = [case for case in data.cases if half_of(case.source) == options.half]
        cases.sort(key=lambda case: hashlib.blake2b(case.case_id.encode()).digest())
        plan = Plan()
        healthy = components_for(_retriever(data, options.cache))
        planned = requests_of(data, cases[: options.questions], healthy, plan)
        found += diagnosed(data, planned)
        if not options.json:
            print(f"{name}: {plan.asked} questions of the {options.half} half, {plan.sound} with a sound healthy run")
    results = [each.result for each in found]
    if options.json:
        print(json.dumps([asdict(result) for result in results]))
    elif results:
        report(results)
        show_errors(found, options.examples)


def diagnosed(data: DataSet, planned: Iterable[Request]) -> Iterator[Diagnosed]:
    """Run the requests through the recorded pipeline, and diagnose each with the oracle and with the proxy alone."""
    with tempfile.TemporaryDirectory(prefix="ragtrace-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'requests.db'}"
        asked = list(_recorded(planned, url))
        with Store.open(url) as store:
            for start in range(0, len(asked), _BATCH):
                batch = dict(asked[start : start + _BATCH])
                records = store.get_records(list(batch))
                for request_id, request in batch.items():
                    yield _diagnosed(data.name, request, records[request_id])


def report(results: Sequence[Result]) -> None:
    """The confusion matrix and the shares that are right, in all, by data set and by fault and strength."""
    for reference in REFERENCES:
        print(f"\n== {reference} ==")
        singles = [each for each in results if len(each.faults) == 1]
        doubles = [each for each in results if len(each.faults) == 2]
        healthy = [each for each in results if not each.faults]
        goals = TARGETS[reference]
        print(f"right first stage, one fault:  {_share(_right(singles, reference))}  (goal {goals[0]:.0%})")
        print(f"right first stage, two faults: {_share(_right(doubles, reference))}  (goal {goals[1]:.0%})")
        print(f"healthy requests blamed:       {_share(_blamed(healthy, reference))}  (goal at most {goals[2]:.0%})")
        for name in dict.fromkeys(each.data for each in results):
            own = [[each for each in part if each.data == name] for part in (singles, doubles, healthy)]
            print(f"  {name:8} one {_share(_right(own[0], reference))}, two {_share(_right(own[1], reference))}, "
                  f"healthy blamed {_share(_blamed(own[2], reference))}")  # fmt: skip
        for title, part in (("one fault or none", [*healthy, *singles]), ("two faults", doubles)):
            _matrix(title, part, reference)
        _by_fault(singles, reference)


def show_errors(found: Sequence[Diagnosed], count: int) -> None:
    """The first `count` errors of each fault with the proxy alone, with what the diagnosis rests on."""
    shown: dict[str, int] = {}
    for each in found:
        kind = each.result.faults[0] if each.result.faults else "healthy"
        wrong = each.result.proxy != each.result.truth and (each.result.faults or each.result.proxy in NAMED[2:])
        shown[kind] = shown.get(kind, 0) + bool(wrong)
        if wrong and shown[kind] <= count:
            print(f"\n[{' + '.join(each.result.faults) or 'healthy'}] {each.result.data} {each.request.case.case_id}: "
                  f"{each.result.truth} taken for {each.result.proxy}")  # fmt: skip
            print(f"  question: {each.request.case.question}")
            print(
                f"  needed {', '.join(each.request.case.evidence)}; proxy {', '.join(each.by_proxy.reference_chunks)}"
            )
            scores = {score.metric: score.value for score in each.by_proxy.scores if score.value is not None}
            print(f"  {', '.join(f'{name} {value:.2f}' for name, value in scores.items())}")
            for line in each.by_proxy.diagnosis.evidence:
                print(f"  - {line}")


def _recorded(planned: Iterable[Request], url: str) -> Iterator[tuple[str, Request]]:
    ragtrace.configure(service=SERVICE, store=url, enabled=True, sample_rate=1.0, capture_content="full")
    try:
        for number, request in enumerate(planned, 1):
            yield PolicyAssistant(request.components).ask(request.case.question).request_id, request
            if number % _BATCH == 0:
                ragtrace.flush(timeout=_FLUSH_SECONDS)
    finally:
        ragtrace.shutdown(timeout=_FLUSH_SECONDS)


def _diagnosed(data: str, request: Request, record: RequestRecord) -> Diagnosed:
    gold = Gold(service=SERVICE, question=request.case.question, chunk_ids=tuple(request.case.evidence))
    by_oracle, by_proxy = analyze_record(record, gold), analyze_record(record)
    result = Result(
        data=data,
        request_id=record.request_id,
        faults=tuple(fault.kind for fault in request.faults),
        strength=request.faults[0].strength if request.faults else 0,
        truth=request.broken or "healthy",
        oracle=_named(by_oracle),
        proxy=_named(by_proxy),
    )
    return Diagnosed(result, request, record, by_oracle, by_proxy)


def _named(analysis: Analysis) -> str:
    found = analysis.diagnosis
    return found.stage or found.verdict


def _retriever(data: DataSet, cache: Path) -> Retriever:
    """The demo's retriever over the passages, which are embedded once and kept in `cache`."""
    encoder = Encoder.load(packaged_encoder())
    chunks = [passage(name, text) for name, text in data.passages.items()]
    texts = "\0".join(chunk.text for chunk in chunks).encode()
    path = cache / f"{data.name}-{hashlib.blake2b(texts, digest_size=8).hexdigest()}.npy"
    if path.exists():
        vectors = np.load(path)
    else:
        print(f"{data.name}: embedding {len(chunks)} passages, once", file=sys.stderr)
        vectors = encoder.encode([chunk.text for chunk in chunks], threads=None)
        cache.mkdir(parents=True, exist_ok=True)
        np.save(path, vectors)
    return Retriever(encoder, DenseIndex(chunks, vectors, "passages-1"))


def _right(results: Sequence[Result], reference: Reference) -> list[bool]:
    return [each.named(reference) == each.truth for each in results]


def _blamed(results: Sequence[Result], reference: Reference) -> list[bool]:
    return [each.named(reference) in NAMED[2:] for each in results]


def _share(hits: Sequence[bool]) -> str:
    if not hits:
        return "none"
    low, high = wilson(sum(hits), len(hits), 1.96)
    return f"{sum(hits) / len(hits):6.1%} [{low:.1%}, {high:.1%}] of {len(hits)}"


def _matrix(title: str, results: Sequence[Result], reference: Reference) -> None:
    print(f"\n{title}: broken (down), named (across)")
    print(f"{'':12}" + "".join(f"{name:>14}" for name in NAMED) + "   right")
    for truth in ("healthy", "retrieval", "ranking", "generation"):
        row = [each for each in results if each.truth == truth]
        if row:
            counts = [sum(each.named(reference) == name for each in row) for name in NAMED]
            print(f"{truth:12}" + "".join(f"{count:14}" for count in counts) + f"   {_share(_right(row, reference))}")


def _by_fault(results: Sequence[Result], reference: Reference) -> None:
    print("\nright by fault and strength (1 slight, 3 gross)")
    for kind in dict.fromkeys(each.faults[0] for each in sorted(results, key=lambda each: each.truth)):
        own = [each for each in results if each.faults[0] == kind]
        parts = [
            _share(_right([each for each in own if each.strength == strength], reference)) for strength in (1, 2, 3)
        ]
        print(f"  {kind:10} " + "   ".join(f"{part:32}" for part in parts) + f" all {_share(_right(own, reference))}")


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets (RAGTRACE_BENCH_DATA)")
    parser.add_argument("--sets", nargs="+", choices=list(READERS), default=list(READERS))
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of each data set (default %(default)s)")
    parser.add_argument("--half", choices=("development", "held-out"), default="held-out")
    parser.add_argument("--cache", type=Path, default=home / "ragtrace-bench", help="where embeddings are kept")
    parser.add_argument("--examples", type=int, default=0, help="errors of each fault to show")
    parser.add_argument("--json", action="store_true", help="print one object for each request instead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
