"""Answers of a word or two, which say something only together with their question: "No.", "Wrong.", "2019", "Oslo".

"Yes" says what the question asks; "no" says its opposite. Another fragment stands in the place of the question's word
("which year"). It contradicts where a sentence holds nearly all words of the question and no place that holds as many
says the fragment. Nothing is said of questions with "or", nor of evidence that sets conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ragtrace.coverage.support import Evidence, Statement, Vocabulary
from ragtrace.coverage.support.contradiction import containment, rarities_of
from ragtrace.coverage.support.novelty import Ground
from ragtrace.coverage.text import is_content, terms
from ragtrace.coverage.values import values
from ragtrace.types import Claim

__all__ = ["CERTAIN", "Misplaced", "Proposition", "affirmed", "misplaced", "proposition_of"]

LONGEST: Final = 4  # words of a fragment
ASKED: Final = 0.75  # share of the question's words, by rarity, that a sentence holds which answers it
MARGIN: Final = 0.1  # a place that holds so much less of them may answer as well
CERTAIN: Final = 0.6  # contradiction of such a fragment
AFFIRMED: Final = 0.85  # share of a proposition's words in one sentence that affirms it
_YES: Final = r"yes|yeah|yep|correct|right|true|indeed|that['’]s\s+(?:right|correct|true)"
_NO: Final = r"no|nope|not\s+at\s+all|wrong|incorrect|false|not\s+true|that['’]s\s+(?:wrong|incorrect|false|not\s+true)"
_POLAR: Final = re.compile(rf"\W*(?:(?P<yes>{_YES})|(?P<no>{_NO}))\W*", re.IGNORECASE)
_ASKS: Final = re.compile(
    r"""^\W*(?:(?:so|and|then|please\s+tell\s+me|ok)\W+)?(?:(?:is|was)\s+it\s+(?:true|correct|right|the\s+case)\s+that
        |(?:true|right)\s+or\s+(?:false|wrong)\W+|(?:is|are|was|were|am|do|does|did|can|could|may|might|must|should|shall|will|would
        |has|have|had)(?:n['’]t)?)\s+(?P<rest>.+?)\W*$""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_WH: Final = re.compile(r"\b(?:who|whom|whose|what|which|when|where|how)\b", re.IGNORECASE)
_SORT: Final = re.compile(
    r"\b(?:which|what)\s+(?:\w+\s+)?(?:year|month|day|date|time|city|town|country|state|place|person|company|number|amount|age"
    r"|name|percentage)\b|\bwhat\s+is\s+the\s+(?:name|number|amount|date)\s+of\b",
    re.IGNORECASE,
)
_EITHER: Final = re.compile(r"\bor\b", re.IGNORECASE)
_RESERVED: Final = re.compile(
    r"\b(?:not|no|never|nor|neither|without|only|unless|except|if|but|however|cannot|until|before|after|other\s+than)\b|n['’]t\b",
    re.IGNORECASE,
)
_LAST: Final = re.compile(r"[^.?!\n]+\?*\s*$")


class Proposition(NamedTuple):
    """What a question asks whether it is so, and whether the answer denies it."""

    text: str
    is_denied: bool


class Misplaced(NamedTuple):
    """The chunk that says something else in the place of an answer, and why."""

    chunk_id: str
    contradiction: float
    reason: str


def proposition_of(answer: str, question: str) -> Proposition | None:
    """What "yes" or "no" says; None for another answer, and where the question cannot be read so."""
    polar, last = _POLAR.fullmatch(answer), _LAST.search(question.strip())
    asks = _ASKS.match(last.group().strip()) if polar and last else None
    if polar is None or asks is None or _EITHER.search(asks["rest"]):
        return None
    return Proposition(asks["rest"], polar["no"] is not None)


def affirmed(proposition: str, evidence: Iterable[Evidence], vocabulary: Vocabulary) -> str | None:
    """The id of a chunk of which a sentence says a proposition, without reserve and with all of its values."""
    statement = Statement.read(Claim(text=proposition, start=0, end=len(proposition)))
    rarities = rarities_of(statement, vocabulary)
    if len(statement.words) < 2:
        return None
    for chunk in evidence:
        for sentence in chunk.reading.sentences:
            if containment(statement, sentence.words, rarities) < AFFIRMED or _RESERVED.search(sentence.text):
                continue
            if Ground([sentence]).lacks(statement) is None:
                return chunk.chunk_id
    return None


def misplaced(answer: str, question: str, evidence: Sequence[Evidence], vocabulary: Vocabulary) -> Misplaced | None:
    """A sentence that answers the question otherwise than a fragment does; None where none is sure."""
    said = frozenset(filter(is_content, terms(answer)))
    figures = values(answer)
    if len(answer.split()) > LONGEST or not _WH.search(question) or _EITHER.search(question):
        return None
    question = _SORT.sub(" ", question)  # "which year" is a year's place
    asked = Statement.read(Claim(text=question, start=0, end=len(question)))
    rarities = rarities_of(asked, vocabulary)
    said -= asked.words
    if len(asked.words) < 2 or not (said or figures):
        return None
    holding = [
        (containment(asked, window.words | title, rarities), chunk, window)
        for chunk in evidence
        for title in [_title(chunk)]
        for window in chunk.windows
    ]
    singles = [each for each in holding if each[2].text and not _RESERVED.search(each[2].text)]
    best = max(singles, key=lambda each: each[0], default=None)
    if best is None or best[0] < ASKED:
        return None
    enough = best[0] - MARGIN
    full = {id(window) for held, _, window in holding if held >= enough and window.text}
    for held, _, window in holding:  # two sentences tell more than one where neither has the words alone
        is_heard = held >= enough and (window.text or full.isdisjoint(map(id, window.parts)))
        if is_heard and (said & window.words or any(map(Ground([window]).holds, figures))):
            return None
    if not (best[2].placed.names if said and not figures else best[2].values):
        return None
    return Misplaced(best[1].chunk_id, CERTAIN, f"{answer.strip(' .!')}, the evidence says “{best[2].text.strip()}”")


def _title(chunk: Evidence) -> frozenset[str]:
    """The words of a first line that is no sentence of the text."""
    line, _, rest = chunk.reading.text.strip().partition("\n")
    return chunk.heading if rest and line.rstrip()[-1:] not in (".", "!", "?", ",") else frozenset()
