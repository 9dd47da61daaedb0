"""Sound answers with their facts at wrong places, and with their conditions and hedges turned into universal claims."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bench.verdicts.model import Domain, Path
from bench.verdicts.swap_texts import (
    MARK,
    coverage,
    holds,
    names_in,
    numbers,
    outside_marks,
    prompt_text,
    sentences,
    stem,
    unmarked,
    wanted_ids,
    words,
)

__all__ = ["exaggerated", "exchanged_facts", "replaced"]


@dataclass(frozen=True, slots=True)
class _Numeral:
    """A number in an answer. shape: year, percent, money or plain; bounded: behind "more than", "about" or such."""

    text: str
    shape: str
    bounded: bool


_NUMERAL = re.compile(r"(?<![\w.,:/{#–-])\d+(?:[.,]\d+)*(?![\w:/–-]|[.,]\d)")
_BOUND = re.compile(
    r"(?i)\b(?:about|around|roughly|almost|nearly|over|under|than|least|most|to|minimum of|maximum of|approximately|"
    r"zu|als|mindestens|höchstens|etwa|rund)\s+"
    r"(?:[€$£]|[A-Z]{3}\s)?\s?$"
)


def _numerals(answer: str) -> list[_Numeral]:
    found = []
    for sentence in sentences(MARK.sub("", answer)):
        for match in _NUMERAL.finditer(sentence):
            before, behind = sentence[: match.start()], sentence[match.end() :]
            if not before.strip() and behind[:1] in (".", ")"):
                continue  # a list's number
            shape = _shape(match[0], before, behind)
            found.append(_Numeral(match[0], shape, bool(_BOUND.search(before))))
    return found


def _shape(number: str, before: str, behind: str) -> str:
    if re.match(r"\s?(?:%|percent\b|per cent\b)", behind):
        return "percent"
    if re.search(r"(?:[€$£]|\b[A-Z]{3})\s?$", before) or re.match(r"\s?(?:€|[A-Z]{3}\b|euros?\b|dollars?\b)", behind):
        return "money"
    return "year" if re.fullmatch(r"(?:19|20)\d\d", number) else "plain"


def _apart(one: str, other: str, shape: str) -> bool:
    """Whether two numbers say something different, not the same more or less exactly."""
    values = [re.sub(r",(?=\d{3}\b)", "", text).replace(",", ".") for text in (one, other)]
    if shape == "year" or any(value.count(".") > 1 for value in values):
        return one != other
    low, high = sorted(map(float, values))
    return high - low > 0.1 * high


def replaced(text: str, changes: Mapping[str, str]) -> str:
    """The text with all occurrences of the changes' keys replaced at once, outside marks."""
    longest_first = sorted(changes, key=lambda key: (-len(key), key))
    pattern = re.compile(rf"(?<![\w.,-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-]|[.,]\d)")
    return outside_marks(text, lambda piece: pattern.sub(lambda found: changes[found[0]], piece))


