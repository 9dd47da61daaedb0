"""Tokens of a text with their offsets into it, and the baselines that a tokenizer offers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from ragtrace.errors import ModelError

__all__ = [
    "MARKS",
    "Baseline",
    "Side",
    "Token",
    "baseline_id",
    "check_side",
    "cut",
    "framed_tokens",
    "pair_tokens",
    "readable",
    "text_tokens",
]

Baseline: TypeAlias = Literal["unk", "mask", "pad", "zero"]
Side: TypeAlias = Literal["query", "document"]
_NAMED: Final = ("unk", "mask", "pad")
_OTHER_TOKENS: Final = "the model reads other tokens than its tokenizer gives for the text, so they have no place in it"

MARKS: Final[dict[Side, str]] = {"query": "\ue000", "document": "\ue001"}
"""Signs for private use, which no text has; see `framed_tokens`."""

_Encoded: TypeAlias = tuple[str, int | None, tuple[int, int]]
"""A token, the number of its text (None for a special one), and its offsets."""
_Text: TypeAlias = tuple[Side, str, str]
"""The side of a pair that it is, the prompt in front, and the text."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `text[start:end]` is where it stands in the query or document. Special tokens and prompts have no place.

    part: `query` or `document`, `prompt` for an instruction that the retriever puts in front, else `special`.
    """

    text: str
    start: int
    end: int
    part: Literal["query", "document", "prompt", "special"]


def check_side(of: str) -> None:
    """Raises: ModelError for a side of a pair that there is not."""
    if of not in get_args(Side):
        raise ModelError(f"no side {of!r} to attribute to; give one of {', '.join(get_args(Side))}")


def readable(text: str) -> str:
    """`text` with "?" in place of lone surrogates, which tokenizers refuse; of the same length."""
    return text.encode("utf-8", "replace").decode()


def cut(tokenizer: Any, text: str, room: int) -> list[str]:
    """Pieces of a text that have at most `room` tokens each."""
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    starts = range(0, max(1, len(offsets)), max(1, room))
    if len(starts) == 1:
        return [text]
    ends = [offsets[min(start + room, len(offsets)) - 1][1] for start in starts]
    return [text[offsets[start][0] : end] for start, end in zip(starts, ends, strict=True)]


def text_tokens(tokenizer: Any, ids: Sequence[int], prompt: str, text: str, part: Side) -> tuple[Token, ...]:
    """The tokens of one text behind its prompt, as the model was given them: `ids`.

    Raises: ModelError when the tokenizer does not say where a token stands, or reads the text in another way.
    """
    return tuple(_token_at(found, [(part, prompt, text)]) for found in _encoded(tokenizer, ids, prompt + text))


def pair_tokens(tokenizer: Any, ids: Sequence[int], prompt: str, query: str, document: str) -> tuple[Token, ...]:
    """The tokens of a pair, as a cross-encoder was given it; the prompt stands before the query.

    Raises: as `text_tokens`.
    """
    sides: list[_Text] = [("query", prompt, query), ("document", "", document)]
    return tuple(_token_at(found, sides) for found in _encoded(tokenizer, ids, prompt + query, document))


def framed_tokens(
    tokenizer: Any, ids: Sequence[int], framed: Sequence[int], texts: Mapping[Side, str]
) -> tuple[Token, ...]:
    """The tokens of texts that a chat template stands around; its own are special.

    framed: what the model is given for `MARKS` in the place of the texts. Raises: as `text_tokens`.
    """
    whole = _decoded(tokenizer, ids)
    encoded = tokenizer(
        whole,
        add_special_tokens=False,
        return_offsets_mapping=True,
        truncation=True,
        max_length=len(ids),
        verbose=False,
    )
    frame = re.split(f"([{''.join(MARKS.values())}])", _decoded(tokenizer, framed))
    places = _framed(whole, frame, texts)
    if list(encoded["input_ids"]) != list(ids) or places is None:
        raise ModelError(_OTHER_TOKENS)
    found = zip(tokenizer.convert_ids_to_tokens(list(ids)), encoded["offset_mapping"], strict=True)
    return tuple(_within(name, place, places, texts) for name, place in found)


def baseline_id(tokenizer: Any, baseline: Baseline, name: str) -> int | None:
    """The token that stands for "nothing known"; None for `zero`, which is no token.

    Raises: ModelError for a token that the model does not have, with those that it has.
    """
    if baseline not in get_args(Baseline):
        raise ModelError(f"no baseline {baseline!r}; give one of {', '.join(get_args(Baseline))}")
    ids = {known: getattr(tokenizer, f"{known}_token_id", None) for known in _NAMED}
    if baseline != "zero" and ids[baseline] is None:
        others = [known for known, number in ids.items() if number is not None] + ["zero"]
        raise ModelError(f"model {name!r} has no {baseline} token; give baseline {' or '.join(map(repr, others))}")
    return ids.get(baseline)


def _encoded(tokenizer: Any, ids: Sequence[int], *texts: str) -> list[_Encoded]:
    """The tokens with their offsets, and which of the texts they are of."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError("the tokenizer does not say where its tokens stand; load the model with a fast tokenizer")
    batch = [[text] for text in texts]  # by itself an empty second text is taken for none
    encoded = tokenizer(*batch, return_offsets_mapping=True, truncation=True, max_length=len(ids), verbose=False)
    if list(encoded["input_ids"][0]) != list(ids):
        raise ModelError(_OTHER_TOKENS)
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    return list(zip(tokens, encoded.sequence_ids(0), encoded["offset_mapping"][0], strict=True))


