"""Extraction: the facets of a question when the host names none: times, places, versions, quantities, names, codes.

Times that are relative to the request's clock ("last year", "in the past six months", "vor zwei Wochen", "YTD") are
read in English, and in other languages by the phrases of dateparser's data (Unicode CLDR). What the calendar calls a
year, quarter, month or week is taken whole: last year is 1 January to 31 December. What stands in brackets behind a
name ("zidovudine (AZT)") names the same thing, and either way meets it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, TypeAlias

from ragtrace.coverage.facets._entities import codes_in, is_law, is_provision, is_title, names_in
from ragtrace.coverage.facets._places import is_adjective, is_language, place_of, places_in
from ragtrace.coverage.facets._terms import is_plain_word, key_terms as terms_in
from ragtrace.coverage.text import content_words, is_english_question
from ragtrace.coverage.values import DateRange, values
from ragtrace.coverage.values.dates import LANGUAGES, MONTHS, locale_data
from ragtrace.coverage.values.quantities import amounts_in
from ragtrace.coverage.values.versions import constraint_of, constraints_in
from ragtrace.types import Facet, FacetKind, replace

__all__ = [
    "ReadEntities",
    "extract_facets",
    "key_terms",
    "resolve_times",
]

ReadEntities: TypeAlias = Callable[[str], Iterable[tuple[int, int, str]]]
"""Takes a text, gives (start, end, label) of its entities, such as `ragtrace.engines.spacy_pipelines.EntityReader`."""

MOST: Final = 32  # facets of one question; a text with more is no question
READ: Final = 20_000  # characters of a question that are read
WEIGHTS: Final = {"relative time": 0.5, "quantity": 0.25}  # others weigh 1

_BEHIND_NAME: Final = re.compile(
    r"""\s(?:versions?\s+)?(?=(?:(?:between|from|before|prior\s+to|since|after|until|below|above|up\s+to|(?:older|newer|later)\s+than)\s+)?
        v?\d)""",
    re.IGNORECASE | re.VERBOSE,
)
_NO_VERSION: Final = re.compile(r"[\w%]|\.\d|\s?[%$€£]")
_LATER: Final = ("+", "or later", "or newer")  # said of versions, as "or above" is of levels and classes too
_VERSION_REACH: Final = 60  # characters behind a name that are read for its version
_PLACES: Final = frozenset(("GPE", "LOC", "NORP"))
_NO_NAMES: Final = frozenset("DATE TIME PERCENT MONEY QUANTITY ORDINAL CARDINAL LANGUAGE".split())
_ARTICLE: Final = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)
_GOVERNED: Final = re.compile(
    r"""(?:(?P<own>Constitution|Parliament|(?:Supreme|High)\s+Court|Ministry|Laws?)
        |Government|Republic|State|Commonwealth|Kingdom|President|Prime\s+Minister)\s+of\s+(?:the\s+)?""",
    re.VERBOSE,
)
_WHERE: Final = re.compile(r",?\s(?:of|in|under|to)\s(?:the\s)?|,?\sthe\s")
_DATED: Final = re.compile(
    r"(?:Act|Regulations?|Order|Rules|Code|Ordinance|Law),?\s(?:of\s)?(?:1[6-9]|20)\d\d$", re.IGNORECASE
)
_CAMEL: Final = re.compile(r"[a-z]{1,3}[A-Z]\w+(?:\s\d+)?")  # iPad, macOS 14
_MODEL: Final = re.compile(r"(?!\d{1,2}-[A-Z]{1,2}$)[A-Za-z]{0,4}[-/]?\d+[A-Za-z]{0,3}(?:-?\d+[A-Za-z]{0,2})?")
_SUFFIX: Final = re.compile(r"(?:\s(?:Pro|Max|Plus|Ultra|Mini|Lite|Air|Ti|Super|XL|SE|FE|Touch|I{2,3}|IV))+\b")
_OWN: Final = re.compile(
    r"""\b(?:Express|Airlines?|Airways|Railways|Telecom|Petroleum|Steel|Gas|Museum|Library|Broadcasting|Corporation
        |Association|Society|Academy|Institute|University|College|Council|Open|Cup|League|Cross|Legion|Revolution
        |Empire|Journal|Standards?|Bank|Motors|Shepherd|Eagle|Dream|Graffiti|Idol|Gothic|Wall|Act|Code)$""",
    re.VERBOSE,
)
"""Last words of names that begin with a demonym and are one with it: American Express."""
_BEFORE_NUMBER: Final = re.compile(r"(?<![\w.'’-])[a-z][a-z0-9+#-]{1,20}(?=\sv?\d+\.\d)")
_FISCAL: Final = re.compile(r"\b(?:fiscal|financial|calendar)\s$", re.IGNORECASE)
_FISCAL_REACH: Final = 10
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_BARE_PERIOD: Final = re.compile(
    r"(?<![\w-])(?P<unit>[QH])(?P<number>[1-4])(?![\w-]|\s(?:tags?|visas?|head\w+|19|20|FY))"
)
_REDACTED: Final = re.compile(r"\[[A-Z][A-Z0-9_-]*\]")  # what redaction put in the place of a text
_ANY_DAY: Final = date(2000, 1, 1)
_NO_CLOCK: Final = "no clock"
Span = tuple[int, int]


def extract_facets(
    question: str, *, today: date | None = None, entities: ReadEntities | None = None
) -> tuple[Facet, ...]:
    """Facets of `question` in order of appearance, with `source="query"`, span, weight and why each was read.

    today: the request's clock, without which "last year" is no facet. entities: a model that reads names; what it
    overlooks is still read by capitals. Each stretch of the question gives one facet at most.
    """
    text = _REDACTED.sub(lambda match: " " * len(match[0]), question[:READ])
    found: list[Facet] = [] if today else _without_clock(text)
    read = [
        _codes(text), _times(text, today), _versions(text), _places(text),
        _entities(text, entities) if entities else (), _names(text), _quantities(text),
    ]  # fmt: skip
    for facets in read:
        for facet in facets:
            if not any(_overlaps(facet, other) for other in found):
                found.append(facet)
    kept = [facet for facet in _distinct(found) if facet.why != _NO_CLOCK]
    ordered = sorted(kept, key=lambda facet: facet.start or 0)
    return tuple(_with_long_forms(_joined(ordered, text), text)[:MOST])


def key_terms(question: str, facets: Sequence[Facet]) -> tuple[Facet, ...]:
    """Weak facets of `question`: key terms in small letters where `facets`, read from it, are not."""
    return terms_in(question, facets, any_case=is_title(question[:READ]))


def _joined(facets: Sequence[Facet], text: str) -> list[Facet]:
    """`facets`, in order; a provision with the law that it is of as one, and a product with its model's code."""
    joined: list[Facet] = []
    for facet in facets:
        before = joined[-1] if joined else None
        if before and before.kind == facet.kind == "entity" and _belongs(before, facet, text):
            suffix = _SUFFIX.match(text, facet.end or 0)
            span = before.start or 0, suffix.end() if suffix and facet.why == "code" else facet.end or 0
            is_product = facet.why == "code" and before.why in ("name", "acronym") and not is_provision(facet.value)
            joined[-1] = replace(_facet("entity", text, span, ""), why="product" if is_product else before.why)
        elif not (before and (facet.end or 0) <= (before.end or 0)):
            joined.append(facet)
    return joined


