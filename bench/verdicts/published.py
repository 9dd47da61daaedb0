"""Domains made of published data sets: CLAP-NQ, MTRAG by collection, and SciFact.

WiCE and ExpertQA are no domains: WiCE has claims and no questions, ExpertQA's answers are those of real systems whose
retrieval is not known.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.datasets import DATA, Case, read, read_rows
from bench.verdicts.model import Domain, Passage, Question
from ragtrace.coverage.text import content_words, sentences

__all__ = ["PUBLISHED", "QUESTIONS", "passage_id", "read_published"]

QUESTIONS: Final = 200
UNANSWERABLE: Final = 0.15  # share of the questions; the data sets have many more
SHARED: Final = 0.2  # share of a sentence's words that a passage must hold to be what the sentence rests on
REFUSALS: Final = (
    "I could not find an answer to this in the passages I was given.",
    "The sources do not say, so I cannot answer this question.",
    "I'm sorry, but the documents that I have contain nothing about this.",
)
MORE: Final = 0.2  # how much more of them another passage must hold to be needed as well,
NEEDED: Final = 0.4  # and how much at least
LONG: Final = 5  # words from which a sentence says something
_MARKUP: Final = re.compile(r"<br>|\[([^\]]*)\]\([^)]*\)|\*\*|&amp;")


def read_published(name: str, folder: Path = DATA, *, questions: int = QUESTIONS) -> list[Domain]:
    """The domains of one data set, with at most so many questions in all.

    Raises: FileNotFoundError where it is absent.
    """
    return PUBLISHED[name](folder, questions)


def passage_id(name: str) -> str:
    """An id of lower-case letters, digits and hyphens, as marks have them."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _clapnq(folder: Path, count: int) -> list[Domain]:
    data = read("clapnq", folder)
    passages = _passages(data.passages)
    questions = [_question(case, "plain") for case in data.cases]
    questions += [
        _refused(f"nq-{row['id']}", row["input"])
        for row in read_rows(folder / "clapnq" / "clapnq_dev_unanswerable.jsonl")
        if f"nq-{row['id']}" in data.passages
    ]
    return [Domain("clapnq", passages, _drawn(questions, count), "published")]


def _scifact(folder: Path, count: int) -> list[Domain]:
    """Claims are put as they stand, as to a checker of facts; the answer quotes."""
    data = read("scifact", folder)
    questions = [_question(case, "plain") for case in data.cases]
    return [Domain("scifact", _passages(data.passages), _drawn(questions, count), "published")]


def _mtrag(folder: Path, count: int) -> list[Domain]:
    rows = read_rows(folder / "mtrag" / "mtragun_reference.jsonl")
    collections = sorted({row["Collection"] for row in rows})
    texts: dict[str, dict[str, Passage]] = {name: {} for name in collections}
    for row in rows:
        for context in row["contexts"]:
            place = passage_id(context["document_id"])
            texts[row["Collection"]][place] = Passage(place, "", _plain(context["text"]))
    turns = {name: [row for row in rows if row["Collection"] == name] for name in collections}
    return [
        Domain(
            f"mtrag-{name}",
            texts[name],
            _drawn(_turns(turns[name], texts[name]), count // len(collections)),
            "published",
        )
        for name in collections
    ]


def _turns(rows: Iterable[Mapping[str, Any]], passages: Mapping[str, Passage]) -> list[Question]:
    """The turns that can be answered from their passages, and those that nothing answers."""
    found = []
    for row in rows:
        name = passage_id(row["task_id"])
        spoken = [turn["text"].strip() for turn in row["input"]]
        target = " ".join(row["targets"][0]["text"].split())
        if row["answerability"] == ["UNANSWERABLE"]:
            found.append(Question(name, "unanswerable", spoken[-1], (), (target,), history=tuple(spoken[:-1])))
        elif row["answerability"] == ["ANSWERABLE"]:
            given = {
                passage_id(each["document_id"]): passages[passage_id(each["document_id"])] for each in row["contexts"]
            }
            answer, evidence = _marked(target, given)
            if evidence:
                kind = "follow_up" if len(spoken) > 1 else "several" if len(evidence) > 1 else "plain"
                groups = tuple(frozenset({each}) for each in evidence)
                found.append(Question(name, kind, spoken[-1], groups, (answer,), history=tuple(spoken[:-1])))
    return found


def _marked(target: str, given: Mapping[str, Passage]) -> tuple[str, list[str]]:
    """The answer with a mark behind each sentence that shares words with a passage, and those passages.

    A passage is taken in addition to another one only where it holds much more of a sentence: else it is not needed. No
    passages at all where a long sentence rests on none: its writer knew it from elsewhere, the answer is not sound.
    """
    words = {name: set(content_words(passage.text)) for name, passage in given.items()}
    parts, evidence = [], list[str]()
    for sentence in sentences(_plain(target)):
        said = set(content_words(sentence.text))
        shared = {name: len(said & words[name]) / (len(said) or 1) for name in words}
        if len(said) >= LONG and max(shared.values(), default=0.0) < SHARED:
            return "", []
        best = max(shared, key=lambda name: shared[name] + MORE * (name in evidence), default="")
        is_needed = best in evidence or not evidence or shared.get(best, 0.0) >= NEEDED
        rests = best and is_needed and shared[best] >= SHARED
        parts.append(_mark(sentence.text.strip(), best) if rests else sentence.text.strip())
        evidence += [best] if rests and best not in evidence else []
    return " ".join(parts), evidence


def _question(case: Case, kind: str) -> Question:
    answer = " ".join(_mark(each.text, passage_id(each.chunk_id)) for each in case.answer)
    groups = tuple(frozenset({passage_id(name)}) for name in case.evidence)
    return Question(passage_id(case.case_id), "several" if len(groups) > 1 else kind, case.question, groups, (answer,))


def _refused(name: str, question: str) -> Question:
    first = int(hashlib.blake2b(name.encode(), digest_size=1).hexdigest(), 16) % len(REFUSALS)
    return Question(name, "unanswerable", question, (), (REFUSALS[first],))


def _mark(text: str, name: str) -> str:
    """The sentence with its mark before the full stop."""
    ending = re.search(r"[.!?]*$", text)
    end = ending.start() if ending else len(text)
    return f"{text[:end]} {{{name}}}{text[end:]}"


def _passages(texts: Mapping[str, str]) -> dict[str, Passage]:
    found = {}
    for name, text in texts.items():
        title, _, body = text.partition("\n")
        found[passage_id(name)] = Passage(passage_id(name), title, body)
    return found


def _drawn(questions: Sequence[Question], count: int) -> tuple[Question, ...]:
    """So many, in an order that their ids alone decide; a few of them are unanswerable."""
    order = sorted(questions, key=lambda each: hashlib.blake2b(each.id.encode(), digest_size=8).digest())
    refused = [each for each in order if each.kind == "unanswerable"][: round(UNANSWERABLE * count)]
    answered = [each for each in order if each.kind != "unanswerable"][: count - len(refused)]
    return (*answered, *refused)


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub(lambda match: match[1] or " ", text).split())


PUBLISHED: Final[Mapping[str, Callable[[Path, int], list[Domain]]]] = {
    "clapnq": _clapnq,
    "mtrag": _mtrag,
    "scifact": _scifact,
}
