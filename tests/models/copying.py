"""Requests whose truth is known: a numbered document states the code that is asked for, and the answer copies it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = [
    "CODES",
    "ENTITIES",
    "FILLERS",
    "LENGTH",
    "UNKNOWN",
    "WORDS",
    "Example",
    "make",
    "mention",
    "prompt_of",
    "state",
]

ENTITIES: Final = tuple(
    "amber basil cedar delta ember fjord grove heron indigo juniper kestrel lotus maple nectar onyx pearl quartz raven "
    "sable tulip umber violet willow xenon yarrow zephyr acorn birch coral dune elm fern garnet hazel iris jasper kelp "
    "lark moss nimbus olive plum reed sage thistle topaz vale wren aspen bramble clover daisy flint ginger ivy".split()
)
CODES: Final = tuple(f"{first}{second}{last}" for first in "bdfgklmnprstvz" for second in "aeiou" for last in "ns")
FILLERS: Final = tuple(
    "noted checked filed copied sent kept read in the by on of old new north south east west office harbor station "
    "library archive team clerk guard monday tuesday friday june march april".split()
)
LENGTH: Final = 4  # words of a code
UNKNOWN: Final = "unknown"
WORDS: Final = tuple(
    dict.fromkeys((*ENTITIES, *CODES, *FILLERS, *"code is was what question answer".split(), UNKNOWN, ".", "?", ":"))
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


def _filler(draw: random.Random, least: int) -> str:
    return " ".join(draw.choices(FILLERS, k=draw.randrange(least, 6)))


def state(draw: random.Random, entity: str, code: str) -> str:
    """A document that states a code."""
    fact, filler = f"the code of {entity} {code} .", _filler(draw, 0)
    return f"{fact} {filler} ." if filler else fact


def mention(draw: random.Random, entity: str) -> str:
    """A document that mentions an entity and states nothing."""
    return f"{entity} was {_filler(draw, 2)} ."


def make(draw: random.Random, count: int, *, duplicates: int = 1, mentions: int = 0, is_known: bool = True) -> Example:
    """A request with `count` documents; all that neither state the answer nor mention what is asked state others.

    Args:
        duplicates: how many documents state the answer, in other words around it.
        mentions: how many mention the entity that is asked about, without its code.
        is_known: False leaves the answer out; it is then `unknown`.
    """
    entity, *others = draw.sample(ENTITIES, count + 1)
    code = _code(draw)
    stated = duplicates if is_known else 0
    documents = [(state(draw, entity, code), True) for _ in range(stated)]
    documents += [(mention(draw, entity), False) for _ in range(min(mentions, count - stated))]
    documents += [(state(draw, other, _code(draw)), False) for other in others[: count - len(documents)]]
    draw.shuffle(documents)
    return Example(
        documents=tuple(text for text, _ in documents),
        question=f"what is the code of {entity} ?",
        answer=f"the code of {entity} {code if is_known else UNKNOWN} .",
        sources=tuple(place for place, (_, is_source) in enumerate(documents) if is_source),
    )


def prompt_of(documents: Sequence[str], question: str) -> str:
    """The prompt: numbered documents, the question, and where the answer begins."""
    listed = "\n".join(f"[{number}] {text}" for number, text in enumerate(documents, 1))
    return f"{listed}\nquestion : {question}\nanswer :"
