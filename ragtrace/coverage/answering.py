"""The sentences of a chunk that answer a question: what a cut must not take away."""

from __future__ import annotations

import re
from typing import Final

from ragtrace.coverage.questions import asked_for, holds_asked, sub_questions
from ragtrace.coverage.text import content_words, sentences
from ragtrace.coverage.values import values

__all__ = ["answering_sentences"]

OTHER_KIND: Final = 0.5  # share of the score that a sentence without a value of the kind asked for keeps
LENGTH: Final = 0.02  # discount for each word, so that a sentence that names every subject does not win
MARGIN: Final = 0.9  # sentences from this share of the best score on answer about as well: words tell them not apart
_CLOSED: Final = re.compile(r"[.?!:;,]\s*$")


def answering_sentences(query: str, text: str) -> tuple[str, ...]:
    """The sentences of `text` that answer `query` about equally well, best first; none for an empty text.

    Each part of the question is compared with each sentence: the words that they share, those of the chunk's heading
    counted for all of its sentences alike, discounted for a long sentence and for one that lacks the kind of value
    asked for. A sentence counts by the part that it answers best.
    """
    heading, body = _parted(text)
    named = set(content_words(heading))
    parts = [(set(content_words(part)), asked_for(part)) for part in sub_questions(query)]
    found: list[tuple[float, str]] = []
    for sentence in sentences(body):
        own, given = set(content_words(sentence.text)), values(sentence.text)
        kinds = [1.0 if holds_asked(kind, given) else OTHER_KIND for _, kind in parts]
        shared = [len(asked & (own | named)) for asked, _ in parts]
        score = max(number * share for number, share in zip(shared, kinds, strict=True)) / (1 + LENGTH * len(own))
        found.append((score, sentence.text))
    found.sort(key=lambda each: -each[0])
    return tuple(sentence for score, sentence in found if score >= MARGIN * found[0][0])


def _parted(text: str) -> tuple[str, str]:
    """The heading of a chunk and what follows it: a first line that no punctuation closes, before one that begins
    anew. A line that is merely broken goes on in lower case."""
    first, _, rest = text.strip().partition("\n")
    following = rest.lstrip()
    is_heading = following and not _CLOSED.search(first) and not following[0].islower()
    return (first, rest) if is_heading else ("", text)
