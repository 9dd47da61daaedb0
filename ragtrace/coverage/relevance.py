"""Relevance to the question: how far chunks speak of it, and whether an answer does, whatever the evidence says.

A chunk is judged by the share of the question's words that it holds in one place. Words weigh by their rarity, among
the candidates and, where it is known, in what the service returned for other questions (`Background`): among three
candidates nothing is rare.

An answer that copies the prompt and answers another question is supported by the prompt, and is no answer. Words tell
gross cases: by the kind of value that is asked for, and by the question's words. The cosine of an encoder tells more.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage._query import AnswerKind, expected_answer, needs_retrieval, sub_questions
from ragtrace.coverage._refusals import is_abstention
from ragtrace.coverage.support import Evidence
from ragtrace.coverage.text import content_words, is_english, is_prose, words
from ragtrace.coverage.values import DateRange, Value, values

__all__ = [
    "Background",
    "Rarity",
    "answer_relevance",
    "question_match",
    "spoken_of",
    "why_no_relevance",
]

PART: Final = 3  # content words of a part of a question, from which it is looked for by itself


@dataclass(frozen=True, slots=True)
class Background:
    """In how many of the `chunks` that a service returned for other questions each word's stem stands.

    `counts` has a checksum of each stem for its key: what is kept of a service holds no words.
    """

    chunks: int = 0
    counts: Mapping[int, int] = field(default_factory=dict)

    def frequency(self, word: str) -> int:
        """In how many chunks a word's stem stands."""
        return self.counts.get(zlib.crc32(word.encode()), 0)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Background:
        """The background of some chunks' texts, each counted once."""
        counts: dict[int, int] = {}
        distinct = dict.fromkeys(texts)
        for text in distinct:
            for word in Evidence.read("", text).words:
                key = zlib.crc32(word.encode())
                counts[key] = counts.get(key, 0) + 1
        return cls(len(distinct), counts)


class Rarity:
    """Inverse document frequencies over some chunks and a background: log(1 + (n + 1) / (df + 1/2)), > 0."""

    def __init__(self, pool: Sequence[Evidence], background: Background | None = None) -> None:
        self._chunks = [evidence.words for evidence in pool]
        self._background = background or Background()
        self._weights: dict[str, float] = {}
        self._sums: dict[frozenset[str], float] = {}

    def weight(self, word: str) -> float:
        """The rarity of a word's stem."""
        known = self._weights.get(word)
        if known is None:
            frequency = [word in words for words in self._chunks].count(True) + self._background.frequency(word)
            chunks = len(self._chunks) + self._background.chunks
            known = self._weights[word] = math.log1p((chunks + 1) / (frequency + 0.5))
        return known

    def share(self, words: Iterable[str], among: Set[str]) -> float:
        """The weight of the words that are `among` others over that of all, in [0, 1]; 0 without words."""
        words = frozenset(words)
        return self.best_share(words, (words & among,))

    def best_share(self, words: frozenset[str], parts: Iterable[frozenset[str]]) -> float:
        """The largest `share` of some words that any of some parts of them has."""
        total = self._sum(words)
        return max(map(self._sum, parts), default=0.0) / total if total else 0.0

    def _sum(self, words: frozenset[str]) -> float:
        """The weight of some words, summed once: chunks hold one of few sets of a question's words."""
        known = self._sums.get(words)
        if known is None:
            known = self._sums[words] = math.fsum(map(self.weight, words))  # the same in every order
        return known


def question_match(query: str, pool: Sequence[Evidence], rarity: Rarity) -> NDArray[np.float64]:
    """The share of the words of each part of a question that each chunk holds in one window and its heading.

    A part of fewer words than `PART` tells nothing by itself ("and can I extend it?"): the question is then one part,
    with what is stated beside it.

    Returns: shape (n_parts, n_chunks), in [0, 1]; a part without content words gives a row of zeros.
    """
    parts = [frozenset(content_words(part)) for part in sub_questions(query)]
    if min(map(len, parts)) < PART:
        parts = [frozenset(content_words(query))]
    return np.array([[spoken_of(part, chunk, rarity) for chunk in pool] for part in parts]).reshape(
        len(parts), len(pool)
    )


def spoken_of(words: Set[str], chunk: Evidence, rarity: Rarity) -> float:
    """The share of some words that one window of a chunk holds with its heading: the best one's, in [0, 1]."""
    if not words or not chunk.reading.sentences:
        return 0.0
    words = frozenset(words)
    named = words & chunk.heading
    if not (words & chunk.words) - named:  # no window adds anything
        return rarity.share(words, named) if named else 0.0
    return rarity.best_share(words, chunk.reading.shared(words).distinct)


