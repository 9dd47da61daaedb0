"""Figures (numbers) of an answer: stated by the evidence, stated on the scale of a heading, or computed from others.

A figure is computed where one operation on two figures gives it within the rounding that it shows, or an expression
that the claim writes out ("3 × 40"). The operation must be one that the claim or the question names ("difference", "per
cent", "total"), unless both figures stand in them. Figures of the evidence count only from the rows and sentences that
have most of the words of claim and question, two of them only from one row or one column, and units must fit. So a
random figure is hardly ever taken for computed (`bench/figures.py`).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from itertools import chain, combinations, groupby, islice, permutations, product
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeAlias

from ragtrace.coverage.support._durations import (
    Durations,
    clocks_in,
    is_day_of_month,
    months_through,
    tells_from_its_day,
)
from ragtrace.coverage.support._sums import GROUPED, TERM, written_sums
from ragtrace.coverage.support.readings import Reading, SentenceWindow
from ragtrace.coverage.text import cached_property, content_stems
from ragtrace.coverage.values import NUMBER_WORDS, Figure, Value, counted, says, values
from ragtrace.coverage.values.value import CODES, DEGREES, NO_AMOUNT, base

__all__ = ["Figures", "Origin", "is_day_of_month"]

Origin: TypeAlias = Literal["stated", "computed", "unproven", "unknown"]

MOST: Final = 16  # figures named by answer and question, and figures of the evidence, that are combined
ROWS: Final = 6  # rows of the evidence that are taken to speak of what a claim speaks of
BARE: Final = 1  # words beside a figure of a claim that says nothing of how the figure came about
BY_CHANCE: Final = 3  # digits of a figure that two named ones hardly give by chance, as their sum or difference
CLAUSE: Final = 60  # characters before a figure that say what it is of, in a claim that tells of several
SPECIFIC: Final = 4  # digits of a figure that hardly comes about by chance, so that no word need name the operation
NEAR: Final = 0.5  # share of the words of the best row that such a row has
KEPT: Final = 64  # texts whose rows are kept
_OPERATIONS: Final = {
    "sum": r"""total | altogether | combined | together | sum | in\s+all | overall | plus | and\s+another |
        add\w* | until | made\s+up\s+of""",
    "difference": r"""differ\w* | minus | more | less | fewer | higher | lower | longer | shorter | later |
        earlier | cheaper | dearer | smaller | larger | bigger | warmer | colder | cooler | hotter | heavier | lighter
        | taller | deeper | wider | narrower | faster | slower | older | younger | stronger | weaker | closer | nearer
        | farther | further | better | worse | by\s+(?:about|around|roughly|some|almost|nearly)?\s*\d | above | below
        | ahead | behind | increas\w* |
        decreas\w* | declin\w* | grew | grow\w* | rose | risen | rises? | rising | fell | fallen |
        falls? | drop\w* | changed? | (?:up|down|be|come)\s+by | went\s+(?:up|down|by) | leaves? | left | remain\w* |
        sav(?:e|es|ed|ing|ings) | gap | exceed\w* | gain\w* | los(?:t|s|e|es|ing) | reduc\w* | cut | rest | not
        | ago | time | deduct\w* | discount\w* | get\w*\s+back | late""",
    "product": r"""times | multipl\w+ | each | per | every | twice | half | doubl\w* | tripl\w* | \w*fold |
        annual\w* | monthly | yearly | daily | makes? | comes?\s+to | works\s+out | amounts?\s+to | equals? |
        altogether | total | in\s+all | corresponds? | use[sd]? | needs? | pay | costs? | \d\s?(?:\w+\s)?an?(?=\s\w)""",
    "ratio": r"""ratio | (?:two|three|four|five|seven|nine)[\s-](?:third|quarter|fifth|sixth|eighth|tenth)s
        | one\s+in\s+(?:two|three|four) | divid\w* | per | each | every | averaged?s? | mean | times | twice | half
        | halv\w* | doubl\w* | tripl\w* | (?:an?|one|two|three)[\s-](?:third|quarter)s? | split | monthly | yearly |
        annual\w* | weekly | daily | \w*fold | quotient | makes?""",
    "mean": r"averaged?s? | mean | midpoint | halfway",
    "share": r"""shares? | proportion\w* | fraction | out\s+of | of | makes?\s+up | made\s+up | represent\w*
        | correspond\w* | account\w* | availability""",
    "growth": r"""increas\w* | decreas\w* | declin\w* | grew | grow\w* | rose | risen | rises? | rising |
        fell | fallen | falls? | drop\w* | chang\w* | up | down | higher | lower | more | less | fewer | gain\w*
        | reduc\w* | cut | jump\w* | shrank | shr[iu]nk | by | discount\w* | deduct\w* | off | rebate | surcharge
        | without""",
}
_CUES: Final = {
    name: re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE | re.VERBOSE) for name, words in _OPERATIONS.items()
}
_SAYS_SO: Final = re.compile(
    r"=|\bi\.e\.|\bthat\s+is\b|\bthat['’]s\b|\bso\b|\bhence\b|\bthus\b|\btherefore\b", re.IGNORECASE
)
_LEADS: Final = re.compile(r"\W*(?:[A-Z]{3}\s)?\d[\d.,]*(?:\s[a-z]+)?:\s")  # "£89: £64 for a boat, and £25"
_COMPUTES: Final = re.compile(  # so clearly that such a figure is no invention, but one that cannot be checked
    r"""[=×÷]|\b(?:total|altogether|combined|together|sum|in\s+all|differ\w*|minus|averaged?s?|ratio|divided|multipl\w+|sav(?:e|es|ed|ing)
    |left\s+over|i\.e\.|comes?\s+to|works\s+out|amounts?\s+to|(?:increase|decrease|rise|fall|drop|growth)\s+of|(?:grew|rose|fell|up|down
    |more|less|shr[au]nk|increased|decreased|dropped|declined|differs?)\s+by|times\s+as|out\s+of)\b|\d\s?(?:%|per\s?cent)\s+(?:of|more|less|higher|lower)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_ROUNDS: Final = re.compile(
    r"\b(?:about|around|roughly|nearly|almost|approximately|approx|some|circa|just\s+(?:over|under)|over|under|up\s+to|close\s+to"
    r"|more\s+than|less\s+than|good)\b|[~≈]",
    re.IGNORECASE,
)
_PLAIN: Final = frozenset(("sum", "difference", "product", "ratio", "growth"))
_CONSTANTS: Final = (
    (r"\bhalf\b|\bhalv|\btwice\b|\bdoubl|\btwofold|\bin\s+two\b", (2.0,)),
    (r"\bthird|\btripl|\bthreefold|\bin\s+three\b", (3.0,)), (r"\bquarter|\bin\s+four\b", (4.0,)),
    (r"\bmonth", (12.0, 30.0)), (r"\bweek", (7.0, 52.0)), (r"\bday|\bdaily", (7.0, 30.0, 365.0, 24.0)),
    (r"\byear|\bannual|\bannum", (12.0, 52.0, 365.0)), (r"\bhour", (24.0, 60.0)), (r"\bminute", (60.0,)),
)  # fmt: skip
_SIMPLE: Final = frozenset(("sum", "difference", "share", "growth"))
_SHARES: Final = frozenset(("share", "growth"))
COMBINED: Final = 80  # figures of evidence and question that any figure may follow from
NAME: Final = 16  # characters before a number in which the name stands that it is a part of
_NAME_BEFORE: Final = re.compile(r"(?<![^\W_])[^\W\d_]{2,}-$")
_PARTS_OF_ONE: Final = frozenset((2.0, 3.0, 4.0))  # a half, a third, a quarter
_LARGER: Final = {"g": 1000.0, "ml": 1000.0, "m": 1000.0, "kg": 1000.0, "cm": 100.0, "minute": 60.0}
"""How many of a unit make the one by which prices and rates are told."""
_FRACTION_WORDS: Final = re.compile(
    r"\b(two|three|four|five|six|seven|eight|nine)[\s-](thirds|quarters|fifths|sixths|sevenths|eighths|ninths|tenths)\b",
    re.IGNORECASE,
)
_PARTS_OF: Final = ("thirds", "quarters", "fifths", "sixths", "sevenths", "eighths", "ninths", "tenths")
_FRACTIONS: Final = {"half": 0.5, "third": 1 / 3, "quarter": 0.25, "fifth": 0.2, "tenth": 0.1}
_SCALES: Final = (1e3, 1e6, 1e9)
_SCALED: Final = re.compile(r"(?:hundred|thousand|k|million|m|mn|billion|bn|trillion)\b|000$", re.IGNORECASE)
_FRACTION: Final = re.compile(r"[.,](\d+)(?!.*\d[.,])")
_DIGITS: Final = re.compile(r"\D")
_BREAK: Final = re.compile(r"[,.;:!?]|\band\b", re.IGNORECASE)
_PENCE: Final = re.compile(r"\b(?:pence|pennies|cents?|ct)\b|\bp\s?(?:/|per\b)|\d\s?p\b", re.IGNORECASE)
_CENTS: Final = re.compile(r"\s?(?:pence|pennies|cents?|ct|p)\b", re.IGNORECASE)
_PARTS: Final = {
    50: r"half|halves|halv\w+",
    25: r"quarter",
    75: r"three[\s-]quarters",
    33: r"third",
    67: r"two[\s-]thirds",
    20: r"(?<!two[\s-])(?<!three[\s-])(?<!four[\s-])fifth",
    10: r"(?<!three[\s-])(?<!nine[\s-])tenth",
}
"""Shares in words, in per cent."""
_EXACT: Final = 1e-6
_PERCENT: Final = frozenset(("%", "percentage point"))
_TWICE: Final = re.compile(r"\b(?:twice|two|both|double)\b", re.IGNORECASE)


