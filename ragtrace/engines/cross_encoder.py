"""Relevance of (query, text) pairs by a sentence-transformers cross-encoder, loaded by folder or name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragtrace.engines.gradients import TokenGradients, embedded, widened
from ragtrace.engines.loading import device_of, digest_of, load_package, load_pretrained, revision_of, torch_threads
from ragtrace.engines.tokens import Baseline, Side, check_side, pair_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CrossEncoder"]


class CrossEncoder:
    """A model with one relevance score per (query, text) pair; higher is more relevant."""

    kind: Final = "cross_encoder"

    def __init__(self, name: str, model: Any, folder: str | None = None) -> None:
        self.name = name
        self._model = model
        self._folder = folder

    @property
    def revision(self) -> str | None:
        """The commit of the model hub; of a local folder the digest of its files."""
        return revision_of(self._model, self._folder)

    @property
    def device(self) -> str:
        """`cpu`, `cuda` and the like."""
        return device_of(self._model)

    @classmethod
    def load(cls, model: str | Path) -> CrossEncoder:
        """Load a cross-encoder from a folder, or by its Hugging Face name.

        Raises: ModelError when it cannot be loaded, MissingExtraError without the models extra.
        """
        library = load_package("sentence_transformers", package="sentence-transformers")
        loaded = load_pretrained(
            model, lambda name, local: library.CrossEncoder(name, num_labels=1, local_files_only=local)
        )
        return cls(Path(model).name, loaded.requires_grad_(False), digest_of(model))

    def scores(self, query: str, texts: Sequence[str], *, threads: int | None = 1) -> NDArray[np.float32]:
        """Relevance of each text to `query`: `(n,)`, on the model's own scale. threads: of torch on the CPU."""
        import numpy as np

        pairs = [(query, text) for text in texts]
        with torch_threads(threads):
            found = self._model.predict(pairs, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32).reshape(len(pairs))

    def gradients(
        self,
        query: str,
        documents: Sequence[str],
        *,
        of: Side = "document",
        baseline: Baseline = "unk",
        logits: bool = False,
        batch_tokens: int | None = None,
        threads: int | None = 1,
    ) -> TokenGradients:
        """The scores of pairs as a function of the token embeddings of one side, the other held fixed.

        of: the side to attribute to. logits: without the model's own activation, which hides differences where it
        saturates; else the values are those of `scores`.

        Raises: ModelError for a model without token embeddings, or without the token of the baseline.
        """
        check_side(of)
        model = self._model.eval()
        features = [self._features(query, document) for document in documents]
        with torch_threads(threads):
            texts = [embedded(self.name, model, each, lambda given: model(given)) for each in features]
        pairs = zip(texts, documents, strict=True)
        tokens = [pair_tokens(text.tokenizer, text.ids, query, document) for text, document in pairs]

        def score(features: dict[str, Any], _: Sequence[int]) -> Any:
            found = widened(model(features)["scores"]).reshape(len(features["input_ids"]))
            return found if logits else model.activation_fn(found)

        return TokenGradients(
            self.name, texts, tokens, frozenset({of}), score, baseline, batch_tokens=batch_tokens, threads=threads
        )

    def _features(self, query: str, document: str) -> dict[str, Any]:
        features = self._model.preprocess([(query, document)])
        return {key: value.to(self._model.device) if hasattr(value, "to") else value for key, value in features.items()}
