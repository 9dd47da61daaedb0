"""Relevance of (query, text) pairs by a sentence-transformers cross-encoder, loaded by folder or name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.engines.loading import load_package, load_pretrained

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CrossEncoder"]


class CrossEncoder:
    """A model with one relevance score per (query, text) pair; higher is more relevant."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self._model = model

    @classmethod
    def load(cls, model: str | Path) -> CrossEncoder:
        """Load a cross-encoder from a folder, or by its Hugging Face name.

        Raises: ModelError when it cannot be loaded, MissingExtraError without the models extra.
        """
        library = load_package("sentence_transformers", package="sentence-transformers")
        loaded = load_pretrained(
            model, lambda name, local: library.CrossEncoder(name, num_labels=1, local_files_only=local)
        )
        return cls(Path(model).name, loaded)

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Relevance of each text to `query`: `(n,)`, on the model's own scale."""
        import numpy as np

        pairs = [(query, text) for text in texts]
        return np.asarray(self._model.predict(pairs, show_progress_bar=False), dtype=np.float32).reshape(len(pairs))