class _Operand(NamedTuple):
    """A figure to compute with. row, column: where it stands in the evidence; -1: answer or question name it."""

    number: float
    unit: str
    row: tuple[int, int] = (-1, -1)
    column: int = -1

    @property
    def is_named(self) -> bool:
        return self.row[0] < 0

    def is_beside(self, other: _Operand) -> bool:
        """Whether both stand in one row of the evidence, or in one column of one part of it."""
        return self.row == other.row or (self.row[0] == other.row[0] and self.column == other.column)


class _Wording(NamedTuple):
    """What a claim says, with its question, of how its figures came about.

    own, rest: the figures that claim and question name, and the further ones of the answer. cues: the operations that
    are named; told: those, and plain ones where the claim says that something follows. constants: numbers that words
    name. expressions: what sums that the answer writes out come to.
    """

    cues: frozenset[str]
    told: frozenset[str]
    own: tuple[_Operand, ...]
    rest: tuple[_Operand, ...]
    constants: frozenset[float]
    expressions: tuple[float, ...]
    is_rough: bool
    computes: bool


class Figures:
    """The figures of some evidence, ready to be asked where a figure of an answer comes from.

    parts: of the evidence; asked: the question.
    """

    def __init__(self, parts: Sequence[Reading | SentenceWindow], asked: str = "") -> None:
        self._parts = parts
        self._asked = asked
        self._near: dict[str, list[_Operand]] = {}
        self._combined_in: dict[str, list[float]] = {}  # unit → what figures combined come to, in order

    @cached_property
    def _durations(self) -> Durations:
        return Durations(self._parts, self._asked)

    @cached_property
    def _exact(self) -> Sequence[float]:
        return _joined(_exact_of(part) for part in self._parts)

    def _says(self, words: str) -> bool:
        return any(re.search(rf"\b(?:{words})\b", part.text, re.IGNORECASE) for part in self._parts)

    @cached_property
    def _has_pence(self) -> bool:
        """Whether the evidence has amounts in hundredths of a currency: "24.88 p per kWh", "40 cents"."""
        return any(_PENCE.search(part.text) for part in self._parts)

    @cached_property
    def _figures(self) -> list[tuple[int, Figure]]:
        return [(number, figure) for number, part in enumerate(self._parts) for figure in part.figures]

    @cached_property
    def _scaled(self) -> list[float]:
        """What the figures mean: on the scale of a heading; of one without a scale that is known, on any."""
        found = []
        for _, figure in self._figures:
            number = abs(figure.value.number)
            found += [abs(figure.meant.number)] if figure.meant else []
            if not figure.meant and not figure.value.unit and not _SCALED.search(figure.value.raw):
                found += [number * scale for scale in _SCALES]
        return sorted(found)

    @cached_property
    def _unscaled(self) -> Sequence[float]:
        """What figures with a scale of their own are in a table that has the scale in its heading."""
        return _joined(_meant_by(part).unscaled for part in self._parts)

    @cached_property
    def _per_cent(self) -> Sequence[float]:
        """Shares of one as per cent."""
        return _joined(_meant_by(part).per_cent for part in self._parts)

    @cached_property
    def _of_one(self) -> Sequence[float]:
        """Per cent as shares of one, and `_unscaled`: what a figure without a unit may be."""
        return _joined(_meant_by(part).of_one for part in self._parts)

    def _counts_alike(self, value: Value) -> bool:
        """Whether the evidence has the number of a value with its unit or with none, or with one of another dimension,
        which may be misread: six months do not state six days."""
        if not value.unit:
            return True
        slack = _EXACT * max(1.0, abs(value.number))
        units = {
            other.unit
            for part in self._parts
            for other in part.values
            if abs(abs(other.number) - abs(value.number)) <= slack and _is_figure(other)
        }
        return any(unit == value.unit or not _is_other_unit(value.unit, unit) for unit in units)

    def _stands_otherwise(self, value: Value) -> bool:
        """Whether the evidence has a number of several digits with other units of its dimension alone: 49 days are no
        49 weeks, whatever operation happens to give these."""
        several = len(_DIGITS.sub("", value.raw).strip("0")) > 1
        return several and _has(self._exact, abs(value.number)) and not self._counts_alike(value)

    @cached_property
    def _years(self) -> frozenset[int]:
        """The years of the dates that the evidence has."""
        dates = [value.dates for part in self._parts for value in part.values if value.dates]
        return frozenset(day.year for each in dates for day in (each.first, each.last))

    def states(self, value: Value) -> bool:
        """Whether the evidence has the figure: as it is, on the scale of its heading, or as a share of one hundred.

        A figure of one digit is taken as it is.
        """
        number = abs(value.number)
        if _has(self._exact, number) and self._counts_alike(value):
            return True
        if not value.unit and len(value.raw) == 4 and number in self._years:
            return True
        if value.unit == "%" and (words := _PARTS.get(round(number))) and self._says(words):
            return True
        if len(_DIGITS.sub("", value.raw).strip("0")) < 2:
            return _SCALED.search(value.raw) is not None and _has(self._scaled, number)
        if _SCALED.search(value.raw):
            return _has(self._scaled, number)
        known = self._per_cent if value.unit == "%" else () if value.unit else self._of_one
        return _has(known, number) or (value.unit in CODES and _has(self._unscaled, number))

    def gives_date(self, value: Value, claim: str, answer: str = "") -> bool:
        """Whether a date follows from another one and a length of time (see `Durations`)."""
        return self._durations.gives_date(value, claim, answer)

    def origin(self, value: Value, claim: str, answer: str = "") -> Origin:
        """Where a figure of a claim comes from. Dates and versions are not asked here.

        Args:
            claim: the text of the claim; one that says hardly more than the figure ("£600.") is read with the answer.
            answer: that of the whole answer, which may compute with other figures and in other sentences.

        Returns: `stated` (see `states`), `computed` within the rounding that is shown, `unproven` where the claim says
            that it computes and no operation gives the figure (an operand may stand nowhere), or `unknown`.
        """
        if value.kind == "clock":
            return self._origin_of_time(value, claim, answer)
        if self.states(value) or self._names(value, claim):
            return "stated"
        if _is_of_calendar(value):
            return "computed"
        if self._stands_otherwise(value):
            return "unknown"
        if _CENTS.match(claim, value.end) and _has(self._exact, abs(value.number) / 100):
            return "computed"  # 40 cents of EUR 0.40
        if answer and len(content_stems(claim)) <= BARE:
            claim = answer
        wording = _wording(claim, self._asked, answer or claim)
        has_pence = value.unit in CODES and self._has_pence
        if has_pence:
            wording = wording._replace(cues=wording.cues | {"pence"}, told=wording.told | {"pence"})
        slack = max(_rounding(value, is_rough=wording.is_rough), _EXACT * max(1.0, abs(value.number)))
        parts = (1.0, 0.01) if has_pence else (1.0,)
        results = self._results(value, claim, wording)
        if any(abs(part * number - abs(value.number)) <= slack for number in results for part in parts):
            return "computed"
        if self._durations.gives_length(value, claim, answer, slack) or self.gives_date(value, claim, answer):
            return "computed"
        return "unproven" if wording.computes else "unknown"

    def _names(self, value: Value, claim: str) -> bool:
        """Whether a figure is a part of a name that the evidence writes, with or without its hyphen: SHA-256."""
        name = _NAME_BEFORE.search(claim, max(0, value.start - NAME), value.start)
        written = f"{name[0]}{value.raw}".replace("-", "").casefold() if name else ""
        return bool(written) and any(written in part.text.replace("-", "").casefold() for part in self._parts)

    def may_give(self, value: Value, claim: str) -> bool:
        """Whether a figure or date of unknown origin may be reckoned all the same, so that it proves no invention.

        A figure may where a sum, difference or share of two figures of one part of the evidence and the question gives
        it, or as many as the question names at a price, whether or not a word says so; a date where another one is so
        long before or after it, or where the evidence tells days as they lie from the day on which it was written
        ("last Tuesday"). That does not show that it is right: a small number comes about by chance. It is suspected,
        not proven.
        """
        if value.dates or is_day_of_month(value, claim):
            return self._tells_from_its_day or self._durations.may_give_date(value)
        if value.kind in NO_AMOUNT:
            return False
        if self._durations.may_give_length(value):
            return True
        if value.unit not in self._combined_in:
            self._combined_in[value.unit] = sorted(self._combinations(value.unit))
        return _has(self._combined_in[value.unit], abs(value.number), _rounding(value, is_rough=True))

    @cached_property
    def _tells_from_its_day(self) -> bool:
        return any(tells_from_its_day(part.text) for part in self._parts)

    def _combinations(self, unit: str) -> Iterator[float]:
        """What simple arithmetic makes of the figures of each part of the evidence and those of the question."""
        asked = list(_operands(values(self._asked)))[:MOST]
        for part, figures in groupby(self._figures, key=itemgetter(0)):
            known = dict.fromkeys(asked)
            for _, figure in figures:
                known |= dict.fromkeys(_operands([figure.value, figure.meant or figure.value]))
            operands, text = list(known)[:COMBINED], self._parts[part].text
            shares = [share for word, share in _FRACTIONS.items() if re.search(rf"\b{word[:3]}", text, re.IGNORECASE)]
            numbers = [number for one in operands if (number := _in(unit, one)) is not None]
            yield from (
                number * each for number in numbers for share in shares for each in (share, 1 - share, 1 + share)
            )
            for one, two in combinations(operands, 2):
                yield from _combined(unit, one, two, _SIMPLE if {one.unit, two.unit} <= {unit, ""} else _SHARES)
            for one, two in product(asked, operands):
                yield from _products(unit, one, two)

    def _origin_of_time(self, value: Value, claim: str, answer: str) -> Origin:
        """The same of a time of the day: one that is so long before or after another one is computed."""
        known = self._clocks
        if any(says(value, other) for other in known):
            return "stated"
        wording = _wording(claim, self._asked, answer or claim)
        named = clocks_in(values(f"{self._asked} {answer or claim}"))
        operands = [*wording.own, *wording.rest, *self._given(f"{self._asked} {claim}")]
        spans = {span for one in operands if one.unit and (span := _in("minute", one))}
        for other in [*known, *named][:MOST]:
            if any(says(value, other._replace(number=other.number + span)) for one in spans for span in (one, -one)):
                return "computed"
        return "unproven" if wording.computes else "unknown"

    @cached_property
    def _clocks(self) -> list[Value]:
        return [value for part in self._parts for value in clocks_in(part.values)]

    def _results(self, value: Value, claim: str, wording: _Wording, *, is_operand: bool = False) -> Iterator[float]:
        """What could be computed that `value` could stand for, in its unit. is_operand: whether it is only asked if
        another one may be computed with it."""
        yield from wording.expressions
        text, cues, told = f"{self._asked} {claim}", wording.cues, wording.told
        if _is_specific(value):
            cues, told = cues | _PLAIN, told | _PLAIN
        own = _others(wording.own, value)
        given = list(dict.fromkeys([*self._given(text), *self._given(_clause(claim, value))]))
        if wording.is_rough or len(_DIGITS.sub("", value.raw)) > 1:
            yield from (number for one in given if (number := _in(value.unit, one)) is not None)
        rest = [one for one in _others(wording.rest, value) if one not in own]
        if not is_operand:
            made_up = self._made_up([*own, *rest], value, claim, wording)
            own, rest = [one for one in own if one not in made_up], [one for one in rest if one not in made_up]
        if len(_DIGITS.sub("", value.raw)) < 2:  # of the evidence, what counts the same: "nine missing months" of 24
            given = [one for one in given if value.unit and one.unit == value.unit]
            cues &= {"difference"}
        asked = self._numbers_asked
        exact = {"sum", "difference"} if len(_DIGITS.sub("", value.raw).strip("0")) >= BY_CHANCE else frozenset()
        for one, two in combinations([*own, *rest, *given], 2):
            if one.is_named and two.is_named:
                is_asked = one.number in asked or two.number in asked  # an answer's own sum proves none of its terms
                yield from _combined(value.unit, one, two, told | exact if is_asked else told)
            elif one.is_named or two.is_named:
                yield from _combined(value.unit, one, two, cues)
            elif one.is_beside(two):
                yield from _combined(value.unit, one, two, wording.cues)
        yield from _several(value.unit, own, told, text)
        yield from _in_proportion(value.unit, own, given)
        if (
            len(_DIGITS.sub("", value.raw)) >= SPECIFIC and "product" in told
        ):  # 25 users at 34 dollars a month, in a year
            yield from (number * each for one, two in combinations(own[:6], 2) for each in wording.constants
                        for number in _products(value.unit, one, two))  # fmt: skip
        yield from self._counted(value.unit, text, has_pence="pence" in cues)
        yield from self._totals(value.unit, given, wording.cues)
        if not value.unit and 0 < abs(value.number) < 2:  # the factor of a share: 1.19 for 19 %
            yield from (1 + sign * figure.value.number / 100 for _, figure in self._figures for sign in (1, -1)
                        if figure.value.unit == "%")  # fmt: skip
        yield from _times(value.unit, [*own, *given], wording)
        yield from self._parts_told(value.unit, given)
        yield from self._durations.between_clocks(value.unit, text)

    @cached_property
    def _numbers_asked(self) -> frozenset[float]:
        return frozenset(abs(number.number) for number in values(self._asked)) if self._asked else frozenset()

    def _made_up(self, named: Sequence[_Operand], value: Value, claim: str, wording: _Wording) -> Set[_Operand]:
        """Of the figures that claim and answer name, those that the answer made up together with a value: of "by five
        days: 24, a queen only 19" neither the five nor the 19 is proven by the other and the 24 that is known."""
        number = abs(value.number)
        known = {one for one in named if one.number in self._numbers_asked or self._knows(one.number)}
        closing = {abs(one.number + sign * number) for one in known for sign in (1, -1)}
        suspects = {one for one in named if one not in known and one.number in closing}
        if not suspects:
            return suspects
        others = wording._replace(
            own=tuple(one for one in wording.own if one.number != number),
            rest=tuple(one for one in wording.rest if one.number != number),
        )
        return {one for one in suspects if not self._follows(one, value, claim, others)}

    def _knows(self, number: float) -> bool:
        return any(_has(each, number) for each in (self._exact, self._scaled, self._unscaled, self._of_one))

    def _follows(self, one: _Operand, value: Value, claim: str, wording: _Wording) -> bool:
        """Whether an operand is computed from others than a value."""
        meant = value._replace(raw=f"{one.number:g}", number=one.number, unit=one.unit)
        slack = _EXACT * max(1.0, one.number)
        results = self._results(meant, claim, wording, is_operand=True)
        return any(abs(number - one.number) <= slack for number in results) or self._durations.gives_length(
            meant, claim, claim, slack
        )

    def _parts_told(self, unit: str, given: Sequence[_Operand]) -> Iterator[float]:
        """What the evidence tells as a part of a figure beside it: 800 where a third of 2,400 died, and the rest."""
        rows = {operand.row for operand in given}
        for part, figure in self._figures:
            if (part, figure.row) not in rows:
                continue
            number = _in(unit, _Operand(abs((figure.meant or figure.value).number), figure.value.unit))
            shares = [share for word, share in _FRACTIONS.items() if word in figure.words]
            if number is not None and number >= 10:
                yield from (number * each for share in shares for each in (share, 1 - share))

    def _given(self, text: str) -> list[_Operand]:
        """The figures of those rows of the evidence that have most of the words of claim and question."""
        if text not in self._near:
            if len(self._near) >= KEPT:
                self._near.clear()
            self._near[text] = self._nearest(text)
        return self._near[text]

    def _nearest(self, text: str) -> list[_Operand]:
        words = content_stems(text)
        named = {(value.number, value.unit) for value in values(text) if value.unit and value.dates is None}
        rows: dict[tuple[int, int], list[_Operand]] = {}
        known: dict[tuple[int, int], set[str]] = {}
        again: set[tuple[int, int]] = set()
        for number, figure in self._figures:
            row = number, figure.row
            known.setdefault(row, set()).update(words & figure.words)
            meanings = [figure.meant or figure.value]
            if figure.column < 0 and figure.meant:  # a sentence below a table need not be on its scale
                meanings.append(figure.value)
            for meant in meanings:
                rows.setdefault(row, []).append(_Operand(abs(meant.number), meant.unit, row, figure.column))
            if (figure.value.number, figure.value.unit) in named:
                again.add(row)
        counts = Counter(word for each in known.values() for word in each)
        shared = {row: math.fsum(math.log1p(len(rows) / counts[word]) for word in each) for row, each in known.items()}
        best = max(shared.values(), default=0.0)
        near = sorted((row for row in rows if shared[row] and shared[row] >= NEAR * best), key=lambda row: -shared[row])
        near = [*near[:ROWS], *sorted(again.difference(near[:ROWS]), key=lambda row: -shared[row])]
        return [operand for row in near[:ROWS] for operand in rows[row]][:MOST]

    def _counted(self, unit: str, text: str, *, has_pence: bool) -> Iterator[float]:
        """What so many of a thing come to, whose price stands in a row that names the thing: 3 pallets at 15 euros."""
        if unit not in CODES:
            return
        counts = {(value.number, noun) for value in values(text) if (noun := counted(text, value))}
        priced: list[tuple[float, str]] = []
        for _, figure in self._figures:
            if figure.value.unit == unit or (has_pence and not figure.value.unit):
                priced += [(number * figure.value.number, noun) for number, noun in counts if noun in figure.words]
        yield from (number for number, _ in priced)
        yield from (one + two for (one, of), (two, other) in combinations(priced[:MOST], 2) if of != other)

    def _totals(self, unit: str, given: Sequence[_Operand], cues: Set[str]) -> Iterator[float]:
        """The totals and means of a row, and of a column, of the evidence."""
        if not cues & {"sum", "mean"}:
            return
        groups: dict[tuple[object, ...], list[float]] = {}
        for part, figure in self._figures:  # of all rows of a table, whichever speak of the matter
            if figure.column >= 0 and "sum" in cues:
                groups.setdefault(("whole", part, figure.column), []).append(abs((figure.meant or figure.value).number))
        for operand in given:
            if (number := _in(unit, operand)) is not None:
                groups.setdefault(("row", operand.row), []).append(number)
                if operand.column >= 0:
                    groups.setdefault(("column", operand.row[0], operand.column), []).append(number)
        for numbers in groups.values():
            if len(numbers) > 1:
                yield from ([sum(numbers)] if "sum" in cues else [])
                yield from ([sum(numbers) / len(numbers)] if "mean" in cues else [])


