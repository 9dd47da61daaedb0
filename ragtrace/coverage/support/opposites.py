"""Words that change a statement into its opposite where one stands in the place of another: before and after.

Each class has two or more senses that exclude each other. The lists are our own, of the prose of policies, contracts
and manuals. A word that a class has in parentheses is too loose to contradict, and can only agree: "once" may mean
after. One with = counts as it is written alone, others in every inflection. One with ~ is weaker than the other sense:
it is contradicted by it, and does not contradict it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, NamedTuple

from ragtrace.coverage.text import stem

__all__ = ["PARTIAL", "TURNING", "Switch", "Word", "switches"]

_CLASSES: Final = """
limit: at least, minimum, minimum of, more than, =over, =above, exceed, in excess of, longer than, greater than,
    higher than, later than, or more, or longer, or above, or higher, or over, and above, and over, upwards of
  | at most, maximum, maximum of, up to, less than, fewer than, =under, =below, shorter than, smaller than, lower than,
    or less, or fewer, or below, or under, and below, (within), (limited to), as many as, as much as, (until), (through)
  | =exactly, =precisely
order: after, following, later than, (once), (since), (from), (past), (as soon as), afterwards
  | before, prior to, ahead of, earlier than, (until), (till), (by), (no later than), (in advance), beforehand
change: increase, =rise, =rises, =rising, rose, risen, =grow, =grows, =growing, grew, grown, growth, =raised, =raises,
    =raising, climb, (gain), higher, (up), (more), (improve), =raise
  | decrease, =fall, =falls, =falling, fell, fallen, =drop, =dropped, =drops, decline, reduce, reduction, lower,
    shrink, shrank, (cut), (down), (less), (lose)
inclusion: =include, =includes, =included, =including, (contain), (cover), (comprise)
  | =exclude, =excludes, =excluded, =excluding, (except), (without), (omit)
permission: allow, permit, (possible), (authorize), (eligible), (entitle), (can), (may), (free to), permissible
  | prohibit, forbid, forbidden, =banned, =ban, =bans, disallow, (impossible), (ineligible), (illegal), (cannot)
duty: required, requires, mandatory, compulsory, obligatory, (necessary), (must), (need), (have to), (has to)
  | optional, voluntary, (choose), (can), (may)
condition: if, provided that, as long as, on condition, (provided), (when), (where), (once), (only)
  | unless, except if, except when
access: =open, =opened | =closed, =shut
state: enable, activate, switched on, turned on | disable, deactivate, switched off, turned off
approval: approve, accept, (grant), (adopt) | reject, refuse, deny, (dismiss), turned down, (decline)
outcome: succeed, successful | fail, unsuccessful
charge: free of charge, for free, at no cost, gratis, complimentary, (free) | =charged, =chargeable, (fee), (paid)
ends: =start, =beginning | =end
rank in order: =first, =initial | =last, =final
level: minimum, lowest, smallest, =least, shortest | maximum, highest, largest, =most, longest
position: =above, on top of, (over) | =below, underneath, beneath, (under)
side: =inside, indoors, =internal, internally, (within) | =outside, outdoors, =external, externally
amount: =gross | =net
right: =public, publicly | =private, privately
frequency: always, invariably, in every case, in all cases, in each and every case, without any exception,
    without exception, whatever the circumstances
  | never, (under no circumstances)
  | sometimes, rarely, seldom, occasionally, ~usually, ~normally, ~typically, ~generally, ~often, ~frequently, ~mostly,
    ~=may, ~=might, ~in most cases, ~as a rule
speed: =earlier, =sooner, =early | =later, =late
size: =longer, =larger, =bigger, =greater | =shorter, =smaller
degree: =high | =low
extent: =long | =short
data: =import, imported, =inbound, =incoming, upload | =export, exported, =outbound, =outgoing, download
change of version: upgrade | downgrade
account: =credit, =credited | =debit, =debited
travel: arrive, arrival | depart, departure
control: automatic, automatically | =manual, manually
hours: full-time | part-time
term: temporary, temporarily | permanent, permanently
rate: =fixed | =variable
rank: =senior | =junior
share: majority | minority
turn: clockwise | anticlockwise, counterclockwise
sort: ascending | descending
period: (=hourly), (an hour), per hour, every hour, each hour | =daily, (a day), per day, every day, each day
  | =weekly, (a week), per week, every week, each week | =monthly, (a month), per month, every month, each month
  | =quarterly, (a quarter), per quarter, every quarter, each quarter
  | =yearly, =annual, =annually, (a year), per year, every year, each year, per annum
