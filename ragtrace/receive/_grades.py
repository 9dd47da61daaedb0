"""Grades of retrieved documents that others' spans carry: by a step that grades and filters, by an evaluator of one
document, and by an evaluation's event.

Corrective and self-reflective pipelines (CRAG, Self-RAG; LangGraph's `grade_documents`) have a step that is given
documents and passes on those that it finds relevant. Evaluators of Phoenix, Langfuse and TruLens are given a question
and a document, and return a score from 0 to 1, or a label. A grade is 2 s - 1 of a score, 1 of a yes and -1 of a no.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from ragtrace.receive._spans import Attributes, GradedDocuments, jsonish, listed, number, text
from ragtrace.record import conventions as names
from ragtrace.record.coercion import Unreadable, read_chunks
from ragtrace.types import RetrievalAction

__all__ = ["graded_by_event", "graded_by_step", "is_of_a_document"]

_GRADES_IT: Final = r"(?:grad|(?<!retri)eval|assess|critic)"
_OF_DOCUMENTS: Final = r"(?:doc|retriev|relevan|context|chunk|passage)"
_GRADING: Final = re.compile(f"{_GRADES_IT}.*{_OF_DOCUMENTS}|{_OF_DOCUMENTS}.*{_GRADES_IT}", re.IGNORECASE)
"""How steps are called that grade documents."""
_RELEVANCE: Final = re.compile(r"relevan", re.IGNORECASE)
_OF_ANSWERS: Final = re.compile(r"answer|response|generation|output", re.IGNORECASE)
"""Evaluations of this name judge no document."""
_DOCUMENTS: Final = ("documents", "docs", "contexts", "context", "chunks", "retrieved_docs", "retrieved_documents")
_DOCUMENT: Final = ("document", "doc", "context", "document_text", "documentText", "reference", "passage", "chunk")
_GRADES: Final = ("grades", "scores", "relevance_scores", "doc_scores", "document_scores")
_BINARY: Final = "binary_score"
_SAID: Final = (_BINARY, "score", "grade", "relevance", "relevant", "is_relevant", "label")
_SEARCHES: Final = ("web_search", "run_web_search", "search", "perform_web_search", "needs_web_search")
_ACTION: Final = ("action", "retrieval_action", "verdict", "state")
_WORDS: Final = {
    "yes": 1.0, "true": 1.0, "relevant": 1.0, "correct": 1.0, "pass": 1.0,
    "no": -1.0, "false": -1.0, "irrelevant": -1.0, "unrelated": -1.0, "not_relevant": -1.0, "incorrect": -1.0,
    "fail": -1.0,
}  # fmt: skip
_WRITTEN: Final = re.compile(rf"{_BINARY}=['\"](?P<said>\w+)['\"]")  # a pydantic model in Python's writing
_PAGE: Final = re.compile(r"page_content=(?P<quote>['\"])(?P<text>.*?)(?P=quote)(?: metadata=|\)|,|$)", re.DOTALL)
_MOST: Final = 1_000  # documents of a step
_LONGEST: Final = 100  # characters of a step's name


def graded_by_step(name: str, given: Any, returned: Any) -> GradedDocuments | None:
    """What a step says of documents: one that grades all that it was given, or an evaluator of one of them; None of any
    other step.

    given, returned: what went in and came out, also as JSON. Of a step that passes documents on, those that come out
    were found relevant, unless it returns a list of grades as well.
    """
    name = name[:_LONGEST]
    is_grading = _GRADING.search(name) is not None
    is_evaluator = _RELEVANCE.search(name) is not None and _OF_ANSWERS.search(name) is None
    is_binary = isinstance(returned, str | Mapping) and _BINARY in returned
    if not (is_grading or is_evaluator or is_binary):  # most steps: nothing of them is parsed
        return None
    given, returned = _state(given), _state(returned)
    if not isinstance(given, Mapping):
        return None
    if is_grading and (documents := _documents(given)):
        grades = _listed_grades(returned, len(documents)) or _kept(documents, returned)
        if grades is not None:
            return GradedDocuments(source=name, found=documents, grades=tuple(grades), action=_action(returned, grades))
    return _by_evaluator(name, given, returned) if is_evaluator or is_binary else None


def graded_by_event(attributes: Attributes) -> GradedDocuments | None:
    """What an evaluation's event says of one document, which it names by `document.id`; None of any other event."""
    if not is_of_a_document(attributes):
        return None
    grade = _grade(attributes.get(names.EVALUATION_LABEL))
    if grade is None:
        grade = _grade(attributes.get(names.EVALUATION_VALUE))
    name, known = text(attributes, names.EVALUATION_NAME) or "evaluation", str(attributes[names.DOCUMENT_ID])
    return None if grade is None else GradedDocuments(source=name[:_LONGEST], found=[{"id": known}], grades=(grade,))


