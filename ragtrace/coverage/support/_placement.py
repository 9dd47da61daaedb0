"""Places of words in a text: its clauses, what is negated, which words turn it around, and what is around each.

A claim that says the opposite of its evidence in the same words differs from it in one place. So what stands in a place
of a claim, a value, a negated word or one of a pair of opposites, is looked up in each sentence by the words around it.

Each class of opposites has two or more senses that exclude each other. The lists are our own, of the prose of policies,
contracts and manuals. A word that a class has in parentheses is too loose to contradict, and can only agree: "once" may
mean after. One with = counts as it is written alone, others in every inflection. One with ~ is weaker than the other
sense: it is contradicted by it, and does not contradict it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from ragtrace.coverage.text import cached_property, is_content, located_words, stem, term_of
from ragtrace.coverage.values import Value, counted, is_example, is_reference, says, values

__all__ = [
    "NearbyWords",
    "Placed",
    "Spot",
    "Spots",
    "Switch",
    "likeness",
]

REACH: Final = 6  # words that carry meaning, on each side, that tell where something stands
FADING: Final = 4.0  # of these, the distance at which one weighs half
BEYOND: Final = 0.4  # weight of a word in another clause
SHARP: Final = 3  # power of the weights around one of two places in a sentence, which share its words
FEWEST: Final = 2  # words around in common, from which two places can be the same
SCOPE: Final = 5  # words behind a negation among which the one stands that it negates
BEFORE: Final = 2  # words before one of a pair of opposites among which a negation turns it
ITEM: Final = 2  # words of a clause that may be no more than an item of a list
SHORTEST: Final = 3  # letters of a word of a name
MOST_SPOTS: Final = 12  # names, and roles, of a text that are looked for in another
BOUND: Final = 4  # words from a bound to its value: "at least the first 5"
_BREAKS: Final = re.compile(
    r"""[;:!?|()–—]|\n(?!\s*(?-i:[a-z]))|[,.](?!\d)|\b(?=[abhistuw])
        (?:and|but|while|whereas|although|though|however|unless|if|when|where|because|so|that|which|who)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_NEGATES_NOTHING: Final = (
    re.compile(  # "not only the roof", "don't simply", "No, the roof", "with or without a roof", "no more than 30"
        r"""\bnot(?=\s+(?:only|just|merely|simply|solely)\b)|\b\w+n['’]t(?=\s+(?:just|merely|simply)\b)
    |^\W*no(?=[,.:;])|\bor\s+(?:without|not)\b
    |\b(?:no|not)(?=\s+(?:more|less|fewer|later|earlier|longer|sooner)\s+than\b)""",
        re.IGNORECASE | re.VERBOSE,
    )
)
_IF: Final = re.compile(r"\b(?:if|unless|otherwise)\b", re.IGNORECASE)
_ALONE: Final = frozenset(("nothing", "nobody", "none"))  # negations that may be all of a clause
_NEGATING: Final = frozenset("not no never none neither nor cannot without nothing nobody".split())
_TURNS: Final = frozenset(
    map(
        stem,
        """avoid deny doubt except exclude fail hardly instead lack absence less little lose lost prevent rare rather
        refuse reject seldom unable unlikely only prohibit forbid forbidden ban impossible free anymore otherwise
        keep kept exempt relieve bar waive save unless stop""".split(),
    )
)  # words that turn a meaning in their own way
_LIGHT: Final = frozenset(
    map(
        stem,
        "possible able need require want have get make take do use current yet longer entitled allowed".split(),
    )
)  # words behind a negation that hand it on: "need not be signed"
_HEADLESS: Final = frozenset(
    map(stem, "within per via upon without among towards since anyone anything someone something until".split())
)
_PARTIAL: Final = frozenset("all every always necessarily entirely yet quite everyone only".split())
_BACK: Final = frozenset("that this then which these those".split())
_CONDITIONS: Final = frozenset(
    "if unless when whenever whether who whoever anyone where provided providing assuming".split()
)
_DETERMINERS: Final = frozenset("the a an each every our your their its this that these those any".split())
_AGENT: Final = re.compile(r"[a-z]{3,}(?:er|or|ee|ant|ist)s")  # suppliers, tenants
_VERBAL: Final = re.compile(r"\w+(?:ed|s|ing)")  # "the tenant pays": a verb behind its subject, or a plural
_BARE: Final = frozenset(("over", "above", "below", "under"))  # bounds only right before their value


