"""Words and sentences of a text, and its language: the reading on which facet matching and claim support rest.

English rules; other scripts fall back to whitespace words and to the segmenter's own language rules. All results
carry character offsets into the text they were read from. No model, no torch.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import lru_cache
from threading import Lock, local
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import sentencex
import snowballstemmer

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:
        """The same without the lock that it had before Python 3.12: a chunk has dozens of readings, and each first look
        would take it. Two threads that look at once read twice, and find the same."""

        def __init__(self, read: Callable[[Any], Any]) -> None:
            self._read = read
            self.__doc__ = read.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            found = instance.__dict__[self._name] = self._read(instance)
            return found


__all__ = [
    "NEGATIONS",
    "Readings",
    "Sentence",
    "cached_property",
    "content_stems",
    "content_words",
    "is_code",
    "is_content",
    "is_english",
    "is_english_question",
    "is_function_word",
    "is_prose",
    "located_terms",
    "located_words",
    "sentences",
    "speaks_english",
    "stem",
    "term_of",
    "terms",
    "without_accents",
    "words",
]

T = TypeVar("T")
_REMEMBERED: Final = 16_000_000  # characters

NEGATIONS: Final = frozenset(
    "not no never none neither nor cannot without except unless hardly excluded excludes excluding".split()
)
_STOPWORDS: Final = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each few for from further had has have having he her here hers him his how i
    if in into is it its itself just me more most my of off on once only or other our out over own per same she should
    so some such than that the their them then there these they this those through to too under until up very was we
    were what when where which while who whom why will with would you your yours yes may must shall""".split()
)
_FOREIGN: Final = (
    frozenset(
        """der die das und ist nicht ein eine einen mit auf von für sich dem den des im zu bei auch wird werden kann
    sind le la les est une des et dans pour pas que qui sur avec sont du au aux ce cette ne par plus
    el los las es una y del que por con para como está son al lo su sus
    il di che è un della per non con sono gli nel alla dei
    de het een van en niet met voor op zijn dat wordt bij ook om
    och att är inte på det ett som og ikke til nie jest się że oraz dla není nebo és nem hogy egy
    este nu și bir için değil yang tidak dengan untuk adalah dari là và không của mga ng""".split()
    )
    - _STOPWORDS
)
_OWN: Final = _STOPWORDS | NEGATIONS
_LETTERS: Final = r"(?:[^\W\d_]++[\u0300-\u036f]*+)++"  # with their marks, be they one character or several
_WORD: Final = re.compile(rf"{_LETTERS}(?:['’]{_LETTERS})?|\d+(?:[.,]\d+)*")
_ASCII_WORD: Final = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?|\d+(?:[.,]\d+)*", re.ASCII)  # the same, found sooner
_CONTRACTED: Final = re.compile(r"n['’]t$")
_BULLET: Final = re.compile(r"[ \t]*(?:>[ \t]*)*(?:(?:[-*•+]|\d{1,3}[.)]|\([a-z0-9]{1,3}\))[ \t]+|(?<=>)[ \t]*)")
_HEADING: Final = re.compile(r"[ \t]*(?:#{1,6}[ \t]+|\||\[\^[^\]\s]{1,40}\]:|-{3,}\s*$|\*{3,}\s*$)")
_FENCE: Final = re.compile(r"[ \t]*(?:```|~~~)")
_CITATION_TAIL: Final = re.compile(
    r"(?:\s*(?:\[[^\]\n]{1,256}\](?:\([^)\s]{1,2000}\))?|\([^)\n]{1,40}\)|【[^】\n]{1,200}】))+[\s.]*"
)
_SOME: Final = 10  # words in small letters of which English has a function word among them
_FEW: Final = 6
_MARKED: Final = 0.2
_LONGEST: Final = 10_000  # characters of a sentence, and the rest of its last word
_GAP: Final = re.compile(r"[\s\"“”«»]")
_NOTHING: Final = frozenset(("",))
_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # the segmenter takes Unicode characters only


class _Stemming(local):
    """A stemmer for each thread: it holds the word that it works on."""

    def __init__(self) -> None:
        self.stemmer = snowballstemmer.stemmer("english")


_STEMMING: Final = _Stemming()


class Sentence(NamedTuple):
    """`text[start:end]`, without surrounding white space."""

    start: int
    end: int
    text: str


