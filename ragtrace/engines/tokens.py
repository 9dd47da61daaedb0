"""Tokens of a text with their offsets into it, and the baselines that a tokenizer offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, get_args

from ragtrace.errors import ModelError

__all__ = ["Baseline", "Side", "Token", "baseline_id", "check_side", "pair_tokens", "text_tokens"]

Baseline: TypeAlias = Literal["unk", "mask", "pad", "zero"]
Side: TypeAlias = Literal["query", "document"]
_NAMED: Final = ("unk", "mask", "pad")


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


def text_tokens(tokenizer: Any, ids: Sequence[int], prompt: str, text: str, part: Side) -> tuple[Token, ...]:
    """The tokens of one text, as the model was given it: `ids`.

    Raises: ModelError when the tokenizer does not say where a token stands, or reads the text in another way.
    """
    found = _encoded(tokenizer, ids, prompt + text)
    return tuple(_moved(token, len(prompt), part) for token, _ in found)


def pair_tokens(tokenizer: Any, ids: Sequence[int], query: str, document: str) -> tuple[Token, ...]:
    """The tokens of a pair, as a cross-encoder was given it. Raises: as `text_tokens`."""
    return tuple(
        replace(token, part="query" if side == 0 else "document") if token.end > token.start else token
        for token, side in _encoded(tokenizer, ids, query, document)
    )


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


def _encoded(tokenizer: Any, ids: Sequence[int], *texts: str) -> list[tuple[Token, int | None]]:
    """The tokens, all of the text's part `document` where they have a place, and which of the texts they are of."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError("the tokenizer does not say where its tokens stand; load the model with a fast tokenizer")
    encoded = tokenizer(*texts, return_offsets_mapping=True, truncation=True, max_length=len(ids), verbose=False)
    if list(encoded["input_ids"]) != list(ids):
        raise ModelError(
            "the model reads other tokens than its tokenizer gives for the text, so they have no place in it"
        )
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    places = zip(tokens, encoded["offset_mapping"], encoded.sequence_ids(), strict=True)
    return [
        (Token(token, 0, 0, "special") if side is None else Token(token, start, end, "document"), side)
        for token, (start, end), side in places
    ]


def _moved(token: Token, prompt: int, part: Literal["query", "document"]) -> Token:
    """The offsets without the prompt in front; a token across its end is the text's."""
    if token.part == "special":
        return token
    if prompt and token.end <= prompt:
        return Token(token.text, 0, 0, "prompt")
    return Token(token.text, max(0, token.start - prompt), token.end - prompt, part)