def _is_of_calendar(value: Value) -> bool:
    """Whether a figure is that of the minutes or hours of a week, a month or a year."""
    per_day = {"second": 86_400, "minute": 1_440, "hour": 24}.get(value.unit)
    return per_day is not None and abs(value.number) in {days * per_day for days in (7, 28, 29, 30, 31, 365, 366)}


def _is_specific(value: Value) -> bool:
    """Whether a figure has so many digits, zeros at its end not counted, that chance hardly gives it."""
    digits = _DIGITS.sub("", value.raw)
    return len(digits if _FRACTION.search(value.raw) else digits.rstrip("0")) >= SPECIFIC


def _has(known: Sequence[float], number: float, slack: float = 0.0) -> bool:
    slack = max(slack, _EXACT * max(1.0, number))
    place = bisect_left(known, number - slack)
    return place < len(known) and known[place] <= number + slack


def _joined(found: Iterable[Sequence[float]]) -> Sequence[float]:
    """The numbers of all parts in order; each part has its own so."""
    parts = [part for part in found if part]
    return parts[0] if len(parts) == 1 else sorted(chain(*parts))


def _exact_of(part: Reading | SentenceWindow) -> Sequence[float]:
    """The numbers of one part of the evidence, kept with it: chunks recur, and are asked for each claim."""
    found: Sequence[float] | None = part.kept.get("exact")
    if found is None:
        found = part.kept["exact"] = sorted({abs(one.number) for one in part.values if _is_figure(one)})
    return found