def exchanged_facts(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """The sound answer with two numbers or names of it exchanged, or one number or name from another answer."""
    if not path.question.evidence:
        return None
    ways = [_exchanges_within, _exchanges_between]
    if rng.random() < 0.3:
        ways.reverse()
    for way in ways:
        exchanges = way(path, domain)
        if exchanges:
            return replaced(path.answer, rng.choice(exchanges))
    return None


def _exchanges_within(path: Path, domain: Domain) -> list[dict[str, str]]:
    answer = unmarked(path.answer, domain)
    numerals = _numerals(answer)
    asked = numbers(path.question.question)
    pairs = [
        (one.text, other.text)
        for at, one in enumerate(numerals)
        for other in numerals[at + 1 :]
        if one.shape == other.shape
        and not (one.bounded and other.bounded)
        and not {stem(one.text), stem(other.text)} <= asked
        and _apart(one.text, other.text, one.shape)
    ]
    apart = [pair for pair in dict.fromkeys(pairs) if _tells_apart(path.answer, *pair, words_each=1)]
    apart += [pair for pair in _name_pairs(answer, path) if _tells_apart(path.answer, *pair, words_each=2)]
    return [{one: other, other: one} for one, other in apart]


def _name_pairs(answer: str, path: Path) -> list[tuple[str, str]]:
    """Two names of different things in the answer, of which the prompt does not say the same."""
    inside = dict.fromkeys(
        [
            *names_in(path.question.question),
            *(name for chunk in path.packed for name in names_in(chunk.text, inside_only=True)),
        ]
    )
    names = [name for name in names_in(answer) if name in inside and _exchangeable(name)]
    return [
        (one, other)
        for at, one in enumerate(names)
        for other in names[at + 1 :]
        if _alike(one, other)
        and not words(one) & words(other)
        and _initials(one) != other
        and _initials(other) != one
        and not _said_of_both(answer, one, other, path)
    ]


def _exchangeable(name: str) -> bool:
    """Whether a capitalized phrase names a thing, no sum or number."""
    return not re.search(r"\d|\b(?:EUR|USD|GBP|CHF|JPY)\b", name)


def _initials(name: str) -> str:
    return "".join(part[0] for part in name.split()).upper()


def _said_of_both(answer: str, one: str, other: str, path: Path) -> bool:
    swapped = [
        replaced(sentence, {one: other, other: one})
        for sentence in sentences(answer)
        if _has(sentence, one) != _has(sentence, other)
    ]
    stated = [sentence for chunk in path.packed for sentence in sentences(chunk.text)]
    return any(holds(statement, claim) for claim in swapped for statement in stated)


def _tells_apart(answer: str, one: str, other: str, *, words_each: int) -> bool:
    """Whether claims of the answer say different things of two facts, so that exchanging them makes it wrong."""
    claims = [claim for sentence in sentences(answer) for claim in re.split(MARK.pattern + "|; ", sentence) if claim]

    def beside(fact: str, without: str) -> list[frozenset[str]]:
        having = [claim for claim in claims if _has(claim, fact) and not _has(claim, without)]
        return [words(claim) - words(one) - words(other) for claim in having]

    of_one, of_other = beside(one, other), beside(other, one)
    return any(min(len(a - b), len(b - a)) >= words_each for a in of_one for b in of_other)


def _has(text: str, fact: str) -> bool:
    return replaced(text, {fact: ""}) != text


def _exchanges_between(path: Path, domain: Domain) -> list[dict[str, str]]:
    """One fact of the answer for one of the same shape in another question's answer."""
    answer, prompt = unmarked(path.answer, domain), prompt_text(path)
    known = words(prompt) | words(path.question.question) | words(answer)
    asked = words(path.question.question)
    others = [
        unmarked(other.answers[0], domain)
        for other in domain.questions
        if other.id != path.question.id and other.answers and other.evidence
    ]
    exchanges = [
        {own.text: foreign.text}
        for own in _numerals(answer)
        if not own.bounded and stem(own.text) not in asked
        for other in others
        for foreign in _numerals(other)
        if foreign.shape == own.shape and stem(foreign.text) not in known and _apart(own.text, foreign.text, own.shape)
    ]
    exchanges += [
        {own: foreign}
        for own in names_in(answer, inside_only=True)
        if own in prompt and not words(own) <= asked and _exchangeable(own)
        for other in others
        for foreign in names_in(other, inside_only=True)
        if _exchangeable(foreign) and _alike(own, foreign) and not words(foreign) & known
    ]
    return exchanges


_CALENDAR = (
    frozenset("January February March April May June July August September October November December".split()),
    frozenset("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()),
)


def _alike(one: str, other: str) -> bool:
    """Whether two names look like names of the same kind."""
    if any((one in dates) or (other in dates) for dates in _CALENDAR):
        return any(one in dates and other in dates for dates in _CALENDAR)
    return one.isupper() == other.isupper() and len(one.split()) == len(other.split())


# Exaggerations

_CLAUSE = r"(?:[^,.;:{}\n]|[.,](?=\d))*"
_EXAGGERATIONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"\b[Aa]t least\b", "exactly"),
        (r"\b(?:(?:[Uu]p to|[Nn]o more than|[Nn]ot more than|a maximum of)(?= [\d€$£A-Z])|[Aa]t most\b)", "at least"),
        (rf",?\s+(?:but )?only (?:if|when|where|after|with)\b{_CLAUSE}", " in every case"),
        (rf",?\s+(?:provided that|as long as|on condition that)\b{_CLAUSE}", " in every case"),
        (rf",?\s+(?:unless|except|excluding|with the exception of)\b{_CLAUSE}", ", without any exception"),
        (rf"(?<!even)(?<!as)(?<!only)(?<!ask)(?<!check)(?<!see)(?<!know)\s+if\b{_CLAUSE}", " in every case"),
        (r"\bnot (?:usually|normally|typically|generally|always|necessarily)\b", "never"),
        (r"\b(?:usually|normally|typically|generally) not\b", "never"),
        (
            r"(?<!not )\b(?:usually|normally|typically|generally|often|sometimes|mostly|in most cases)\b(?! not\b)",
            "always",
        ),
        (r"\b(?:rarely|seldom|hardly ever)\b", "never"),
        (r"(?<!the )\b(?:some|most)(?= (?:of )?(?:the )?(?![a-z]*(?:ous|less)\b)[a-z]+s\b)", "all"),
        (r"\bin (?:some|many|certain) cases\b", "in all cases"),
        (r"\b(?:recommended|optional|advisable)\b", "mandatory"),
        (r"\b(?:may|might)\b(?! not\b| \d)", "will always"),
    )
)
_CONDITION = re.compile(
    r"(?i)\b(?:unless|only|if|except|exceptions?|up to|most|maximum|least|minimum|may|might|usually|normally|typically|"
    r"recommended|optional|advisable|generally|often|sometimes|some|rarely|seldom|provided|excluding|limit(?:ed|s)?|"
    r"no more|not more|until|within)\b"
)
_STRICT_CONDITION = re.compile(
    r"(?i)\b(?:unless|only (?:if|when)|except|provided that|excluding|do(?:es)? not apply)\b"
)


