"""Layer 1 of a claim's support: how far chunks support or contradict it by their words alone, and in which sentence.

How much of a claim is new, words, word pairs and quantities that the evidence does not have, gives a probability: a
logistic regression over five measures, none of which can grow when evidence is added:

- the share of the claim's words that stand nowhere in the evidence (0.3 of one that begins like a word of it),
- the share that begin like none of them,
- the share of its neighboring words that are no neighbors anywhere in the evidence, stop words left out,
- the share of its pairs of words, as they are written, that stand nowhere in the evidence (1 - the precision of
  ROUGE-2; Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004),
- whether it states a date, a quantity, a number in digits, or a name that the evidence does not state.

Weights: fitted by `bench/words.py` on claims that people labelled in six published sets and in the domains that are
written by hand, each set and both of its labels weighed alike (docs/explanation/coverage.md#support has the sets, their
licenses, and the figures of each set left out). `support` is the probability where supported and unsupported claims
are alike frequent.

The rationale of a claim, the sentence of a chunk that supports it, contradicts it, or comes nearest to it, is found
when it is asked for, and not stored: a sentence by how much of the claim's words it holds, each weighed by its rarity
among the chunk's sentences; a value counts in whichever form it is written.
"""

from __future__ import annotations

import math
import re
from calendar import month_abbr, month_name
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, Literal, TypeAlias, TypeVar

from ragtrace.coverage.citations import SUPPORTED
from ragtrace.coverage.support._contradiction import Finding, Origin, compare, opposition
from ragtrace.coverage.support.figures import Figures
from ragtrace.coverage.support.readings import (
    HEADING,
    STEM,
    Evidence,
    Name,
    Rarities,
    Reading,
    SentenceWindow,
    Statement,
    Vocabulary,
    containment,
    rarities_of,
)
from ragtrace.coverage.text import Sentence, cached_property, content_stems, sentences, stem
from ragtrace.coverage.values import DateRange, StatedValues, Value, says
from ragtrace.types import Candidate, Claim, PackedChunk

__all__ = [
    "Ground",
    "Lexical",
    "Measures",
    "Rationale",
    "Stance",
    "Support",
    "ground_of",
    "measure",
    "probability",
    "rationales",
]

LEAST: Final = 0.3  # share of a claim's words, by rarity, that a chunk must hold to be worth a closer look
UNSTATED: Final = 0.4  # the most support of a claim with a value or a name that the evidence does not state
MOST_COMPUTED: Final = 20  # values of one claim that are computed anew
LOOKED_AT: Final = 3  # unselected candidates that one claim is compared with


@dataclass(frozen=True, slots=True)
class Support:
    """How far one chunk supports a claim, in [0, 1], and what it says of the claim's values and negations."""

    chunk_id: str
    support: float
    finding: Finding = field(default_factory=Finding)

    @property
    def contradiction(self) -> float:
        """How far the chunk, heard alone, contradicts the claim."""
        return opposition([self.finding])[0]


@dataclass(frozen=True, slots=True)
class _Compared:
    evidence: Evidence
    held: float
    finding: Finding


