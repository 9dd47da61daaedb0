"""A prompt and an answer as token ids, cut where the answer begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ragtrace.engines.token_texts import GivenText, joined

__all__ = ["Continued", "bare", "behind", "continued"]

Place: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Continued:
    """The ids of a prompt, and those of the answer behind it.

    Attributes:
        before, own: the ids of the prompt and of the answer.
        prompt_places: where the tokens of `before` stand in the prompt; None where the tokenizer does not say.
        places: where those of `own` stand in the answer.
        takes_space: whether the answer's first token holds the white space in front of the answer.
    """

    before: list[int]
    own: list[int]
    prompt_places: list[Place] | None
    places: list[Place] | None
    takes_space: bool


def continued(tokenizer: Any, prompt: str, answer: str) -> Continued:
    """Both as one text, with a space between them where neither has one: what a server makes of it, too.

    A token across the border is the answer's, unless nothing but white space of the answer is in it.
    """
    given = joined(prompt, answer)
    if not getattr(tokenizer, "is_fast", False):
        return _by_prefix(tokenizer, prompt, given)
    encoded = tokenizer(given.text, return_offsets_mapping=True, verbose=False)
    count = _visible(encoded.sequence_ids())
    ids = [int(token) for token in encoded["input_ids"][:count]]
    places = [(int(start), int(end)) for start, end in encoded["offset_mapping"][:count]]
    first = next((at for at, place in enumerate(places) if given.is_own(*place)), count)
    shifted = [(max(0, start - given.shift), max(0, end - given.shift)) for start, end in places[first:]]
    covered = places[first - 1][1] if first else 0
    return Continued(ids[:first], ids[first:], places[:first], shifted, covered < given.shift)


def bare(tokenizer: Any, answer: str) -> Continued:
    """The answer by itself, as a turn of a chat begins with it; what it says is text."""
    if not getattr(tokenizer, "is_fast", False):
        ids = tokenizer(answer, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return Continued([], [int(token) for token in ids], None, None, False)
    encoded = tokenizer(
        answer, add_special_tokens=False, return_offsets_mapping=True, split_special_tokens=True, verbose=False
    )
    places = [(int(start), int(end)) for start, end in encoded["offset_mapping"]]
    return Continued([], [int(token) for token in encoded["input_ids"]], None, places, False)


def behind(tokenizer: Any, prompt: str, answer: str, *, takes_space: bool) -> list[int]:
    """The ids of a prompt behind which the answer's tokens are those of another prompt.

    Of the white space before the answer neither too much nor too little stays: spaces at the prompt's end are left out
    where the answer's first token has one, and one is added where neither has.
    """
    text = prompt.rstrip(" ") if takes_space else joined(prompt, answer).text[: -len(answer)]
    encoded = tokenizer(text)
    count = _visible(encoded.sequence_ids()) if getattr(tokenizer, "is_fast", False) else None
    return [int(token) for token in encoded["input_ids"][:count]]


def _visible(sides: Sequence[int | None]) -> int:
    """How many tokens there are up to the last of the text: an end that the tokenizer adds is no part of it."""
    return max((at + 1 for at, side in enumerate(sides) if side is not None), default=len(sides))


def _by_prefix(tokenizer: Any, prompt: str, given: GivenText) -> Continued:
    """For a tokenizer that does not say where tokens stand: the answer's are those that the prompt alone has not."""
    alone = [int(token) for token in tokenizer(prompt)["input_ids"]]
    ids = [int(token) for token in tokenizer(given.text)["input_ids"]]
    pairs = zip(alone, ids, strict=False)
    first = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(alone), len(ids)))
    return Continued(ids[:first], ids[first:], None, None, first < len(alone) or given.shift > len(prompt))
