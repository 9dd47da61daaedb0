"""Claims: the sentences of an answer with their offsets, told apart from what states nothing (`_refusals`).

A claim weighs in Answer Coverage by what it says beyond the question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from ragtrace.coverage._refusals import (
    abstains_somewhere,
    is_abstention,
    mentions_blanked,
    only_advises,
    states_something,
)
from ragtrace.coverage.citations import find_citations, without_citations
from ragtrace.coverage.text import Sentence, content_words, sentences
from ragtrace.coverage.values import values
from ragtrace.types import Candidate, Citation, Claim, PackedChunk, replace

__all__ = ["claim_weight", "negated_items", "shared_citations", "split_claims"]

_SOURCES: Final = re.compile(
    r"^[#* \t(]*(?:sources?|references?|citations?|bibliography)\b[* \t]*(?::[* \t]*(?=[\[(【\w])|:?[* \t]*$)",
    re.I | re.M,
)
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
    declines = is_abstention(answer)
    is_silent = not declines and abstains_somewhere(answer)
    return tuple(
        Claim(
            start=part.start,
            end=part.end,
            text=part.text,
            factual=not declines
            and part.start < body
            and place not in heads
            and states_something(part.text)
            and not (is_silent and only_advises(part.text)),
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


_ITEM: Final = re.compile(r"^[ \t]*(?:[-*•–]|\(?\w{1,2}[.)])[ \t]*$")
_NEGATED: Final = re.compile(
    r"\b(?:not|no|never|nothing|cannot|without|except\w*|exclu\w+|refus\w+|prohibit\w*|forbid\w*)\b|n['’]t\b",
    re.IGNORECASE,
)


def negated_items(answer: str, claims: Sequence[Claim]) -> frozenset[int]:
    """The places of claims that are items of a list under a negation: "Not covered are:"."""
    found, is_negated = [], False
    for place, claim in enumerate(claims):
        if _ITEM.match(answer[answer.rfind("\n", 0, claim.start) + 1 : claim.start]):
            found += [place] if is_negated else []
        else:
            text = without_citations(claim.text).rstrip("*_ .")
            is_negated = text.endswith(":") and _NEGATED.search(text) is not None
    return frozenset(found)


def _table_heads(parts: Sequence[Sentence]) -> frozenset[int]:
    """The places of table rows that a line of dashes follows."""
    return frozenset(
        place
        for place, (row, rule) in enumerate(pairwise(parts))
        if _ROW.match(row.text) and set(rule.text) <= set("|-: \t") and "-" in rule.text
    )


FULL: Final = 8
"""Words of its own with which a claim weighs 1. Of answers in the development half of RAGTruth QA, coverage weighed so
tells those with an unsupported claim apart better than all claims alike do: AUROC 0.815 instead of 0.811, and 0.869
instead of 0.856 for the expected number of unsupported claims."""


def claim_weight(text: str, asked: Collection[str]) -> float:
    """1 for a claim with a date or a number, else its content words that the question does not have, / 8, in [1/8, 1].

    asked: the question's content words. "Yes, it is covered." weighs little beside what has an amount.
    """
    bare = mentions_blanked(without_citations(text))
    own = FULL if values(bare) else len(set(content_words(bare)).difference(asked))
    return min(FULL, max(1, own)) / FULL
