"""CLAP-NQ: questions to a search engine, Wikipedia passages, selected sentences, grounded answers (Apache-2.0)."""

from __future__ import annotations

import re
from pathlib import Path

from bench.datasets.model import Case, DataSet, Statement, read_rows
from ragtrace.coverage.text import sentences

__all__ = ["read_clapnq"]


def read_clapnq(folder: Path) -> DataSet:
    """The answerable questions; the passages of the unanswerable ones are further distractors."""
    passages: dict[str, str] = {}
    cases = []
    for name in ("answerable", "unanswerable"):
        for row in read_rows(folder / "clapnq" / f"clapnq_dev_{name}.jsonl"):
            given, made = row["passages"][0], row["output"][0]
            chunk_id = f"nq-{row['id']}"
            text = f"{given['title']}\n{_joined(given['text'])}"
            if text in passages.values():
                continue
            passages[chunk_id] = text
            selected = tuple(_joined(sentence) for sentence in made["selected_sentences"])
            answer = tuple(Statement(each.text, chunk_id) for each in sentences(_joined(made["answer"])))
            if selected and answer and all(sentence in text for sentence in selected):
                cases.append(Case(chunk_id, row["id"], row["input"], row["input"], {chunk_id: selected}, answer))
    return DataSet("clapnq", passages, cases)


def _joined(text: str) -> str:
    """Text without the spaces that the tokenizer of the data set put before punctuation."""
    text = re.sub(r"\s+([,.;:!?%)\]]|'s\b|n't\b)", r"\1", text.replace("``", '"').replace("''", '"'))
    return " ".join(re.sub(r"([(\[$])\s+", r"\1", text).split())
