"""Labelled claims of published sets, read as their authors ship them, and the part of the data of each source."""

from __future__ import annotations

import ast
import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ragtrace.coverage import split_claims
from ragtrace.coverage.answer import score_answer
from ragtrace.errors import ConfigurationError

__all__ = ["DATASETS", "ENTAILED", "Example", "Label", "Part", "is_held_out", "part_of", "read_examples"]

Label: TypeAlias = Literal["entailment", "neutral", "contradiction", "unsupported"]
"""`unsupported`: neutral or contradiction, the data do not say which."""
Part: TypeAlias = Literal["train", "calibrate", "held_out"]
ENTAILED: Final = "entailment"
_CALIBRATE: Final = 4  # one in so many development sources


@dataclass(frozen=True, slots=True)
class Example:
    """A claim, the texts that it should rest on, and whether it does.

    Attributes:
        source: what the texts come from; all examples of a source fall into the same part.
        answer: the answer that it is a part of, where the data have answers.
        lexical: the support by words alone, where the claim is part of an answer.
        certain: False where people marked it as unsupported but true by general knowledge.
        wrong: start and end of what people marked in the claim; None where they did not mark.
    """

    dataset: str
    source: str
    claim: str
    evidence: tuple[str, ...]
    label: Label
    answer: str | None = None
    lexical: float | None = None
    certain: bool = True
    wrong: tuple[tuple[int, int], ...] | None = None

    @property
    def supported(self) -> bool:
        """Whether the evidence entails the claim."""
        return self.label == ENTAILED

    @property
    def part(self) -> Part:
        """Where its source falls."""
        return part_of(self.source)


def is_held_out(source: str) -> bool:
    """Whether nothing may be fitted or chosen on `source`: one half of all sources, by a hash of the name."""
    return _draw(source) % 2 == 1


def part_of(source: str) -> Part:
    """Held out, or for training, or for the calibration (a quarter of what is not held out)."""
    if is_held_out(source):
        return "held_out"
    return "calibrate" if _draw(source) // 2 % _CALIBRATE == 0 else "train"


def _draw(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "big")


_PASSAGE: Final = re.compile(r"\s*passage \d+:")
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_SPACE_BEFORE: Final = re.compile(r"\s+([.,;:!?%)]|'s\b|n't\b)")


class _Dataset(NamedTuple):
    """One set: its folder, the reader of a folder, and what whoever ships a trained model has to state."""

    name: str
    folder: str
    read: Callable[[Path], Iterator[Example]]
    license: str
    origin: str


