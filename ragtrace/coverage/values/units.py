"""Units as they are written, and their conversion by pint, which is loaded on first use and asked once per unit."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

__all__ = ["CODES", "CURRENCIES", "base", "unit_of"]

CURRENCIES: Final = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "₽": "RUB", "₺": "TRY"}
CODES: Final = frozenset(
    """EUR USD GBP CHF JPY CAD AUD NZD SEK NOK DKK PLN CZK HUF RON INR CNY SGD HKD KRW BRL MXN ZAR TRY RUB ILS AED
    THB""".split()
)
_CURRENCY_WORDS: Final = {"euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "pound": "GBP",
                          "pounds": "GBP", "franc": "CHF", "francs": "CHF", "yen": "JPY", "rupee": "INR",
                          "rupees": "INR"}  # fmt: skip
_COUNTED: Final = frozenset(
    "points employees users seats tokens bits pages people persons items ppm ppb rpm db iu".split()
)
_PINT: Final = {
    "second": "second", "sec": "second", "minute": "minute", "min": "minute", "hour": "hour", "hr": "hour",
    "day": "day", "week": "week", "month": "month", "year": "year", "yr": "year", "ms": "millisecond",
    "decade": "decade",
    "km": "kilometer", "kilometer": "kilometer", "kilometre": "kilometer", "m": "meter", "meter": "meter",
    "metre": "meter", "cm": "centimeter", "mm": "millimeter", "nm": "nanometer", "µm": "micrometer", "mile": "mile",
    "mi": "mile", "foot": "foot", "feet": "foot", "ft": "foot", "inch": "inch", "inches": "inch", "yard": "yard",
    "kg": "kilogram", "kilogram": "kilogram", "g": "gram", "gram": "gram", "mg": "milligram", "µg": "microgram",
    "mcg": "microgram", "tonne": "metric_ton", "ton": "metric_ton", "lb": "pound", "lbs": "pound",
    "pound_mass": "pound", "ounce": "ounce", "oz": "ounce", "l": "liter", "liter": "liter", "litre": "liter",
    "ml": "milliliter", "gallon": "gallon", "kw": "kilowatt", "kwh": "kilowatt_hour", "mw": "megawatt",
    "mwh": "megawatt_hour", "gw": "gigawatt", "watt": "watt", "w": "watt",
    "volt": "volt", "kv": "kilovolt", "byte": "byte",
    "kb": "kilobyte", "mb": "megabyte", "gb": "gigabyte", "tb": "terabyte", "kib": "kibibyte", "mib": "mebibyte",
    "gib": "gibibyte", "tib": "tebibyte", "mbps": "megabit / second", "gbps": "gigabit / second",
    "mph": "mile / hour", "km/h": "kilometer / hour", "kmh": "kilometer / hour", "hz": "hertz", "khz": "kilohertz",
    "mhz": "megahertz", "ghz": "gigahertz", "celsius": "degC", "°c": "degC", "fahrenheit": "degF", "°f": "degF",
    "kelvin": "kelvin", "acre": "acre", "hectare": "hectare", "sqm": "meter ** 2", "m²": "meter ** 2",
    "km²": "kilometer ** 2", "bar": "bar", "psi": "psi", "kpa": "kilopascal", "mmhg": "mmHg", "calorie": "calorie",
    "kcal": "kilocalorie", "kj": "kilojoule", "joule": "joule", "mg/dl": "milligram / deciliter", "degree": "degree",
    "mg/l": "milligram / liter", "mmol/l": "millimole / liter", "ml/min": "milliliter / minute",
    "l/min": "liter / minute", "ml/h": "milliliter / hour", "l/h": "liter / hour", "mpa": "megapascal",
    "gpa": "gigapascal", "mah": "milliampere_hour", "ah": "ampere_hour",
}  # fmt: skip
_FIRST: Final = {meant: name for name, meant in reversed(_PINT.items())}


@lru_cache(maxsize=4096)
def unit_of(written: str) -> str:
    """The unit that a word names, each under one name ("mins" is `minute`): `%`, a currency's code; "" for none."""
    name = written.casefold().replace("μ", "µ")
    if name in ("%", "percent", "cent", "percentage"):
        return "%"
    if name in CURRENCIES:
        return CURRENCIES[name]
    if written in CODES:
        return written
    if name in _CURRENCY_WORDS:
        return _CURRENCY_WORDS[name]
    if name in _COUNTED:
        return name.removesuffix("s")
    singular = name[:-1] if len(name) > 2 and name.endswith("s") else name
    meant = _PINT.get(name) or _PINT.get(singular)
    return _FIRST[meant] if meant else ""


@lru_cache(maxsize=1024)
def base(unit: str) -> tuple[str, float, float]:
    """(dimension, scale, offset) of a unit: amount x scale + offset is in base units.

    What pint does not convert is a dimension of its own: currencies, percentages, counted things.
    """
    written = _PINT.get(unit)
    if written is None:
        return unit, 1.0, 0.0
    registry = _registry()
    zero = registry.Quantity(0.0, written).to_base_units()
    one = registry.Quantity(1.0, written).to_base_units()
    offset = float(zero.magnitude)
    return str(zero.dimensionality), float(one.magnitude) - offset, offset


@lru_cache(maxsize=1)
def _registry() -> Any:
    import pint

    return pint.UnitRegistry()
