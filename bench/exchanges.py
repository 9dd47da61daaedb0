"""Contradictions: how many of those that are flagged are right, and how many are found.

- `bench/exchanges.yaml`: claims with one thing of the evidence changed, beside ones that say the same in other words;
- SciFact: claims that experts called supported or refuted by an abstract;
- RAGTruth QA, held-out half: right is a claim with a span that people marked (in conflict, or made up);
- ExpertQA: right is a claim that an expert did not call completely supported;
- the domains written by hand: answers in which an injector altered one thing, beside the sound ones (`--domains`).

Usage: python bench/exchanges.py [--aside] [--domains NAME ...] [--examples N]
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA, read_rows
from bench.datasets.scifact import text_of
from bench.labels import Labeled, record_of
from ragtrace.analyze.analysis import examine
from ragtrace.coverage import SUPPORTED
from ragtrace.engines.verifier_examples import is_held_out
from ragtrace.types import Claim

PAIRS = Path(__file__).with_suffix(".yaml")
BESIDE = 4  # passages of other pairs that stand in the prompt beside a pair's own
ALTERED = ("altered", "numbers", "dates", "names", "negation", "units", "exchanged_facts", "exaggerated")


class Judged(NamedTuple):
    """A claim as it is judged: of which sort, whether it is wrong, and how far the evidence contradicts it."""

    sort: str
    wrong: bool
    contradiction: float
    support: float
    state: str
    text: str
    reason: str


def read_pairs(part: str) -> Iterator[Judged]:
    """Both claims of each pair, its evidence among that of others of the same domain."""
    pairs = yaml.safe_load(PAIRS.read_text(encoding="utf-8"))[part]
    for place, pair in enumerate(pairs):
        others = dict.fromkeys(each["evidence"] for each in pairs if each["domain"] == pair["domain"])
        beside = [text for text in others if text != pair["evidence"]]
        drawn = random.Random(place).sample(beside, min(BESIDE, len(beside)))
        for told in ("altered", "faithful"):
            case = Labeled("pairs", told, pair["question"], (drawn[0], pair["evidence"], *drawn[1:]), pair[told])
            claims, state = judge(case)
            worst = max(claims, key=lambda claim: claim.contradiction or 0.0, default=None)
            support = min((claim.support or 0.0 for claim in claims), default=0.0)
            contradiction = (worst.contradiction or 0.0) if worst else 0.0
            reason = (worst.reason or "") if worst else ""
            yield Judged(pair["kind"], told == "altered", contradiction, support, state, case.answer, reason)


def judge(case: Labeled) -> tuple[list[Claim], str]:
    """The factual claims of a case, and the state of generation."""
    analysis, _ = examine(record_of(case))
    state = next(each.state for each in analysis.diagnosis.stages if each.stage == "generation")
    return [claim for claim in analysis.claims if claim.factual], state


def _of(sort: str, wrong: bool, claim: Claim, state: str) -> Judged:
    return Judged(sort, wrong, claim.contradiction or 0.0, claim.support or 0.0, state, claim.text, claim.reason or "")


def read_scifact(folder: Path) -> Iterator[Judged]:
    """Claims beside the abstract that supports or refutes them."""
    csv.field_size_limit(sys.maxsize)
    with (folder / "scifact" / "corpus_train.csv").open(encoding="utf-8") as corpus:
        documents = {row["doc_id"]: text_of(row) for row in csv.DictReader(corpus)}
    told: dict[tuple[str, str], str] = {}
    with (folder / "scifact" / "claims_train.csv").open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if row["evidence_label"]:
                told[row["claim"], row["evidence_doc_id"]] = row["evidence_label"]
    for (claim, document), label in told.items():
        claims, state = judge(Labeled("scifact", "", "", (documents[document],), claim))
        yield from (_of("scifact", label == "CONTRADICT", each, state) for each in claims)


def read_ragtruth(folder: Path, *, held_out: bool) -> Iterator[Judged]:
    """The claims of one half's answers."""
    for row in read_rows(folder / "ragtruth" / "qa.jsonl"):
        if is_held_out(str(row["source_id"])) != held_out:
            continue
        passages = re.split(r"\n*passage \d+:", row["source"]["passages"])
        given = tuple(text.strip() for text in passages if text.strip())
        for response in row["responses"]:
            claims, state = judge(Labeled("ragtruth", "", row["source"]["question"], given, response["response"]))
            for claim in claims:
                spans = [each for each in response["labels"] if each["start"] < claim.end and each["end"] > claim.start]
                yield _of("ragtruth", bool(spans), claim, state)


