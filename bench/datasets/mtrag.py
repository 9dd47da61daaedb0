"""MTRAG: turns of conversations with their passages and reference answers (Apache-2.0)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.datasets.model import Case, DataSet, Statement, read_rows
from ragtrace.coverage.text import content_words, sentences

__all__ = ["read_mtrag"]

SHARED: Final = 0.5  # share of a statement's words that a sentence must hold to be its evidence
_MARKUP: Final = re.compile(r"<br>|\[([^\]]*)\]\([^)]*\)|\*\*|&amp;")


def read_mtrag(folder: Path) -> DataSet:
    """The answerable turns. Each statement of the answer rests on the passage that shares most words with it; the
    sentences that share the most are its evidence, since the data set names none."""
    path = folder / "mtrag" / "mtragun_reference.jsonl"
    rows = read_rows(path)
    passages = {
        each["document_id"]: f"{row['Collection']}\n{_plain(each['text'])}" for row in rows for each in row["contexts"]
    }
    cases = [
        case
        for row in rows
        if row["answerability"] == ["ANSWERABLE"]
        if (case := _case(row, {each["document_id"]: passages[each["document_id"]] for each in row["contexts"]}))
    ]
    return DataSet("mtrag", passages, cases)


def _case(row: dict[str, Any], given: Mapping[str, str]) -> Case | None:
    turns = [turn["text"].strip() for turn in row["input"] if turn["speaker"] == "user"]
    evidence: dict[str, list[str]] = {}
    answer = []
    for statement in sentences(_plain(row["targets"][0]["text"])):
        words = set(content_words(statement.text))
        ranked = sorted(
            ((len(words & set(content_words(sentence.text))), chunk_id, sentence.text)
             for chunk_id, text in given.items()
             for sentence in sentences(text.partition("\n")[2])),
            key=lambda each: -each[0],
        )  # fmt: skip
        if not words or not ranked or ranked[0][0] < SHARED * len(words):
            continue  # nothing in the passages says it: it would be no sound answer
        _shared, chunk_id, sentence = ranked[0]
        answer.append(Statement(statement.text, chunk_id))
        evidence.setdefault(chunk_id, []).append(sentence)
    if not answer:
        return None
    held = {chunk_id: tuple(dict.fromkeys(found)) for chunk_id, found in evidence.items()}
    return Case(row["task_id"], row["conversation_id"], turns[-1], " ".join(turns[-3:]), held, tuple(answer))


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub(lambda match: match[1] or " ", text).split())
