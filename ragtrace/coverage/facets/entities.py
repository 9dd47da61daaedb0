"""Names that a question is about: people, products, organizations, codes, model and form numbers, quoted terms.

Capitals are evidence of a name only where the writer uses them so: not in German, not in a question that is all
capitals, and not in the first word by itself. Codes, identifiers and quotations count in every language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from ragtrace.coverage.facets.language import is_english_question
from ragtrace.coverage.text import content_words
from ragtrace.coverage.values.units import unit_of

__all__ = ["CODE", "codes_in", "names_in"]

CODE: Final = re.compile(
    r"""(?<![\w@./-])(?:
      (?=[\w./-]*[A-Za-z])(?=[\w./-]*\d)[A-Za-z0-9]++(?:[-./_][A-Za-z0-9]++)*+   # X-200, 10-K, CVE-2024-1234, A4
    | [a-z]+(?:_[a-z0-9]+)+                                                   # max_connections
    | [a-z]+(?:[A-Z][a-z0-9]+)+(?:\s\d{1,3}(?![\d.,%\w]))?                    # maxConnections, iPhone 8
    | (?:[a-z_]\w*\.)+[a-z_]\w*\(\) | --[a-z][\w-]+                           # module.function(), --flag
    | (?:Regulation|Directive|Decision)\s+\((?:EU|EC|EEC)\)\s+(?:No\.?\s+)?\d{1,4}/\d{1,4}
    | (?:Form\s+[A-Z]{0,2}-?|(?:(?i:article|section|clause|regulation|directive|annex|rule|chapter|paragraph|appendix
        |artículo|artikel|articolo|artigo)|Art\.?|Schedule|ISO(?:/IEC)?|RFC|IEC|EN|No\.|H\.?R\.?)\s+[A-Z]?)
      \d+(?:[./-]?\w++)*+(?:\(\w{1,5}\))*(?::(?:19|20)\d\d)?                    # Article 6(1)(f), ISO 27001:2022
    | (?:[A-Z][\w&-]+\s(?:(?:of|and|for)\s(?:the\s)?)?){1,6}(?:Act|Regulations?|Order|Rules)\s(?:of\s)?(?:18|19|20)\d\d
    | §\s?\d+[a-z]? | \#\d\w*(?:-\w+)*
    )(?![\w])""",
    re.VERBOSE,
)
_PLAIN: Final = re.compile(
    r"(?:pre|post|mid)-?\d{4}|[12]h\d{2,4}|[1-4]q\d{2,4}|\d+(?:st|nd|rd|th|s|x|k|m|bn|kg|km|mm|cm|gb|mb|tb|ghz|mhz|kw|kwh|mw|am|pm|h|hrs?|min|sec|ml|mg|g|l|p|fps)"
    r"|v\d[\w.+-]*|\d+-(?:day|week|month|year|hour|minute|second|mile|km)s?|[qh][1-4]|\d+[-/]\w{3,}|fy\d+"
    r"|\d{4}-?q[1-4]|\d+-?ye?a?r-?old|\d[\d.,]*[a-z%]{1,2}",
    re.IGNORECASE,
)
_FORM: Final = re.compile(r"\d{1,2}-[A-Z]{1,2}")  # 10-K, 8-K: a form, not a number with a unit
_QUOTED: Final = re.compile(r"""[“"«„「『]([^“”"«»„」』\n]{2,60})[”"»“」』]|(?<!\w)'([^'\n]{2,60})'(?!\w)""")
_TOKEN: Final = re.compile(r"[A-Z]{2,}(?=-[a-z]{3})|[^\W_](?:[\w&'’+.-]*[\w+])?")
_MODEL: Final = re.compile(r"\d{1,3}[a-z]?|(?!19|20)\d{2,4}-\d{1,3}|(?!19|20)\d{4}")  # the number of a model, no year
_UNITS: Final = frozenset("mL dL MPa GPa kPa Nm mAh Ah dB kN GHz MHz kHz Hz Pa Wh".split())
_LINKS: Final = frozenset("of de da di del della van der den von und la le les du dos y & the for al el".split())
_STARTERS: Final = frozenset(
    """list give tell show explain describe compare name find summarize summarise define state please provide write
    identify calculate say discuss outline suggest help let get make use look check see tldr hi hello hey thanks ok okay
    yes no sure great well also actually however maybe okay whats who's what's recommended
    required maximum minimum average best top latest current""".split()
)
_NO_NAME: Final = frozenset(
    """i i'm i've i'd i'll ok pm am q1 q2 q3 q4 fy mr mrs ms dr monday tuesday wednesday thursday friday saturday sunday
    january february march april may june july august september october november december jan feb mar apr jun jul aug
    sep sept oct nov dec faq asap tbd n/a tv dvd btw fyi omg lol imo imho iirc eta diy a b c d e""".split()
)
_TITLES: Final = frozenset(
    "ceo cfo cto coo president chairman chair director head minister secretary mayor king queen".split()
)
READ: Final = 5000  # characters of a question that are read for names
_SENTENCE: Final = re.compile(r"(?:[^.?!\n]|[.](?=\S))+")
_FOLLOWING: Final = re.compile(r" ([A-Z]\w*)")
_GERMAN: Final = frozenset("der das und ist nicht ein eine mit für auf wie wann welche wo wer ich".split())


