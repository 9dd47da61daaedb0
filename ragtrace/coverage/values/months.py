"""Names of months: English ones, and those of other languages as dateparser's data (Unicode CLDR) has them."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, Final

__all__ = ["LANGUAGES", "MONTHS", "foreign_months", "locale_data"]

LANGUAGES: Final = tuple("de fr es it pt nl pl sv da nb fi cs ro tr ru uk el ar he hi".split())
_ENGLISH: Final = (
    "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
    "september sep sept", "october oct", "november nov", "december dec",
)  # fmt: skip
MONTHS: Final = {name: number for number, names in enumerate(_ENGLISH, start=1) for name in names.split()}
"""English names and abbreviations, in lower case, with their numbers."""


def locale_data(language: str) -> dict[str, Any]:
    """dateparser's data of one language: names of months, and phrases such as "last year" by their meaning."""
    found: dict[str, Any] = import_module(f"dateparser.data.date_translation_data.{language}").info
    return found


@lru_cache(maxsize=1)
def foreign_months() -> dict[str, int]:
    """The months' names in `LANGUAGES`, in lower case; an English name, or the first language's, goes first."""
    found = dict(MONTHS)
    for language in LANGUAGES:
        data = locale_data(language)
        for name, number in MONTHS.items():
            for written in data.get(name, ()):
                folded = written.casefold().rstrip(".")
                if len(folded) >= 3:
                    found.setdefault(folded, number)
    return found
