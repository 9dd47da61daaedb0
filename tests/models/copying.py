"""Requests whose truth is known: a numbered document states the code that is asked for, and the answer copies it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["ATTRIBUTES", "CODES", "ENTITIES", "FILLERS", "LENGTH", "UNKNOWN", "WORDS", "Example", "make", "prompt_of"]

ENTITIES: Final = tuple(
    "amber basil cedar delta ember fjord grove heron indigo juniper kestrel lotus maple nectar onyx pearl quartz raven "
    "sable tulip umber violet willow xenon yarrow zephyr".split()
)
ATTRIBUTES: Final = ("code", "key", "tag", "mark", "seal", "sign")
CODES: Final = tuple(f"{first}{second}" for first in "bdfgklmnprstvz" for second in "aeiou")
FILLERS: Final = tuple(
    "noted checked filed copied sent kept read in the by on of old new north south east west office harbor station "
    "library archive team clerk guard monday tuesday friday june march april".split()
)
LENGTH: Final = 4  # words of a code
UNKNOWN: Final = "unknown"
WORDS: Final = tuple(
    dict.fromkeys(
        (*ENTITIES, *ATTRIBUTES, *CODES, *FILLERS, "is", "what", "question", "answer", UNKNOWN, ".", "?", ":", ",")
    )
)


@dataclass(frozen=True, slots=True)
class Example:
    """One request: `sources` are the places (from 0) of the documents that state the answer."""

    documents: tuple[str, ...]
    question: str
    answer: str
    sources: tuple[int, ...]


def _code(draw: random.Random) -> str:
    return " ".join(draw.choices(CODES, k=LENGTH))


def _document(draw: random.Random, entity: str, attribute: str, code: str) -> str:
    filler = " ".join(draw.choices(FILLERS, k=draw.randrange(0, 5)))
    fact = f"the {attribute} of {entity} is {code} ."
    return f"{fact} {filler} ." if filler else fact


def make(draw: random.Random, count: int, *, duplicates: int = 1, is_known: bool = True) -> Example:
    """A request with `count` documents.

    Distractors state another attribute of the same entity, the same attribute of others, or both others.

    Args:
        duplicates: how many documents state the answer, in other words around it.
        is_known: False leaves the answer out; it is then `unknown`.
    """
    entity, attribute = draw.choice(ENTITIES), draw.choice(ATTRIBUTES)
    others = [(one, other) for one in ENTITIES for other in ATTRIBUTES if (one, other) != (entity, attribute)]
    near = [pair for pair in others if entity in pair or attribute in pair]
    stated = duplicates if is_known else 0
    chosen = draw.sample(near, min(len(near), (count - stated) // 2))
    chosen += draw.sample([pair for pair in others if pair not in chosen], count - stated - len(chosen))
    code = _code(draw)
    documents = [(_document(draw, *pair, _code(draw)), False) for pair in chosen]
    documents += [(_document(draw, entity, attribute, code), True) for _ in range(stated)]
    draw.shuffle(documents)
    return Example(
        documents=tuple(text for text, _ in documents),
        question=f"what is the {attribute} of {entity} ?",
        answer=f"the {attribute} of {entity} is {code if is_known else UNKNOWN} .",
        sources=tuple(place for place, (_, is_source) in enumerate(documents) if is_source),
    )


def prompt_of(documents: Sequence[str], question: str) -> str:
    """The prompt: numbered documents, the question, and where the answer begins."""
    listed = "\n".join(f"[{number}] {text}" for number, text in enumerate(documents, 1))
    return f"{listed}\nquestion : {question}\nanswer :"
