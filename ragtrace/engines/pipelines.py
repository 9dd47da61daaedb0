"""Loads spaCy pipelines by name or folder."""

from __future__ import annotations

from typing import Any

from ragtrace.engines.loading import load_package
from ragtrace.engines.tokens import readable
from ragtrace.errors import ModelError

__all__ = ["load_pipeline", "parsed"]


def load_pipeline(name: str) -> Any:
    """An installed spaCy pipeline, such as `en_core_web_sm`, or one in a folder.

    Raises: MissingExtraError without spaCy, ModelError when there is no such pipeline.
    """
    spacy = load_package("spacy", extra="spacy")
    try:
        return spacy.load(name)
    except (OSError, ImportError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"spaCy pipeline {name!r} cannot be loaded: {reason}; python -m spacy download {name}, "
            "or give the name or folder of another one"
        ) from error


def parsed(name: str, pipeline: Any, text: str) -> Any:
    """What a pipeline makes of a text. Raises: ModelError for a text that it refuses, such as one that is too long."""
    try:
        return pipeline(readable(text))
    except ValueError as error:
        raise ModelError(f"spaCy pipeline {name!r} cannot read a text of {len(text)} characters: {error}") from error