class Lexical:
    """The evidence of one answer, with what its claims are compared by.

    selected: the packed chunks; others: candidates that were not packed, whose words count for rarity; question: its
    words are known to whoever reads the answer, and are not held against a claim.
    """

    def __init__(self, selected: Sequence[Evidence], others: Sequence[Evidence] = (), question: str = "") -> None:
        self._selected = selected
        self._others = others
        self._vocabulary = Vocabulary([*selected, *others])
        self._ground = ground_of(tuple(chunk.reading for chunk in selected), question)
        self._question = self._ground.asked
        self._grounds: dict[Reading, Ground] = {}  # of chunks that contradict nothing
        self._asked = content_stems(question)

    def judge(self, statements: Sequence[Statement]) -> list[tuple[float, list[Support]]]:
        """For each claim of one answer its support by all selected chunks together, and that by each, in their order.

        The support by all is at least the largest by one. A sentence that contradicts a claim lends it no words. A
        value that figures of the prompt or of the answer give by arithmetic is as good as one that stands there.
        """
        answer = "\n".join(statement.placed.text for statement in statements)
        return [self._judge(each, self._ground.computed(each, answer), answer) for each in statements]

    @property
    def vocabulary(self) -> Vocabulary:
        """How rare words are among all chunks."""
        return self._vocabulary

    def lacks(self, statement: Statement, answer: str = "") -> str | None:
        """The first value or name of a claim that no selected chunk states, nor their figures give by arithmetic."""
        return self._ground.lacks(statement, self._ground.computed(statement, answer))

    def elsewhere(self, statement: Statement) -> Support | None:
        """The best support of a claim by a candidate that was not selected; None where none holds much of it."""
        rarities = rarities_of(statement, self._vocabulary)
        held = [(containment(statement, chunk.words, rarities), chunk) for chunk in self._others]
        near = sorted((each for each in held if each[0] >= LEAST), key=lambda each: -each[0])[:LOOKED_AT]
        compared = (self._compared(statement, [each], rarities) for each in near)
        found = [self._by_chunk(statement, one) for (one,) in compared]
        return max(found, key=lambda support: support.support, default=None)

    def _judge(self, statement: Statement, known: frozenset[int], answer: str) -> tuple[float, list[Support]]:
        rarities = rarities_of(statement, self._vocabulary)
        held = [(containment(statement, chunk.words, rarities), chunk) for chunk in self._selected]
        compared = self._compared(statement, held, rarities, answer)
        each = [self._by_chunk(statement, one, known) for one in compared]
        if any(one.finding.sentences for one in compared):
            ground = Ground([part for one in compared for part in _lent(one)], self._question)
        else:
            ground = self._ground
        together = _support(measure(statement, ground, known))
        return max([together, *(support.support for support in each)]), each

    def _compared(
        self, statement: Statement, held: Sequence[tuple[float, Evidence]], rarities: Rarities, answer: str = ""
    ) -> list[_Compared]:
        """Chunks that hold enough of a claim, compared with it."""
        origins: dict[Value, Origin] = {}

        def origin_of(value: Value) -> Origin:
            if value not in origins:
                origins[value] = self._ground.origin(value, statement, answer)
            return origins[value]

        close = [chunk.reading for share, chunk in held if share >= LEAST]
        found = iter(compare(statement, close, rarities, origin_of, self._asked))
        return [_Compared(chunk, share, next(found) if share >= LEAST else Finding()) for share, chunk in held]

    def _by_chunk(self, statement: Statement, compared: _Compared, known: frozenset[int] = frozenset()) -> Support:
        chunk, finding = compared.evidence, compared.finding
        if compared.held < LEAST:
            return Support(chunk.chunk_id, 0.0)
        ground = self._grounds.get(chunk.reading) if not finding.sentences else None
        if ground is None:
            ground = Ground(_lent(compared), self._question)
            if not finding.sentences:
                self._grounds[chunk.reading] = ground
        return Support(chunk.chunk_id, _support(measure(statement, ground, known)), finding)


def _lent(compared: _Compared) -> Sequence[Reading | SentenceWindow]:
    """The parts of a chunk that may support a claim: all of it, or the sentences that do not contradict."""
    against = compared.finding.sentences
    if not against:
        return [compared.evidence.reading]
    return [window for at, window in enumerate(compared.evidence.reading.sentences) if at not in against]


def _support(measures: Measures) -> float:
    found = probability(measures)
    return min(found, UNSTATED) if measures.unstated else found


WEIGHTS: Final = (0.78, 0.98, 1.05, 1.46, 0.78)
BIAS: Final = -2.50
SIMILAR: Final = 0.3  # newness of a word that begins like one of the evidence
SMOOTHING: Final = 1.5  # words added to a claim's length: one new word of two says little
_MONTH: Final = 31  # days: what is longer is stated by a time that holds it
_HEADS: Final = ("people", "person", "user", "seat", "employee")
_NOTHING_ASKED: Final = Reading("")
_T = TypeVar("_T")


