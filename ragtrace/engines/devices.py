"""Where and how precisely a small model runs, and what tells its weights from others."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, TypeAlias, get_args

from ragtrace.engines.loading import load_package
from ragtrace.errors import ConfigurationError, MissingExtraError

__all__ = ["Precision", "as_precision", "best_device", "gpu_count", "passes", "weights_digest"]

Precision: TypeAlias = Literal["float32", "bf16"]


def as_precision(text: str) -> Precision:
    """The precision of this name. Raises: ConfigurationError for another one."""
    known: Precision
    for known in get_args(Precision):
        if text == known:
            return known
    raise ConfigurationError.of("precision", text, "float32 or bf16")


def best_device() -> str:
    """A GPU, if there is one."""
    torch = load_package("torch")
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def gpu_count() -> int:
    """How many CUDA devices torch sees; 0 without torch."""
    try:
        return int(load_package("torch").cuda.device_count())
    except MissingExtraError:
        return 0


def passes(device: str, precision: Precision) -> AbstractContextManager[Any]:
    """In which a model's passes run on a kind of device."""
    import torch

    return torch.autocast(device, torch.bfloat16) if precision == "bf16" else nullcontext()


def weights_digest(model: Any) -> str:
    """Twelve hexadecimal digits that follow from all of a model's weights."""
    import torch

    digest = hashlib.blake2b(digest_size=6)
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