def read_examples(folder: str | Path, names: Sequence[str] | None = None) -> list[Example]:
    """The examples of all sets that `folder` holds, or of those named; in the order of `DATASETS`.

    Raises: ConfigurationError where there is none, a named one is unknown or missing, or a file cannot be read.
    """
    root = Path(folder).expanduser()
    unknown = set(names or ()) - {each.name for each in DATASETS}
    if unknown:
        raise ConfigurationError.of("data set", ", ".join(sorted(unknown)), ", ".join(each.name for each in DATASETS))
    chosen = [each for each in DATASETS if each.name in names] if names else list(DATASETS)
    found: list[Example] = []
    for each in chosen:
        try:
            found += each.read(root / each.folder)
        except FileNotFoundError as error:
            if names:
                raise ConfigurationError(f"data set {each.name!r} has no file {error.filename!r}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"data set {each.name!r} in {str(root)!r} cannot be read: {error!r}") from error
    if not found:
        folders = ", ".join(sorted({each.folder for each in DATASETS}))
        raise ConfigurationError.of("data folder", str(root), f"one that holds some of the folders {folders}")
    return found


def _ragtruth(file: str) -> Callable[[Path], Iterator[Example]]:
    name = f"ragtruth-{file.removesuffix('.jsonl')}"

    def read(folder: Path) -> Iterator[Example]:
        for row in _json_lines(folder / file):
            source = row["source"]
            question = source.get("question") if isinstance(source, dict) else None
            for number, response in enumerate(row["responses"]):
                yield from _answer(name, str(row["source_id"]), number, _passages(source), question, response)

    return read


def _answer(
    name: str, source: str, number: int, evidence: tuple[str, ...], question: str | None, response: Any
) -> Iterator[Example]:
    """The factual claims of one answer; a claim is unsupported when a marked span touches it."""
    for claim in score_answer(response["response"], evidence, query=question):
        marks = [mark for mark in response["labels"] if mark["start"] < claim.end and mark["end"] > claim.start]
        if claim.factual:
            yield Example(
                name,
                source,
                claim.text,
                evidence,
                _marked(marks),
                answer=f"{source}/{number}",
                lexical=claim.support,
                certain=not marks or not all(mark["implicit_true"] for mark in marks),
                wrong=tuple(_inside(mark, claim.start, claim.end) for mark in marks),
            )


def _inside(mark: Any, start: int, end: int) -> tuple[int, int]:
    """Where the mark stands in the claim."""
    return max(mark["start"], start) - start, min(mark["end"], end) - start


def _marked(marks: Sequence[Any]) -> Label:
    if not marks:
        return "entailment"
    return "contradiction" if any("Conflict" in mark["label_type"] for mark in marks) else "neutral"


def _passages(source: Any) -> tuple[str, ...]:
    if isinstance(source, str):
        return (source.strip(),)
    if "passages" in source:
        return tuple(text.strip() for text in _PASSAGE.split(source["passages"]) if text.strip())
    return ("\n".join(_lines(source)),)


def _lines(data: Any, path: str = "") -> Iterator[str]:
    """Structured data as lines such as `hours Monday: 9:0-17:0.`"""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _lines(value, f"{path} {re.sub(r'(?<=[a-z])(?=[A-Z])|_', ' ', str(key))}".strip())
    elif isinstance(data, list):
        for value in data:
            yield from _lines(value, path)
    else:
        said = (
            {True: "yes", False: "no", None: "unknown"}.get(data, data)
            if not isinstance(data, int | float) or (isinstance(data, bool))
            else data
        )
        yield f"- {path}: {said}"


def _wice(folder: Path) -> Iterator[Example]:
    seen: set[tuple[str, str]] = set()
    for file in ("entailment/dev.jsonl", "tokens/dev.jsonl", "tokens/train.jsonl"):
        for row in _json_lines(folder / file):
            source = _digest(" ".join(row["evidence"]))
            if (source, row["claim"]) not in seen:
                seen.add((source, row["claim"]))
                label: Label = "entailment" if row["label"] == "supported" else "unsupported"
                yield Example("wice", source, row["claim"], ("\n\n".join(row["evidence"]),), label)


def _begin(folder: Path) -> Iterator[Example]:
    labels: dict[str, Label] = {"Fully attributable": "entailment", "Not fully attributable": "unsupported"}
    for file in ("begin_dev_wow.tsv", "begin_test_wow.tsv"):
        with (folder / file).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t"):
                if row["begin_label"] in labels and row["knowledge"] and row["response"]:
                    source = _digest(re.sub(r"\W+", "", row["knowledge"].casefold()))
                    claim, evidence = _tidy(row["response"]), _tidy(row["knowledge"])
                    yield Example("begin", source, claim, (evidence,), labels[row["begin_label"]])


def _scifact(folder: Path) -> Iterator[Example]:
    """A claim beside each abstract that it cites; where two abstracts fall into different parts, beside the first."""
    with (folder / "corpus_train.csv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        abstracts = {row["doc_id"]: f"{row['title']}\n\n{_joined(row['abstract'])}" for row in rows}
    labels: dict[str, Label] = {"SUPPORT": "entailment", "CONTRADICT": "contradiction", "": "neutral"}
    seen: set[tuple[str, str]] = set()
    for file in ("claims_train.csv", "claims_validation.csv"):
        with (folder / file).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                cited = re.findall(r"\d+", row["cited_doc_ids"])
                doc = row["evidence_doc_id"] or (cited[0] if cited else "")
                same = bool(cited) and is_held_out(doc) == is_held_out(cited[0])
                if same and doc in abstracts and (row["id"], doc) not in seen:
                    seen.add((row["id"], doc))
                    yield Example("scifact", doc, row["claim"], (abstracts[doc],), labels[row["evidence_label"]])


def _clapnq(folder: Path) -> Iterator[Example]:
    """An answer's claims beside the passage; and beside what is left of it without the sentences that they rest on."""
    for row in _json_lines(folder / "clapnq_dev_answerable.jsonl"):
        passage = row["passages"][0]["sentences"]
        title = row["passages"][0]["title"]
        chosen = set(row["output"][0]["selected_sentences"])
        rest = [sentence for sentence in passage if sentence not in chosen]
        for claim in split_claims(_tidy(row["output"][0]["answer"])):
            if claim.factual:
                whole = f"{title}\n\n{_tidy(' '.join(passage))}"
                yield Example("clapnq", row["id"], claim.text, (whole,), "entailment")
                if rest and len(rest) < len(passage):
                    without = f"{title}\n\n{_tidy(' '.join(rest))}"
                    yield Example("clapnq", row["id"], claim.text, (without,), "neutral")


def _json_lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _joined(printed: str) -> str:
    """The sentences of an array as numpy prints it."""
    return " ".join(str(ast.literal_eval(part)) for part in _QUOTED.findall(printed))


def _tidy(tokenized: str) -> str:
    """Text without the spaces that a tokenizer put before punctuation."""
    return _SPACE_BEFORE.sub(r"\1", tokenized).strip()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


DATASETS: Final = (
    _Dataset("ragtruth-qa", "ragtruth", _ragtruth("qa.jsonl"), "MIT", "RAGTruth, ParticleMedia"),
    _Dataset("ragtruth-summary", "ragtruth", _ragtruth("summary.jsonl"), "MIT", "RAGTruth, ParticleMedia"),
    _Dataset("ragtruth-data2txt", "ragtruth", _ragtruth("data2txt.jsonl"), "MIT", "RAGTruth, ParticleMedia"),
    _Dataset("wice", "wice", _wice, "ODC-BY; texts CC BY-SA", "WiCE, Kamoi et al. 2023"),
    _Dataset("begin", "begin", _begin, "CC BY 4.0", "BEGIN, Google"),
    _Dataset("scifact", "scifact", _scifact, "CC BY 4.0; abstracts ODC-BY", "SciFact, AllenAI"),
    _Dataset("clapnq", "clapnq", _clapnq, "Apache-2.0", "CLAP-NQ, PrimeQA"),
)
"""What `read_examples` reads. A model that is trained on them has to be shipped with these licenses and origins."""