weekday: monday, mondays | tuesday, tuesdays | wednesday, wednesdays | thursday, thursdays | friday, fridays
  | saturday, saturdays | sunday, sundays
compass: =north, =northern | =south, =southern | =east, =eastern | =west, =western
quantity: =all, =every, =entire, =each | =some, =certain, ~=most, ~=many, ~=several, ~=few, ~majority of, ~=only
modality: =must, =shall, have to, has to, had to, required to, obliged to, obligated to, need to, needs to
  | =may, =can, =might, =could, allowed to, permitted to, free to, entitled to
"""
TURNING: Final = frozenset(("change", "inclusion", "permission", "duty", "condition", "access", "state", "approval",
                            "outcome", "charge", "order", "limit"))  # fmt: skip
"""Classes whose sense a negation turns: "not included" is excluded."""
PARTIAL: Final = {"frequency": 2, "quantity": 1}
"""Classes of which a negation leaves some, with the sense that it leaves: "not always"."""


class Word(NamedTuple):
    """A word of a text as it is written in small letters, and where it begins and ends."""

    written: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Switch:
    """A word or phrase of a class in a text: `first` to `last` of its words, and which of the senses it has.

    `loose`: it can agree and not contradict; `weak`: it can be contradicted, and not contradict. `written`: the phrase.
    """

    kind: str
    sense: int
    first: int
    last: int
    loose: bool
    weak: bool
    written: str

    @property
    def compares(self) -> bool:
        """Whether it compares with a bound: "more than", "exceed"."""
        return self.kind == "limit" and (self.written.endswith(" than") or self.written.startswith("exceed"))


class _Phrase(NamedTuple):
    exact: str
    rest: tuple[str, ...]
    kind: str
    sense: int
    loose: bool
    weak: bool


@cache
def _phrases() -> dict[str, tuple[_Phrase, ...]]:
    """The phrases by the stem of their first word, the longest first."""
    found: dict[str, list[_Phrase]] = {}
    for line in _CLASSES.strip().replace("\n  ", " ").splitlines():
        kind, _, senses = line.partition(":")
        for sense, listed in enumerate(senses.split("|")):
            for written in filter(None, (each.strip() for each in listed.split(","))):
                loose = written.startswith("(")
                weak = written.startswith("~")
                plain = written.strip("()~")
                exact = plain[1:] if plain.startswith("=") else ""
                first, *rest = map(stem, plain.lstrip("=").split())
                found.setdefault(first, []).append(_Phrase(exact, tuple(rest), kind.strip(), sense, loose, weak))
    return {first: tuple(sorted(each, key=lambda phrase: -len(phrase.rest))) for first, each in found.items()}


@lru_cache(maxsize=65536)
def _phrases_of(written: str) -> tuple[_Phrase, ...]:
    """The phrases that a word may begin."""
    found = _phrases().get(stem(written), ())
    return tuple(phrase for phrase in found if phrase.exact in ("", written))


def switches(words: Sequence[Word]) -> Iterator[Switch]:
    """The switches of a text; of several phrases of one class at a place the longest."""
    until: dict[str, int] = {}
    for at, word in enumerate(words):
        for phrase in _phrases_of(word.written):
            last = at + len(phrase.rest)
            if at < until.get(phrase.kind, 0) or last >= len(words):
                continue
            if all(stem(words[at + 1 + step].written) == term for step, term in enumerate(phrase.rest)):
                until[phrase.kind] = last + 1
                written = " ".join(each.written for each in words[at : last + 1])
                yield Switch(phrase.kind, phrase.sense, at, last, phrase.loose, phrase.weak, written)