def _is_other_unit(one: str, other: str) -> bool:
    """Whether the same number of both is another amount: days and weeks, grams and kilograms, euros and dollars."""
    if one in CODES and other in CODES:
        return True
    (dimension, scale, _), (other_dimension, other_scale, _) = base(one), base(other)
    return bool(other) and dimension == other_dimension and scale != other_scale


def _is_figure(value: Value) -> bool:
    return value.dates is None and value.kind not in NO_AMOUNT


class _Meant(NamedTuple):
    """What those of its figures that have a scale are without it; these and its per cent as shares of one; and its
    shares of one as per cent; each in order."""

    unscaled: Sequence[float]
    of_one: Sequence[float]
    per_cent: Sequence[float]


def _meant_by(part: Reading | SentenceWindow) -> _Meant:
    found: _Meant | None = part.kept.get("meant")
    if found is None:
        numbers = [(abs(value.number), value) for value in part.numbers]
        scaled = [number for number, value in numbers if _SCALED.search(value.raw)]
        unscaled = sorted(number / scale for number in scaled for scale in _SCALES)
        shares = [number / 100 for number, value in numbers if value.unit == "%"]
        found = part.kept["meant"] = _Meant(
            unscaled,
            sorted([*unscaled, *shares]),
            sorted(100 * number for number, value in numbers if not value.unit and number <= 1),
        )
    return found


