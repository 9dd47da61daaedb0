"""The device of a model: how precisely a small model runs there, what tells its weights from others, and memory.

Want of memory is told from other errors, and what is cached is given back.
"""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, TypeAlias, get_args

from ragtrace.engines.loading import load_package
from ragtrace.errors import ConfigurationError, MissingExtraError, ModelError

__all__ = [
    "OutOfMemoryError",
    "Precision",
    "as_precision",
    "best_device",
    "gpu_count",
    "pass_on_unless_memory",
    "passes",
    "weights_digest",
]

Precision: TypeAlias = Literal["float32", "bf16"]
_MEMORY_ERRORS: Final = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
)
"""Texts of errors that are not `torch.OutOfMemoryError`: of the CPU, of libraries on a GPU that is nearly full."""


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


class OutOfMemoryError(ModelError):
    """A model finds no memory even for the least piece of work."""


def pass_on_unless_memory(error: RuntimeError | MemoryError) -> None:
    """Free what is cached on the GPU after an error for want of memory, there or on the CPU; raise any other again."""
    import torch

    wanted = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if not wanted and not any(each in str(error) for each in _MEMORY_ERRORS):
        raise error
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
