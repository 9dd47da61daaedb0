"""Faults of generation: numbers, dates, entities or negations altered, or a strange sentence spliced in."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bench.faults.model import Scene
from ragtrace.coverage.text import sentences
from ragtrace.demo.answering import Answer
from ragtrace.demo.packing import Context
from ragtrace.demo.pipeline import Components

__all__ = ["ALTERATIONS", "NAME", "altered_value", "altering"]

NAME: Final = re.compile(  # in the middle of a sentence, no unit and no month
    r"(?<=[a-z,;] )(?!(?:January|February|March|April|May|June|July|August|September|October|November|December)\b)"
    r"(?:[A-Z][a-z]{3,}(?:-[A-Z][a-z]+)?)(?: [A-Z][a-z]+)*(?![\w-])"
)
_NUMBER: Final = re.compile(r"(?<![\w.,\[(-])(?!(?:1[5-9]|20)\d\d\b)\d+(?:,\d{3})*(?:\.\d+)?(?![\w\])]|[.,]\d)")
_YEAR: Final = re.compile(r"(?<![\w.,-])(?:1[5-9]|20)\d\d(?![\w.]*\d)")
_MONTHS: Final = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
                  "November", "December")  # fmt: skip
_DATE: Final = re.compile(rf"{_YEAR.pattern}|\b(?:{'|'.join(month for month in _MONTHS if month != 'May')})\b")
_NEGATED: Final = re.compile(r"\b(is|are|was|were|has|have|had|can|could|may|must|will|would|should|does|did) not\b|"
                             r"\b(can)not\b")  # fmt: skip
_AUXILIARY: Final = re.compile(r"\b(is|are|was|were|can|could|may|must|will|would|should|has been|have been)\b")

ALTERATIONS: Final = ("numbers", "dates", "entities", "negate", "splice")

Alter = Callable[[str, int, random.Random, Sequence[str]], str]


def altering(kind: str) -> Callable[[Components, Scene, int], Components | None]:
    """The fault that alters an answer by `kind`."""

    def inject(healthy: Components, scene: Scene, strength: int) -> Components | None:
        return healthy.changed(generator=Altering(healthy.generator, kind, strength, scene))

    return inject


@dataclass
class Altering:
    """A generator that says something else than its prompt."""

    inner: Any
    kind: str
    strength: int
    scene: Scene

    @property
    def version(self) -> str:
        """A fine-tuned release."""
        return f"{self.inner.version}-ft1"

    def generate(self, question: str, context: Context) -> Answer:
        """The inner answer, altered."""
        answer: Answer = self.inner.generate(question, context)
        chance = self.scene.chance(self.kind)
        spoken = [sentence.text for sentence in sentences(answer.answer)]
        if self.kind == "splice":
            prompt = "\n".join(chunk.text for chunk in context.chunks)
            strangers = [text for text in self.scene.strangers if text not in prompt]
            return replace(answer, answer=_spliced(spoken, self.strength, chance, strangers))
        return replace(answer, answer=_altered(spoken, self.kind, self.strength, chance, self.scene.names))


def altered_value(digits: str, chance: random.Random, strength: int = 1) -> str:
    """Another number or year of the same shape: near at strength 1, far above."""
    if _YEAR.fullmatch(digits):
        return str(int(digits) + chance.choice((-2, -1, 1, 2) if strength == 1 else (-30, -20, -11)))
    value = float(digits.replace(",", ""))
    places = len(digits.partition(".")[2])
    step = 10**-places if strength == 1 else max(3.0, 2 * value)
    return f"{value + step:,.{places}f}" if "," in digits else f"{value + step:.{places}f}"


def _altered(spoken: Sequence[str], kind: str, strength: int, chance: random.Random, names: Sequence[str]) -> str:
    """Strengths 1 and 2 alter one sentence, slightly and grossly; 3 alters all that can be."""
    out = list(spoken)
    order = chance.sample(range(len(out)), len(out))
    for row in order:
        changed = _ALTERED[kind](out[row], strength, chance, names)
        if changed != out[row]:
            out[row] = changed
            if strength < 3:
                break
    return " ".join(out)


def _numbers(text: str, strength: int, chance: random.Random, names: Sequence[str]) -> str:
    return _NUMBER.sub(lambda match: altered_value(match[0], chance, strength), text, count=0 if strength == 3 else 1)


def _dates(text: str, strength: int, chance: random.Random, names: Sequence[str]) -> str:
    def other(match: re.Match[str]) -> str:
        if match[0] in _MONTHS:
            return _MONTHS[(_MONTHS.index(match[0]) + (1 if strength == 1 else 5)) % 12]
        return altered_value(match[0], chance, strength)

    return _DATE.sub(other, text, count=0 if strength == 3 else 1)


def _entities(text: str, strength: int, chance: random.Random, names: Sequence[str]) -> str:
    strange = [name for name in names if name not in text]

    def other(match: re.Match[str]) -> str:
        if strength > 1 or " " not in match[0]:
            return chance.choice(strange)
        return f"{match[0].rpartition(' ')[0]} {chance.choice(strange).rpartition(' ')[2]}"  # another family name

    return NAME.sub(other, text, count=0 if strength == 3 else 1) if strange else text


def _negate(text: str, strength: int, chance: random.Random, names: Sequence[str]) -> str:
    if _NEGATED.search(text):
        return _NEGATED.sub(lambda match: match[1] or match[2], text, count=1)
    return _AUXILIARY.sub(lambda match: match[1].replace(" ", " not ") if " " in match[1] else f"{match[1]} not",
                          text, count=1)  # fmt: skip


def _spliced(spoken: Sequence[str], strength: int, chance: random.Random, strangers: Sequence[str]) -> str:
    """One, two or as many strange sentences as the answer has, at least three, each cited like its neighbor."""
    mark = re.search(r"\s*\[\d+\]\.?$", spoken[-1]) if spoken else None
    count = {1: 1, 2: 2, 3: max(3, len(spoken))}[strength]
    added = [
        f"{text.rstrip('. ')}{mark[0] if mark else '.'}"
        for text in chance.sample(list(strangers), min(count, len(strangers)))
    ]
    place = chance.randint(0, len(spoken))
    return " ".join([*spoken[:place], *added, *spoken[place:]])


_ALTERED: Final[Mapping[str, Alter]] = {
    "numbers": _numbers,
    "dates": _dates,
    "entities": _entities,
    "negate": _negate,
}
