"""Relevance of (query, text) pairs by a sentence-transformers cross-encoder, loaded by folder or name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from ragtrace.engines._gradients import (
    EmbeddedText,
    Features,
    TokenGradients,
    embedded,
    features_of,
    frozen,
    reading,
    widened,
)
from ragtrace.engines.models import LoadedModel, digest_of, load_package, load_pretrained, torch_threads
from ragtrace.engines.tokens import (
    MARKS,
    Baseline,
    Side,
    Token,
    check_side,
    framed_tokens,
    pair_tokens,
    readable,
)
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CrossEncoder"]


class CrossEncoder(LoadedModel):
    """A model with one relevance score per (query, text) pair; higher is more relevant.

    Raises: ModelError for a model with several scores per pair, or with none that was trained.
    """

    kind: Final = "cross_encoder"

    def __init__(self, name: str, model: Any, folder: str | None = None) -> None:
        super().__init__(name, model, folder)
        self._lock = Lock()  # how far a tokenizer reads is its state: two threads at once would cut each other's texts
        _check(name, model)

    @classmethod
    def load(cls, model: str | Path) -> CrossEncoder:
        """Load a cross-encoder from a folder, or by its Hugging Face name.

        Raises: ModelError when it cannot be loaded, MissingExtraError without the models extra.
        """
        library = load_package("sentence_transformers", package="sentence-transformers")
        loaded = load_pretrained(model, lambda name, local: library.CrossEncoder(name, local_files_only=local))
        return cls(Path(model).name, frozen(loaded), digest_of(model))

    def scores(self, query: str, texts: Sequence[str], *, threads: int | None = 1) -> NDArray[np.float32]:
        """Relevance of each text to `query`: `(n,)`, on the model's own scale. threads: of torch on the CPU."""
        import numpy as np

        pairs = [(readable(query), readable(text)) for text in texts]
        with self._lock, reading(self.name), torch_threads(threads):
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
        with torch_threads(threads):
            read = [self._embedded(readable(query), readable(document)) for document in documents]
        texts, tokens = [text for text, _ in read], [tokens for _, tokens in read]

        def score(features: Features, _: Sequence[int]) -> Any:
            found = widened(self._model(features)["scores"])
            return (found if logits else self._model.activation_fn(found)).reshape(len(features["input_ids"]))

        return TokenGradients(
            self.name, texts, tokens, frozenset({of}), score, baseline, batch_tokens=batch_tokens, threads=threads
        )

    def _embedded(self, query: str, document: str) -> tuple[EmbeddedText, tuple[Token, ...]]:
        """A pair as the model reads it, with its tokens."""
        prompt = self._model.prompts.get(self._model.default_prompt_name) or ""
        with self._lock:
            features = features_of(self.name, self._model, (query, document), prompt=prompt or None)
            read = embedded(self.name, self._model, features, lambda given: self._model(given))
            if features.get("modality") != "message":
                return read, pair_tokens(read.tokenizer, read.ids, prompt, query, document)
            marks = (MARKS["query"], MARKS["document"])
            framed = features_of(self.name, self._model, marks, prompt=prompt or None)["input_ids"][0].tolist()
            return read, framed_tokens(read.tokenizer, read.ids, framed, {"query": query, "document": document})


def _check(name: str, model: Any) -> None:
    if model.num_labels != 1:
        raise ModelError(f"model {name!r} has {model.num_labels} scores for a pair; give a reranker, which has one")
    for part in model.modules():
        if getattr(part, "transformer_task", None) == "sequence-classification":
            saved = getattr(part.model.config, "architectures", None) or []
            if saved and not any(each.endswith("ForSequenceClassification") for each in saved):
                raise ModelError(
                    f"model {name!r} is a {saved[0]}: weights that score a pair are not in it; give a reranker"
                )