class NearbyWords(NamedTuple):
    """The words around a place with their weights in (0, 1], and the sum of these."""

    weights: Mapping[str, float]
    total: float


class Spot(NamedTuple):
    """The first and last word of something."""

    first: int
    last: int


class Spots:
    """The first names or roles of a text, by their words."""

    def __init__(self, spans: Sequence[tuple[int, int]], terms: Sequence[frozenset[str]]) -> None:
        self._spots = [Spot(*span) for span in spans[:MOST_SPOTS]]
        self._terms = terms[:MOST_SPOTS]
        self._places: dict[str, list[int]] = {}
        for place, each in enumerate(self._terms):
            for term in each:
                self._places.setdefault(term, []).append(place)
        self.terms = self._places.keys()

    @cached_property
    def single(self) -> list[tuple[Spot, frozenset[str]]]:
        """Those that share no word with another one, with their words."""
        both = zip(self._spots, self._terms, strict=True)
        return [(spot, terms) for spot, terms in both if terms and all(len(self._places[term]) == 1 for term in terms)]

    def one_with(self, terms: Set[str]) -> Spot | None:
        """The only one that has one of some words; None where none has, or several have."""
        found = -1
        for term in terms & self._places.keys():
            for place in self._places[term]:
                if found not in (-1, place):
                    return None
                found = place
        return self._spots[found] if found >= 0 else None