def exaggerated(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """The sound answer with its conditions and hedges turned into "always", "never", "in every case"; where it has
    none, with that put behind a claim on which the evidence sets a condition."""
    evidence = [chunk.text for chunk in path.packed if chunk.id in wanted_ids(path.question)]
    if not any(_CONDITION.search(text) for text in evidence):
        return None
    bare = MARK.sub("\0", path.answer)
    fitting = [(pattern, put) for pattern, put in _EXAGGERATIONS if pattern.search(bare)]
    if not fitting:
        return _universal(path.answer, evidence, rng)
    count = rng.randint(1, len(fitting))
    answer = path.answer
    for at in sorted(rng.sample(range(len(fitting)), count)):
        pattern, put = fitting[at]
        answer = outside_marks(answer, partial(pattern.sub, put))
    return answer if answer != path.answer else None


def _universal(answer: str, evidence: Sequence[str], rng: random.Random) -> str | None:
    conditioned = [text for whole in evidence for text in sentences(whole) if _STRICT_CONDITION.search(text)]
    pieces = sentences(answer)
    fitting = [
        at
        for at, piece in enumerate(pieces)
        if len(words(piece)) >= 3
        and not _STRICT_CONDITION.search(piece)
        and any(coverage(piece, text) >= 0.5 for text in conditioned)
    ]
    if not fitting:
        return None
    at = rng.choice(fitting)
    addition = rng.choice(
        (", always and without any exception", " in each and every case", ", whatever the circumstances")
    )
    found = re.search(r"(?:\s?\{[^\s{}\"]+\})*[.!]?\s*$", pieces[at])
    end = found.start() if found else len(pieces[at])
    pieces[at] = pieces[at][:end] + addition + pieces[at][end:]
    return "".join(pieces)