def without_accents(text: str) -> str:
    """`text` with its letters without marks: "Makedonía" as "Makedonia"."""
    if text.isascii():
        return text
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The Snowball stem of a word, case folded, without accents and possessive."""
    folded = without_accents(word.casefold()).replace("’", "'").removesuffix("'s")
    stemmed: str = _STEMMING.stemmer.stemWord(folded)
    return stemmed


_NEGATING: Final = frozenset(stem(word) for word in NEGATIONS) - {"hard"}  # a hard shell is not hardly a shell


def words(text: str) -> list[str]:
    """All words and numbers of `text`, in order, as written."""
    return list(_words(text))


@lru_cache(maxsize=16)  # what reads a text does so several times in a row
def _words(text: str) -> tuple[str, ...]:
    return tuple(_word_in(text).findall(text))


def _word_in(text: str) -> re.Pattern[str]:
    return _ASCII_WORD if text.isascii() else _WORD


def content_words(text: str) -> list[str]:
    """Stems of the words of `text` that carry meaning: no stop words, no numbers (see `values`)."""
    return [term for term in terms(text) if is_content(term)]


def terms(text: str) -> list[str]:
    """Stems and numbers of `text` in order, without stop words: what is compared word by word, and pair by pair."""
    return [term for term in map(term_of, words(text)) if term]


def content_stems(text: str) -> frozenset[str]:
    """The distinct words of `text` that carry meaning, as stems."""
    return frozenset(map(_content_stem, set(_words(text)))) - _NOTHING


def located_terms(text: str) -> list[tuple[str, int]]:
    """The terms of `text`, each with the offset at which it begins."""
    return [(term, match.start()) for match in _word_in(text).finditer(text) if (term := term_of(match.group()))]


def located_words(text: str) -> list[tuple[str, int, int]]:
    """All words and numbers of `text` in order, each in small letters with its start and end."""
    return [(match.group().casefold(), match.start(), match.end()) for match in _word_in(text).finditer(text)]


@lru_cache(maxsize=65536)
def is_content(term: str) -> bool:
    """Whether a term carries meaning of its own: no number, no negation."""
    return not term[0].isdigit() and term not in _NEGATING and _CONTRACTED.search(term) is None


@lru_cache(maxsize=65536)
def _content_stem(word: str) -> str:
    """The stem of a word that carries meaning, else nothing."""
    term = term_of(word)
    return term if term and is_content(term) else ""


@lru_cache(maxsize=65536)
def term_of(word: str) -> str:
    """What a word is compared by: the stem of a word, a number as written, nothing for a stop word."""
    folded = word.casefold()
    if folded in _STOPWORDS:
        return ""
    return folded if folded[0].isdigit() else stem(folded)


def is_function_word(word: str) -> bool:
    """Whether a word ties others together, as "of" does: a stop word of English, or a common one of other languages."""
    folded = word.casefold()
    return folded in _OWN or folded in _FOREIGN


@lru_cache(maxsize=1024)
def is_english(text: str) -> bool:
    """Whether the lexical rules fit `text`: mostly Latin letters, no more function words of other languages, and some
    of English where there are ten words in small letters; words with letters that English lacks are fewer, or few.

    A text without words fits.
    """
    if not text.isascii():
        letters = [letter for letter in text if letter.isalpha()]
        if sum(letter > "\u024f" for letter in letters) > 0.3 * len(letters):
            return False
    found = words(text)
    folded = [word.casefold() for word in found]
    foreign = sum(map(_FOREIGN.__contains__, folded))
    own = sum(map(_OWN.__contains__, folded))
    if foreign > own:
        return False
    if own < 3 and sum(len(word) > 1 and word.islower() for word in found) >= _SOME:
        return own > 0
    if text.isascii() or len(found) < _FEW:
        return True
    marked = sum(word.islower() and not word.isascii() for word in found)
    return marked <= max(own, _MARKED * len(found))


_ASKING: Final = frozenset(
    """wie wann welche welcher welches wer warum wieviel hoch quel quelle quels quelles comment pourquoi quand combien
    qué cuál cuándo cómo cuánto cuánta dónde quién quale quali quanto quanta perché quando qual quanto hoeveel welke
    wanneer waar waarom vad när hur vilken hvad hvornår hvor jaki jaka kiedy ile
    eine einen einer kostet gibt haben werden wird laut seit beim zum zur vom nach sont cuesta dice tiene puede heeft
    geldt voor""".split()
)


@lru_cache(maxsize=4096)
def is_english_question(text: str) -> bool:
    """Whether the rules for English fit a question: it is short, so the words that ask in other languages count too."""
    return is_english(text) and _ASKING.isdisjoint(map(str.casefold, words(text[:1000])))


_FUNCTION_WORDS: Final = frozenset(
    """the of to and is in a an for on with be are at by it its or as this that from not you your can if has have was
    were will no only per than then there they their which all any but do does each i we he she my may must when up
    """.split()
)
_DATA: Final = ("{", "[{", "```json")
_LEAST_ENGLISH: Final = 0.1  # share of function words that English prose has at the least
_AMOUNT: Final = re.compile(r"\d[\d.,]*[ \u00a0]?[^\W\d_]{1,3}\b")  # "690 kg": units are of no language
_FEW_WORDS: Final = 6  # of fewer, nothing can be told


def speaks_english(text: str) -> bool:
    """Whether a text has as many of English's function words as English prose has; true for one of few words."""
    found = [word.casefold() for word in words(_AMOUNT.sub(" ", text)) if word[0].isalpha()]
    return len(found) < _FEW_WORDS or sum(word in _FUNCTION_WORDS for word in found) >= _LEAST_ENGLISH * len(found)


