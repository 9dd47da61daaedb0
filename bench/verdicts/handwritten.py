"""Domains that were written by hand: the YAML files of bench/domains, checked while they are read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from bench.verdicts.model import Domain, Facet, Misled, Passage, Question

__all__ = ["DOMAINS", "DomainError", "read_domain", "read_domains"]

DOMAINS: Final = Path(__file__).parents[1] / "domains"
KINDS: Final = frozenset(
    "plain several comparison derived yes_no list short paraphrase json language typo follow_up chit_chat duplicate "
    "unanswerable hedged procedure code".split()
)
_PASSAGE: Final = frozenset({"id", "title", "text"})
_QUESTION: Final = frozenset("id kind question asked history evidence facets answers broken".split())
_BROKEN: Final = frozenset("altered made_up half refusal misled".split())
_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_MARK: Final = re.compile(r"\{([a-z0-9][a-z0-9-]*)\}")
_LITERAL: Final = ("code", "json")  # kinds whose answers may hold braces of their own


class DomainError(ValueError):
    """A file that is no domain: says which file, which question or passage, and what is wrong with it."""


def read_domains(folder: Path = DOMAINS, *, names: Collection[str] = (), held_out: bool = False) -> list[Domain]:
    """The domains of a folder; with `held_out` those of its folder `held_out` as well.

    names: only the files that are called so; none: all of them. Raises: DomainError.
    """
    folders = (folder, folder / "held_out") if held_out else (folder,)
    files = [file for each in folders for file in sorted(each.glob("*.yaml")) if not names or file.stem in names]
    domains = [read_domain(file, held_out=file.parent != folder) for file in files]
    names = [domain.name for domain in domains]
    if twice := _twice(names):
        raise DomainError(f"{folder}: two files are called domain {twice!r}; give each its own name")
    return domains


def read_domain(file: Path, *, held_out: bool = False) -> Domain:
    """One file's domain. Raises: DomainError."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise DomainError(f"{file}: no YAML: {error}") from error
    lists = [content.get(part) for part in ("passages", "questions")] if isinstance(content, dict) else []
    if not lists or "domain" not in content or not all(isinstance(each, list) and each for each in lists):
        raise DomainError(f"{file}: a domain has `domain`, a list of `passages` and a list of `questions`")
    return _Reader(file).domain(content, held_out)


class _Reader:
    """Reads one file, and names it in every error."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._passages: dict[str, Passage] = {}

    def domain(self, content: Mapping[str, Any], held_out: bool) -> Domain:
        for entry in content["passages"]:
            passage = self._passage(entry)
            if passage.id in self._passages:
                raise self._error(f"passage {passage.id}", "this id is given twice")
            self._passages[passage.id] = passage
        questions = tuple(self._question(entry) for entry in content["questions"])
        if twice := _twice(question.id for question in questions):
            raise self._error(f"question {twice}", "this id is given twice")
        return Domain(str(content["domain"]), self._passages, questions, "handwritten", held_out)

    def _passage(self, entry: Any) -> Passage:
        name = f"passage {self._id(entry, 'passage')}"
        self._known_keys(entry, _PASSAGE, name)
        text = str(entry.get("text") or "").strip()
        if not text:
            raise self._error(name, "it has no text")
        return Passage(entry["id"], str(entry.get("title") or "").strip(), text)

    def _question(self, entry: Any) -> Question:
        name = f"question {self._id(entry, 'question')}"
        self._known_keys(entry, _QUESTION, name)
        broken = entry.get("broken") or {}
        self._known_keys(broken, _BROKEN, f"{name}, broken")
        kind = entry.get("kind")
        if kind not in KINDS:
            raise self._error(name, f"kind {kind!r} is not one of {', '.join(sorted(KINDS))}")
        answers = self._texts(entry.get("answers"), name)
        question = Question(
            id=str(entry["id"]),
            kind=kind,
            question=self._text(entry.get("question"), f"{name}, question"),
            evidence=tuple(frozenset(self._group(group, name)) for group in entry.get("evidence") or ()),
            answers=answers,
            asked=entry.get("asked"),
            history=tuple(str(turn) for turn in entry.get("history") or ()),
            facets=tuple(self._facet(facet, name) for facet in entry.get("facets") or ()),
            misled=self._misled(broken.get("misled"), name),
            **{part: _stripped(broken.get(part)) for part in ("altered", "made_up", "half", "refusal")},
        )
        self._check_marks(question, name)
        return question

    def _group(self, group: Any, name: str) -> Iterator[str]:
        if not isinstance(group, list) or not group:
            raise self._error(name, f"evidence group {group!r} is not a list of passage ids")
        for passage_id in group:
            if passage_id not in self._passages:
                raise self._error(name, f"evidence {passage_id!r} is no passage of this file")
            yield passage_id

    def _misled(self, entry: Any, name: str) -> Misled | None:
        if entry is None:
            return None
        if not isinstance(entry, dict) or entry.keys() != {"rests_on", "answer"}:
            raise self._error(f"{name}, misled", "it has `rests_on` and `answer`")
        if entry["rests_on"] not in self._passages:
            raise self._error(f"{name}, misled", f"{entry['rests_on']!r} is no passage of this file")
        return Misled(entry["rests_on"], self._text(entry["answer"], f"{name}, misled"))

    def _facet(self, entry: Any, name: str) -> Facet:
        if not isinstance(entry, dict) or not {"kind", "value"} <= entry.keys():
            raise self._error(f"{name}, facets", f"{entry!r} does not have `kind` and `value`")
        return Facet(str(entry["kind"]), str(entry["value"]))

    def _check_marks(self, question: Question, name: str) -> None:
        misled = question.misled.answer if question.misled else None
        texts = (*question.answers, question.altered, question.made_up, question.half, question.refusal, misled)
        for text in filter(None, texts):
            for mark in _MARK.findall(text):
                is_literal = question.kind in _LITERAL and "-" not in mark
                if mark not in self._passages and not is_literal:
                    raise self._error(name, f"the mark {{{mark}}} names no passage of this file")

    def _texts(self, entry: Any, name: str) -> tuple[str, ...]:
        if not isinstance(entry, list) or not entry:
            raise self._error(name, "`answers` is not a list of at least one sound answer")
        return tuple(self._text(each, f"{name}, answers") for each in entry)

    def _text(self, entry: Any, name: str) -> str:
        if not isinstance(entry, str) or not entry.strip():
            raise self._error(name, f"{entry!r} is no text")
        return entry.strip()

    def _id(self, entry: Any, what: str) -> str:
        name = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise self._error(f"{what} {name!r}", "an id has lower-case letters, digits and hyphens")
        return name

    def _known_keys(self, entry: Any, allowed: frozenset[str], name: str) -> None:
        if not isinstance(entry, dict):
            raise self._error(name, f"{entry!r} is no mapping")
        if unknown := sorted(str(key) for key in entry.keys() - allowed):
            raise self._error(name, f"unknown: {', '.join(unknown)}; there are {', '.join(sorted(allowed))}")

    def _error(self, name: str, what: str) -> DomainError:
        return DomainError(f"{self._file}, {name}: {what}")


def _stripped(text: Any) -> str | None:
    return str(text).strip() if text else None


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