@lru_cache(16)
def _wording(claim: str, asked: str, answer: str) -> _Wording:
    text = f"{asked} {claim}"
    cues = frozenset(name for name, cue in _CUES.items() if cue.search(text))
    return _Wording(
        cues=cues,
        told=cues
        | ({"sum", "difference", "product", "ratio"} if _SAYS_SO.search(claim) else set())
        | ({"sum"} if _LEADS.match(claim) else set()),
        own=_operands([*values(claim), *values(asked)]),
        rest=_operands(values(answer)),
        constants=frozenset(_fractions_told(text)).union(
            months_through(text) if "month" in claim.casefold() else (),
            (number for words, numbers in _CONSTANTS if re.search(words, text, re.IGNORECASE) for number in numbers),
        ),
        expressions=written_sums(answer),
        is_rough=_ROUNDS.search(claim) is not None,
        computes=_COMPUTES.search(claim) is not None,
    )


def _fractions_told(text: str) -> Iterator[float]:
    """What fractions in words divide by: "four fifths" by 1.25."""
    for count, part in _FRACTION_WORDS.findall(text.casefold()):
        yield (_PARTS_OF.index(part) + 3) / NUMBER_WORDS[count]


def _operands(found: Iterable[Value]) -> tuple[_Operand, ...]:
    figures = filter(_is_figure, found)
    return tuple(dict.fromkeys(_Operand(abs(value.number), value.unit) for value in figures))