def read_expertqa(folder: Path) -> Iterator[Judged]:
    """Each claim beside the passages that it cites."""
    for row in read_rows(folder / "expertqa" / "claims.jsonl"):
        for given in row["claims"]:
            if given["evidence"] and given["support"] in ("Complete", "Partial", "Incomplete"):
                text = re.sub(r"\s*\[\d+\]", "", given["claim_string"])
                claims, state = judge(Labeled("expertqa", "", row["question"], tuple(given["evidence"]), text))
                yield from (_of("expertqa", given["support"] != "Complete", claim, state) for claim in claims)


def read_domains(names: Sequence[str], questions: int | None) -> Iterator[Judged]:
    """Answers of the domains written by hand, sound and altered; the largest contradiction of a claim of each."""
    from dataclasses import replace

    from bench.verdicts.handwritten import read_domains as read
    from bench.verdicts.measurement import SOUND, Plan, measured

    domains = [replace(each, questions=each.questions[:questions]) for each in read(names=names)]
    for result in measured(domains, Plan(faults=0)):
        if result.injector == SOUND or (result.truth == "generation" and result.fault in ALTERED):
            sort = f"{result.domain}: {result.fault or SOUND}"
            state = result.findings["generation"].state
            contradiction, reason = result.features["contradicted"], "\n      ".join(result.evidence)
            yield Judged(sort, bool(result.fault), contradiction, 0.0, state, result.answer, reason)


def show(title: str, judged: Sequence[Judged], examples: int, *, by_sort: bool = False) -> None:
    """What is flagged, and how much of it rightly."""
    flagged = [each for each in judged if each.contradiction >= SUPPORTED]
    wrong, sound = [each for each in judged if each.wrong], [each for each in judged if not each.wrong]
    right = sum(each.wrong for each in flagged)
    false = len(flagged) - right
    print(f"{title}: {len(flagged)} of {len(judged)} flagged, {right} of them right ({_share(right, len(flagged))}); "
          f"of wrong ones {_share(right, len(wrong))} ({right} of {len(wrong)}), of sound ones "
          f"{_share(false, len(sound))} ({false} of {len(sound)})")  # fmt: skip
    states: dict[bool, Counter[str]] = defaultdict(Counter)
    for each in judged:
        states[each.wrong][each.state] += 1
    for is_wrong, found in states.items():
        print(
            f"  {'wrong' if is_wrong else 'sound'}: " + ", ".join(f"{n} {state}" for state, n in sorted(found.items()))
        )
    if by_sort:
        for sort in sorted({each.sort for each in judged}):
            ours = [each for each in judged if each.sort == sort]
            for told in (True, False):
                rows = [each for each in ours if each.wrong is told]
                if rows:
                    hits = sum(each.contradiction >= SUPPORTED for each in rows)
                    blamed = sum(each.state in ("broken", "suspected") for each in rows)
                    acquitted = sum(each.state == "sound" for each in rows)
                    print(f"    {sort:28} {'wrong' if told else 'sound'} n {len(rows):4}  flagged {hits:4}  "
                          f"blamed or suspected {blamed:4}  called sound {acquitted:4}")  # fmt: skip
    wrongly = [each for each in flagged if not each.wrong][:examples]
    missed = [each for each in wrong if each.contradiction < SUPPORTED][:examples]
    for name, rows in (("flagged, but sound", wrongly), ("wrong, but not flagged", missed)):
        for each in rows:
            print(f"  {name}: [{each.sort}] {each.text}\n      {each.reason}")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def main() -> None:
    """Print the figures of the sets that are there."""
    options = _options()
    for part in ("develop", "aside") if options.aside else ("develop",):
        show(f"pairs, {part}", list(read_pairs(part)), options.examples, by_sort=True)
    if options.domains:
        show("domains", list(read_domains(options.domains, options.questions)), options.examples, by_sort=True)
    if options.pairs:
        return
    for title, read in (("SciFact", read_scifact), ("ExpertQA", read_expertqa),
                        ("RAGTruth, development half", lambda folder: read_ragtruth(folder, held_out=False)),
                        ("RAGTruth, held-out half", lambda folder: read_ragtruth(folder, held_out=True))):  # fmt: skip
        try:
            show(title, list(read(options.data)), options.examples)
        except FileNotFoundError as error:
            print(f"{error.filename}: missing; give --data or RAGTRACE_BENCH_DATA", file=sys.stderr)


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets (RAGTRACE_BENCH_DATA)")
    parser.add_argument("--domains", nargs="+", default=(), metavar="NAME", help="names of domains written by hand")
    parser.add_argument("--questions", type=int, help="at most so many of each domain")
    parser.add_argument("--examples", type=int, default=0, help="errors of each sort to show")
    parser.add_argument("--aside", action="store_true", help="the pairs that no rule was written by as well")
    parser.add_argument("--pairs", action="store_true", help="the pairs, and domains that are named, alone")
    return parser.parse_args()


if __name__ == "__main__":
    main()