def is_prose(text: str) -> bool:
    """Whether a text is English prose, not data and not another language."""
    return not text.lstrip().startswith(_DATA) and is_english(text) and speaks_english(text)


def sentences(text: str, language: str = "en") -> list[Sentence]:
    """Split `text` into sentences whose offsets slice it exactly.

    List items, headings, table rows, footnotes and blocks of code are sentences of their own; a citation mark behind a
    full stop belongs to the sentence before it. Bullets and numbers of a list are not part of the sentence.
    """
    found: list[Sentence] = []
    for start, end in _blocks(text):
        found += _trimmed(text, start, end) if _FENCE.match(text, start) else _split_block(text, start, end, language)
    return found


def is_code(sentence: str) -> bool:
    """Whether a sentence is a fenced block of code."""
    return _FENCE.match(sentence) is not None


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Spans of text that no sentence crosses: paragraphs, list items, headings, table rows, code."""
    start, position = 0, 0
    previous, fenced = "", False
    for line in text.splitlines(keepends=True):
        is_fence = bool(_FENCE.match(line))
        plain = bool(_BULLET.match(line) or _HEADING.match(line) or not line.strip() or _HEADING.match(previous))
        opens = not fenced and (plain or is_fence or bool(_FENCE.match(previous)))
        if opens and position > start:
            yield start, position
            start = position
        fenced ^= is_fence
        position += len(line)
        previous = line
    if position > start:
        yield start, position


def _split_block(text: str, start: int, end: int, language: str) -> Iterator[Sentence]:
    bullet = _BULLET.match(text, start, end)
    start = bullet.end() if bullet else start
    pending: tuple[int, int] | None = None
    position = start
    for piece in _segments(_SURROGATE.sub("\ufffd", text[start:end]), language):
        span = (position, position + len(piece))
        position = span[1]
        if pending and _CITATION_TAIL.fullmatch(piece):
            pending = (pending[0], span[1])
            continue
        if pending:
            yield from _trimmed(text, *pending)
        pending = span
    if pending:
        yield from _trimmed(text, *pending)


def _segments(text: str, language: str) -> Iterator[str]:
    """All of `text` by sentences. The segmenter takes quadratic time over quotation marks, so it is given no more at
    once than a sentence has."""
    start = 0
    while start < len(text):
        gap = _GAP.search(text, start + _LONGEST)
        end = gap.end() if gap else len(text)
        yield from sentencex.segment(language, text[start:end])
        start = end


def _trimmed(text: str, start: int, end: int) -> Iterator[Sentence]:
    piece = text[start:end]
    lead = len(piece) - len(piece.lstrip())
    body = piece.strip()
    if body:
        yield Sentence(start + lead, start + lead + len(body), body)


class Readings(Generic[T]):
    """What was read in texts, the least recently used forgotten first; safe for threads. Chunks recur between requests.

    Args:
        read: reads a text.
        most: characters of the texts whose readings are kept; the newest one is kept whatever its length.
    """

    def __init__(self, read: Callable[[str], T], most: int = _REMEMBERED) -> None:
        self._read = read
        self._most = most
        self._readings: OrderedDict[str, T] = OrderedDict()
        self._recent: dict[str, T] = {}  # found without the lock: a request asks for its chunks again and again
        self._characters = 0
        self._lock = Lock()

    def __call__(self, text: str) -> T:
        """The reading of a text."""
        recent = self._recent.get(text)
        if recent is not None:
            return recent
        with self._lock:
            if text in self._readings:
                self._readings.move_to_end(text)
                reading = self._readings[text]
            else:
                self._recent = {}  # so that all that is asked for again counts as used
                reading = self._readings[text] = self._read(text)
                self._characters += len(text)
                while self._characters > self._most and len(self._readings) > 1:
                    self._characters -= len(self._readings.popitem(last=False)[0])
            self._recent[text] = reading
        return reading