def _belongs(one: Facet, other: Facet, text: str) -> bool:
    gap = text[one.end : other.start]
    if is_provision(one.value):
        return bool(_WHERE.fullmatch(gap) or (gap in (" ", ", ") and is_law(other.value)))
    if is_provision(other.value):
        return gap in (" ", ", ") and bool(_DATED.search(one.value))
    if gap != " ":
        return False
    if one.why in ("name", "acronym"):
        return other.why == "code" and bool(_MODEL.fullmatch(other.value))
    is_product = one.why == "product" or bool(_CAMEL.fullmatch(one.value))
    return is_product and other.why == "name"


def _without_clock(text: str) -> list[Facet]:
    """Relative times that cannot be resolved: kept from being read as amounts ("3 weeks ago")."""
    found = _relative_times(text, _ANY_DAY)
    return [_facet("time", text, (each.start, each.end), _NO_CLOCK) for each in found]


def resolve_times(facets: Sequence[Facet], today: date | None) -> tuple[Facet, ...]:
    """`facets` with the days of relative times ("last year") as aliases: matching needs no clock then."""
    return tuple(_resolved(facet, today) if today and facet.kind == "time" else facet for facet in facets)


def _resolved(facet: Facet, today: date) -> Facet:
    found = _relative_times(facet.value, today)
    return replace(facet, aliases=(*facet.aliases, *(_written(each.dates) for each in found))) if found else facet


