"""Names that a question is about: people, products, organizations, codes, model and form numbers, what it cites.

Capitals are evidence of a name only where the writer uses them so: not in German, not in a question that is all
capitals, and not in the first word by itself. Codes, identifiers and quotations count in every language.

Laws and their provisions, court cases, standards and tickets are references, met in texts part by part: "section 26(1)
of the Limitation Act 1980" has a provision, a title and a year.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from ragtrace.coverage.facets._terms import is_plain_word
from ragtrace.coverage.text import content_words, is_english_question
from ragtrace.coverage.values.value import unit_of

__all__ = [
    "CODE",
    "Reference",
    "TextReferences",
    "codes_in",
    "is_law",
    "is_provision",
    "is_title",
    "names_in",
    "reference_of",
]

_YEAR: Final = r"(?:1[6-9]|20)\d\d"
_NUMBER: Final = r"\d+(?:[./-]?\w++)*+(?:\s?\(\w{1,5}\))*"
_HEADS: Final = "Act|Regulations?|Order|Rules|Code|Ordinance|Directive|Law|Decree|Convention|Treaty|Statute|Protocol"
_ORDINAL: Final = (
    r"(?i:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|thirteenth|fourteenth"
    r"|\d{1,2}(?:st|nd|rd|th))"
)
_CITED: Final = rf"""
      (?i:sections?|subsections?|articles?|clauses?|rules?|regulations?|directive|annex|schedule|chapter|paragraphs?
        |appendix|recitals?|artículo|artikel|articolo|artigo)\s+[A-Z]?{_NUMBER}
    | (?:Parts?|Titles?|Items?|Form)\s+[A-Z]{{0,2}}-?{_NUMBER}
    | (?:(?i:ss?|arts?|sec|sch|reg|para)\.|Art|Sec|Sch|Para|Reg)\s?{_NUMBER}
    | (?:(?i:article|section|annex|schedule|chapter|appendix)|Part|Title)\s+[IVXLC]+(?![\w'’])(?:\(\w{{1,5}}\))*
    | (?<=\d\d\d\d\s)ss?\s?{_NUMBER}
    | [A-Z]{{2,6}}\s{_YEAR}\s(?:ss?|Sch|Pt|Part|reg|para)\.?\s?{_NUMBER}        # FA 2009 Sch 55
    | (?i:(?:(?:federal|national|state)\s)?(?:rules|code)\sof\s
        (?:civil|criminal|appellate|administrative|bankruptcy)\sprocedure)
    | §§?\s?\d+\w*(?:[.-]\d+\w*)*(?:\(\w{{1,5}}\))*
    | Case\s[A-Z]{{1,2}}-\d{{1,4}}/\d{{2}}
    | {_ORDINAL}(?:\s(?:and|or|&)\s{_ORDINAL})?\s[Aa]mendments?
    | (?:Regulation|Directive|Decision)\s+\((?:EU|EC|EEC)\)\s+(?:No\.?\s+)?\d{{1,4}}/\d{{1,4}}
    | (?:[A-Z][\w&'’-]*,?\s(?:\([^()\n]{{2,60}}\)\s){{0,2}}
        (?:(?:of|and|for|at|in|on|to|by|&|etc\.?)\s(?:the\s)?)*){{1,10}}
        (?:{_HEADS}),?\s(?:of\s)?{_YEAR}
"""
"""Alternatives of a verbose pattern: provisions, laws with a year."""
_STANDARD: Final = rf"""
      (?:ISO(?:/[A-Z]{{2,4}})*|iso|IEC|IEEE|ieee|EN|BS|DIN|ASTM|ANSI|NFPA|SAE|ITU-T|FIPS|ETSI|JIS|NIST|PEP|RFC|rfc|IFRS
        |IAS|ASC|AD|UN|MIL-STD|[Nn]o\.|H\.?R\.?)
        (?:\s[A-Z]{{1,4}}(?:/[A-Z]{{1,4}})?)?[\s-][A-Z]{{0,2}}\d+(?:[./-]?\w++)*+(?::{_YEAR})?
    | \d+\s(?:U\.?\s?S\.?\s?C\.?|C\.?\s?F\.?\s?R\.?)(?:\s?(?:§+|[Ss]ection|[Ss]ec\.|[Pp]art))?\s?{_NUMBER}
"""
"""The same for standards, requests for comments and bills."""

_PROVISION: Final = re.compile(
    r"""(?P<word>sections?|subsections?|articles?|clauses?|rules?|regulations?|annex|schedule|chapter|paragraphs?
        |appendix|recitals?|parts?|titles?|items?|artículo|artikel|articolo|artigo|ss?\.|(?-i:s)(?=\s\d)|arts?\.?|sec\.?|sch\.?|reg\.?
        |para\.?|§§?)\s?(?P<number>[a-z]?\d+(?:[./-]?\w)*|[ivxlc]+(?![\w'’]))(?P<rest>(?:\s?\(\w{1,5}\))*)""",
    re.IGNORECASE | re.VERBOSE,
)
_KINDS: Final = {"s": "section", "ss": "section", "§": "section", "§§": "section", "sec": "section", "art": "article",
                 "arts": "article", "artículo": "article", "artikel": "article", "articolo": "article",
                 "artigo": "article", "sch": "schedule", "reg": "regulation", "para": "paragraph",
                 "subsection": "section"}  # fmt: skip
_STATED: Final = re.compile(
    rf"(?<![\w.])(?:{_PROVISION.pattern})|(?m:^)\W{{0,3}}(?P<bare>\d+[A-Z]{{0,2}}(?=\.?\s?(?:[—–]\s?)?\(\d)|\d+(?:\.\d+)+(?=\.?\s+[A-Z(]))",
    re.IGNORECASE | re.VERBOSE,
)
_LAW: Final = re.compile(
    rf"(?:{_HEADS}|Constitution|Agreement|Charter|Amendments?|Contract|Policy)(?:,?\s(?:of\s)?{_YEAR})?$", re.IGNORECASE
)
_SHORT: Final = re.compile(r"[A-Z][A-Za-z]{0,3}[A-Z](?:-[A-Z]{1,3})?")  # GDPR, BGB, ZPO
_DATED: Final = re.compile(rf",?\s(?:of\s)?(?P<year>{_YEAR})$")
_LAW_FIRST: Final = re.compile(rf"(?P<law>\D+{_YEAR}),?\s(?P<provision>(?:[a-z]+\.?|§§?)\s?\d.*)", re.IGNORECASE)
_BETWEEN: Final = re.compile(r",?\s+(?:(?:of|in|under|to)\s+(?:the\s+)?)?|,?\s+the\s+", re.IGNORECASE)
_FLAT_LAW: Final = re.compile(
    rf"\b(?:(?:act|regulations|rules|order|code|ordinance|directive|convention|treaty)(?:,?\s(?:of\s)?{_YEAR})"
    r"|(?:act|amendment|treaty|convention|statute)(?!\s(?:as|like|on|upon)\b))\b"
)
_FLAT_LEAD: Final = re.compile(r"\bthe\s+((?:[\w&'’.-]+\s+){1,8})$")
_LAST_THE: Final = re.compile(r".*\b(?:the|under|of\s+(?=\w+\s+act\b))\s+")
_CLAUSE: Final = re.compile(r"\b(?:is|are|was|does|do|did|that|which|must|may|can|by)\s")
_FLAT_REACH: Final = 80


@dataclass(frozen=True, slots=True)
class Reference:
    """A provision ("section", "26(1)") and where it stands, or a title with its year; what is absent is empty."""

    word: str = ""
    number: str = ""
    title: str = ""
    year: str = ""


def is_provision(written: str) -> bool:
    """Whether a text is a provision and nothing else: section 26(1), Article VI, § 622."""
    return _PROVISION.fullmatch(written) is not None


def is_law(written: str) -> bool:
    """Whether a name is that of a law: it ends as one does, or is an acronym."""
    return bool(_LAW.search(written) or _SHORT.fullmatch(written))


@lru_cache(maxsize=4096)
def reference_of(written: str) -> Reference | None:
    """The parts of a reference to a law; None for another name."""
    provision = _PROVISION.match(written)
    rest = written
    if behind := _LAW_FIRST.fullmatch(written):
        provision, rest = _PROVISION.fullmatch(behind.group("provision")), behind.group("law")
    elif provision:
        gap = _BETWEEN.match(written, provision.end())
        rest = written[gap.end() if gap else provision.end() :]
        if rest and not gap:
            return None
    dated = _DATED.search(rest)
    if not provision and not (dated and _LAW.search(rest)):
        return None
    title = rest[: dated.start()] if dated else rest
    word, number = _provision(provision) if provision else ("", "")
    return Reference(word, number, title, dated.group("year") if dated else "")


def _provision(match: re.Match[str]) -> tuple[str, str]:
    word = match.group("word").casefold().rstrip(".")
    plain = word if word in _KINDS else word.removesuffix("s") if word != "annexes" else "annex"
    number = f"{match.group('number')}{match.group('rest')}".casefold()
    return _KINDS.get(plain, plain), "".join(number.split())


class TextReferences:
    """The provisions that a text states."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def provisions(self) -> frozenset[tuple[str, str]]:
        """Kind and number of each; a number that begins a line before "(1)" is of any kind."""
        return frozenset(
            _provision(match) if match.group("word") else ("", match.group("bare").casefold())
            for match in _STATED.finditer(self._text)
        )

    def match(self, word: str, number: str) -> float:
        """1 for the provision or a part of it, half for the whole of which it is a part, else 0."""
        best = 0.0
        for kind, stated in self.provisions:
            if kind in (word, ""):
                if stated == number or stated.startswith((f"{number}(", f"{number}.")):
                    return 1.0
                if number.startswith((f"{stated}(", f"{stated}.")):
                    best = 0.5
        return best

    def has_others(self, word: str) -> bool:
        """Whether provisions of this kind are stated."""
        return any(kind == word for kind, _ in self.provisions)


def _flat_laws(folded: str) -> Iterator[tuple[int, int]]:
    """Laws in a text without capitals: what stands between "the" and "act", with a year behind it or not."""
    for match in _FLAT_LAW.finditer(folded):
        lead = _FLAT_LEAD.search(folded, max(0, match.start() - _FLAT_REACH), match.start())
        if lead:
            title = _LAST_THE.match(lead.group(1))
            start = lead.start(1) + (title.end() if title else 0)
            if start < match.start() and not _CLAUSE.search(folded, start, match.start()):
                yield start, match.end()


_PRODUCTS: Final = r"""
      (?i:windows\sserver|sql\sserver|(?:(?:microsoft|ms)\s)?(?:office|excel|exchange(?:\sserver)?|sharepoint
        |visual\sstudio|outlook)|autocad|revit|quickbooks|photoshop|incoterms|ecmascript|owasp\stop\s10
        |agenda|vision)\s(?:19|20)\d\d
"""
"""Products whose year is a part of the name."""
_IDENTIFIER: Final = r"""
      [a-z][\w-]*\.(?:json|ya?ml|py|js|ts|xml|ini|conf|cfg|toml|md|txt|csv|exe|dll|log|sh|env|html|css|sql|pdf|docx?
        |xlsx?)
    | (?=[\w./-]*[A-Za-z])(?=[\w./-]*\d)[A-Za-z0-9]++(?:[-./_][A-Za-z0-9]++)*+   # X-200, 10-K, CVE-2024-1234, A4
    | [a-z]+(?:_[a-z0-9]+)+                                                   # max_connections
    | [a-z]+(?:[A-Z][a-z0-9]+)+(?:\s\d{1,3}(?![\d.,%\w]))?                    # maxConnections, iPhone 8
    | (?:[a-z_]\w*\.)+[a-z_]\w*\(\) | --[a-z][\w-]* | (?<=\s)-[A-Z][\w.-]*\w       # module.function(), --flag, -Xmx
    | (?:[NOS](?:,[NOS])+|\d(?:,\d)+)-[a-z]{5,}                               # N,N-dimethylformamide
    | \#\d\w*(?:-\w+)*
    | (?:[Vv]itamin|[Hh]epatitis|[Ii]nfluenza|Exhibit|Appendix|Annex|Schedule|Form)\s[A-Z]
"""
_ERROR: Final = (
    r"(?i:(?:http\s)?(?:exit|error|status|stop|response)\scode|http\sstatus|error)\s(?:0x[0-9a-f]+|[a-z]{0,4}-?\d{1,6})"
)
_ASKED: Final = re.compile(
    rf"(?<![\w@./-])(?:{_CITED}|{_STANDARD}|{_PRODUCTS}|{_ERROR}|{_IDENTIFIER})(?![\w])", re.VERBOSE
)
CODE: Final = re.compile(rf"(?<![\w@./-])(?:{_STANDARD}|{_IDENTIFIER})(?![\w])", re.VERBOSE)
"""Codes as texts write them; laws are met by `TextReferences`."""
_PLAIN: Final = re.compile(
    r"(?:pre|post|mid)-?\d{4}|[12]h\d{2,4}|[1-4]q\d{2,4}|\d+(?:st|nd|rd|th|s|x|k|m|bn|kg|km|mm|cm|gb|mb|tb|ghz|mhz|kw|kwh|mw|am|pm|h|hrs?|min|sec|ml|mg|g|l|p|fps)"
    r"|v\d[\w.+-]*|\d+-(?:day|week|month|year|hour|minute|second|mile|km)s?|[qh][1-4]|\d+[-/]\w{3,}|fy\d+"
    r"|\d{4}-?q[1-4]|\d+-?ye?a?r-?old|\d[\d.,]*[a-z%]{1,2}",
    re.IGNORECASE,
)
_FORM: Final = re.compile(r"\d{1,2}-[A-Z]{1,2}")  # 10-K, 8-K: a form, not a number with a unit
_QUOTED: Final = re.compile(
    r"""[“"«„「『]([^“”"«»„」』\n]{2,60})[”"»“」』]|`([^`\n]{2,60})`|(?<!\w)'([^'\n]{2,60})'(?!\w)"""
)
_NUMBERED: Final = re.compile(r"[Nn]o\. (?=[A-Z]+-?\d)")
_POSSESSIVE: Final = re.compile(r"['’]s$")
_SAID: Final = re.compile(r"^(?:\S+\s+){2,}\S+[.?!]$|^[a-z]\S*(?:\s+[a-z]\S*){5,}$")
"""What somebody says or writes, of three words with a full stop or six in small letters, is no term."""
_TOKEN: Final = re.compile(r"[A-Z]{2,}(?=-[a-z]{3})|[^\W_](?:[\w&'’+.-]*[\w+])?")
_MODEL: Final = re.compile(r"\d{1,3}[a-z]?|(?!19|20)\d{1,4}-\d{1,4}|(?!19|20)\d{4}")  # the number of a model, no year
_UNITS: Final = frozenset("mL dL MPa GPa kPa Nm mAh Ah dB kN GHz MHz kHz Hz Pa Wh".split())
_LINKS: Final = frozenset("of de da di del della van der den von und la le les du dos y & the for al el".split())
_VERSUS: Final = frozenset(("v", "v.", "vs", "vs."))
_BODIES: Final = frozenset(
    """commission committee administration authority agency council executive board association department ministry
    institute office bureau act code convention service services society union fund foundation organization
    organisation academy museum school faculty college secretary regulations rules treaty protocol agreement
    company corporation group partners sons amendment""".split()
)
"""Last words of names that may hold an "and": Food and Drug Administration."""
_TREATIES: Final = frozenset("Treaty Convention Agreement Declaration Protocol Committee Council Conference".split())
"""First words of names that may hold "on" or "against": Convention on Biological Diversity."""
_POSSESSED: Final = frozenset("day eve award prize cup fund hospital college court church square".split())
"""Words that are one with a possessive before them, beside `_BODIES`: New Year's Eve."""
_LEGAL_FORMS: Final = frozenset("Inc Inc. Ltd LLC LLP LP Corp Co PLC plc GmbH SA AG NV".split())
_BOUND: Final = re.compile(r"\s(?:or|and)\s(?:later|newer|higher|above|up|earlier|older|lower|below)\b")
_LETTERED: Final = frozenset("Part Type Class Plan Schedule Group Series Form Title Exhibit Appendix Annex".split())
_ROMAN: Final = re.compile(r"[IVX]{1,4}")
_COUNTED: Final = frozenset("type phase step level page stage day week class grade tier group".split())
_STARTERS: Final = frozenset(
    """list give tell show explain describe compare name find summarize summarise define state please provide write
    identify calculate say discuss outline suggest help let get make use look check see tldr hi hello hey thanks ok okay
    yes no sure great well also actually however maybe okay whats who's what's recommended
    required maximum minimum average best top latest current attach return output print convert translate rewrite draft
    send create generate add remove starting""".split()
)
_NO_NAME: Final = frozenset(
    """i i'm i've i'd i'll ok pm am q1 q2 q3 q4 fy mr mrs ms dr monday tuesday wednesday thursday friday saturday sunday
    mondays tuesdays wednesdays thursdays fridays saturdays sundays
    january february march april may june july august september october november december jan feb mar apr jun jul aug
    sep sept oct nov dec faq asap tbd n/a tv dvd btw fyi omg lol imo imho iirc eta diy ethics ethic a b c d e f g h j k
    l m n o p q r s t u v w x y z""".split()
)
_TITLES: Final = frozenset(
    "ceo cfo cto coo president chairman chair director head minister secretary mayor king queen".split()
)
READ: Final = 5000  # characters of a question that are read for names
_SENTENCE: Final = re.compile(
    r"(?:[^.?!\n]|[.](?=\S)|(?<=\b[vV])\.|(?<=\.[A-Z])\.|(?<=\b(?:vs|No|St|Dr|Mt|Co|Jr|Sr))\.|(?<=\b(?:Inc|Ltd|etc|Mrs|Rev|Sec|Sch))\.)+"
)
_DOTTED: Final = re.compile(
    r"""(?<![\w./])(?:(?!e\.g|i\.e|a\.m|p\.m|a\.k\.a|n\.b)(?:[A-Za-z]\.){2,}[A-Za-z]?   # N.Y.P.D.
        |(?!N/A)[A-Z]{1,4}/[A-Z]{1,4})(?![\w/])                                         # P/E, TCP/IP""",
    re.VERBOSE,
)
_EPONYM: Final = re.compile(
    r"""[ ](?:disease|syndrome|treaty|convention|directive|protocol|statute|accords?)\b
    | ['’]s?[ ](?:disease|syndrome|law|theorem|test|sign|palsy|principle|paradox|lymphoma|equation|constant|razor)s?\b
    """,
    re.VERBOSE,
)
_SPECIES: Final = re.compile(
    r" (?!focus|status|campus|virus|bonus|census|basis|analysis|versus|plus)[a-z]{3,}(?:i|us|um|is|ae|ans|ens|oides)\b"
)
_GENUS: Final = re.compile(r"[A-Z][a-z]{2,}(?:er|us|a|um|is|es|as|ix)")
_BRAND: Final = re.compile(r"(?<![\w.'’-])([a-z][a-z-]{2,15})\s$")
_BRAND_REACH: Final = 18
_RANGE: Final = re.compile(r"(?:to|and|or)$")
_NO_PRODUCTS: Final = frozenset(
    """code error chapter page step room phase grade class tier track figure table build exercise unit lesson season
    episode row column port floor gate platform age aged game round edition form book volume verse channel route
    highway line house print offset dose cell flat seat ward band bay lane january february march april june
    july august september october november december""".split()
)
_FLAT_PRODUCT: Final = re.compile(
    r"""(?<![\w.'’-])(?P<name>[a-z][a-z-]{2,15})\s(?=\S*\d)(?P<model>[a-z]{0,3}\d{1,5}[a-z]{0,2}(?![\w-]|[.,:/]\d))
        (?P<more>(?:\s(?:pro|max|plus|ultra|mini|lite|air|se|xl|ti)\b)*)(?P<rest>\s(?P<next>[a-z]+))?""",
    re.VERBOSE,
)
_FOLLOWING: Final = re.compile(r" ([A-Z]\w*)")
_GERMAN: Final = frozenset("der das und ist nicht ein eine mit für auf wie wann welche wo wer ich".split())


@lru_cache(maxsize=1024)
def codes_in(text: str) -> tuple[tuple[int, int, str], ...]:
    """(start, end, why) of codes, model and form numbers, citations, identifiers and quoted terms."""
    return tuple(_codes(text))


def _codes(text: str) -> Iterator[tuple[int, int, str]]:
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 0
        if not _SAID.search(match.group(group)):
            yield match.start(group), match.end(group), "quoted"
    yield from _flat(text)
    for match in _ASKED.finditer(text):
        written = match.group()
        if _FORM.fullmatch(written) or not (_PLAIN.fullmatch(written) or unit_of(written)):
            start = match.start() + _lead(written)
            yield start, match.end(), "code"


def _lead(written: str) -> int:
    """Length of what begins a code and is the question's: "Does Housing Act 1988", "no. HX-2231"."""
    start = number.end() if (number := _NUMBERED.match(written)) else 0
    while (word := _TOKEN.match(written, start)) and written[word.end() : word.end() + 1] == " ":
        if word.group()[0].isdigit() or not (
            word.group().casefold() in _STARTERS or (word.group()[0].isupper() and not _carries(word.group()))
        ):
            break
        start = word.end() + 1
    return start


def _flat(text: str) -> Iterator[tuple[int, int, str]]:
    """Laws and products with their number in words without capitals: the theft act 1968, galaxy s22."""
    folded = text[:READ].casefold()
    if len(folded) != min(len(text), READ):
        return
    for start, end in _flat_laws(folded):
        if text[start].islower() or is_title(text):
            yield start, end, "code"
    if not any(map(str.isdigit, folded)) or not is_english_question(text):
        return
    for match in _FLAT_PRODUCT.finditer(folded):
        if (text.isupper() or text[match.start()].islower()) and _is_product(match):
            brand = _BRAND.search(folded, max(0, match.start() - _BRAND_REACH), match.start())
            is_branded = brand and not is_plain_word(brand.group(1)) and text[brand.start()].islower()
            yield brand.start() if brand and is_branded else match.start(), match.end("more"), "code"


def _is_product(match: re.Match[str]) -> bool:
    """Whether a word and a number are a product: the word names something, and the number counts nothing."""
    model, following = match.group("model"), match.group("next")
    if is_plain_word(match.group("name")) or match.group("name") in _NO_PRODUCTS or _PLAIN.fullmatch(model):
        return False
    if model.isdigit():
        counts = bool(following) and not match.group("more") and bool(_carries(following) or _RANGE.match(following))
        return len(model) <= 3 and not counts
    return not unit_of(model.lstrip("0123456789"))


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
                    yield start, _whole(text, start, end) if english else end, why
    for match in _DOTTED.finditer(text):
        yield *match.span(), "acronym"


def _whole(text: str, start: int, end: int) -> int:
    """The end of a name with the words in small letters that belong to it: Crohn's disease, Helicobacter pylori."""
    if match := _EPONYM.match(text, end):
        return match.end()
    if _GENUS.fullmatch(text, start, end) and (match := _SPECIES.match(text, end)):
        return match.end()
    return end


def _runs(text: str, tokens: list[re.Match[str]]) -> Iterator[tuple[int, int, str]]:
    """Words in a row that are one name; a code between them, or a possessive ("Pfizer's Comirnaty"), parts two."""
    run: list[re.Match[str]] = []
    codes = [(start, end) for start, end, why in codes_in(text) if why == "code"]
    for position, token in enumerate(tokens):
        if run and not _joined(text, run, token):
            yield from _run(run)
            run = []
        if any(start < token.end() and token.start() < end for start, end in codes):
            yield from _run(run)
            run = []
        elif (
            _may_name(text, token, begins=not run and _begins(text, token))
            or (run and _continues(run, token, tokens[position + 1 : position + 6]))
            or (not run and token.group() == "I" and _is_titled_i(text, tokens[position : position + 3]))
        ):
            run.append(token)
        elif run:
            yield from _run(run)
            run = []
    if run:
        yield from _run(run)


def _joined(text: str, run: list[re.Match[str]], token: re.Match[str]) -> bool:
    before = run[-1].group()
    gap = text[run[-1].end() : token.start()]
    if gap == ", ":
        return token.group() in _LEGAL_FORMS
    is_own = token.group() in _LINKS or token.group().casefold() in _BODIES | _POSSESSED
    possessive = before.endswith(("'s", "’s")) and not is_own
    if gap == ". ":
        return before.casefold() in _VERSUS or "." in before
    return gap in (" ", " & ") and not possessive


def _is_titled_i(text: str, tokens: list[re.Match[str]]) -> bool:
    """Whether "I" begins a name: two words with capitals follow ("I Fight Dragons")."""
    capitals = len(tokens) == 3 and all(_may_name(text, token, begins=False) for token in tokens[1:])
    return capitals and text[tokens[0].end() : tokens[1].start()] == " " == text[tokens[1].end() : tokens[2].start()]


def _continues(run: list[re.Match[str]], token: re.Match[str], following: list[re.Match[str]]) -> bool:
    """Whether a word in lower case or a number goes on with a name: Bank *of* America, Windows *11*."""
    word = token.group()
    behind = following[1:] if following and following[0].group() == "the" else following
    is_case = len(behind) > 1 and word in _VERSUS and behind[0].group() == "A" and _capital(behind[1])
    is_followed = bool(behind) and (_capital(behind[0]) or is_case)
    if word in _VERSUS:
        return is_followed
    if word == "and":
        is_title = run[0].group() == "The" and len(run) > 1  # The Old Man and the Sea
        return is_followed and (is_title or _is_body(run, following))
    if word in ("on", "against", "concerning"):
        return is_followed and (run[0].group() in _TREATIES or run[-1].group() in _TREATIES)
    if word in _LINKS:
        is_measure = len(run) == 1 and run[0].group().isupper()  # GDP of Germany, EBITDA of Acme
        return is_followed and not is_measure
    if any(unit_of(each.group()) for each in following[:1]) or token.string[token.end() : token.end() + 1] == "%":
        return False  # Ozempic 1 mg
    if word == "A" and run[-1].group() in _VERSUS:
        return is_followed  # Salomon v A Salomon & Co
    if _BOUND.match(token.string, token.end()):
        return False  # Postgres 14 or later
    if len(word) == 1 and word.isupper() and run[-1].group() in _LETTERED:
        return True
    is_roman = bool(_ROMAN.fullmatch(word)) and (word != "I" or len(run) > 1)
    return is_roman or bool(_MODEL.fullmatch(word))


def _is_body(run: list[re.Match[str]], following: list[re.Match[str]]) -> bool:
    """Whether "and" stands within a name: Securities and Exchange Commission."""
    capitals: list[re.Match[str]] = []
    for token in following:
        if not _capital(token) or (capitals and token.string[capitals[-1].end() : token.start()] != " "):
            break
        capitals.append(token)
    ends_so = bool(capitals) and capitals[-1].group().casefold() in _BODIES
    starts_so = len(run) > 2 and run[0].group().casefold() in _BODIES and run[1].group() in ("of", "for")
    is_law = ends_so and capitals[-1].group() in ("Act", "Code", "Convention")
    return starts_so or is_law or (ends_so and len(run) <= 2 and len(capitals) == 2)


def _run(run: list[re.Match[str]]) -> Iterator[tuple[int, int, str]]:
    while run and run[-1].group() in _LINKS:
        run.pop()
    while run and (run[0].group().casefold() in _TITLES or run[0].group() in _LINKS):
        run = run[1:]
    if len(run) == 2 and run[0].group().casefold() in _COUNTED and run[1].group().isdigit():
        return  # Type 2 diabetes
    if run and not (len(run) == 1 and _is_common(run[0].group())):
        last = run[-1].group()
        end = run[-1].end() - (2 if last.endswith(("'s", "’s")) else 0)
        yield run[0].start(), end, "acronym" if len(run) == 1 and last.isupper() else "name"


def _is_no_name(word: str) -> bool:
    return word.casefold() in _NO_NAME and word != "APR"


def _is_common(word: str) -> bool:
    return _is_no_name(word.rstrip(".")) or not (word.isupper() or _carries(word))


@lru_cache(maxsize=1024)
def is_title(text: str) -> bool:
    """Whether capitals tell no names in `text`, since it is a title or shouting."""
    return _capitals_tell(list(_TOKEN.finditer(text))) is False


def _capitals_tell(tokens: list[re.Match[str]]) -> bool | None:
    """Whether capitals tell names: not in a title or in shouting; None, of acronyms alone, where every noun has one."""
    words = [token.group() for token in tokens if token.group()[0].isalpha()]
    capital = sum(word[0].isupper() for word in words)
    if len(words) > 3 and (capital > 0.8 * len(words) or sum(map(str.isupper, words)) > 0.6 * len(words)):
        return False
    if len(words) > 3 and _is_titled(words):
        return False
    german = any(word.casefold() in _GERMAN for word in words) and not is_english_question(" ".join(words))
    return None if german else True


@lru_cache(maxsize=16384)
def _carries(word: str) -> bool:
    """Whether a word carries meaning."""
    return bool(content_words(word))


def _is_titled(words: list[str]) -> bool:
    """Whether all words that carry meaning have capitals, and so has one behind the first that carries none."""
    plain = [word for word in words[1:] if word not in ("I", "The", "A") and not _carries(word)]
    return any(word[0].isupper() and word[1:].islower() for word in plain) and all(
        word[0].isupper() for word in words if _carries(word)
    )


def _capital(token: re.Match[str]) -> bool:
    word = token.group()
    return word[0].isupper() or any(map(str.isupper, word[1:]))


def _begins(text: str, token: re.Match[str]) -> bool:
    before = text[: token.start()].rstrip(" \t\"'“(*-")
    return not before or before[-1] in ".?!:;\n" or text[token.start() - 1] in "\"'“"


def _may_name(text: str, token: re.Match[str], *, begins: bool) -> bool:
    word = token.group()
    if not _capital(token) or _is_no_name(word) or _PLAIN.fullmatch(word):
        return False
    if word in _UNITS or (any(map(str.isupper, word[1:])) and unit_of(word)) or text[: token.start()].endswith("°"):
        return False
    if not begins or any(map(str.isupper, word[1:])):
        return not (begins and word.casefold() in _STARTERS)
    if word.casefold().replace("’", "'") in _STARTERS or word[1:2] in ("'", "’"):
        return False
    if not _carries(_POSSESSIVE.sub("", word)):
        return False  # "It's"
    if word.endswith("ly"):
        return False  # "Recently BRICS": an adverb that begins a sentence
    following = _FOLLOWING.match(text, token.end())
    return word.endswith(("'s", "’s")) or (following is not None and _carries(following.group(1)))
