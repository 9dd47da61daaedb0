"""What a question cites: laws and their provisions, court cases, standards, tickets; read from it and met in texts.

"section 26(1) of the Limitation Act 1980" is one reference of three parts: a provision, a title and a year.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

__all__ = ["CITED", "STANDARD", "Reference", "TextReferences", "flat_laws", "is_law", "is_provision", "reference_of"]

_YEAR: Final = r"(?:1[6-9]|20)\d\d"
_NUMBER: Final = r"\d+(?:[./-]?\w++)*+(?:\s?\(\w{1,5}\))*"
_HEADS: Final = "Act|Regulations?|Order|Rules|Code|Ordinance|Directive|Law|Decree|Convention|Treaty|Statute|Protocol"
_ORDINAL: Final = (
    r"(?i:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|thirteenth|fourteenth"
    r"|\d{1,2}(?:st|nd|rd|th))"
)
CITED: Final = rf"""
      (?i:sections?|subsections?|articles?|clauses?|rules?|regulations?|directive|annex|schedule|chapter|paragraphs?
        |appendix|recitals?|artículo|artikel|articolo|artigo)\s+[A-Z]?{_NUMBER}
    | (?:Parts?|Titles?|Items?|Form)\s+[A-Z]{{0,2}}-?{_NUMBER}
    | (?:(?i:ss?|arts?|sec|sch|reg|para)\.|Art|Sec|Sch|Para|Reg)\s?{_NUMBER}
    | (?:(?i:article|section|annex|schedule|chapter|appendix)|Part|Title)\s+[IVXLC]+(?![\w'’])(?:\(\w{{1,5}}\))*
    | (?<=\d\d\d\d\s)ss?\s?{_NUMBER}
    | §§?\s?\d+\w*(?:[.-]\d+\w*)*(?:\(\w{{1,5}}\))*
    | {_ORDINAL}(?:\s(?:and|or|&)\s{_ORDINAL})?\s[Aa]mendments?
    | (?:Regulation|Directive|Decision)\s+\((?:EU|EC|EEC)\)\s+(?:No\.?\s+)?\d{{1,4}}/\d{{1,4}}
    | (?:[A-Z][\w&'’-]*,?\s(?:\([^()\n]{{2,60}}\)\s)?(?:(?:of|and|for|at|in|on|to|by|&|etc\.?)\s(?:the\s)?)*){{1,10}}
        (?:{_HEADS}),?\s(?:of\s)?{_YEAR}
"""
"""Alternatives of a verbose pattern: provisions, laws with a year."""
STANDARD: Final = rf"""
      (?:ISO(?:/[A-Z]{{2,4}})*|iso|IEC|IEEE|ieee|EN|BS|DIN|ASTM|ANSI|NFPA|SAE|ITU-T|FIPS|ETSI|JIS|NIST|PEP|RFC|rfc|IFRS
        |IAS|ASC|MIL-STD|[Nn]o\.|H\.?R\.?)
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


def flat_laws(folded: str) -> Iterator[tuple[int, int]]:
    """Laws in a text without capitals: what stands between "the" and "act", with a year behind it or not."""
    for match in _FLAT_LAW.finditer(folded):
        lead = _FLAT_LEAD.search(folded, max(0, match.start() - _FLAT_REACH), match.start())
        if lead:
            title = _LAST_THE.match(lead.group(1))
            start = lead.start(1) + (title.end() if title else 0)
            if start < match.start() and not _CLAUSE.search(folded, start, match.start()):
                yield start, match.end()
