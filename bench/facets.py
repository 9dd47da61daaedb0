"""Facets read from 327 questions, many of them legal or technical, against those that a careful reader requires.

The questions lie in `bench/questions`: those to develop on; mixed ones and sealed ones, labeled before the rules that
they led to. Of published questions only the id is kept; RAGTRACE_BENCH_DATA names the folder of the data sets, without
which they are left out.

Usage: python bench/facets.py [--wrong] [--part development]. `--wrong` lists what was read wrongly or overlooked.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Final

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA, read_rows
from ragtrace.coverage.facets import extract_facets, key_terms
from ragtrace.types import Facet

__all__ = ["PARTS", "Figures", "Label", "Question", "measure", "read_questions"]

PARTS: Final = ("development", "mixed", "sealed")
TODAY: Final = date(2024, 5, 20)
_FOLDER: Final = Path(__file__).parent / "questions"
_EDGES: Final = re.compile(r"^(?:the|an?|in|on|at|over|during|for|from|within)\s+|(?:['’]s)?[\s.,?!]*$", re.IGNORECASE)
_HEAD: Final = re.compile(r"\s(?:of|for|in)\s")


@dataclass(frozen=True, slots=True)
class Label:
    """A facet that is required, or only right where it is read; any of `kinds` and of `forms` is it."""

    kinds: frozenset[str]
    forms: tuple[str, ...]
    required: bool

    def is_met(self, facet: Facet) -> bool:
        """Whether `facet` is this one. A term is also met by a part of it that ends as it does."""
        written = _plain(facet.value)
        if facet.weak or "term" in self.kinds:
            within = facet.weak and any(
                part.endswith(f" {written}") or part == written for form in self.forms for part in _HEAD.split(form)
            )
            named = facet.kind == "entity" and bool(self.kinds & {"term", "entity"})
            return named and (written in self.forms or ("term" in self.kinds and within))
        return facet.kind in self.kinds and written in self.forms


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its labels, and the set that it is of."""

    origin: str
    text: str
    labels: tuple[Label, ...]


@dataclass
class Figures:
    """What was read (strong, weak), what was required (by kind), and what of both is right."""

    read: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    required: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, list[str], list[str]]] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """Share of the facets, weak ones among them, that are right."""
        return self.right.total() / max(1, self.read.total())

    @property
    def recall(self) -> float:
        """Share of the required names, times, places, versions and quantities that were read."""
        return self.found.total() / max(1, self.required.total())


def read_questions(part: str, data: Path = DATA) -> list[Question]:
    """The questions of a part, without the published ones whose data set is not in `data`."""
    questions = []
    for origin, rows in yaml.safe_load((_FOLDER / f"{part}.yaml").read_text()).items():
        published = _published(origin, data)
        for row in rows:
            text = row.get("question") or published.get(row["id"])
            if text:
                questions.append(Question(origin, text, tuple(_labels(row["facets"]))))
    return questions


@lru_cache(maxsize=8)
def _published(origin: str, data: Path) -> Mapping[str, str]:
    folder = data / origin
    if origin == "clapnq" and folder.is_dir():
        paths = [folder / f"clapnq_dev_{name}.jsonl" for name in ("answerable", "unanswerable")]
        return {row["id"]: row["input"] for path in paths for row in read_rows(path)}
    if origin == "mtrag" and folder.is_dir():
        rows = read_rows(folder / "mtragun_reference.jsonl")
        return {
            row["task_id"]: [turn["text"] for turn in row["input"] if turn["speaker"] == "user"][-1] for row in rows
        }
    if origin == "expertqa" and folder.is_dir():
        asked = {row["question"] for row in read_rows(folder / "claims.jsonl")}
        return {hashlib.sha256(text.encode()).hexdigest()[:12]: text for text in asked}
    return {}


def _labels(written: str) -> Iterator[Label]:
    for label in filter(str.strip, written.split("; ")):
        kind, _, forms = label.strip().partition(": ")
        yield Label(
            frozenset(kind.removeprefix("?").split("/")),
            tuple(map(_plain, forms.split(" | "))),
            required=not kind.startswith("?"),
        )


def _plain(written: str) -> str:
    return " ".join(_EDGES.sub("", _EDGES.sub("", written.strip())).casefold().split())


def measure(questions: Sequence[Question]) -> Figures:
    """Read every question, and count."""
    figures = Figures()
    for question in questions:
        strong = extract_facets(question.text, today=TODAY)
        facets = (*strong, *key_terms(question.text, strong))
        needless = []
        for facet in facets:
            kind = "weak" if facet.weak else "strong"
            figures.read[kind] += 1
            if any(label.is_met(facet) for label in question.labels):
                figures.right[kind] += 1
            else:
                needless.append(f"{facet.kind}: {facet.value} ({facet.why})")
        overlooked = []
        for label in question.labels:
            if not label.required:
                continue
            kind = "/".join(sorted(label.kinds))
            figures.required[kind] += 1
            if any(label.is_met(facet) for facet in facets):
                figures.found[kind] += 1
            else:
                overlooked.append(f"{kind}: {' | '.join(label.forms)}")
        if needless or overlooked:
            figures.wrong.append((question.text, needless, overlooked))
    return figures


def _lines(part: str, questions: Sequence[Question], figures: Figures, *, wrong: bool) -> Iterator[str]:
    yield f"{part}: {len(questions)} questions"
    for kind in figures.read:
        yield f"  {kind}: {figures.right[kind]} of {figures.read[kind]} right"
    for kind, required in sorted(figures.required.items()):
        yield f"  {kind}: {figures.found[kind]} of {required} found"
    yield f"  precision {figures.precision:.3f}, recall {figures.recall:.3f}"
    for question, needless, overlooked in figures.wrong if wrong else ():
        yield f"  {question}\n    needless: {needless}\n    overlooked: {overlooked}"


def _milliseconds(questions: Sequence[Question]) -> float:
    """The fastest of five rounds, per question, in processor time; what is kept by text is read anew in each."""
    rounds = []
    for number in range(5):
        begun = time.process_time()
        for question in questions:
            text = question.text + " " * (number + 1)
            key_terms(text, extract_facets(text, today=TODAY))
        rounds.append(time.process_time() - begun)
    return 1000 * min(rounds) / max(1, len(questions))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Facets read from questions, against labels by eye.")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets (RAGTRACE_BENCH_DATA)")
    parser.add_argument("--wrong", action="store_true", help="list what was read wrongly or overlooked")
    options = parser.parse_args()
    every = []
    for part in options.part or PARTS:
        questions = read_questions(part, options.data)
        every += questions
        print("\n".join(_lines(part, questions, measure(questions), wrong=options.wrong)))
    print(f"{_milliseconds(every):.3f} ms for a question")


if __name__ == "__main__":
    main()
