"""What the verdict says of generation in real answers of real systems, beside what people said of them.

RAGTruth: answers to questions from passages, in which people marked made-up spans. ExpertQA: answers whose claims
experts called completely, partly or not supported by the evidence of that claim. The measures of a claim were fitted on
the development half of RAGTruth's sources, which is left out; nothing was fitted on ExpertQA.

Then, claim by claim, how many of those with a support below `SUPPORTED` people call unsupported: a sentence that a
marked span touches (RAGTruth), one that experts call incompletely supported or not at all (ExpertQA). Intervals are of
95 %, over resampled questions.

Usage: python bench/labels.py [--data FOLDER] [--examples N] [--claims]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA, read_rows
from bench.support import interval
from ragtrace.analyze import ServiceView, analyze_record, examine
from ragtrace.analyze._doubt_model import log_odds_of
from ragtrace.coverage import SUPPORTED, judge_claims
from ragtrace.engines.verifier_examples import is_held_out
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
UNSUPPORTED: Final = ("span", "Incomplete", "Missing")  # labels of a claim that the evidence does not support
JUDGED: Final = ("no span", "span", "Complete", "Partial", "Incomplete", "Missing")  # any other tells nothing
_MARK = re.compile(r"\s*\[\d+\]")


class Mark(NamedTuple):
    """What people said of `answer[start:end]`."""

    start: int
    end: int
    label: str


class Labeled(NamedTuple):
    """An answer with the passages that it was given. label: what people said of it; marks: and of its parts, `default`
    being what the rest of it is."""

    source: str
    label: str
    question: str
    passages: tuple[str, ...]
    answer: str
    marks: tuple[Mark, ...] = ()
    default: str = ""


class LabeledClaim(NamedTuple):
    """A factual claim's support by the passages, in [0, 1], and what people said of it."""

    question: str
    support: float
    label: str


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
            marks = tuple(Mark(each["start"], each["end"], "span") for each in response["labels"])
            yield Labeled(
                "ragtruth", label, row["source"]["question"], given, response["response"], marks, default="no span"
            )


def read_expertqa(folder: Path) -> Iterator[Labeled]:
    """Answers that are supported wholly, partly, and in claims not at all; those without any evidence are left out."""
    for row in read_rows(folder / "expertqa" / "claims.jsonl"):
        passages = dict.fromkeys(text for claim in row["claims"] for text in claim["evidence"])
        if passages:
            said = {claim["support"] for claim in row["claims"]}
            label = "complete" if said == {"Complete"} else "missing" if "Missing" in said else "partial"
            answer = _MARK.sub("", row["answer"])
            yield Labeled("expertqa", label, row["question"], tuple(passages), answer, _marks(answer, row["claims"]))


def _marks(answer: str, claims: Sequence[Any]) -> tuple[Mark, ...]:
    """Where the claims stand in the answer, those that do not stand in it as written left out."""
    found = []
    for claim in claims:
        text = _MARK.sub("", claim.get("claim_string", "")).strip()
        start = answer.find(text) if text else -1
        if start >= 0:
            found.append(Mark(start, start + len(text), claim["support"]))
    return tuple(found)


def labeled_claims(case: Labeled) -> Iterator[LabeledClaim]:
    """The factual claims of an answer that people judged, each with the label of the mark that covers most of it."""
    packed = [PackedChunk(chunk_id=f"p{place}", position=place, text=text) for place, text in enumerate(case.passages)]
    for claim in judge_claims(case.answer, packed, query=case.question)[0]:
        shared = {mark: min(mark.end, claim.end) - max(mark.start, claim.start) for mark in case.marks}
        mark = max(shared, key=lambda each: shared[each], default=None)
        label = mark.label if mark and shared[mark] > 0 else case.default
        if claim.factual and label in JUDGED:
            yield LabeledClaim(case.question, claim.support or 0.0, label)


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
    judged: dict[str, list[LabeledClaim]] = {}
    for read in (read_ragtruth, read_expertqa):
        try:
            cases: Sequence[Labeled] = list(read(options.data))
        except FileNotFoundError as error:
            print(f"{error.filename}: missing; give --data or RAGTRACE_BENCH_DATA", file=sys.stderr)
            continue
        judged[cases[0].source] = [claim for case in cases for claim in labeled_claims(case)]
        if options.claims:
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
    if states:
        print(f"{'answers':24} {'n':>5} " + " ".join(f"{state + ' %':>12}" for state in STATES))
    for (source, label), found in sorted(states.items()):
        n = found.total()
        print(f"{source + ': ' + label:24} {n:5} " + " ".join(f"{100 * found[state] / n:12.1f}" for state in STATES))
    print(f"\nclaims with a support below {SUPPORTED}: what people say of them")
    for source, claims in judged.items():
        print_weak(source, claims)


def print_weak(source: str, claims: Sequence[LabeledClaim]) -> None:
    """Print the share of the claims below the line that are unsupported by label, beside that of all claims."""
    weak = [claim for claim in claims if claim.support < SUPPORTED]
    for name, chosen in (("below the line", weak), ("all", claims)):
        counts = Counter(claim.label for claim in chosen)
        labels = ", ".join(f"{label} {counts[label]}" for label in JUDGED if counts[label])
        if not chosen:
            print(f"{source}: {name}: no claim")
            continue
        unsupported = np.array([claim.label in UNSUPPORTED for claim in chosen])
        share = interval([claim.question for claim in chosen], partial(_mean_of, unsupported))
        print(f"{source + ': ' + name:24} n {len(chosen):5}  unsupported by label {share}  ({labels})")


def _mean_of(hits: NDArray[np.bool_], rows: NDArray[np.int64]) -> float:
    return float(hits[rows].mean())


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
    parser.add_argument("--claims", action="store_true", help="judge claims alone, and no requests")
    parser.add_argument("--examples", type=int, default=0, help="sound answers that are blamed or suspected, to show")
    return parser.parse_args()


if __name__ == "__main__":
    main()