@dataclass(frozen=True)
class Placed:
    """The words of a text in order, in small letters, of each where it starts and ends, its term ("" for a stop word)
    and the index of the value that it is part of, or -1; the values."""

    text: str
    words: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    word_terms: tuple[str, ...]
    word_places: tuple[int, ...]
    values: tuple[Value, ...]

    @classmethod
    def read(cls, text: str) -> Placed:
        """All of a text's words."""
        unturned = _plain(text)
        found = values(text)  # "no later than" is a bound, though its "no" negates nothing
        located = located_words(text)
        words, starts, ends = zip(*located, strict=True) if located else ((), (), ())
        terms = list(map(term_of, words))
        if unturned != text:
            terms = [term if unturned[start] != " " else "" for term, start in zip(terms, starts, strict=True)]
        return cls(
            text=text,
            words=words,
            starts=starts,
            ends=ends,
            word_terms=tuple(terms),
            word_places=tuple(_places(starts, found)) if found else (-1,) * len(words),
            values=found,
        )

    @cached_property
    def cases(self) -> dict[tuple[str, str, bool], Any]:
        """For what others conclude of its values, by their kind."""
        return {}

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Its terms, without the negations that negate nothing."""
        return tuple(filter(None, self.word_terms))

    @cached_property
    def term_set(self) -> frozenset[str]:
        """Its terms, each once."""
        return frozenset(filter(None, self.word_terms))

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Of each term the index of the value that it is part of, or -1."""
        return tuple(place for term, place in zip(self.word_terms, self.word_places, strict=True) if term)

    @cached_property
    def counts(self) -> tuple[str, ...]:
        """What each value counts."""
        return tuple(counted(self.text, value) for value in self.values)

    @cached_property
    def counting(self) -> dict[str, Value]:
        """The first value that counts each of the things that are counted."""
        return dict(reversed(list(zip(self.counts, self.values, strict=True))))

    @cached_property
    def named(self) -> tuple[bool, ...]:
        """Of each value whether it states nothing: part of a name ("section 26", "(2)", "Act 2015"), or an example."""
        return tuple(is_reference(self.text, value) or is_example(self.text, value) for value in self.values)

    @cached_property
    def clauses(self) -> tuple[int, ...]:
        """Of each word the number of its clause."""
        breaks = [match.start() for match in _BREAKS.finditer(self.text)]
        return tuple(bisect_right(breaks, start) for start in self.starts) if breaks else (0,) * len(self.starts)

    @cached_property
    def switches(self) -> tuple[Switch, ...]:
        """Its words of pairs of opposites."""
        return tuple(_switches(self.words))

    @cached_property
    def has_cases(self) -> bool:
        """Whether it sets more than one condition."""
        return len(_IF.findall(self.text)) > 1

    @cached_property
    def switches_by_kind(self) -> dict[str, list[int]]:
        """The places of these, of each class, among `switches`."""
        found: dict[str, list[int]] = {}
        for at, switch in enumerate(self.switches):
            found.setdefault(switch.kind, []).append(at)
        return found

    @cached_property
    def senses(self) -> tuple[int, ...]:
        """Which of the senses of its class each of these has, a negation before it counted."""
        return tuple(map(self._sense, self.switches))

    def _sense(self, switch: Switch) -> int:
        if switch.kind in _TURNING and switch.sense < 2 and self.turned(switch):
            return 1 - switch.sense
        if (
            switch.kind in _PARTIAL_SENSES
            and switch.first
            and self.words[switch.first - 1] in ("not", "nearly", "almost")
        ):
            return _PARTIAL_SENSES[switch.kind]  # "not always" is sometimes, "nearly all" is most
        return switch.sense

    @cached_property
    def spans(self) -> tuple[tuple[int, int] | None, ...]:
        """Of each value its first and last word; None for one without."""
        ends: dict[int, tuple[int, int]] = {}
        for at, place in enumerate(self.word_places):
            ends[place] = (ends.get(place, (at, at))[0], at)
        return tuple(ends.get(place) for place in range(len(self.values)))

    @cached_property
    def names(self) -> tuple[tuple[int, int], ...]:
        """The first and last word of each run of capitalized words that carry meaning."""
        runs: list[tuple[int, int]] = []
        for index, term in enumerate(self.word_terms):
            if not term or not self.text[self.starts[index]].isupper() or self.word_places[index] >= 0:
                continue
            joins = runs and runs[-1][1] == index - 1 and self.text[self.ends[index - 1] : self.starts[index]] == " "
            runs[-1:] = [(runs[-1][0], index)] if joins else [*runs[-1:], (index, index)]
        return tuple(runs)

    @cached_property
    def roles(self) -> tuple[tuple[int, int], ...]:
        """The first and last word of who or what acts, in small letters: "the works council", "suppliers"."""
        spans: list[tuple[int, int]] = []
        for index, word in enumerate(self.words):
            is_led = index > 0 and self.words[index - 1] in _DETERMINERS and self.word_places[index - 1] < 0
            if not self._may_act(index) or not (is_led or _AGENT.fullmatch(word)):
                continue
            if spans and spans[-1][1] >= index:
                continue
            last = index
            while is_led and last + 1 < len(self.words) and last - index < 2 and self._may_act(last + 1, behind=last):
                last += 1
            spans.append((index, last))
        return tuple(spans)

    def _may_act(self, at: int, behind: int | None = None) -> bool:
        """Whether a word may be one of a role: it carries meaning, is no value and begins with a small letter."""
        word = self.words[at]
        is_joined = behind is None or self.text[self.ends[behind] : self.starts[at]] == " "
        term = self.word_terms[at]
        is_noun = bool(term) and is_content(term) and self.word_places[at] < 0 and not _negates(word)
        return is_noun and is_joined and (behind is None or not _VERBAL.fullmatch(word))

    @cached_property
    def role_spots(self) -> Spots:
        """The roles by their words."""
        return Spots(self.roles, [frozenset(filter(None, self.word_terms[one : two + 1])) for one, two in self.roles])

    @cached_property
    def name_spots(self) -> Spots:
        """The names by their words, those that are long enough to tell one."""
        terms = (self.word_terms[first : last + 1] for first, last in self.names)
        return Spots(self.names, [frozenset(term for term in each if len(term) >= SHORTEST) for each in terms])

    @cached_property
    def negations(self) -> tuple[int, ...]:
        """The places of the negations that negate something."""
        return tuple(at for at, word in enumerate(self.words) if self.word_terms[at] and _negates(word))

    @cached_property
    def heads(self) -> frozenset[int]:
        """The places of the words that a negation belongs to: the next that carries meaning in its clause."""
        found: set[int] = set()
        for negation in self.negations:
            if self.words[negation] == "without" or self._is_partial(negation) or self._bounds(negation):
                continue
            for at in range(negation + 1, min(negation + 1 + SCOPE, len(self.words))):
                if self.clauses[at] != self.clauses[negation]:
                    break
                term = self.word_terms[at]
                if not term or not is_content(term) or term in _HEADLESS or self.words[at].endswith("ly"):
                    continue
                found.add(at)
                if term not in _LIGHT:
                    break
        return frozenset(found)

    def _bounds(self, negation: int) -> bool:
        """Whether a negation makes a comparison behind it a bound: "do not take more than 8" is "take at most 8"."""
        clause = self.clauses[negation]
        return any(
            switch.compares and switch.first > negation and self.clauses[switch.first] == clause
            for switch in self.switches
        )

    def _is_partial(self, negation: int) -> bool:
        """Whether a negation leaves some: "not all", "not always"."""
        return negation + 1 < len(self.words) and self.words[negation + 1] in _PARTIAL

    def is_condition(self, at: int) -> bool:
        """Whether the clause of a word is a condition: what differs there tells of two cases."""
        return self.clauses[at] in self._conditions

    @property
    def is_conditional(self) -> bool:
        """Whether one of its clauses is a condition."""
        return bool(self._conditions)

    @cached_property
    def negated_clauses(self) -> frozenset[int]:
        """The clauses with a negation."""
        return frozenset(self._negated)

    @cached_property
    def _conditions(self) -> frozenset[int]:
        begins = [at for at, clause in enumerate(self.clauses) if not at or self.clauses[at - 1] != clause]
        led = [at for at in begins if at and self.words[at] == "that"]  # "provided that you buy"
        found = {at for at in begins if self.words[at] in _CONDITIONS}
        found |= {at for at in led if self.words[at - 1] in ("provided", "providing", "assuming", "condition")}
        clauses = {self.clauses[at] for at in found}  # "Where that is not possible": "that" begins a clause of its own
        return frozenset(clauses | {clause + 1 for clause in clauses if self._lengths[clause] == 1})

    @cached_property
    def head_terms(self) -> frozenset[str]:
        """The terms of these words."""
        return frozenset(self.word_terms[at] for at in self.heads)

    def next_term(self, at: int) -> str:
        """The next word that carries meaning; "" at the end."""
        return next(filter(None, self.word_terms[at + 1 :]), "")

    def spots(self, term: str) -> Iterator[int]:
        """The places of a term."""
        return (at for at, other in enumerate(self.word_terms) if other == term)

    def is_negated(self, at: int) -> bool:
        """Whether the clause of a word has a negation, or another odd number of them. An item of a list before its verb
        shares the verb's: "Films, CDs and games can't be renewed"."""
        clause = self.clauses[at]
        while not self._negated[clause] and self._lengths[clause] <= ITEM and self._lengths[clause + 1]:
            clause += 1
        return self._negated[clause] % 2 == 1

    @cached_property
    def _lengths(self) -> Counter[int]:
        """Of each clause the number of its words."""
        return Counter(self.clauses)

    @cached_property
    def _negated(self) -> Counter[int]:
        found = Counter(self.clauses[negation] for negation in self.negations)
        for negation in self.negations:  # "Nothing — bees, combs or tools — leaves"
            if self.words[negation] in _ALONE and self._lengths[self.clauses[negation]] == 1:
                found[self.clauses[negation] + 1] += 1
        return found

    def may_share_negation(self, at: int) -> bool:
        """Whether a word's clause may be one of a negated list: "does not cover the roof, the walls or the cellar"."""
        clause = self.clauses[at]
        if clause and self._negated[clause - 1] and not self._negated[clause]:
            return any(self.words[place] == "or" for place, other in enumerate(self.clauses) if other == clause)
        return False

    def turning(self, at: int) -> frozenset[str]:
        """The words in the clause of a word that turn a meaning in their own way. An item of a list before its verb
        shares the verb's: "Roofs, walls and cellars are excluded"."""
        clause = self.clauses[at]
        while clause not in self._turning and self._lengths[clause] <= ITEM and self._lengths[clause + 1]:
            clause += 1
        return self._turning.get(clause, frozenset())

    def refers_back(self, switch: Switch) -> bool:
        """Whether "before" or "after" stands before what was said last: "before that"."""
        return switch.last + 1 < len(self.words) and self.words[switch.last + 1] in _BACK

    def is_denied(self, switch: Switch) -> bool:
        """Whether a comparison in time is denied right before it: "no later than"."""
        in_time = switch.written in ("later than", "earlier than", "sooner than")
        return in_time and switch.first > 0 and self.words[switch.first - 1] in ("no", "not")

    @cached_property
    def _turning(self) -> dict[int, frozenset[str]]:
        found: dict[int, frozenset[str]] = {}
        for word, clause in zip(self.words, self.clauses, strict=True):
            if (root := stem(word)) in _TURNS:
                found[clause] = found.get(clause, frozenset()) | {root}
        return found

    def is_exclusive(self, switch: Switch) -> bool:
        """Whether an "only" stands right before one of a pair of opposites: "only if" is "not unless"."""
        return switch.first > 0 and self.words[switch.first - 1] == "only"

    def turned(self, switch: Switch) -> bool:
        """Whether a negation turns a word of a pair: right before it ("not included"), of a comparison anywhere before
        in its clause ("do not take more than 8"), of a condition behind it ("if no other reader")."""
        clause = self.clauses[switch.first]
        if switch.kind == "condition":
            return sum(at > switch.last and self.clauses[at] == clause for at in self.negations) % 2 == 1
        reach = switch.first if switch.compares else BEFORE
        found = 0
        for at in range(switch.first - 1, max(-1, switch.first - 1 - reach), -1):
            if self.clauses[at] != clause:
                break
            found += _negates(self.words[at])
        return found % 2 == 1

    def bounded(self, switch: Switch) -> Value | None:
        """The value that a bound belongs to: 5 of "at least 5" and of "5 or more"."""
        written = self.words[switch.first]
        if written in ("or", "and"):
            near: Iterable[int] = range(switch.first - 1, max(-1, switch.first - 1 - BEFORE), -1)
        else:
            reach = 1 if written in _BARE else BOUND
            near = range(switch.last, min(len(self.words), switch.last + reach + 1))
        place = next((self.word_places[at] for at in near if self.word_places[at] >= 0), -1)
        return self.values[place] if place >= 0 else None

    def is_other_case(self, at: int, other: Placed, there: int) -> bool:
        """Whether the clauses of two words have values, and none in common: they tell of two cases."""
        own, others = self._values_of(at), other._values_of(there)
        return bool(own and others) and not any(says(one, two) for one in own for two in others)

    def has_date(self, at: int) -> bool:
        """Whether the clause of a word names a date."""
        return any(value.dates is not None for value in self._values_of(at))

    @cached_property
    def is_between(self) -> bool:
        """Whether it names a lower and an upper bound: what lies between them."""
        return {0, 1} <= {
            sense for switch, sense in zip(self.switches, self.senses, strict=True) if switch.kind == "limit"
        }

    def _values_of(self, at: int) -> list[Value]:
        return self._values_by_clause.get(self.clauses[at], [])

    @cached_property
    def _values_by_clause(self) -> dict[int, list[Value]]:
        found: dict[int, list[Value]] = {}
        for value, span in zip(self.values, self.spans, strict=True):
            if span:
                found.setdefault(self.clauses[span[0]], []).append(value)
        return found

    def around(self, spot: tuple[int, int]) -> NearbyWords:
        """The words around a place, its first and last word; each weighs less with its distance, and in another
        clause."""
        found = self._nearby[0].get(spot)
        if found is None:
            found = self._nearby[0][spot] = self._around(*spot)
        return found

    def sharply_around(self, spot: tuple[int, int]) -> NearbyWords:
        """The words around a place, the nearest of them nearly alone: to compare it with another of its sentence."""
        found = self._nearby[1].get(spot)
        if found is None:
            weights = {term: weight**SHARP for term, weight in self.around(spot).weights.items()}
            found = self._nearby[1][spot] = NearbyWords(weights, sum(weights.values()))
        return found

    @cached_property
    def _nearby(self) -> tuple[dict[tuple[int, int], NearbyWords], dict[tuple[int, int], NearbyWords]]:
        return {}, {}

    @cached_property
    def _unnegated(self) -> tuple[str, ...]:
        """Of each word its term; "" for a stop word or a negation."""
        pairs = zip(self.word_terms, self.words, strict=True)
        return tuple("" if _negates(word) else term for term, word in pairs)

    @cached_property
    def _spoken(self) -> tuple[int, ...]:
        """The places of the words with such a term."""
        return tuple(at for at, term in enumerate(self._unnegated) if term)

    def _around(self, first: int, last: int) -> NearbyWords:
        weights: dict[str, float] = {}
        places, clauses, terms = self._spoken, self.clauses, self._unnegated
        before, behind = bisect_left(places, first), bisect_right(places, last)
        for near, clause in (
            (places[max(0, before - REACH) : before][::-1], clauses[first]),
            (places[behind : behind + REACH], clauses[last]),
        ):
            for at, (within, beyond) in zip(near, _WEIGHTS, strict=False):
                weight, term = within if clauses[at] == clause else beyond, terms[at]
                if weight > weights.get(term, 0.0):
                    weights[term] = weight
        return NearbyWords(weights, sum(weights.values()))


