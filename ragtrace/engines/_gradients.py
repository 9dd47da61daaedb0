"""Gradients of a model's scores: by token embeddings, as Integrated Gradients asks for them, and by attention weights.

Token embeddings are put in the place of what the model's `get_input_embeddings` returns, so that everything behind it
(positions, pooling, normalization, heads) is the model's own, whatever its architecture. Other threads may use the
model meanwhile; they see nothing of it.
Attention times gradient is a cheap score to compare with: one forward and one backward pass, a score that does not add
up to anything, and prompts without a document are not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ragtrace.engines.models import OutOfMemoryError, device_of, pass_on_unless_memory, torch_threads
from ragtrace.engines.tokens import Baseline, Token, baseline_id
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Scores: TypeAlias = NDArray[np.float64]
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "EmbeddedText",
    "Features",
    "TokenGradients",
    "attention_times_gradient",
    "embedded",
    "features_of",
    "frozen",
    "reading",
    "replaced",
    "too_long",
    "widened",
]

Features: TypeAlias = dict[str, Any]
Score: TypeAlias = Callable[[Features, Sequence[int]], Any]
"""Takes features of a batch and whose they are, returns a tensor of scores `(n,)`."""
_CPU_TOKENS: Final = 2048
_GPU_TOKENS: Final = 16384
_ROUNDING: Final = 8.0  # times the precision of its weights a score may change among others in a batch
_LEAST: Final = 1e-4


def too_long(width: int) -> OutOfMemoryError:
    """The error of a text that does not fit the memory by itself."""
    return OutOfMemoryError(f"one text of {width} tokens does not fit the memory; give shorter texts")


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """One input of a model: its features, the embedding layer that read it, and the tokenizer that made it."""

    features: Features
    layer: Any
    tokenizer: Any
    vectors: Any

    @property
    def ids(self) -> list[int]:
        """Token ids."""
        return [int(number) for number in self.features["input_ids"][0]]


class _LayerRead(Exception):
    """Ends a forward pass that has shown what was asked."""

    def __init__(self, layer: Any, vectors: Any) -> None:
        self.layer = layer
        self.vectors = vectors


def frozen(model: Any) -> Any:
    """A loaded model whose weights get no gradients; on the CPU in float32 at least.

    There half precision is slow, and rounding would hide what a few tokens change.
    """
    kinds = {each.dtype for each in model.parameters() if each.is_floating_point()}
    if device_of(model) == "cpu" and any(kind.itemsize < 4 for kind in kinds):
        model = model.float()
    return model.requires_grad_(False)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Raises: ModelError for what a model's tokenizer refuses, such as padding without a padding token."""
    try:
        yield
    except ValueError as error:
        raise ModelError(f"model {name!r} cannot read the text: {error}") from error


def features_of(name: str, model: Any, text: Any, **options: Any) -> Features:
    """What the model makes of one input, on its device.

    Raises: ModelError where it finds no token in it, or its tokenizer refuses it.
    """
    with reading(name):
        features = model.eval().preprocess([text], **options)
    if "input_ids" in features and not features["input_ids"].numel():
        raise ModelError(f"model {name!r} finds no token in {text!r}; give a text that has one")
    return {key: value.to(model.device) if hasattr(value, "to") else value for key, value in features.items()}


def embedded(
    name: str, model: Any, features: Features, run: Callable[[Features], object], tokenizer: Any = None
) -> EmbeddedText:
    """Find out which embedding layer reads the input, by running the model up to it. tokenizer: that of the input; None
    takes it from the part of the model that reads it.

    Raises: ModelError for a model without token embeddings, such as a static one.
    """
    import torch

    thread = get_ident()

    def stop_where_read(layer: Any, args: tuple[Any, ...], output: Any) -> None:
        if get_ident() == thread and args and torch.is_tensor(args[0]) and torch.equal(args[0], features["input_ids"]):
            raise _LayerRead(layer, output)

    hooks = [layer.register_forward_hook(stop_where_read) for layer in _embedding_layers(model)]
    try:
        with torch.no_grad():
            run(dict(features))
    except _LayerRead as read:
        tokenizer = tokenizer or _tokenizer_of(model, read.layer)
        return EmbeddedText(features, read.layer, tokenizer, read.vectors[0].float().cpu().numpy())
    finally:
        for hook in hooks:
            hook.remove()
    raise ModelError(
        f"model {name!r} does not read its tokens through get_input_embeddings, so that there is nothing to attribute "
        "to; give a transformer, loaded with attn_implementation='sdpa' or 'eager'"
    )