def _token_at(encoded: _Encoded, texts: Sequence[_Text]) -> Token:
    """A token with its place in its text, the prompt in front not counted; one across the prompt's end is the text's.

    A space that is a token by itself may have no length; its place is the character that it stands before.
    """
    name, side, (start, end) = encoded
    if side is None:
        return Token(name, 0, 0, "special")
    part, prompt, text = texts[side]
    if prompt and end <= len(prompt):
        return Token(name, 0, 0, "prompt")
    start, end = max(0, start - len(prompt)), end - len(prompt)
    if start == end:
        start, end = max(0, min(start, len(text) - 1)), min(start + 1, len(text))
    return Token(name, start, end, part)


def _decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _framed(whole: str, frame: Sequence[str], texts: Mapping[Side, str]) -> dict[Side, tuple[int, int, int]] | None:
    """Of each text its beginning and end in the whole, and how many of its first characters the template leaves out.

    The template may trim the texts, and the last one may be cut at its end; None for any other difference.
    """
    sides: dict[str, Side] = {mark: side for side, mark in MARKS.items()}
    order = [sides[mark] for mark in frame[1::2]]
    places: dict[Side, tuple[int, int, int]] = {}
    at = 0
    for before, side, after in zip(frame[::2], order, frame[2::2], strict=False):
        text, start = texts.get(side, ""), at + len(before)
        if side is order[-1]:
            at = len(whole) - len(after)
        else:
            at = start + len(text if whole.startswith(text, start) else text.strip())
        read = whole[start:at]
        left_out = 0 if text.startswith(read) else len(text) - len(text.lstrip())
        if not (whole.startswith(before, start - len(before)) and text.startswith(read, left_out)):
            return None
        places[side] = (start, at, left_out)
    return places if whole.endswith(frame[-1]) and sorted(order) == sorted(texts) else None


def _within(
    name: str, place: tuple[int, int], places: Mapping[Side, tuple[int, int, int]], texts: Mapping[Side, str]
) -> Token:
    """The token at a place of the whole; one across a text's border is the text's."""
    for side, (start, end, left_out) in places.items():
        if place[0] < end and place[1] > start:
            own = (max(place[0], start) - start + left_out, min(place[1], end) - start + left_out)
            return _token_at((name, 0, own), [(side, "", texts[side])])
    return Token(name, 0, 0, "special")