_WEIGHTS: Final = tuple(
    (FADING / (FADING + distance), FADING / (FADING + distance) * BEYOND) for distance in range(REACH)
)
"""Of the words around a place, by their distance: in its clause, and in another one."""


def likeness(claimed: NearbyWords, given: NearbyWords, held: float, fewest: int = FEWEST) -> float:
    """How surely two places are the same, in [0, 1]: the geometric mean of the shares of what stands around each that
    stands around the other, and of `held`, the share of the claim's words that the sentence has.

    fewest: words around in common, below which it is 0.
    """
    theirs = given.weights
    shared = [(weight * theirs[term]) ** 0.5 for term, weight in claimed.weights.items() if term in theirs]
    if len(shared) < fewest:
        return 0.0
    common = sum(shared)
    of_claimed, of_given = common / claimed.total, common / given.total
    return float(((of_claimed if of_claimed < 1.0 else 1.0) * (of_given if of_given < 1.0 else 1.0) * held) ** (1 / 3))


def _plain(text: str) -> str:
    """`text` without the negations that negate nothing, every other character in its place."""
    folded = text.casefold()
    if not any(part in folded for part in ("no", "without", "n't", "n’t")):
        return text
    return _NEGATES_NOTHING.sub(lambda match: " " * len(match.group()), text)