def _others(operands: Iterable[_Operand], value: Value) -> list[_Operand]:
    """The first operands that are another number than the value."""
    return list(islice((one for one in operands if one.number != abs(value.number)), MOST))


def _in(unit: str, operand: _Operand) -> float | None:
    """An operand in a unit; None where it is of another kind. What has no unit is in any."""
    if not unit or not operand.unit or unit == operand.unit or {unit, operand.unit} == _PERCENT:
        return operand.number
    if unit in CODES or operand.unit in CODES:
        return None
    if "degree" in (unit, operand.unit) and {unit, operand.unit} <= DEGREES:
        return operand.number
    (dimension, scale, offset), (other, other_scale, other_offset) = base(unit), base(operand.unit)
    return (operand.number * other_scale + other_offset - offset) / scale if dimension == other else None


def _combined(unit: str, one: _Operand, two: _Operand, operations: Set[str]) -> Iterator[float]:
    """What the operations make of two operands, in a unit."""
    first, second = _in(unit, one), _in(unit, two)
    both_named = one.is_named and two.is_named
    converted = _in(one.unit, two)
    if first is not None and second is not None:
        if "sum" in operations:
            yield first + second
        if "difference" in operations:
            yield abs(first - second)
            yield from _in_other_degrees(unit, one, two)
        if "mean" in operations:
            yield (first + second) / 2
    for number, other, of in ((first, two, one), (second, one, two)):
        if number is None or not other.number:
            continue
        is_apart = not unit or not other.unit or other.unit != unit
        is_price = of.unit == unit or ("pence" in operations and not of.unit)  # "24.88 p per kWh" has no unit
        is_counted = other.unit != unit and (unit or not of.unit) and is_price
        if "product" in operations and is_apart and other.unit not in _PERCENT and (is_counted or both_named):
            yield number * other.number
            if scale := _LARGER.get(other.unit):
                yield number * other.number / scale  # 180 g at 2.10 a kilogram, 90 minutes at 60 an hour
        if other.unit == "%" and unit != "%":
            yield number * other.number / 100
            if operations & {"growth", "difference", "sum"}:
                yield from (number * (1 + other.number / 100), number * (1 - other.number / 100))
        if "ratio" in operations and is_apart and (unit or not of.unit or of.unit == other.unit):
            yield number / other.number
    if converted is None or not one.number or not converted:
        return
    if "ratio" in operations and not unit:
        yield from (one.number / converted, converted / one.number)
    if unit == "%" and one.unit != "%" and two.unit != "%":
        if "share" in operations:
            yield from (100 * one.number / converted, 100 * converted / one.number)
            yield from (100 - 100 * one.number / converted, 100 - 100 * converted / one.number)
        if "growth" in operations:
            yield from (100 * abs(one.number / converted - 1), 100 * abs(converted / one.number - 1))


