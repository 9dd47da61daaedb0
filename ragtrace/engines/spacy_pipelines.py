"""spaCy pipelines by name or folder: their named entities and parts of speech."""

from __future__ import annotations

from typing import Any

from ragtrace.engines.models import load_package
from ragtrace.engines.tokens import readable
from ragtrace.errors import ModelError

__all__ = ["EntityReader", "Tagger"]


def _load_spacy(name: str) -> Any:
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


def _parsed(name: str, pipeline: Any, text: str) -> Any:
    """What a pipeline makes of a text. Raises: ModelError for a text that it refuses, such as one that is too long."""
    try:
        return pipeline(readable(text))
    except ValueError as error:
        raise ModelError(f"spaCy pipeline {name!r} cannot read a text of {len(text)} characters: {error}") from error


class EntityReader:
    """Reads the named entities of texts. `name`: the pipeline's.

    Raises: ModelError for a pipeline without a part that finds entities.
    """

    def __init__(self, name: str, pipeline: Any) -> None:
        if not {"ner", "entity_ruler", "span_ruler"} & set(pipeline.pipe_names):
            raise ModelError(f"spaCy pipeline {name!r} finds no entities; give one with ner or an entity_ruler")
        self.name = name
        self._pipeline = pipeline

    @classmethod
    def load(cls, pipeline: str) -> EntityReader:
        """Load an installed spaCy pipeline by name or folder, such as `en_core_web_sm`.

        Raises: MissingExtraError without spaCy, ModelError when there is no such pipeline, or it finds no entities.
        """
        return cls(pipeline, _load_spacy(pipeline))

    def __call__(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, label) of each entity, in order. Raises: ModelError when the pipeline refuses the text."""
        found = _parsed(self.name, self._pipeline, text).ents
        return [(each.start_char, each.end_char, each.label_) for each in found]


class Tagger:
    """Tags the words of texts. `name`: the pipeline's."""

    def __init__(self, name: str, pipeline: Any) -> None:
        self.name = name
        self._pipeline = pipeline

    @classmethod
    def load(cls, pipeline: str) -> Tagger:
        """Load an installed spaCy pipeline by name or folder, such as `en_core_web_sm`.

        Raises: MissingExtraError without spaCy, ModelError when there is no such pipeline.
        """
        return cls(pipeline, _load_spacy(pipeline))

    def tagged(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, tag) of each token; tags are Universal POS tags.

        Raises: ModelError when the pipeline gives no tags, or refuses the text.
        """
        tokens = [token for token in _parsed(self.name, self._pipeline, text) if not token.is_space]
        if tokens and not any(token.pos_ for token in tokens):
            raise ModelError(f"spaCy pipeline {self.name!r} gives no parts of speech; give one with a tagger")
        return [(token.idx, token.idx + len(token.text), token.pos_) for token in tokens]