def _beyond(wanted: frozenset[_T], sets: Iterable[frozenset[_T]]) -> frozenset[_T]:
    """What is in none of some sets: looked up in each, since to unite them takes longer than all that is asked."""
    for each in sets:
        if not wanted:
            break
        wanted -= each
    return wanted


@lru_cache(maxsize=4)
def ground_of(readings: tuple[Reading, ...], question: str) -> Ground:
    """What the chunks of a prompt hold: asked when an answer's claims are judged, and again for its signs."""
    return Ground(readings, Reading(question))


class Ground:
    """What the evidence holds, over one reading, several, or some sentences. question: what is known already."""

    def __init__(self, parts: Sequence[Reading | SentenceWindow], question: Reading = _NOTHING_ASKED) -> None:
        self.question = question.vocabulary
        self.asked = question
        self._parts = parts

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Its terms."""
        found = [part.vocabulary for part in self._parts]
        return found[0] if len(found) == 1 else frozenset().union(*found)

    def begins(self, term: str) -> bool:
        """Whether one of its terms begins like another one."""
        return len(term) >= STEM and any(term[:STEM] in part.stems for part in self._parts)

    def unneighbored(self, pairs: frozenset[str]) -> frozenset[str]:
        """Those of some pairs of terms that are neighbors nowhere."""
        return _beyond(pairs, [part.pairs for part in self._parts])

    def unwritten(self, pairs: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Those of some pairs of words that are written nowhere."""
        return _beyond(pairs, [part.written for part in self._parts])

    @cached_property
    def _stated(self) -> StatedValues:
        one = self._parts[0].stated if len(self._parts) == 1 else None
        return one or StatedValues([value for part in self._parts for value in part.values])

    def holds(self, value: Value) -> bool:
        """Whether some part says the value, or says of a day or month which it is and elsewhere in which year."""
        if self._stated.holds(value):
            return True
        if value.dates is None and value.kind in ("quantity", "number") and self.figures.states(value):
            return True  # as a table states it: the scale stands in its heading
        if value.number == 1 and value.unit and self._says_one(value):
            return True
        if value.dates is None or not self._stated.covers(value):
            return False
        return value.dates.days > _MONTH or self._has_day(value.dates)

    def _says_one(self, value: Value) -> bool:
        """Whether the evidence has an hour where one hour is said: an article is no value of its own."""
        unit = value.raw.split()[-1].rpartition("-")[2].casefold().removesuffix("s")
        pattern = re.compile(rf"\b(?:an?|each|per|every)\s(?:[a-z]+\s)?{re.escape(unit)}\b", re.IGNORECASE)
        return any(pattern.search(part.text) for part in self._parts)

    @cached_property
    def figures(self) -> Figures:
        """Its figures, ready to be asked where another one comes from."""
        return Figures(self._parts, self.asked.text)

    def borders(self, value: Value) -> bool:
        """Whether a time begins where one of some part ends, or ends where it begins: until 31 December is what holds
        before 1 January."""
        if value.dates is None:
            return False
        day = timedelta(days=1)
        known = [other.dates for part in self._parts for other in part.values if other.dates]
        first, last = value.dates.first, value.dates.last
        return any(
            (date.min < first and first - day == other.last) or (last < date.max and last + day == other.first)
            for other in known
        )

    def _has_day(self, dates: DateRange) -> bool:
        months = {stem(name[dates.first.month]) for name in (month_name, month_abbr)}
        if dates.days > 1:
            return not months.isdisjoint(self.vocabulary)
        day = str(dates.first.day)
        wanted = [pair for month in months for pair in (f"{day} {month}", f"{month} {day}")]
        return any(pair in part.pairs for part in self._parts for pair in wanted)

    def names(self, name: Name) -> bool:
        """Whether some part, or the question, has the name, be it within a longer word."""
        if name.is_code:
            return any(name.letters in part.joined for part in (*self._parts, self.asked))
        known = name.stem in self.vocabulary or name.stem in self.question
        return known or any(name.letters in part.folded for part in self._parts)

    def computed(self, statement: Statement, answer: str = "") -> frozenset[int]:
        """The places, among a claim's values, of those that no part states and that its figures, or those of the
        question and of the whole answer, give by arithmetic."""
        return frozenset(
            place
            for place, value in enumerate(statement.values[:MOST_COMPUTED])
            if value.kind != "version"
            and not statement.placed.named[place]
            and not self.holds(value)
            and self._follows(value, statement.placed.text, answer)
        )

    def _follows(self, value: Value, claim: str, answer: str) -> bool:
        """Whether arithmetic gives a figure or a date."""
        if value.dates:
            return self.figures.gives_date(value, claim, answer)
        return self.figures.origin(value, claim, answer) == "computed"

    def lacks(
        self, statement: Statement, known: frozenset[int] = frozenset(), held: Sequence[bool] | None = None
    ) -> str | None:
        """The first value, else the first name of a claim that no part states; None where all are stated.

        A value of the question is what a claim is about and not what it states, where it states something else.
        known: the places of values that are none the less (`computed`); held: of each value whether it is known or some
        part says it, if that was looked up.
        """
        for place, value in enumerate(statement.values):
            if place in known or statement.placed.named[place] or not _is_exact(value):
                continue
            is_held = self.holds(value) if held is None else held[place]
            if not is_held and not self._is_topic(value, statement):
                return value.raw
        return next((name.written for name in statement.names if not self.names(name)), None)

    def origin(self, value: Value, statement: Statement, answer: str = "") -> Origin:
        """Where a value of a claim comes from: the question, the evidence, by arithmetic its figures or those of the
        whole answer, or nowhere."""
        if self.is_asked(value):
            return "asked"
        if self.holds(value):
            return "stated"
        if value.kind == "version":
            return "unknown"
        if value.dates:
            return "computed" if self.figures.gives_date(value, statement.placed.text, answer) else "unknown"
        return self.figures.origin(value, statement.placed.text, answer)

    def is_asked(self, value: Value) -> bool:
        """Whether the question says the value, or counts as many of something: 25 people who are users."""
        asked = self.asked.values
        if value.unit in _HEADS and any(
            other.number == value.number and other.unit in ("", *_HEADS) for other in asked
        ):
            return True
        return any(says(value, other) for other in asked)

    def _is_topic(self, value: Value, statement: Statement) -> bool:
        asked = self.asked.values
        if not self.is_asked(value):
            return False
        new = [other for other in statement.values if not any(says(other, known) for known in asked)]
        return any(map(self.holds, new)) or not self.vocabulary.isdisjoint(statement.words - self.question)