def _written(dates: DateRange) -> str:
    return f"{dates.first.isoformat()}/{dates.last.isoformat()}"


def _codes(text: str) -> Iterator[Facet]:
    for start, end, why in codes_in(text):
        yield _facet("entity", text, (start, end), why)


def _times(text: str, today: date | None) -> Iterator[Facet]:
    for each in _relative_times(text, today) if today else ():
        facet = _facet("time", text, (each.start, each.end), "relative time")
        yield replace(facet, aliases=(_written(each.dates),))
    for value in values(text):
        if value.kind == "date":
            lead = _FISCAL.search(text, max(0, value.start - _FISCAL_REACH), value.start)
            start = lead.start() if lead else value.start
            facet = _facet("time", text, (start, value.end), "time bound" if value.bounds else "date")
            yield replace(facet, aliases=_titles(text, facet)) if _YEAR.fullmatch(facet.value) else facet
    for match in _BARE_PERIOD.finditer(text):
        if match.group("unit") == "Q" or match.group("number") in "12":
            ordinal = ("first", "second", "third", "fourth")[int(match.group("number")) - 1]
            spelled = f"{ordinal} {'quarter' if match.group('unit') == 'Q' else 'half'}"
            yield replace(_facet("time", text, match.span(), "period without a year"), aliases=(spelled,))


def _titles(text: str, year: Facet) -> tuple[str, ...]:
    """A year with the name directly before it, of which it may be a part: "Annual Report 2023"."""
    start, end = year.start or 0, year.end or 0
    name = next((span for span in names_in(text) if span[1] == start - 1 and text[start - 1] == " "), None)
    return (text[name[0] : end],) if name else ()


def _versions(text: str) -> Iterator[Facet]:
    for found in constraints_in(text):
        why = "version" if found.allowed is None else "version constraint"
        yield _facet("version", text, (found.start, found.end), why)
    if any(map(str.isdigit, text)) and is_english_question(text):
        for word in _BEFORE_NUMBER.finditer(text):
            if not is_plain_word(word.group()):
                for version in _version_behind(text, word.end() + 1):
                    yield _facet("entity", text, word.span(), "name before a version")
                    yield version
    for _, end, _ in (*names_in(text), *codes_in(text)):
        if match := _BEHIND_NAME.match(text, end):
            yield from _version_behind(text, match.end())


def _version_behind(text: str, start: int) -> Iterator[Facet]:
    """A version directly behind a name: with a point, or as a bound ("Android 12+", "Postgres 14 or later")."""
    found = constraint_of(text[start : start + _VERSION_REACH])
    if found is None or found.start:
        return
    end = start + found.end
    plain = "." not in text[start:end] and not text[start:end].casefold().endswith(_LATER)
    if not (plain or _NO_VERSION.match(text, end) or _unit_behind(text, end)):
        yield _facet("version", text, (start, end), "number behind a name" if found.exact else "version constraint")


def _unit_behind(text: str, end: int) -> bool:
    return any(value.kind == "quantity" and value.start < end < value.end for value in values(text))


def _places(text: str) -> Iterator[Facet]:
    names = names_in(text)
    for start, end, _ in places_in(text):
        name = next((span for span in names if span[0] <= start and end <= span[1]), None)
        if is_language(text, start, end):
            yield _facet("entity", text, (start, end), "language")
        elif name is None or _stands_alone(text, name[:2], (start, end)):
            yield _facet("jurisdiction", text, (start, end), "place")


def _stands_alone(text: str, name: Span, place: Span) -> bool:
    """Whether a place is all of a name or says where the rest of it belongs ("Irish Home", "Constitution of Kenya")."""
    before, behind = text[name[0] : place[0]], text[place[1] : name[1]]
    if not before.strip():
        return not behind.strip() or (is_adjective(text[slice(*place)]) and not _OWN.search(text, *name))
    return not behind.strip() and bool(_GOVERNED.fullmatch(before))


def _entities(text: str, entities: ReadEntities) -> Iterator[Facet]:
    """What a model names, without an article; a place where the gazetteer knows it, no dates and amounts."""
    for start, end, label in entities(text):
        if label not in _NO_NAMES:
            article = _ARTICLE.match(text, start, end)
            start = article.end() if article else start
            kind: FacetKind = "jurisdiction" if label in _PLACES and place_of(text[start:end]) else "entity"
            yield _facet(kind, text, (start, end), f"named entity ({label})")


