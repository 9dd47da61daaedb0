"""What to do when a model finds no memory: tell it from other errors, and give back what is cached."""

from __future__ import annotations

from ragtrace.errors import ModelError

__all__ = ["OutOfMemoryError", "pass_on_unless_memory"]


class OutOfMemoryError(ModelError):
    """A model finds no memory even for the least piece of work."""


def pass_on_unless_memory(error: RuntimeError | MemoryError) -> None:
    """Free what is cached on the GPU after an error for want of memory, there or on the CPU; raise any other again."""
    import torch

    wanted = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if not wanted and "can't allocate memory" not in str(error):
        raise error
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
