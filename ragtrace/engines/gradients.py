"""Scores as a function of token embeddings, with their gradients: what Integrated Gradients asks of a model.

The embeddings are put in the place of what the model's `get_input_embeddings` returns, so that everything behind it
(positions, pooling, normalization, heads) is the model's own, whatever its architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ragtrace.engines.embedded import EmbeddedText, Features, replaced, too_long
from ragtrace.engines.loading import torch_threads
from ragtrace.engines.memory import pass_on_unless_memory
from ragtrace.engines.tokens import Baseline, Token, baseline_id

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Scores: TypeAlias = NDArray[np.float64]

__all__ = ["TokenGradients", "widened"]

Score: TypeAlias = Callable[[Features, Sequence[int]], Any]
"""Takes features of a batch and whose they are, returns a tensor of scores `(n,)`."""

_CPU_TOKENS: Final = 2048
_GPU_TOKENS: Final = 16384
_ROUNDING: Final = 8.0  # times the precision of its weights a score may change among others in a batch
_LEAST: Final = 1e-4


@dataclass(slots=True)
class TokenGradients:
    """The scores of n query-document pairs as a function of the token embeddings of one side.

    Args:
        name: the model, for messages.
        texts: the side that is attributed to, one per pair.
        tokens: their tokens.
        parts: which tokens move; the others stay as they are.
        score: the model.
        baseline: what moving tokens start from.
        batch_tokens: tokens in one forward pass; None chooses by device. Halved for good when memory runs out. A model
            whose scores padding changes gets texts of one length at a time.
        threads: of torch on the CPU, while it is asked.
    """

    name: str
    texts: Sequence[EmbeddedText]
    tokens: Sequence[tuple[Token, ...]]
    parts: frozenset[str]
    score: Score
    baseline: Baseline = "unk"
    batch_tokens: int | None = None
    threads: int | None = 1
    inputs: list[Floats] = field(init=False)
    baselines: list[Floats] = field(init=False)
    _pads: bool | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self.inputs = [text.vectors for text in self.texts]
        self.baselines = [self._baseline(text, tokens) for text, tokens in zip(self.texts, self.tokens, strict=True)]

    def value_and_grad(self, points: Floats, owners: NDArray[np.intp]) -> tuple[Scores, Floats]:
        """Scores `(n,)` and gradients of `(n, n_tokens, dimension)` points, padded at their end.

        owners: `(n,)`, whose points they are.
        """
        return self._asked(points, owners, gradient=True)

    def value(self, points: Floats, owners: NDArray[np.intp]) -> Scores:
        """Scores `(n,)` of points, without their gradients."""
        return self._asked(points, owners, gradient=False)[0]

    def _baseline(self, text: EmbeddedText, tokens: tuple[Token, ...]) -> Floats:
        import numpy as np
        import torch

        moving = np.array([token.part in self.parts for token in tokens], dtype=np.bool_)
        start: Floats = text.vectors.copy()
        number = baseline_id(text.tokenizer, self.baseline, self.name)
        if number is None:
            start[moving] = 0
        else:
            given = torch.full_like(text.features["input_ids"][:, :1], number)
            with torch.no_grad():
                start[moving] = text.layer(given)[0, 0].float().cpu().numpy()
        return start

    def _asked(self, points: Floats, owners: NDArray[np.intp], *, gradient: bool) -> tuple[Scores, Floats]:
        """Rows of like length together, as many as fit."""
        import numpy as np

        lengths = np.array([len(self.inputs[owner]) for owner in owners])
        order = np.argsort(lengths, kind="stable")
        values = np.zeros(len(points))
        gradients = np.zeros_like(points, dtype=np.float32) if gradient else np.zeros((0, 0, 0), dtype=np.float32)
        at = 0
        with torch_threads(self.threads):
            while at < len(order):
                rows = order[at : at + self._fitting(lengths[order[at:]])]
                try:
                    found, slopes = self._run([int(owner) for owner in owners[rows]], points[rows], gradient)
                except (RuntimeError, MemoryError) as error:
                    self._make_smaller(error, rows=len(rows), width=int(lengths[rows].max()))
                    continue
                values[rows] = found
                if gradient:
                    gradients[rows, : slopes.shape[1]] = slopes
                at += len(rows)
        return values, gradients

    def _run(self, owners: list[int], points: Floats, gradient: bool) -> tuple[Scores, Floats]:
        """One forward pass, and the backward pass to the embeddings."""
        import numpy as np
        import torch

        features, real = _collated([self.texts[owner] for owner in owners])
        first = self.texts[owners[0]]
        ids = features["input_ids"]
        placed = np.zeros((*real.shape, points.shape[2]), dtype=np.float32)
        inside = np.arange(points.shape[1]) < real.sum(axis=1, keepdims=True)
        placed[real] = points[inside]
        with torch.set_grad_enabled(gradient):
            with torch.no_grad():
                padding = first.layer(ids)
            leaf = torch.from_numpy(placed).to(padding).requires_grad_(gradient)
            vectors = torch.where(torch.from_numpy(real).to(ids.device)[..., None], leaf, padding)
            with replaced(first.layer, ids, vectors):
                scores = self.score(features, owners)
            slopes = torch.autograd.grad(scores.sum(), leaf)[0].float().cpu().numpy() if gradient else placed[:0]
        if not gradient:
            return scores.detach().cpu().numpy(), slopes
        moved = np.zeros((len(owners), int(real.sum(axis=1).max()), points.shape[2]), dtype=np.float32)
        moved[inside[:, : moved.shape[1]]] = slopes[real]
        return scores.detach().cpu().numpy(), moved

    def _fitting(self, lengths: NDArray[np.int_]) -> int:
        """How many rows, shortest first, stay within the tokens of one pass; at least one."""
        import numpy as np

        if lengths[0] < lengths[-1] and not self._may_be_padded():
            lengths = lengths[lengths == lengths[0]]
        allowed = self.batch_tokens or self._default_tokens()
        padded = lengths * np.arange(1, len(lengths) + 1)
        return max(1, int(np.searchsorted(padded, allowed, side="right")))

    def _may_be_padded(self) -> bool:
        """Whether the shortest text has the same score alone and in a batch with the longest; found out once.

        Positions that are counted from the padding on change it, or a model that heeds no mask.
        """
        import numpy as np
        import torch

        if self._pads is None:
            lengths = [len(vectors) for vectors in self.inputs]
            pair = [int(np.argmin(lengths)), int(np.argmax(lengths))]
            points = np.stack([np.resize(self.inputs[owner], self.inputs[pair[1]].shape) for owner in pair])
            try:
                alone = self._run(pair[:1], points[:1], False)[0][0]
                among = self._run(pair, points, False)[0][0]
            except (RuntimeError, MemoryError) as error:
                pass_on_unless_memory(error)
                return False
            eps = torch.finfo(next(self.texts[0].layer.parameters()).dtype).eps
            self._pads = bool(abs(among - alone) <= max(_LEAST, _ROUNDING * eps) * max(1.0, abs(alone)))
        return self._pads

    def _default_tokens(self) -> int:
        on_cpu = not self.texts or self.texts[0].features["input_ids"].device.type == "cpu"
        return _CPU_TOKENS if on_cpu else _GPU_TOKENS

    def _make_smaller(self, error: RuntimeError | MemoryError, *, rows: int, width: int) -> None:
        """Halve the batch when memory ran out, unless it was a single row; other errors are passed on."""
        pass_on_unless_memory(error)
        if rows == 1:
            raise too_long(width) from error
        self.batch_tokens = max(1, rows // 2) * width


def widened(numbers: Any) -> Any:
    """A tensor in double precision, where its device has it: the last sum of a score is done in it."""
    return numbers.float() if numbers.device.type == "mps" else numbers.double()


def _collated(texts: Sequence[EmbeddedText]) -> tuple[Features, NDArray[np.bool_]]:
    """The features of a batch, padded on the tokenizer's side, and where its real tokens are: `(n, n_tokens)`."""
    import numpy as np
    import torch

    lengths = [text.features["input_ids"].shape[1] for text in texts]
    width, left = max(lengths), getattr(texts[0].tokenizer, "padding_side", "right") == "left"
    padding = {"input_ids": getattr(texts[0].tokenizer, "pad_token_id", None) or 0}
    columns, sizes = np.arange(width), np.array(lengths)[:, None]
    real = columns >= width - sizes if left else columns < sizes
    batch: Features = dict(texts[0].features)
    for key, value in batch.items():
        if not torch.is_tensor(value) or value.ndim == 0:
            continue
        rows = [text.features[key] for text in texts]
        if value.ndim == 2 and value.shape[1] == lengths[0]:
            sides = [(width - length, 0) if left else (0, width - length) for length in lengths]
            rows = [
                torch.nn.functional.pad(row, side, value=padding.get(key, 0))
                for row, side in zip(rows, sides, strict=True)
            ]
        batch[key] = torch.cat(rows)
    return batch, real