def _names(text: str) -> Iterator[Facet]:
    """Names, without a place or demonym that stands before them ("Irish Home Plus") or says of what they are."""
    places = {start: end for start, end, _ in places_in(text)}
    for start, end, why in names_in(text):
        behind = places.get(start)
        if (
            behind is not None
            and behind < end
            and is_adjective(text[start:behind])
            and not _OWN.search(text, start, end)
        ):
            start = behind + len(text[behind:end]) - len(text[behind:end].lstrip())
        head = _GOVERNED.match(text, start, end)
        if head and places.get(head.end()) == end:
            end = head.end("own") if head.group("own") else start
        if start < end:
            yield _facet("entity", text, (start, end), why)


def _quantities(text: str) -> Iterator[Facet]:
    for span in amounts_in(text):
        yield _facet("quantity", text, span, "quantity")


def _facet(kind: FacetKind, text: str, span: Span, why: str) -> Facet:
    return Facet(kind=kind, value=text[slice(*span)], weight=WEIGHTS.get(why, 1.0), source="query",
                 start=span[0], end=span[1], why=why)  # fmt: skip


def _overlaps(one: Facet, other: Facet) -> bool:
    return (one.start or 0) < (other.end or 0) and (other.start or 0) < (one.end or 0)


def _distinct(facets: Sequence[Facet]) -> list[Facet]:
    """Of facets of one kind and value the first: what is asked twice weighs no more."""
    first: dict[tuple[str, str], Facet] = {}
    for facet in facets:
        first.setdefault((facet.kind, facet.value.casefold()), facet)
    return list(first.values())


_UNIT: Final = r"(?P<unit>day|week|month|quarter|year|decade)s?"
_NAMES: Final = r"day|week|month|quarter|year|decade"
_PERIODS: Final = r"(?<!last\ )(?<!next\ )day|week|month|quarter|year|decade"  # "on the last day" is of something else
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS: Final = {word: number for number, word in enumerate(
    "a one two three four five six seven eight nine ten eleven twelve".split())}  # fmt: skip
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)}|couple\s+of|few)"
_RELATIVE: Final = re.compile(
    rf"""\b(?:
      (?P<day>(?:the\s+)?day\s+before\s+yesterday|yesterday|today|tomorrow)
    | (?P<todate>(?P<since>year|quarter|month)[\s-]to[\s-]date|[yqm]td|so\s+far\s+this\s+(?P<far>year|quarter|month))
    | (?P<span>(?:(?:in|over|during|for|within)\s+)?(?:the\s+)?
        (?P<way>last|past|previous|prior|preceding|trailing|next|coming)
        \s+{_COUNT}\s+(?:fiscal\s+|calendar\s+|financial\s+|full\s+)?{_UNIT})
    | (?P<rolling>(?:in|over|during|for|within)\s+the\s+(?:last|past|previous)\s+(?P<whole>{_NAMES}))
    | (?P<period>(?P<which>this|last|previous|prior|preceding|next|coming|current|past)
        \s+(?:fiscal\s+|calendar\s+|financial\s+)?(?P<one>{_PERIODS}|weekend))
    | (?P<month>(?P<near>this|last|past|next|coming)\s+(?P<name>{"|".join(MONTHS)}|{"|".join(_WEEKDAYS)})\b
        (?!\.?\s+\d))
    | (?P<ago>(?P<number>\d{{1,3}}|{"|".join(_NUMBERS)})
        \s+(?P<of>{_NAMES})s?\s+(?:ago|earlier))
    )\b(?!-)""",
    re.IGNORECASE | re.VERBOSE,
)
_TO_DATE: Final = {"y": "year", "q": "quarter", "m": "month"}
_DAYS: Final = {"yesterday": 1, "today": 0, "tomorrow": -1}
_LEAD: Final = re.compile(
    r"""\b(?P<bound>since|before|prior\s+to|until|till|by|up\s+to|no\s+later\s+than|after)\s+(?:the\s+)?
        (?:(?:start|beginning|end)\s+of\s+)?$""",
    re.IGNORECASE | re.VERBOSE,
)
_TIME_REACH: Final = 32
_KEY: Final = re.compile(r"(?:in )?(\d+) (day|week|month|year)(?: ago)?")


