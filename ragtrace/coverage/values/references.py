"""Numbers that are part of a name and say how much of nothing: "section 26 (2)", "Act 2015", "ISO 27001:2022"."""

from __future__ import annotations

import re
from typing import Final

from ragtrace.coverage.values.model import Value

__all__ = ["head_of", "is_reference"]

_REACH: Final = 40  # characters before a number in which the word stands that it belongs to
_PARTS: Final = r"""sub-?section|section|sect?\.|article|art\.|sub-?clause|clause|chapter|ch\.|sub-?paragraph|paragraph
    |para\.?|page|pp?\.|part|table|figure|fig\.|annex|appendix|schedule|exhibit|rule|item|foot-?note|note|line|row|column|step
    |phase|regulation|recital|title|form|question|option|example|slide|entry|module|unit"""
_NAMED: Final = r"""act|regulations?|rules|order|code|bill|ordinance|directive|decision|treaty|convention|statute
    |standard|constitution|handbook|edition|rfc|iso|iec|ieee|din|en|bs|ansi|nist|cve|pub\.?|publication|bulletin|circular|notice
    |policy|volume|vol\.|issue|no\.|nos\.|number"""
_HEAD: Final = re.compile(
    rf"""(?:\b(?P<head>{_PARTS}|{_NAMED})s?\.?(?:\s+\((?:EU|EC|EEC)\))?(?:\s+(?:no\.?|number|nos\.))?
        (?:\s+(?:\d+(?:[.:]\d+)*[a-z]?(?:\s?\(\w{{1,3}}\))*\s*(?:,|and|or|to|–|-)\s*){{1,3}})?\s+[§#]?
        |(?P<sign>§+)\s?)$""",
    re.IGNORECASE | re.VERBOSE,
)
_BRACKET: Final = re.compile(r"[\w)]\s?\($")
_STANDARD: Final = re.compile(r"\b[A-Z]{2,6}[ -]\d[\d./-]*[:-]$")


def is_reference(text: str, value: Value) -> bool:
    """Whether a value of `text` is the number of a section, page or list item, or the year or number in a name."""
    return head_of(text, value) is not None


def head_of(text: str, value: Value) -> str | None:
    """The word that such a number belongs to, in small letters ("section"); "" for one in brackets; else None."""
    if value.kind == "quantity" or value.bounds or not text[value.start : value.start + 1].isdigit():
        return None
    lead = text[max(0, value.start - _REACH) : value.start]
    if match := _HEAD.search(lead):
        return (match["head"] or "section").casefold().rstrip(".")
    if _BRACKET.search(lead) and text[value.end : value.end + 1] == ")" and value.end - value.start <= 2:
        return ""
    return "" if _STANDARD.search(lead) else None