BY_WORDS: Final[Mapping[str, float]] = MappingProxyType({
    "base": -1.05, "share": 4.6, "met": 0.55, "unmet": -1.45, "verdict": 1.95, "other_verdict": -0.35,
    "other_year": -1.15,
})  # fmt: skip
"""Of the log odds. Fitted, as `BY_COSINE`, on ten domains written by hand: right answers against sound answers to other
questions over the same prompt, and sentences of the prompt; docs/explanation/coverage.md has the figures of
domains left out."""
BY_COSINE: Final[Mapping[str, float]] = MappingProxyType({
    "base": -2.4, "cosine": 4.3, "share": 2.85, "met": 0.35, "unmet": -1.45, "verdict": 1.6, "other_verdict": -0.25,
    "other_year": -1.5,
})  # fmt: skip
SHORT: Final = 6  # words of an answer that need not repeat the question: "14 days."
UNREPEATED: Final = 0.4  # share of the question's words that is taken for such an answer's
PREFIX: Final = 5  # letters from which on words that begin alike count as the same

_PERIODS: Final = frozenset(("second", "minute", "hour", "day", "week", "month", "year", "millisecond", "decade"))
_PATTERNS: Final[Mapping[AnswerKind, str]] = {
    "duration": r"""\b(?:immediately|daily|weekly|monthly|yearly|annually|hourly|every|overnight|indefinitely
        |lifetime|permanently|at\s+once|as\s+long\s+as|until|once|twice|(?:day|week|month|year|hour|minute)s?)\b""",
    "time": r"""\b(?:\d{1,2}(?::\d\d|\s?[ap]\.?m\.?)|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february
        |march|april|june|july|august|september|october|november|december|noon|midnight|today|tomorrow|immediately
        |once|after|before|when|until|during|from|as\s+soon|late|early|at\s+the\s+(?:end|beginning|start)|spring|summer
        |autumn|winter|morning|evening)\b""",
    "money": r"\b(?:free|no\s+(?:charge|fee|cost|extra|additional)|nothing|included|cents?|pence)\b|[€$£]|\d\s?p\b",
    "share": r"\b(?:half|thirds?|quarters?|tenths?|fifths?|all|none|full|basis\s+points?)\b|%",
    "number": r"""\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|once|twice|none|no|zero|half
        |third|quarter|dozen|hundred|thousand)\b""",
    "person": r"""(?<=[\w,]\s)(?-i:[A-Z])\w+ | \b(?:you|we|i|they|head|department|board|court|staff|company|anyone
        |everyone|nobody|people|members?)\b | \b\w+(?:er|or|ist|ent|ee|ian)s?\b""",
    "place": r"""\b(?:in|at|on|under|behind|next\s+to|near|from|into|through|via|inside|between|above|below|to
        |opposite)\s+(?:the\s+|your\s+|a\s+)?\w+""",
    "reason": r"""\b(?:because|since|due\s+to|as|so|in\s+order|owing|reasons?|caus\w+|therefore|otherwise|to\s+\w+
        |led|result\w*|mean\w*|prevent\w*|avoid\w*|would)\b""",
    "manner": r"""\b(?:by|with|via|using|use|open|click|choose|select|set|call|run|press|send|fill|then|first|go|put
        |enter|add|remove|turn|you|must|should|can|need)\b | ^\s*(?:\d+[.)]|[-*•])""",
    "verdict": r"""\A\W*
        (?:(?:well|in\s+short|short\s+answer|good\s+news|unfortunately|sorry|generally|basically)\W+)?(?:yes|no|yep|nope|yeah|not|only|it\s+depends|correct|right|never|nothing|neither|both|partly|probably
        |absolutely|of\s+course|sure|don['’]t|it\s+(?:does|is)|you\s+(?:can|may|must|do|should)
        |they\s+(?:do|are|can))\b""",
}  # fmt: skip
_SAID: Final = {
    kind: re.compile(pattern, re.IGNORECASE | re.VERBOSE | re.MULTILINE) for kind, pattern in _PATTERNS.items()
}
_YES_OR_NO: Final = re.compile(r"\A\W*(?:yes|no)\b", re.IGNORECASE)