@dataclass(frozen=True, slots=True)
class _RelativeTime:
    """The phrase `text[start:end]` and the days that it means."""

    start: int
    end: int
    dates: DateRange


def _relative_times(text: str, today: date) -> list[_RelativeTime]:
    """The times that `text` names relative to `today`, in order."""
    found = _english(text, today) if is_english_question(text) else _foreign(text, today)
    return [_RelativeTime(start, end, dates) for start, end, dates in found if dates]


def _english(text: str, today: date) -> Iterator[tuple[int, int, DateRange | None]]:
    for match in _RELATIVE.finditer(text):
        dates = _guarded(match, today)
        lead = _LEAD.search(text[max(0, match.start() - _TIME_REACH) : match.start()])
        if dates and lead:
            yield match.start() - len(lead.group()), match.end(), _bounded(lead.group("bound").casefold(), dates)
        else:
            yield match.start(), match.end(), dates


def _bounded(bound: str, dates: DateRange) -> DateRange:
    """What "since last year" or "before last month" delimits."""
    if bound == "since":
        return DateRange(dates.first, date.max)
    if bound == "after":
        return DateRange(dates.last + timedelta(days=1), date.max)
    if bound.startswith(("before", "prior")):
        return DateRange(date.min, dates.first - timedelta(days=1))
    return DateRange(date.min, dates.last)


def _guarded(match: re.Match[str], today: date) -> DateRange | None:
    try:
        return _dates(match, today)
    except (OverflowError, ValueError):
        return None  # ninety decades before a year that has no such predecessor


def _dates(match: re.Match[str], today: date) -> DateRange:
    if day := match.group("day"):
        shift = timedelta(days=_DAYS.get(day.casefold(), 2))
        return DateRange(today - shift, today - shift)
    if to_date := match.group("todate"):
        since = match.group("since") or match.group("far") or _TO_DATE[to_date[0].casefold()]
        return DateRange(_period(since.casefold(), 0, today).first, today)
    if match.group("rolling"):
        return DateRange(_shifted(today, match.group("whole").casefold(), -1), today)
    if match.group("month"):
        return _named(match.group("name").casefold(), match.group("near").casefold(), today)
    if match.group("span"):
        return _span(match.group("way").casefold(), _count(match.group("count")), match.group("unit").casefold(), today)
    if match.group("ago"):
        return _period(match.group("of").casefold(), -_count(match.group("number")), today)
    return _period(match.group("one").casefold(), _shift(match.group("which")), today)


def _shift(which: str) -> int:
    return {"this": 0, "current": 0, "next": 1, "coming": 1}.get(which.casefold(), -1)


def _named(name: str, near: str, today: date) -> DateRange:
    """The month or weekday of that name: this year's or week's, or the nearest one before or behind the current one."""
    if name in _WEEKDAYS:
        ahead = _WEEKDAYS.index(name) - today.weekday()
        days = ahead if near == "this" else (ahead - 1) % 7 + 1 if _shift(near) > 0 else -((-ahead - 1) % 7 + 1)
        day = today + timedelta(days=days)
        return DateRange(day, day)
    ahead = MONTHS[name] - today.month
    months = ahead if near == "this" else (ahead - 1) % 12 + 1 if _shift(near) > 0 else -((-ahead - 1) % 12 + 1)
    return _period("month", months, today)


def _span(way: str, count: int, unit: str, today: date) -> DateRange:
    if way in ("next", "coming"):
        return DateRange(today, _shifted(today, unit, count))
    return DateRange(_shifted(today, unit, -count), today)


def _count(written: str) -> int:
    name = written.casefold()
    if name.isdecimal():
        return int(name)
    return 2 if name.startswith("couple") else 3 if name == "few" else max(1, _NUMBERS[name])


def _period(unit: str, shift: int, today: date) -> DateRange:
    """The calendar's `unit` that is `shift` of them after today's."""
    if unit == "day":
        day = today + timedelta(days=shift)
        return DateRange(day, day)
    if unit == "week":
        first = today - timedelta(days=today.weekday()) + timedelta(weeks=shift)
        return DateRange(first, first + timedelta(days=6))
    if unit == "weekend":
        week = _period("week", shift, today)
        return DateRange(week.last - timedelta(days=1), week.last)
    months = {"month": 1, "quarter": 3, "year": 12, "decade": 120}[unit]
    whole = (today.year * 12 + today.month - 1) // months + shift
    first, after = _month(whole * months), _month((whole + 1) * months)
    return DateRange(first, after - timedelta(days=1))