def _in_other_degrees(unit: str, one: _Operand, two: _Operand) -> Iterator[float]:
    """A difference of temperatures on the other scale: 1.6 °C are 2.9 °F."""
    scale = {("fahrenheit", "celsius"): 1.8, ("celsius", "fahrenheit"): 1 / 1.8}.get(
        (unit, one.unit if one.unit == two.unit else "")
    )
    if scale:
        yield abs(one.number - two.number) * scale


def _products(unit: str, one: _Operand, two: _Operand) -> Iterator[float]:
    """What so many of something come to, in a unit, where one of two operands is in it and the other counts."""
    for number, count in ((one, two), (two, one)):
        if number.unit == unit and count.unit != unit and count.unit not in _PERCENT:
            yield number.number * count.number


def _several(unit: str, own: Sequence[_Operand], operations: Set[str], text: str) -> Iterator[float]:
    """Sums of three or four figures that the claim and the question name, products of three, the rest of 100 %."""
    numbers = [number for operand in own[:8] if (number := _in(unit, operand)) is not None]
    for count in (3, 4):
        yield from (sum(chosen) for chosen in combinations(numbers, count) if "sum" in operations)
    if "product" in operations:
        yield from (math.prod(one.number for one in chosen) for chosen in combinations(own[:6], 3))
        yield from (2 * one.number * two.number for one, two in combinations(own[:6], 2) if "twice" in text)
    if {"sum", "product"} <= operations:  # 220 euros and three times 15
        for one, price in permutations(own[:6], 2):
            counts = [count.number for count in own[:6] if count.unit != unit and count not in (one, price)]
            if one.unit == unit == price.unit or not (one.unit or price.unit):
                factors = [*counts, *([2.0] if _TWICE.search(text) else [])]
                yield from (one.number + count * price.number for count in factors)
    if "difference" in operations:
        yield from (one - two - three for one in numbers for two, three in combinations(numbers, 2))
    if unit == "%" and operations & {"difference", "sum"}:
        yield from (100 - number for number in numbers)


