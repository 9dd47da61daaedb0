"""What the verdict says of generation in real answers of real systems, beside what people said of them.

RAGTruth: answers to questions from passages, in which people marked made-up spans. ExpertQA: answers whose claims
experts called completely, partly or not supported by the evidence of that claim. The measures of a claim were fitted on
the development half of RAGTruth's sources, which is left out; nothing was fitted on ExpertQA.

Usage: python bench/labels.py [--data FOLDER] [--examples N]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA, read_rows
from ragtrace.analyze import ServiceView, analyze_record, examine
from ragtrace.analyze.doubts import log_odds_of
from ragtrace.engines.training.examples import is_held_out
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    content_hash,
)

STATES = ("sound", "broken", "suspected", "not_known")
_MARK = re.compile(r"\s*\[\d+\]")


class Labeled(NamedTuple):
    """An answer with the passages that it was given. label: what people said of it."""

    source: str
    label: str
    question: str
    passages: tuple[str, ...]
    answer: str


def read_ragtruth(folder: Path) -> Iterator[Labeled]:
    """Answers without any marked span, with subtle ones alone, and with evident ones, of the held-out half."""
    for row in read_rows(folder / "ragtruth" / "qa.jsonl"):
        if not is_held_out(str(row["source_id"])):
            continue
        passages = re.split(r"\n*passage \d+:", row["source"]["passages"])
        given = tuple(text.strip() for text in passages if text.strip())
        for response in row["responses"]:
            kinds = {each["label_type"] for each in response["labels"]}
            label = "no span" if not kinds else "evident" if any("Evident" in kind for kind in kinds) else "subtle"
            yield Labeled("ragtruth", label, row["source"]["question"], given, response["response"])


def read_expertqa(folder: Path) -> Iterator[Labeled]:
    """Answers that are supported wholly, partly, and in claims not at all; those without any evidence are left out."""
    for row in read_rows(folder / "expertqa" / "claims.jsonl"):
        passages = dict.fromkeys(text for claim in row["claims"] for text in claim["evidence"])
        if passages:
            said = {claim["support"] for claim in row["claims"]}
            label = "complete" if said == {"Complete"} else "missing" if "Missing" in said else "partial"
            yield Labeled("expertqa", label, row["question"], tuple(passages), _MARK.sub("", row["answer"]))


def record_of(case: Labeled) -> RequestRecord:
    """A request that retrieved and packed these passages and gave this answer."""
    passages = [(f"p{place}", place, text) for place, text in enumerate(case.passages, 1)]
    found = tuple(Candidate(chunk_id=id_, rank=place, text=text) for id_, place, text in passages)
    chunks = tuple(PackedChunk(chunk_id=id_, position=place, text=text) for id_, place, text in passages)
    answer = Generation(answer=case.answer, answer_hash=content_hash(case.answer))
    return RequestRecord(
        request_id="labels",
        service="labels",
        started_at=0,
        ended_at=1,
        query=Query(original=case.question),
        cites=False,
        stages=(
            RetrieveRun(name="search", query=case.question, candidates=found, started_at=0, ended_at=1),
            PackRun(name="pack", packing=Packing(chunks=chunks), started_at=0, ended_at=1),
            GenerateRun(name="answer", generation=answer, started_at=0, ended_at=1),
        ),
    )


def main() -> None:
    """Print the states by source and label."""
    options = _options()
    states: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    shown: Counter[tuple[str, str, str]] = Counter()
    for read in (read_ragtruth, read_expertqa):
        try:
            cases: Sequence[Labeled] = list(read(options.data))
        except FileNotFoundError as error:
            print(f"{error.filename}: missing; give --data or RAGTRACE_BENCH_DATA", file=sys.stderr)
            continue
        service = _service_of(cases)
        for case in cases:
            analysis = analyze_record(record_of(case), service=service)
            finding = next(each for each in analysis.diagnosis.stages if each.stage == "generation")
            states[case.source, case.label][finding.state] += 1
            shown[case.source, case.label, finding.state] += 1
            is_wrong = finding.state in ("broken", "suspected") and case.label in ("no span", "complete")
            if is_wrong and shown[case.source, case.label, finding.state] <= options.examples:
                print(f"{finding.state}: {case.question}\n  {case.answer}\n  " + "\n  ".join(finding.evidence))
    print(f"{'answers':24} {'n':>5} " + " ".join(f"{state + ' %':>12}" for state in STATES))
    for (source, label), found in sorted(states.items()):
        n = found.total()
        print(f"{source + ': ' + label:24} {n:5} " + " ".join(f"{100 * found[state] / n:12.1f}" for state in STATES))


def _service_of(cases: Sequence[Labeled]) -> ServiceView:
    """What a worker knows that has seen all of them: each source is a service, with the wrong answers that it has."""
    usual: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        for name, odds in log_odds_of(examine(record_of(case))[1].signs).items():
            usual[name].append(odds)
    return ServiceView(usual=usual)


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets (RAGTRACE_BENCH_DATA)")
    parser.add_argument("--examples", type=int, default=0, help="sound answers that are blamed or suspected, to show")
    return parser.parse_args()


if __name__ == "__main__":
    main()