@contextmanager
def replaced(layer: Any, ids: Any, vectors: Any) -> Iterator[None]:
    """While it lasts, the layer answers this thread with `vectors` when it is asked for `ids`."""
    import torch

    thread = get_ident()

    def answer(_: Any, given: tuple[Any, ...], __: Any) -> Any:
        is_asked = get_ident() == thread and given[0].shape == ids.shape and torch.equal(given[0], ids)
        return vectors if is_asked else None

    hook = layer.register_forward_hook(answer)
    try:
        yield
    finally:
        hook.remove()


def _embedding_layers(model: Any) -> list[Any]:
    layers: dict[int, Any] = {}
    for module in model.modules():
        if hasattr(module, "get_input_embeddings"):
            try:
                layer = module.get_input_embeddings()
            except (NotImplementedError, AttributeError):  # a wrapper that has none of its own
                continue
            if layer is not None:
                layers[id(layer)] = layer
    return list(layers.values())


def _tokenizer_of(model: Any, layer: Any) -> Any:
    """That of the innermost part with a tokenizer which holds the layer: each tower may have its own."""
    holders = [part for part in model.modules() if getattr(part, "tokenizer", None) is not None]
    return [part for part in holders if any(each is layer for each in part.modules())][-1].tokenizer


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
        return self._evaluated(points, owners, gradient=True)

    def value(self, points: Floats, owners: NDArray[np.intp]) -> Scores:
        """Scores `(n,)` of points, without their gradients."""
        return self._evaluated(points, owners, gradient=False)[0]

    def _baseline(self, text: EmbeddedText, tokens: tuple[Token, ...]) -> Floats:
        import numpy as np
        import torch

        moving = np.array([token.part in self.parts for token in tokens], dtype=np.bool_)
        start: Floats = text.vectors.copy()
        number = baseline_id(text.tokenizer, self.baseline, self.name)
        if number is None:
            start[moving] = 0
        else:
            unknown = torch.full_like(text.features["input_ids"][:, :1], number)
            with torch.no_grad():
                start[moving] = text.layer(unknown)[0, 0].float().cpu().numpy()
        return start

    def _evaluated(self, points: Floats, owners: NDArray[np.intp], *, gradient: bool) -> tuple[Scores, Floats]:
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
                    scores, slopes = self._run([int(owner) for owner in owners[rows]], points[rows], gradient)
                except (RuntimeError, MemoryError) as error:
                    self._make_smaller(error, rows=len(rows), width=int(lengths[rows].max()))
                    continue
                values[rows] = scores
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


def attention_times_gradient(model: Any, sequence: Sequence[int], own: int) -> NDArray[np.float64]:
    """Of each token but the last `own`: (A * dL/dA)+ summed over layers, heads and all tokens that attend to it, with
    the attention weights A and the mean log-probability L of the last `own` tokens.

    What is negative counts nothing: near a probability of 1 the slopes nearly cancel, and their sum says little.

    Raises: ModelError for a model that shows no attention, OutOfMemoryError.
    Source: Chefer, Gur and Wolf (2021), whose positive part this is, without their product over layers.
    """
    import numpy as np

    with _shown_attention(model):
        try:
            weights = _weighed(model, sequence, own)
        except RuntimeError as error:
            pass_on_unless_memory(error)
            raise OutOfMemoryError(
                f"the attention of {len(sequence)} tokens finds no memory; use a smaller model or another device"
            ) from error
    scores: NDArray[np.float64] = weights[: len(sequence) - own].double().cpu().numpy()
    if np.isnan(scores).any():
        raise ModelError("the gradients of the model's attention are not numbers (NaN); load it in float32")
    return scores


def _weighed(model: Any, sequence: Sequence[int], own: int) -> Any:
    import torch

    ids = torch.tensor([sequence], device=model.device)
    with torch.enable_grad():
        vectors = model.get_input_embeddings()(ids).detach().requires_grad_()
        output = model(inputs_embeds=vectors, use_cache=False, output_attentions=True)
        weights = [each for each in output.attentions or () if each is not None]
        if not weights:
            raise ModelError(f"{type(model).__name__} shows no attention weights; give another model")
        rows = output.logits[0, -own - 1 : -1].float().log_softmax(-1)
        mean = rows.gather(-1, ids[0, -own:, None]).mean()
        slopes = torch.autograd.grad(mean, weights)
    pairs = zip(weights, slopes, strict=True)
    parts = [(weight.detach() * slope).float().clamp(min=0).sum(dim=(0, 1, 2)) for weight, slope in pairs]
    return torch.stack(parts).sum(dim=0)


@contextmanager
def _shown_attention(model: Any) -> Iterator[None]:
    """While it lasts, the model computes its attention in the way that shows the weights."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
