"""A data set as the diagnosis benchmark needs it: cases with known evidence, and passages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["Case", "DataSet", "Half", "Statement", "half_of", "read_rows"]

Half = Literal["development", "held-out"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a reference answer and the passage that it rests on."""

    text: str
    chunk_id: str


@dataclass(frozen=True, slots=True)
class Case:
    """One question: its evidence (passage id -> the sentences of it that hold the evidence), and what a sound answer
    states. `asked`: what a sound rewriter gives to the retriever. `source`: what the halves are divided by."""

    case_id: str
    source: str
    question: str
    asked: str
    evidence: Mapping[str, tuple[str, ...]]
    answer: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class DataSet:
    """`passages`: id -> text, whose first line is the title."""

    name: str
    passages: Mapping[str, str]
    cases: Sequence[Case]


def half_of(source: str) -> Half:
    """Which half a question's source belongs to, by its hash."""
    return "development" if hashlib.blake2b(source.encode(), digest_size=1).digest()[0] % 2 else "held-out"


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a file that has one in each line. Raises: FileNotFoundError."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
