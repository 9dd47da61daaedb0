"""A prompt as a user's message in a model's chat format, as token ids: what it says is text, whatever it says."""

from __future__ import annotations

import logging
from typing import Any, Final, TypeAlias

__all__ = ["chat_ids", "chat_pieces"]

_LOG: Final = logging.getLogger("ragtrace")
Piece: TypeAlias = tuple[int, int, int]
"""A token: its id, and where it stands in the prompt; outside of it where it is the format's."""


def chat_ids(tokenizer: Any, prompt: str) -> list[int]:
    """Token ids of the chat, with the assistant's turn opened.

    The template is rendered straight to ids: a rendered string that is tokenized again gets a second BOS. Where a
    document spells a control token, such as `</s>`, it is no control token: it would end the turn that holds it.
    """
    encoded = tokenizer.apply_chat_template(_turns(prompt), add_generation_prompt=True, return_dict=True)
    ids = [int(token) for token in encoded["input_ids"]]
    if not any(text in prompt for text in _controls(tokenizer).values()):
        return ids
    pieces = chat_pieces(tokenizer, prompt)
    if pieces is None:
        _LOG.warning("the prompt spells a control token of the model, and it cannot be told apart; it counts as one")
        return ids
    return [token for token, _, _ in pieces]


def chat_pieces(tokenizer: Any, prompt: str) -> list[Piece] | None:
    """The tokens of the chat; None where it is not known where they stand, or the format changes the text."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    text = str(tokenizer.apply_chat_template(_turns(prompt), add_generation_prompt=True, tokenize=False))
    own = prompt.strip()
    start = text.find(own)
    if start < 0:
        return None
    controls = _controls(tokenizer)
    whole = _encoded(tokenizer, text)
    found: list[Piece] = []
    at = 0
    for token, first, last in whole:
        if token in controls and last > first and not (first < start + len(own) and last > start):
            found += [*_encoded(tokenizer, text[at:first], at, split=True), (token, first, last)]
            at = last
    found += _encoded(tokenizer, text[at:], at, split=True)
    if not any(control in own for control in controls.values()) and found != whole:
        found = whole  # a tokenizer that reads a text otherwise where it begins
    shift = start - (len(prompt) - len(prompt.lstrip()))
    return [(token, first - shift, last - shift) for token, first, last in found]


def _turns(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


def _controls(tokenizer: Any) -> dict[int, str]:
    """Control tokens: their ids, and how they are spelled."""
    return {int(number): str(token) for number, token in tokenizer.added_tokens_decoder.items() if token.special}


def _encoded(tokenizer: Any, text: str, at: int = 0, *, split: bool = False) -> list[Piece]:
    """The tokens of a part of the text, none of them a control token where it is `split`."""
    encoded = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, split_special_tokens=split, verbose=False
    )
    places = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    return [(int(token), at + int(first), at + int(last)) for token, (first, last) in places]
