"""Countries and their first-level divisions by name, code and common alias (gazetteer: pycountry)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["place_code", "places_in"]

_ALIASES: Final = {
    "us": "US", "uk": "GB",
    "great britain": "GB", "britain": "GB", "england": "GB-ENG", "scotland": "GB-SCT", "wales": "GB-WLS",
    "northern ireland": "GB-NIR", "usa": "US", "u.s.": "US", "u.s.a.": "US", "america": "US", "eu": "EU",
    "european union": "EU", "uae": "AE", "holland": "NL", "south korea": "KR", "czech republic": "CZ", "russia": "RU",
}  # fmt: skip
_DEMONYMS: Final = {
    "irish": "IE", "german": "DE", "french": "FR", "spanish": "ES", "italian": "IT", "dutch": "NL", "belgian": "BE",
    "austrian": "AT", "swiss": "CH", "british": "GB", "american": "US", "canadian": "CA", "australian": "AU",
    "japanese": "JP", "indian": "IN", "polish": "PL", "portuguese": "PT", "swedish": "SE", "danish": "DK",
    "norwegian": "NO", "finnish": "FI", "scottish": "GB-SCT", "welsh": "GB-WLS", "english": "GB-ENG",
}  # fmt: skip
_AMBIGUOUS: Final = frozenset({"english", "polish"})  # words of other meanings: only as a declared facet, never found


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    import pycountry

    names: dict[str, str] = {}
    for division in pycountry.subdivisions:
        if division.country_code in ("US", "CA", "AU", "DE"):
            names[division.name.casefold()] = division.code
    for country in pycountry.countries:
        for attribute in ("name", "common_name", "official_name"):
            if value := getattr(country, attribute, None):
                names[value.casefold()] = country.alpha_2
    return names | _ALIASES | _DEMONYMS


@lru_cache(maxsize=1)
def _codes() -> dict[str, str]:
    import pycountry

    codes = {country.alpha_2: country.alpha_2 for country in pycountry.countries}
    codes |= {country.alpha_3: country.alpha_2 for country in pycountry.countries}
    return codes | {division.code: division.code for division in pycountry.subdivisions} | {"UK": "GB", "EU": "EU"}


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    names = sorted((name for name in _names() if name not in _AMBIGUOUS), key=len, reverse=True)
    return re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, names)) + r")(?!\w)", re.IGNORECASE)


@lru_cache(maxsize=4096)
def place_code(name: str) -> str | None:
    """ISO 3166 code of a place's name, alias, demonym or code; None for an unknown place."""
    folded = name.strip().casefold()
    if folded in _names():
        return _names()[folded]
    return _codes().get(name.strip().upper())


@lru_cache(maxsize=16384)
def places_in(text: str) -> tuple[tuple[int, int, str], ...]:
    """(start, end, ISO code) of the places that `text` names; lower-case words are no country ("turkey", "us")."""
    found = []
    for match in _pattern().finditer(text):
        name = match.group()
        if name.isupper() if len(name) <= 3 else name[0].isupper():
            found.append((match.start(), match.end(), _names()[match.group().casefold()]))
    return tuple(found)