def _in_proportion(unit: str, own: Sequence[_Operand], given: Sequence[_Operand]) -> Iterator[float]:
    """What a row of the evidence says of so much, for as much as is named: of 250 ml, for 400."""
    rows: dict[tuple[int, int], list[_Operand]] = {}
    for operand in given:
        rows.setdefault(operand.row, []).append(operand)
    for named, row in product(own, rows.values()):
        for base_of in row if named.unit else ():
            if base_of.unit == named.unit and base_of.number:
                yield from (number * named.number / base_of.number for other in row if other is not base_of
                            if (number := _in(unit, other)) is not None and other.unit == unit)  # fmt: skip


def _clause(claim: str, value: Value) -> str:
    """The part of a claim that says what a figure is of: from the figure before it to the next break."""
    before = claim[max(0, value.start - CLAUSE) : value.start]
    start = max((match.end() for match in TERM.finditer(before)), default=0)
    return f"{before[start:]} {_BREAK.split(claim[value.end : value.end + CLAUSE // 3])[0]}"


def _times(unit: str, operands: Sequence[_Operand], wording: _Wording) -> Iterator[float]:
    """Multiples and parts by constants that the words name: halves, months of a year, hours of a day; what is left
    after a discount of a quarter."""
    if wording.cues & {"growth", "difference"}:
        numbers = [number for operand in operands if (number := _in(unit, operand)) is not None]
        yield from (number * (1 + sign / part) for number in numbers for part in wording.constants & _PARTS_OF_ONE
                    for sign in (1, -1))  # fmt: skip
    if not wording.cues & {"product", "ratio"}:
        return
    for operand in operands:
        number = _in(unit, operand)
        yield from ((number * each) for each in wording.constants if number is not None)
        yield from ((number / each) for each in wording.constants if number is not None)


def _rounding(value: Value, *, is_rough: bool) -> float:
    """Half of the last digit that a figure shows, on its scale: 21.4 % is 21.35 to 21.45, "£2.1 million" by 50,000; of
    one that is called rough, half of the last that is not 0."""
    fraction = _FRACTION.search(value.raw) if not GROUPED.search(value.raw) or "." in value.raw else None
    digits = len(fraction[1]) if fraction else 0
    written = re.sub(r"[^\d]", "", value.raw)
    shown = int(written) / 10**digits if written else 0.0
    scale = abs(value.number) / shown if shown else 1.0
    zeros = len(written) - len(written.rstrip("0")) if is_rough and not digits and shown else 0
    return 0.5 * float(10.0 ** (min(zeros, 6) - digits)) * (scale if scale >= 1 else 1.0)