def codes_in(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, why) of codes, model and form numbers, identifiers and quoted terms."""
    for match in _QUOTED.finditer(text):
        group = 1 if match.group(1) else 2
        yield match.start(group), match.end(group), "quoted"
    for match in CODE.finditer(text):
        written = match.group()
        if _FORM.fullmatch(written) or not _PLAIN.fullmatch(written):
            yield match.start(), match.end(), "code"


@lru_cache(maxsize=1024)
def names_in(text: str) -> tuple[tuple[int, int, str], ...]:
    """(start, end, why) of names by their capitals; nothing where capitals tell no names."""
    return tuple(_names(text))


def _names(text: str) -> Iterator[tuple[int, int, str]]:
    text = text[:READ]
    english = is_english_question(text)
    for sentence in _SENTENCE.finditer(text):
        tokens = list(_TOKEN.finditer(text, *sentence.span()))
        told = _capitals_tell(tokens)
        if told is not False:
            for start, end, why in _runs(text, tokens):
                if why == "acronym" or (told and (english or " " in text[start:end])):
                    yield start, end, why


def _runs(text: str, tokens: list[re.Match[str]]) -> Iterator[tuple[int, int, str]]:
    """Words in a row that are one name; a code between them, or a possessive ("Pfizer's Comirnaty"), parts two."""
    run: list[re.Match[str]] = []
    codes = [(start, end) for start, end, why in codes_in(text) if why == "code"]
    for position, token in enumerate(tokens):
        if run and not _joined(text, run[-1], token):
            yield from _run(run)
            run = []
        if any(start < token.end() and token.start() < end for start, end in codes):
            yield from _run(run)
            run = []
        elif _may_name(text, token, begins=not run and _begins(text, token)) or (
            run and _continues(token, tokens[position + 1 : position + 2])
        ):
            run.append(token)
        elif run:
            yield from _run(run)
            run = []
    if run:
        yield from _run(run)


def _joined(text: str, before: re.Match[str], token: re.Match[str]) -> bool:
    possessive = before.group().endswith(("'s", "’s")) and token.group() not in _LINKS
    return text[before.end() : token.start()] == " " and not possessive


def _continues(token: re.Match[str], following: list[re.Match[str]]) -> bool:
    """Whether a word in lower case or a number goes on with a name: Bank *of* America, Windows *11*."""
    word = token.group()
    if word in _LINKS:
        return any(map(_capital, following))
    if any(unit_of(each.group()) for each in following) or token.string[token.end() : token.end() + 1] == "%":
        return False  # Ozempic 1 mg
    return bool(_MODEL.fullmatch(word))


def _run(run: list[re.Match[str]]) -> Iterator[tuple[int, int, str]]:
    while run and run[-1].group() in _LINKS:
        run.pop()
    while run and (run[0].group().casefold() in _TITLES or run[0].group() in _LINKS):
        run = run[1:]
    if run and not (len(run) == 1 and _is_common(run[0].group())):
        last = run[-1].group()
        end = run[-1].end() - (2 if last.endswith(("'s", "’s")) else 0)
        yield run[0].start(), end, "acronym" if len(run) == 1 and last.isupper() else "name"


def _is_common(word: str) -> bool:
    return word.casefold().rstrip(".") in _NO_NAME or not (word.isupper() or content_words(word))


def _capitals_tell(tokens: list[re.Match[str]]) -> bool | None:
    """Whether capitals tell names: not in a title or in shouting; None, of acronyms alone, where every noun has one."""
    words = [token.group() for token in tokens if token.group()[0].isalpha()]
    capital = sum(word[0].isupper() for word in words)
    if len(words) > 3 and (capital > 0.8 * len(words) or sum(map(str.isupper, words)) > 0.6 * len(words)):
        return False
    german = any(word.casefold() in _GERMAN for word in words) and not is_english_question(" ".join(words))
    return None if german else True


def _capital(token: re.Match[str]) -> bool:
    word = token.group()
    return word[0].isupper() or any(map(str.isupper, word[1:]))


def _begins(text: str, token: re.Match[str]) -> bool:
    before = text[: token.start()].rstrip(" \t\"'“(*-")
    return not before or before[-1] in ".?!:;\n"


def _may_name(text: str, token: re.Match[str], *, begins: bool) -> bool:
    word = token.group()
    if not _capital(token) or word.casefold() in _NO_NAME or _PLAIN.fullmatch(word):
        return False
    if word in _UNITS or (word.isupper() and unit_of(word)) or text[: token.start()].endswith("°"):
        return False
    if not begins or any(map(str.isupper, word[1:])):
        return not (begins and word.casefold() in _STARTERS)
    if word.casefold().replace("’", "'") in _STARTERS or not content_words(word) or word[1:2] in ("'", "’"):
        return False
    if word.endswith("ly"):
        return False  # "Recently BRICS": an adverb that begins a sentence
    following = _FOLLOWING.match(text, token.end())
    return word.endswith(("'s", "’s")) or (following is not None and bool(content_words(following.group(1))))
