"""Claims: the statements of an answer, with offsets, told apart from what states nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ragtrace.coverage.citations import find_citations, without_citations
from ragtrace.coverage.text import content_words, sentences
from ragtrace.coverage.values import values
from ragtrace.types import Citation, Claim, PackedChunk

__all__ = ["is_abstention", "split_claims"]

_ABSTAINS: Final = re.compile(
    r"""\b(?:i|we)\s+(?:do\s+not|don['’]t|can\s?not|can['’]t|could\s+not|couldn['’]t|am\s+unable|are\s+unable|was\s+unable)
        \s+(?:\w+\s+){0,2}?(?:know|find|answer|determine|tell|say|locate|to)
    | \b(?:not|n['’]t|no)\s+(?:\w+\s+){0,3}?(?:enough|sufficient)\s+(?:information|context|evidence|details?)
    | \b(?:context|documents?|passages?|sources?|information|evidence)\s+(?:provided\s+|given\s+|retrieved\s+)?
        (?:do(?:es)?\s+not|do(?:es)?n['’]t|did\s+not)\s+(?:contain|mention|provide|say|state|include|specify|answer)
    | \bno\s+(?:relevant\s+)?(?:information|answer|evidence|passage)\s+(?:\w+\s+){0,3}?(?:found|available|provided)
    | \bunanswerable\b""",
    re.IGNORECASE | re.VERBOSE,
)
_CHATTER: Final = re.compile(
    r"""^(?:hi|hello|hey|dear\b.*|sure|certainly|of\s+course|thanks?(?:\s+you)?|great\s+question|you['’]re\s+welcome
        |i\s+hope\s+(?:this|that)\b.*|let\s+me\s+know\b.*|please\s+(?:let|feel|contact)\b.*|in\s+summary|sources?|answer)
        [\s,.!:]*$""",
    re.IGNORECASE | re.VERBOSE,
)


_SOURCES: Final = re.compile(r"^[#*\s]*(?:sources|references|citations|bibliography)\b[*\s]*:?[*\s]*$", re.I | re.M)


def split_claims(
    answer: str, packed: Sequence[PackedChunk] = (), citations: Sequence[Citation] = ()
) -> tuple[Claim, ...]:
    """The sentences of `answer` as claims with `answer[start:end] == text`.

    Questions, greetings, headings, abstentions, sentences without content and a closing list of sources have
    `factual=False`. Each claim holds
    the citations inside its span: the marks found in the text and those that the host reported with offsets.
    """
    marks = [*find_citations(answer, packed), *(mark for mark in citations if mark.start is not None)]
    sources = _SOURCES.search(answer)
    body = sources.start() if sources else len(answer)
    return tuple(
        Claim(
            start=sentence.start,
            end=sentence.end,
            text=sentence.text,
            factual=sentence.start < body and _states_something(sentence.text),
            citations=tuple(mark for mark in marks if sentence.start <= (mark.start or 0) < sentence.end),
        )
        for sentence in sentences(answer)
    )


def is_abstention(answer: str) -> bool:
    """Whether `answer` as a whole declines to answer: it abstains somewhere and states nothing else."""
    parts = [sentence.text for sentence in sentences(answer)]
    return any(_ABSTAINS.search(part) for part in parts) and not any(_states_something(part) for part in parts)


def _states_something(sentence: str) -> bool:
    text = without_citations(sentence).strip()
    if not text or text.endswith("?") or text.startswith("#") or text.endswith(":"):
        return False
    if _CHATTER.match(text) or _ABSTAINS.search(text):
        return False
    return bool(content_words(text)) or bool(values(text))
