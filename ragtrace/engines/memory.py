"""What to do when a model finds no memory: tell it from other errors, and give back what is cached."""

from __future__ import annotations

__all__ = ["pass_on_unless_memory"]


def pass_on_unless_memory(error: RuntimeError) -> None:
    """Free what is cached on the GPU after an error for want of memory, there or on the CPU; raise any other again."""
    import torch

    if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
        raise error
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