def answer_relevance(
    question: str, answer: str, weight: Callable[[str], float] | None = None, cosine: float | None = None
) -> float | None:
    """How likely `answer` answers `question` and not another one, in [0, 1]; None where `why_no_relevance` says why.

    A logistic score of `relevance_features`, fitted where answers to the question and grounded answers to other
    questions are alike frequent. It is no statement about truth: an answer with a wrong amount is relevant.

    Args:
        question: as the user put it; its parts are asked for one by one, and the mean counts.
        answer: as the model wrote it.
        weight: how rare a word's stem is, > 0; without it all words count alike.
        cosine: of the embeddings of question and answer, in [-1, 1]; without it words alone decide.
    """
    if why_no_relevance(question, answer) is not None:
        return None
    features = _relevance_features(question, answer, weight)
    weights = BY_WORDS
    if cosine is not None:
        features, weights = {**features, "cosine": cosine}, BY_COSINE
    return 1 / (1 + math.exp(-math.fsum(value * features.get(name, 0.0) for name, value in weights.items())))


def why_no_relevance(question: str, answer: str) -> str | None:
    """Why the relevance of an answer is undefined: `no_answer`, `abstained`, `language` (data, or another language than
    English), `no_question` (a courtesy, or nothing that words could tell); else None."""
    if not answer.strip():
        return "no_answer"
    if is_abstention(answer):
        return "abstained"
    if not (is_prose(answer) and is_english(question)):
        return "language"
    is_asked = needs_retrieval(question) and (content_words(question) or expected_answer(question))
    return None if is_asked else "no_question"


def _relevance_features(question: str, answer: str, weight: Callable[[str], float] | None = None) -> dict[str, float]:
    """What the score is made of, each in [0, 1] and the mean over the question's parts.

    base: 1; share: of the weight of the question's words that of those in the answer; met, unmet: whether the kind of
    value that is asked for is there; verdict: a yes or no that was asked for; other_verdict: one that was not;
    other_year: years are asked for, and others are given.
    """
    parts = sub_questions(question)
    said = set(content_words(answer))
    found = [_part_features(part, answer, said, weight) for part in parts]
    mean = {name: math.fsum(each[name] for each in found) / len(found) for name in found[0]}
    asked_years = _years(values(question))
    given_years = _years(values(answer)) if asked_years else set()
    is_other = bool(given_years) and not asked_years & given_years
    return {"base": 1.0, **mean, "other_year": float(is_other)}


def _part_features(part: str, answer: str, said: set[str], weight: Callable[[str], float] | None) -> dict[str, float]:
    asked = set(content_words(part))
    begins = {word[:PREFIX] for word in said if len(word) >= PREFIX}
    rarity = {word: weight(word) if weight else 1.0 for word in asked}
    held = math.fsum(
        rarity[word] for word in asked if word in said or (len(word) >= PREFIX and word[:PREFIX] in begins)
    )
    total = math.fsum(rarity.values())
    share = held / total if total else UNREPEATED
    kind = expected_answer(part)
    is_given = kind is not None and _holds(kind, answer, part)
    is_valued = kind not in (None, "verdict")
    if len(words(answer)) <= SHORT and (is_given or kind is None):
        share = max(share, UNREPEATED)
    return {
        "share": share,
        "met": float(is_valued and is_given),
        "unmet": float(is_valued and not is_given),
        "verdict": float(kind == "verdict" and is_given),
        "other_verdict": float(kind != "verdict" and bool(_YES_OR_NO.match(answer))),
    }


def _holds(kind: AnswerKind, answer: str, part: str) -> bool:
    """Whether an answer holds what is of a kind; of persons, places, reasons and manners words tell little. A value
    that the question itself states ("Hall 2") is no answer."""
    if _SAID[kind].search(answer):
        return True
    stated = {_meant(value) for value in values(part)}
    given = [value for value in values(answer) if _meant(value) not in stated]
    if kind in ("duration", "time"):
        return any(
            value.dates is not None or value.unit in _PERIODS or value.kind == "clock" or _is_year(value)
            for value in given
        )
    given = [value for value in given if value.kind != "clock"]
    if kind == "money":  # with or without a currency that is known: "900 crowns"
        return any(value.dates is None and value.unit not in _PERIODS for value in given)
    return kind in ("number", "share") and any(kind == "number" or value.unit == "%" for value in given)


def _meant(value: Value) -> tuple[float, str, DateRange | None]:
    return value.number, value.unit, value.dates


def _is_year(value: Value) -> bool:
    return not value.unit and value.number.is_integer() and 1000 <= value.number < 2200


def _years(given: tuple[Value, ...]) -> set[int]:
    """The years that bounded dates lie in, at either end."""
    return {
        day.year for value in given if value.dates and not value.dates.is_open
        for day in (value.dates.first, value.dates.last)
    }  # fmt: skip
