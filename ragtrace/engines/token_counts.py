"""Tokenizers of models by their name, as far as they are on this machine: nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

__all__ = ["counting"]

_FILE: Final = "tokenizer.json"


@lru_cache(32)
def counting(model: str) -> Callable[[str], int] | None:
    """What counts a text's tokens by the tokenizer of a model's folder, or of its name in the hub's cache; None where
    neither has one, or `ragtrace[models]` is not installed."""
    file = _file(model)
    if file is None or find_spec("tokenizers") is None:
        return None
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception:  # its own errors have no common type; a file that is no tokenizer counts nothing
        return None
    return lambda text: len(tokenizer.encode(text).ids)


def _file(model: str) -> Path | None:
    """The tokenizer's file; a name that a sender made up is read as a name of the hub's alone."""
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, _FILE)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None