def _negates(term: str) -> bool:
    """Whether a term is a negation."""
    return term in _NEGATING or term.endswith(("n't", "n’t"))


def _places(starts: Sequence[int], stated: tuple[Value, ...]) -> Iterator[int]:
    """For each start, in order, the index of the value that it lies in, or -1."""
    index = 0
    for start in starts:
        while index < len(stated) and stated[index].end <= start:
            index += 1
        yield index if index < len(stated) and stated[index].start <= start else -1


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
  | =may, =can, =might, =could, allowed to, permitted to, free to, entitled to,
    (would have to), (would need to), (might have to), (may have to)
"""
_TURNING: Final = frozenset(("change", "inclusion", "permission", "duty", "condition", "access", "state", "approval",
                            "outcome", "charge", "order", "limit"))  # fmt: skip
"""Classes whose sense a negation turns: "not included" is excluded."""
_PARTIAL_SENSES: Final = {"frequency": 2, "quantity": 1}
"""Classes of which a negation leaves some, with the sense that it leaves: "not always"."""


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


def _switches(words: Sequence[str]) -> Iterator[Switch]:
    """The switches of a text; of several phrases of one class at a place the longest."""
    until: dict[str, int] = {}
    for at, word in enumerate(words):
        for phrase in _phrases_of(word):
            last = at + len(phrase.rest)
            if at < until.get(phrase.kind, 0) or last >= len(words):
                continue
            if all(stem(words[at + 1 + step]) == term for step, term in enumerate(phrase.rest)):
                until[phrase.kind] = last + 1
                written = " ".join(words[at : last + 1])
                yield Switch(phrase.kind, phrase.sense, at, last, phrase.loose, phrase.weak, written)
