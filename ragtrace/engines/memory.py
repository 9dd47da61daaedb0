"""What to do when a model finds no memory: tell it from other errors, and give back what is cached."""

from __future__ import annotations

from typing import Final

from ragtrace.errors import ModelError

__all__ = ["OutOfMemoryError", "pass_on_unless_memory"]

_SAID: Final = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
)
"""What errors say that are not `torch.OutOfMemoryError`: of the CPU, of libraries on a GPU that is nearly full."""


class OutOfMemoryError(ModelError):
    """A model finds no memory even for the least piece of work."""


def pass_on_unless_memory(error: RuntimeError | MemoryError) -> None:
    """Free what is cached on the GPU after an error for want of memory, there or on the CPU; raise any other again."""
    import torch

    wanted = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if not wanted and not any(each in str(error) for each in _SAID):
        raise error
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
