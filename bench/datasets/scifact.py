"""SciFact: scientific claims and the abstracts that support or refute them (CC BY 4.0, ODC-BY)."""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

from bench.datasets.model import Case, DataSet, Statement
from ragtrace.coverage.text import sentences

__all__ = ["read_scifact", "text_of"]

DISTRACTORS: Final = 1000
_QUOTED: Final = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")


def read_scifact(folder: Path) -> DataSet:
    """Both splits' claims with evidence; their abstracts and the first `DISTRACTORS` others. The answer quotes."""
    csv.field_size_limit(sys.maxsize)
    root = folder / "scifact"
    abstracts = {row["doc_id"]: row for row in _rows(root / "corpus_train.csv")}
    found: defaultdict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for name in ("claims_train.csv", "claims_validation.csv"):
        for row in _rows(root / name):
            if row["evidence_doc_id"]:
                places = [int(place) for place in re.findall(r"\d+", row["evidence_sentences"])]
                found[row["id"], row["claim"]][row["evidence_doc_id"]] += places
    cases = []
    for (claim_id, claim), documents in found.items():
        evidence = {
            doc_id: tuple(_sentences(abstracts[doc_id])[place] for place in sorted(set(places)))
            for doc_id, places in documents.items()
        }
        answer = tuple(
            Statement(each.text, doc_id) for doc_id, texts in evidence.items() for each in sentences(" ".join(texts))
        )
        cases.append(Case(f"scifact-{claim_id}", min(evidence), claim, claim, evidence, answer))
    needed = {doc_id for case in cases for doc_id in case.evidence}
    others = [doc_id for doc_id in abstracts if doc_id not in needed][:DISTRACTORS]
    passages = {doc_id: text_of(abstracts[doc_id]) for doc_id in [*sorted(needed), *others]}
    return DataSet("scifact", passages, cases)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _sentences(abstract: dict[str, str]) -> list[str]:
    """The file holds each list as numpy prints it: quoted, without commas."""
    found = [one or other for one, other in _QUOTED.findall(abstract["abstract"])]
    return [" ".join(text.replace("\\'", "'").replace("\\n", " ").split()) for text in found]


def text_of(abstract: dict[str, str]) -> str:
    """The title, and below it the abstract."""
    return f"{abstract['title'].strip()}\n{' '.join(_sentences(abstract))}"
