"""Parts of speech from a spaCy pipeline by name."""

from __future__ import annotations

from typing import Any

from ragtrace.engines.pipelines import load_pipeline, parsed
from ragtrace.errors import ModelError

__all__ = ["Tagger"]


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
        return cls(pipeline, load_pipeline(pipeline))

    def tagged(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, tag) of each token; tags are Universal POS tags.

        Raises: ModelError when the pipeline gives no tags, or refuses the text.
        """
        tokens = [token for token in parsed(self.name, self._pipeline, text) if not token.is_space]
        if tokens and not any(token.pos_ for token in tokens):
            raise ModelError(f"spaCy pipeline {self.name!r} gives no parts of speech; give one with a tagger")
        return [(token.idx, token.idx + len(token.text), token.pos_) for token in tokens]
