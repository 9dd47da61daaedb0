"""What a sentence-transformers model reads, by which embedding layer, and other vectors in the place of that layer's.

Other threads may use the model meanwhile; they see nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any, TypeAlias

from ragtrace.engines.loading import device_of
from ragtrace.engines.memory import OutOfMemoryError
from ragtrace.errors import ModelError

__all__ = ["EmbeddedText", "Features", "embedded", "features_of", "frozen", "reading", "replaced", "too_long"]

Features: TypeAlias = dict[str, Any]


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


class _Found(Exception):
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


def features_of(name: str, model: Any, given: Any, **options: Any) -> Features:
    """What the model makes of one input, on its device.

    Raises: ModelError where it finds no token in it, or its tokenizer refuses it.
    """
    with reading(name):
        features = model.eval().preprocess([given], **options)
    if "input_ids" in features and not features["input_ids"].numel():
        raise ModelError(f"model {name!r} finds no token in {given!r}; give a text that has one")
    return {key: value.to(model.device) if hasattr(value, "to") else value for key, value in features.items()}


def embedded(name: str, model: Any, features: Features, run: Callable[[Features], object]) -> EmbeddedText:
    """Find out which embedding layer reads the input, by running the model up to it.

    Raises: ModelError for a model without token embeddings, such as a static one.
    """
    import torch

    thread = get_ident()

    def found(layer: Any, given: tuple[Any, ...], output: Any) -> None:
        if (
            get_ident() == thread
            and given
            and torch.is_tensor(given[0])
            and torch.equal(given[0], features["input_ids"])
        ):
            raise _Found(layer, output)

    hooks = [layer.register_forward_hook(found) for layer in _embedding_layers(model)]
    try:
        with torch.no_grad():
            run(dict(features))
    except _Found as read:
        tokenizer = _tokenizer_of(model, read.layer)
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
        asked = get_ident() == thread and given[0].shape == ids.shape and torch.equal(given[0], ids)
        return vectors if asked else None

    hook = layer.register_forward_hook(answer)
    try:
        yield
    finally:
        hook.remove()


def _embedding_layers(model: Any) -> list[Any]:
    found: dict[int, Any] = {}
    for module in model.modules():
        if hasattr(module, "get_input_embeddings"):
            try:
                layer = module.get_input_embeddings()
            except (NotImplementedError, AttributeError):  # a wrapper that has none of its own
                continue
            if layer is not None:
                found[id(layer)] = layer
    return list(found.values())


def _tokenizer_of(model: Any, layer: Any) -> Any:
    """That of the innermost part with a tokenizer which holds the layer: each tower may have its own."""
    holders = [part for part in model.modules() if getattr(part, "tokenizer", None) is not None]
    return [part for part in holders if any(each is layer for each in part.modules())][-1].tokenizer