@dataclass(frozen=True, slots=True)
class Measures:
    """The five measures, each 0 for a claim that repeats the evidence, else up to 1."""

    unseen: float
    lacking: float
    pairs: float
    rewritten: float
    unstated: float

    @property
    def vector(self) -> tuple[float, float, float, float, float]:
        """In the order of `WEIGHTS`."""
        return self.unseen, self.lacking, self.pairs, self.rewritten, self.unstated


def measure(statement: Statement, ground: Ground, known: frozenset[int] = frozenset()) -> Measures:
    """The measures of one claim against some evidence. known: places of values that need not stand there."""
    held = [place in known or ground.holds(value) for place, value in enumerate(statement.values)]
    new = _new_words(statement, ground, held)
    length = len(new) + SMOOTHING
    written, unwritten = statement.written, ground.unwritten(statement.written_set)
    return Measures(
        unseen=sum(new) / length,
        lacking=new.count(1.0) / len(new) if new else float(not all(held)),
        pairs=_new_pairs(statement, ground, held) / length,
        rewritten=sum(map(unwritten.__contains__, written)) / len(written) if written else 1.0,
        unstated=float(ground.lacks(statement, known, held) is not None),
    )


def _is_exact(value: Value) -> bool:
    """Whether evidence that bears a value out must state it: "two kinds" may be counted, "27 kinds" hardly."""
    return value.kind != "number" or value.raw[:1].isdigit()


