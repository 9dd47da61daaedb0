"""Where a training run was when it was last written down: weights, optimizer, random state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from ragtrace.errors import ConfigurationError, ModelError

__all__ = ["CHECKPOINT", "load_checkpoint", "save_checkpoint"]

CHECKPOINT: Final = "checkpoint.pt"


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write `state` so that a kill at any moment leaves the last one whole."""
    import torch

    beside = folder / f"{CHECKPOINT}.new"
    with beside.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / CHECKPOINT)


def load_checkpoint(folder: Path, fingerprint: str) -> dict[str, Any] | None:
    """The last state of this run; None where it has not begun.

    Raises: ConfigurationError where another run stands there (other data, settings or encoder), ModelError where the
    file cannot be read.
    """
    import torch

    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has a way to fail for each way in which a file can be broken
        raise ModelError(f"{str(path)!r} cannot be read ({type(error).__name__}); remove it to begin again") from error
    if not isinstance(state, dict) or "fingerprint" not in state:
        raise ModelError(f"{str(path)!r} is no checkpoint of a training; remove it to begin again")
    if state["fingerprint"] != fingerprint:
        raise ConfigurationError(
            f"{str(path)!r} belongs to a training with other data, settings or another encoder; give another folder, "
            "or remove it to begin again"
        )
    return state
