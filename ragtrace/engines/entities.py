"""Named entities from a spaCy pipeline by name or folder."""

from __future__ import annotations

from typing import Any

from ragtrace.engines.pipelines import load_pipeline, parsed
from ragtrace.errors import ModelError

__all__ = ["EntityReader"]


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
        return cls(pipeline, load_pipeline(pipeline))

    def __call__(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, label) of each entity, in order. Raises: ModelError when the pipeline refuses the text."""
        found = parsed(self.name, self._pipeline, text).ents
        return [(each.start_char, each.end_char, each.label_) for each in found]