def probability(measures: Measures) -> float:
    """The probability that the evidence supports the claim, in [0, 1], support and its absence being alike likely:
    1 / (1 + exp(b + w · x))."""
    return 1 / (
        1 + math.exp(BIAS + sum(weight * value for weight, value in zip(WEIGHTS, measures.vector, strict=True)))
    )


def _new_words(statement: Statement, ground: Ground, held: Sequence[bool]) -> list[float]:
    vocabulary, question = ground.vocabulary, ground.question
    return [
        0.0
        if term in vocabulary or term in question or (place >= 0 and held[place])
        else SIMILAR
        if ground.begins(term)
        else 1.0
        for term, place in zip(statement.terms, statement.places, strict=True)
    ]


def _new_pairs(statement: Statement, ground: Ground, held: Sequence[bool]) -> int:
    """Of how many words it and the one before it are no neighbors in the evidence; a value that is held is known in any
    shape."""
    terms, places = statement.terms, statement.places
    new = ground.unneighbored(statement.pair_set)
    return sum(
        not (terms[at] == terms[at + 1] or (places[at] >= 0 and places[at] == places[at + 1] and held[places[at]]))
        for at, pair in enumerate(statement.pairs if new else ())
        if pair in new
    )


Stance: TypeAlias = Literal["supports", "contradicts", "nearest"]
"""What a chunk does to a claim; `nearest`: of all chunks it says most of it, and does not support it."""

ADDED: Final = 0.25  # share of a claim's words, by rarity, that a second sentence must add to be quoted as well
LONGEST: Final = 400  # characters of a sentence that are quoted
_STRIDE: Final = 100  # characters between two parts of a longer sentence that are compared


@dataclass(frozen=True, slots=True)
class Rationale:
    """What a claim's state rests on: one sentence of a chunk, or two where the claim joins them.

    sentences: in the order of the chunk, with offsets in its text; of one that is longer than `LONGEST` the part that
    holds most of the claim.
    """

    chunk_id: str
    stance: Stance
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """The quotation on one line, with dots for what it leaves out."""
        return " … ".join(" ".join(sentence.text.split()) for sentence in self.sentences)


def rationales(
    claims: Sequence[Claim], packed: Sequence[PackedChunk], candidates: Sequence[Candidate] = ()
) -> tuple[Rationale | None, ...]:
    """The rationale of each judged claim, from the chunk that decided: the one that contradicts it, the one in the
    prompt that supports it best, else a candidate outside of the prompt that supports it, else the nearest.

    None for a claim that is not factual, of which no chunk says anything, or whose chunk's text was not kept.
    """
    texts = {item.chunk_id: item.text for item in candidates if item.text}
    within = {chunk.chunk_id: chunk.text for chunk in packed if chunk.text}
    pool = [Evidence.read(*each) for each in (texts | within).items()]
    vocabulary = Vocabulary(pool)
    return tuple(_rationale(claim, within, texts, vocabulary) for claim in claims)


def _rationale(
    claim: Claim, within: Mapping[str, str], texts: Mapping[str, str], vocabulary: Vocabulary
) -> Rationale | None:
    stance, chunk_id, text = _deciding(claim, within, texts)
    if not claim.factual or chunk_id is None or text is None:
        return None
    statement = Statement.read(claim)
    parts = sentences(text)
    against = _contradicting(statement, chunk_id, text, vocabulary)
    chosen = [part for place, part in enumerate(parts) if (place in against) == (stance == "contradicts")] or parts
    heading = _heading(text)
    quotable = [piece for part in chosen for piece in _pieces(part, heading)]
    found = _holding_most(statement, quotable, heading, alone=stance == "contradicts")
    return Rationale(chunk_id, stance, tuple(found)) if found else None