def is_of_a_document(attributes: Attributes) -> bool:
    """Whether an evaluation judges a document, and not the answer."""
    return isinstance(attributes.get(names.DOCUMENT_ID), str | int)


def _by_evaluator(name: str, given: Mapping[str, Any], returned: Any) -> GradedDocuments | None:
    """Of an evaluator of relevance, or of a grader that was asked for a binary score: what it says of one document."""
    document = next((given[key] for key in _DOCUMENT if key in given), None)
    found, grade = _readable([jsonish(document)]), _said(returned)
    if grade is None or len(found) != 1:
        return None
    return GradedDocuments(source=name, found=found, grades=(grade,))


def _state(value: Any) -> Any:
    """A step's state; some senders wrap it once more."""
    found = jsonish(value)
    for key in ("inputs", "outputs", "output", "kwargs"):
        if isinstance(found, dict) and isinstance(inner := jsonish(found.get(key)), dict | str):
            found = inner
    if isinstance(found, str) and (match := _WRITTEN.search(found)):
        return {_BINARY: match["said"]}
    return found


def _documents(state: Any) -> list[Any]:
    return _readable(listed(state, *_DOCUMENTS) or []) if isinstance(state, dict) else []


def _readable(documents: Iterable[Any]) -> list[Any]:
    """LangChain's documents as they are serialized: with their fields within, or in Python's writing."""
    found = []
    for each in documents:
        if isinstance(each, dict) and isinstance(each.get("kwargs"), dict):
            found.append(each["kwargs"])
        elif isinstance(each, str) and (match := _PAGE.search(each)):
            found.append({"page_content": match["text"]})
        elif isinstance(each, dict | str) and each:
            found.append(each)
    return found[:_MOST]


def _kept(documents: list[Any], returned: Any) -> list[float] | None:
    """Yes of those that come out, no of the others; None where the step does not say what comes out, or something
    comes out that did not go in."""
    if not isinstance(returned, dict) or not any(isinstance(returned.get(key), list) for key in _DOCUMENTS):
        return None
    before, after = (_identities(each) for each in (documents, _documents(returned)))
    if len(before) != len(documents) or not set(after) <= set(before):
        return None
    return [1.0 if each in after else -1.0 for each in before]


def _identities(documents: list[Any]) -> list[str]:
    try:
        return [chunk.identity for _, chunk in read_chunks(documents).ranked]
    except Unreadable:
        return []


def _listed_grades(returned: Any, count: int) -> list[float] | None:
    """A list of one grade for each document."""
    if not isinstance(returned, dict):
        return None
    lists = (returned[key] for key in _GRADES if isinstance(returned.get(key), list))
    grades = [_said(each) for each in next(lists, [])]
    known = [each for each in grades if each is not None]
    return known if known and len(known) == len(grades) == count else None


def _action(returned: Any, grades: list[float]) -> RetrievalAction | None:
    """What was done then: as the step says it, else by whether it asks for a search; None where it says neither, or
    searches nothing although no document was kept."""
    if not isinstance(returned, dict):
        return None
    stated = str(next((returned[key] for key in _ACTION if key in returned), "")).strip().upper()
    if stated in get_args(RetrievalAction):
        return next(each for each in get_args(RetrievalAction) if each == stated)
    asked = next((_grade(returned[key]) for key in _SEARCHES if key in returned), None)
    is_kept = any(grade > 0 for grade in grades)
    if asked is None or (asked < 0 and not is_kept):
        return None
    if asked < 0:
        return "CORRECT"
    return "AMBIGUOUS" if is_kept else "INCORRECT"


def _said(value: Any) -> float | None:
    """The grade in what an evaluator returned: the value, or one of the usual names of a mapping; a label only where
    nothing else tells."""
    found = jsonish(value)
    if isinstance(found, dict):
        return next((grade for key in _SAID if (grade := _grade(found.get(key))) is not None), None)
    return _grade(found)


def _grade(value: Any) -> float | None:
    """2 s - 1 of a score in [0, 1]; of a yes or no 1 or -1; None of anything else."""
    if isinstance(value, bool):
        return 1.0 if value else -1.0
    if isinstance(value, str) and (word := value.strip().casefold().replace(" ", "_")) in _WORDS:
        return _WORDS[word]
    score = number(value)
    return 2 * score - 1 if score is not None and 0 <= score <= 1 else None