def _month(months: int) -> date:
    return date(months // 12, months % 12 + 1, 1)


def _shifted(day: date, unit: str, count: int) -> date:
    if unit in ("day", "week"):
        return day + timedelta(days=count * (7 if unit == "week" else 1))
    months = {"month": 1, "quarter": 3, "year": 12, "decade": 120}[unit]
    first = _month(day.year * 12 + day.month - 1 + count * months)
    last = (_month(first.year * 12 + first.month) - timedelta(days=1)).day
    return first.replace(day=min(day.day, last))


def _foreign(text: str, today: date) -> Iterator[tuple[int, int, DateRange | None]]:
    folded = text.casefold()
    if len(folded) != len(text):
        return  # a letter that folds to two would shift the spans
    taken: list[tuple[int, int]] = []
    for pattern, key in _phrases():
        for match in pattern.finditer(folded):
            if any(start < match.end() and match.start() < end for start, end in taken):
                continue
            meaning = _KEY.fullmatch(key.replace("\\1", match.group(1)) if "\\1" in key else key)
            if meaning:
                taken.append(match.span())
                count = int(meaning.group(1)) * (1 if key.startswith("in ") else -1)
                yield match.start(), match.end(), _calendar(meaning.group(2), count, today)


def _calendar(unit: str, count: int, today: date) -> DateRange | None:
    try:
        return _period(unit, count, today)
    except (OverflowError, ValueError):
        return None


@lru_cache(maxsize=1)
def _phrases() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Phrases of `LANGUAGES` with what they mean in English ("1 year ago"); the longest go first."""
    written: dict[str, str] = {}
    for language in LANGUAGES:
        data = locale_data(language)
        for key, phrases in data.get("relative-type", {}).items():
            written |= {
                re.escape(phrase): key for phrase in phrases if len(phrase) > 3 and re.escape(phrase) not in written
            }
        for key, patterns in data.get("relative-type-regex", {}).items():
            written |= {pattern.replace(r"[.,]?\d*+", ""): key for pattern in patterns}
    kept = [(phrase, key) for phrase, key in written.items() if re.search(r"day|week|month|year", key)]
    ordered = sorted(kept, key=lambda each: len(each[0]), reverse=True)
    return tuple((re.compile(rf"(?<!\w){phrase}(?!\w)"), key) for phrase, key in ordered)


_WORDS_BEFORE: Final = re.compile(r"(?:[\w'’/-]+\s+){0,7}[\w'’/-]+(?=\s*\()")


def _with_long_forms(facets: Sequence[Facet], text: str) -> list[Facet]:
    """`facets`, in order, those in brackets united with what stands before.

    They become an alias of the facet before them, or take the words before them as aliases where these are no facet.
    """
    united: list[Facet] = []
    for facet in facets:
        if not _in_brackets(facet, text):
            united.append(facet)
        elif united and _stands_before(united[-1], facet, text):
            united[-1] = replace(united[-1], aliases=(*united[-1].aliases, facet.value))
        else:
            united.append(replace(facet, aliases=_long_forms(facet, text)))
    return united


def _in_brackets(facet: Facet, text: str) -> bool:
    start, end = facet.start or 0, facet.end or 0
    return facet.kind == "entity" and text[start - 1 : start] == "(" and text[end : end + 1] == ")"


def _stands_before(one: Facet, facet: Facet, text: str) -> bool:
    return one.kind == "entity" and text[one.end : facet.start].strip() == "("


def _long_forms(facet: Facet, text: str) -> tuple[str, ...]:
    """The words before the brackets whose initials it has, else the last of them."""
    letters = [char.casefold() for char in facet.value if char.isalpha()]
    start = facet.start or 0
    match = _WORDS_BEFORE.search(text, max(0, start - 80), start)
    words = match.group().split() if match else []
    spelled = words[-len(letters) :]
    if len(spelled) > 1 and [word[0].casefold() for word in spelled] == letters:
        return (" ".join(spelled),)
    return tuple(word for word in words[-1:] if len(word) > 3 and content_words(word))
