"""Equivalent evidence: chunks of which any one will do, so that one of them in the prompt is as good as another.

Near duplicates say the same, unless a word stands exchanged in them, or turns what one of them says. So does a chunk
that holds, word for word, each sentence of another one that may answer the question: the next chunk of a document, with
which it overlaps, or another edition with the same sentence; the sentence may be cut between two chunks of a document
that stand both in the prompt. What a sentence takes from around it has to be there too: the items of its list, the
heads of its table's columns, and no other heading. Of chunks that match one part of a question about as well
(`ragtrace.coverage._reference`), words cannot tell which answers it. No score of a component counts here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import permutations
from typing import Final

from ragtrace.coverage._questions import asked_for, holds_asked, sub_questions
from ragtrace.coverage.support import Evidence
from ragtrace.coverage.support.readings import Reading
from ragtrace.coverage.text import NEGATIONS, content_words, sentences, words
from ragtrace.coverage.values import values
from ragtrace.types import Candidate, PackedChunk

__all__ = ["PromptEvidence", "answering_sentences", "are_duplicates", "hold_the_same", "repeat_each_other", "spoken"]

SAME: Final = 0.85  # share of all words of two chunks that both have, from which they say the same
ALIKE: Final = 0.5  # shared terms over all terms of two chunks from which they repeat each other
FEWEST: Final = 4  # words of a sentence, from which it says something
MARGIN: Final = 0.9  # sentences from this share of the best score on answer about as well: words tell them not apart
OTHER_KIND: Final = 0.5  # share of the score that a sentence without a value of the kind asked for keeps
LENGTH: Final = 0.02  # discount for each word, so that a sentence that names every subject does not win
MISTYPED: Final = 0.8  # likeness of two words from which one may be the other, mistyped or inflected
TURNING: Final = NEGATIONS | frozenset(
    "only if when until before after nicht kein keine nur pas seulement ni sin solo".split()
)
_CLOSED: Final = re.compile(r"[.?!:;,]\s*$")
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*•–]|\d+[.)]|\w[.)])[ \t]+(.+)$", re.MULTILINE)
_END: Final = "."  # of a sentence, which may go on elsewhere: "only in daylight"
_ROW: Final = "|"  # between the cells of a table's row


def are_duplicates(one: Reading, other: Reading) -> bool:
    """Whether two chunks say the same: all but a few of their words, and all of their figures; nothing stands exchanged
    in them, and none turns what the other one says."""
    mine, others = one.vocabulary, other.vocabulary
    if min(len(mine), len(others)) < SAME * max(len(mine), len(others)):  # cheap, and most are told apart by it
        return False
    if len(mine & others) < SAME * len(mine | others):
        return False
    if {value.raw for value in one.values} != {value.raw for value in other.values}:
        return False
    return one.text == other.text or not _says_otherwise(one, other)


def _says_otherwise(one: Reading, other: Reading) -> bool:
    """Whether the sentences that only one of two texts has say something else: another word stands in the place of one,
    or a word that turns a sentence stands in one of them alone. A sentence more says nothing else."""
    mine, others = ([window.text for window in reading.sentences] for reading in (one, other))
    rest = [
        [word.lower() for text in own if spoken(text) not in known for word in words(text)]
        for own, known in ((mine, set(map(spoken, others))), (others, set(map(spoken, mine))))
    ]
    if not all(rest):
        return False
    for what, *span in SequenceMatcher(None, rest[0], rest[1], autojunk=False).get_opcodes():
        left, right = rest[0][span[0] : span[1]], rest[1][span[2] : span[3]]
        if what == "replace" and SequenceMatcher(None, "".join(left), "".join(right)).ratio() < MISTYPED:
            return True
        if what in ("insert", "delete") and not TURNING.isdisjoint((*left, *right)):
            return True
    return False


def repeat_each_other(one: Evidence, other: Evidence) -> bool:
    """Whether two chunks share at least half of all their terms, as duplicates and editions of one text do."""
    mine, others = one.reading.vocabulary, other.reading.vocabulary
    return len(mine & others) >= ALIKE * len(mine | others) > 0


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


def spoken(text: str) -> str:
    """The words of a text, however its lines are broken, quoted or marked, with a space at both ends."""
    return f" {' '.join(words(text))} "


def hold_the_same(said: str, one: Evidence, other: Evidence) -> bool:
    """Whether the first chunk holds, word for word, the sentences of the other one that speak most of what is said."""
    asked = frozenset(content_words(said))
    shares = [(len(asked & sentence.words), " ".join(sentence.terms)) for sentence in other.reading.sentences]
    best = max((share for share, _ in shares), default=0)
    text = f" {' '.join(one.reading.terms)} "
    return best > 0 and all(f" {sentence} " in text for share, sentence in shares if share >= MARGIN * best)


class PromptEvidence:
    """What stands in a prompt, asked which of its chunks stands in for one that does not stand whole in it.

    candidates: tell which chunks are of one document.
    """

    def __init__(self, query: str, packed: Sequence[PackedChunk], candidates: Sequence[Candidate] = ()) -> None:
        self._query = query
        self._packed = [chunk for chunk in packed if chunk.text]
        self._whole = {chunk.chunk_id: chunk.text or "" for chunk in self._packed if not chunk.truncated}
        self._whole_ids = {chunk.chunk_id for chunk in packed if not chunk.truncated}
        self._found: dict[str, str | None] = {}
        self._documents = {item.chunk_id: item.doc_id for item in candidates if item.doc_id is not None}

    def duplicates(self, candidates: Iterable[Candidate]) -> dict[str, str]:
        """Of candidates that do not stand whole in the prompt those that a chunk there repeats: id -> id of that."""
        found = ((item.chunk_id, self._duplicate(item)) for item in candidates if item.chunk_id not in self._whole_ids)
        return {chunk_id: other for chunk_id, other in found if other is not None}

    def stand_ins(self, classes: Iterable[Sequence[Candidate]]) -> dict[str, str]:
        """Of some classes the members that do not stand whole in the prompt, and that are needed nowhere: of each class
        that they are in another member does, or a chunk that stands in for one. Id -> id of that chunk."""
        found: dict[str, list[str | None]] = {}
        for members in classes:
            whole = next((one.chunk_id for one in members if one.chunk_id in self._whole_ids), None)
            given = whole or next((other for one in members if (other := self.stand_in(one)) is not None), None)
            for one in members:
                if one.chunk_id not in self._whole_ids:
                    found.setdefault(one.chunk_id, []).append(given)
        return {chunk_id: others[0] for chunk_id, others in found.items() if others[0] and all(others)}

    def leaves_out(self, candidate: Candidate) -> bool:
        """Whether a candidate does not stand whole in the prompt, nor another one in its stead."""
        return candidate.chunk_id not in self._whole_ids and self.stand_in(candidate) is None

    def stand_in(self, candidate: Candidate) -> str | None:
        """The chunk of the prompt that is as good as a candidate, if one is."""
        if candidate.chunk_id not in self._found:
            self._found[candidate.chunk_id] = self._stand_in(candidate)
        return self._found[candidate.chunk_id]

    def _stand_in(self, candidate: Candidate) -> str | None:
        if not candidate.text:
            return None
        if (duplicate := self._duplicate(candidate)) is not None:
            return duplicate
        found = answering_sentences(self._query, candidate.text)
        answers = [spoken(sentence) for sentence in found]
        if not answers or any(len(answer.split()) < FEWEST for answer in answers):
            return None
        needed = [*(f"{answer}{_END} " for answer in answers), *map(spoken, _taken_from_around(found, candidate.text))]
        about = set(content_words(self._query)) & set(content_words(_parted(candidate.text)[0]))
        for name, text, said in self._said:
            if name == candidate.chunk_id or not all(map(said.__contains__, needed)):
                continue
            heading = _parted(text)[0]
            if not heading or about <= set(content_words(text)):
                return name
        return None

    def _duplicate(self, candidate: Candidate) -> str | None:
        if not candidate.text:
            return None
        reading = Evidence.read("", candidate.text).reading
        for name, text in self._whole.items():
            if name != candidate.chunk_id and are_duplicates(reading, Evidence.read("", text).reading):
                return name
        return None

    @cached_property
    def _said(self) -> list[tuple[str, str, str]]:
        """What the chunks of the prompt say, as it is and in words with a mark behind each sentence: each chunk by
        itself, and every two of a document one behind the other."""
        known = self._documents
        joined = (
            (one.chunk_id, f"{one.text} {other.text}")
            for one, other in permutations(self._packed, 2)
            if one.chunk_id in known and known[one.chunk_id] == known.get(other.chunk_id)
        )
        alone = ((one.chunk_id, one.text or "") for one in self._packed)
        return [
            (name, text, "".join(f"{spoken(sentence.text)}{_END}" for sentence in sentences(text)) + " ")
            for name, text in (*alone, *joined)
        ]


def _taken_from_around(answers: Sequence[str], text: str) -> list[str]:
    """What sentences of a text say nothing without: the items that a list begins with, and the heads of a table."""
    taken = []
    if any(answer.rstrip().endswith(":") for answer in answers):
        taken += [match.group(1) for match in _ITEM.finditer(text)]
    if any(_ROW in answer for answer in answers):
        taken += [line for line in text.splitlines() if _ROW in line][:1]
    return taken


def _parted(text: str) -> tuple[str, str]:
    """The heading of a chunk and what follows it: a first line that no punctuation closes, before one that begins
    anew. A line that is merely broken goes on in lower case."""
    first, _, rest = text.strip().partition("\n")
    following = rest.lstrip()
    is_heading = following and not _CLOSED.search(first) and not following[0].islower()
    return (first, rest) if is_heading else ("", text)
