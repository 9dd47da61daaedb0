"""The claims of an answer: its sentences with their offsets, told apart from what states nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from ragtrace.coverage.citations import find_citations, without_citations
from ragtrace.coverage.claims.frames import CHATTER, FRAME_WORDS, mentions_blanked
from ragtrace.coverage.claims.refusals import abstains, advises, clauses, describes_evidence, leaves_out
from ragtrace.coverage.text import Sentence, content_words, is_code, sentences
from ragtrace.coverage.values import values
from ragtrace.types import Candidate, Citation, Claim, PackedChunk, replace

__all__ = ["abstains_somewhere", "is_abstention", "shared_citations", "split_claims"]

_SOURCES: Final = re.compile(
    r"^[#* \t(]*(?:sources?|references?|citations?|bibliography)\b[* \t]*(?::[* \t]*(?=[\[(【\w])|:?[* \t]*$)",
    re.I | re.M,
)
_FOOTNOTE: Final = re.compile(r"^\s*\[\^[^\]\n]+\]:")
_ROW: Final = re.compile(r"^\|.*")


def split_claims(
    answer: str,
    packed: Sequence[PackedChunk] = (),
    citations: Sequence[Citation] = (),
    candidates: Sequence[Candidate] = (),
    first: int | None = None,
) -> tuple[Claim, ...]:
    """The sentences of `answer` as claims with `answer[start:end] == text`.

    Questions, greetings, headings, lead-ins, code, table heads, abstentions, sentences without content, footnotes and
    a closing list of sources have `factual=False`. Each claim holds the citations inside its span (those found in the
    text and those that the host reported with offsets). Every claim weighs 1. candidates, first: see `find_citations`.
    """
    marks = [*find_citations(answer, packed, candidates, first=first)]
    marks += [mark for mark in citations if mark.start is not None]
    sources = _SOURCES.search(answer)
    body = sources.start() if sources else len(answer)
    parts = sentences(answer)
    heads = _table_heads(parts)
    declines = _is_abstention(answer)
    return tuple(
        Claim(
            start=part.start,
            end=part.end,
            text=part.text,
            factual=not declines and part.start < body and place not in heads and _states_something(part.text),
            citations=tuple(mark for mark in marks if part.start <= (mark.start or 0) < part.end),
        )
        for place, part in enumerate(parts)
    )


def shared_citations(answer: str, claims: Sequence[Claim]) -> list[tuple[Citation, ...]]:
    """For each claim the citations that stand outside of it and may be meant for it too, without their places.

    Those of a closing list of sources, or that stand by themselves, are of the whole answer; those that end a paragraph
    are also of the sentences before in it that have none.
    """
    sources = _SOURCES.search(answer)
    body = sources.start() if sources else len(answer)
    alone = [each for each in claims if each.start >= body or not any(map(str.isalnum, without_citations(each.text)))]
    whole = tuple(_placeless(mark) for each in alone for mark in each.citations)
    found: list[tuple[Citation, ...]] = []
    ending: tuple[Citation, ...] = ()
    below = len(answer)
    for claim in reversed(claims):
        if "\n" in answer[claim.end : below]:
            ending = ()
        found.append(whole if claim.citations else (*whole, *ending))
        ending = tuple(map(_placeless, claim.citations)) or ending
        below = claim.start
    return found[::-1]


def _placeless(mark: Citation) -> Citation:
    return replace(mark, start=None, end=None)


def is_abstention(answer: str) -> bool:
    """Whether `answer` as a whole declines to answer: it abstains somewhere and states nothing else.

    What the given texts are about ("they concern another company") and advice behind the refusal (whom to ask, where to
    look) state nothing of the matter.
    """
    return _is_abstention(answer)


@lru_cache(maxsize=64)  # an analysis asks several times about its answer
def _is_abstention(answer: str) -> bool:
    return _declines([sentence.text for sentence in sentences(answer)])


def _declines(parts: Sequence[str]) -> bool:
    declined = described = False
    for clause in (clause for part in parts for clause in _clauses(part)):
        if abstains(clause) or (described and leaves_out(clause)):
            declined = described = True
        elif describes_evidence(clause, goes_on=described):
            described = True
        elif declined and advises(clause):
            described = False
        elif _has_content(clause):
            return False
    return declined


def _clauses(sentence: str) -> list[str]:
    """What a sentence says, clause by clause, without citations; nothing for what is no statement."""
    if is_code(sentence) or _FOOTNOTE.match(sentence):
        return []
    text = without_citations(sentence).strip()
    bare = text.rstrip("*_ ")
    if not bare or bare.endswith(("?", ":")) or text.startswith("#") or CHATTER.match(text):
        return []
    return clauses(text)


def _has_content(clause: str) -> bool:
    if CHATTER.match(clause):
        return False
    plain = mentions_blanked(clause)
    return any(word not in FRAME_WORDS for word in content_words(plain)) or bool(values(plain))


def abstains_somewhere(answer: str) -> bool:
    """Whether some sentence of `answer` says that the evidence is silent, whatever else it states."""
    return any(abstains(sentence.text) for sentence in sentences(answer))


def _table_heads(parts: Sequence[Sentence]) -> frozenset[int]:
    """The places of table rows that a line of dashes follows."""
    return frozenset(
        place
        for place, (row, rule) in enumerate(pairwise(parts))
        if _ROW.match(row.text) and set(rule.text) <= set("|-: \t") and "-" in rule.text
    )


def _states_something(sentence: str) -> bool:
    """Whether a sentence states something of the matter: some clause of it neither refuses nor only frames."""
    parts = _clauses(sentence)
    is_refusal = any(map(abstains, parts))
    return any(
        _has_content(clause) and not abstains(clause) and not (is_refusal and describes_evidence(clause, goes_on=True))
        for clause in parts
    )