def _deciding(
    claim: Claim, within: Mapping[str, str], texts: Mapping[str, str]
) -> tuple[Stance, str | None, str | None]:
    """What decided on the claim: the stance, the chunk's id, and its text."""
    best, outside = claim.best_chunk, claim.unselected_chunk
    if (claim.contradiction or 0.0) >= SUPPORTED:
        return "contradicts", best, within.get(best or "")
    if (claim.support or 0.0) >= SUPPORTED:
        return "supports", best, within.get(best or "")
    if outside is not None:
        return "supports", outside, texts.get(outside)
    return "nearest", best, within.get(best or "")


def _contradicting(statement: Statement, chunk_id: str, text: str, vocabulary: Vocabulary) -> frozenset[int]:
    """The places of the sentences that contradict the claim as far as words tell; that the chunk does is known."""
    reading = Evidence.read(chunk_id, text).reading
    return compare(statement, [reading], rarities_of(statement, vocabulary), lambda value: "unknown")[0].sentences


def _heading(text: str) -> int:
    """Where the first line ends if it is a heading and no sentence, else 0."""
    first, _, rest = text.partition("\n")
    is_heading = rest.strip() and len(first) <= HEADING and not first.rstrip().endswith((".", "!", "?", ";", ","))
    return len(first) if is_heading else 0


def _pieces(part: Sentence, heading: int) -> Iterator[Sentence]:
    """A sentence as it is, without a heading that no paragraph parts from it; of a longer one its parts, which overlap
    and begin and end between words."""
    if part.start < heading < part.end:
        yield Sentence(part.start, heading, part.text[: heading - part.start])
        rest = part.text[heading - part.start :].lstrip()
        part = Sentence(part.end - len(rest), part.end, rest)
    last = len(part.text) - LONGEST
    for offset in range(0, last + _STRIDE, _STRIDE) if last > 0 else (0,):
        first = part.text.rfind(" ", 0, offset) + 1
        cut = part.text.rfind(" ", first, first + LONGEST) if len(part.text) - first > LONGEST else len(part.text)
        end = cut if cut > first else first + LONGEST  # one word without an end
        piece = part.text[first:end].rstrip()
        yield Sentence(part.start + first, part.start + first + len(piece), piece)


def _holding_most(statement: Statement, parts: Sequence[Sentence], heading: int, *, alone: bool) -> list[Sentence]:
    """The sentence that holds most of the claim, and unless `alone` one that adds enough of what it lacks, which may be
    the heading. `alone`: the parts are those that contradict, and the heading is as good as another."""
    windows = [SentenceWindow(part.text) for part in parts]
    frequency = Counter(term for window in windows for term in window.vocabulary)
    weights = {term: math.log1p((len(windows) + 1) / (frequency[term] + 0.5)) for term in statement.terms}
    held = [_held(statement, window) for window in windows]
    body = [place for place, part in enumerate(parts) if part.end > heading] or list(range(len(parts)))
    total, lacking = sum(weights.values()), set(weights)
    chosen: list[int] = []
    for places in (range(len(parts)),) if alone else (body, range(len(parts))):
        gains = {place: math.fsum(weights[term] for term in held[place] & lacking) for place in places}
        best = max(gains, key=gains.__getitem__, default=0)
        if not gains.get(best) or (chosen and gains[best] < ADDED * total):
            break
        chosen.append(best)
        lacking -= held[best]
    return [parts[place] for place in sorted(chosen)]


def _held(statement: Statement, window: SentenceWindow) -> frozenset[str]:
    """The terms of a claim that a sentence says, those of a value also where it is written in another form."""
    stated = [any(says(value, other) for other in window.values) for value in statement.values]
    return frozenset(
        term
        for term, place in zip(statement.terms, statement.places, strict=True)
        if term in window.vocabulary or (place >= 0 and stated[place])
    )
