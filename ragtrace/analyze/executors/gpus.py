"""Which GPUs a worker gets."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Final

from ragtrace.engines.devices import gpu_count
from ragtrace.errors import ConfigurationError

__all__ = ["VISIBLE", "gpus_for_each", "gpus_of", "visible_gpus"]

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def visible_gpus() -> list[str]:
    """The names of the GPUs that torch sees, as CUDA_VISIBLE_DEVICES has them."""
    count = gpu_count()
    named = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return (named or [str(number) for number in range(count)])[:count]


def gpus_for_each(workers: int, gpus: int, wanted: float | None) -> float:
    """How many GPUs each worker gets: what is wanted, else one, or an equal part of one where there are fewer.

    Raises: ConfigurationError when so many workers cannot have what is wanted.
    """
    evenly = 0.0 if not gpus else 1 / math.ceil(workers / gpus)
    if wanted is None:
        return evenly
    if not 0 <= wanted < math.inf or (wanted > 1 and wanted != int(wanted)):
        raise ConfigurationError.of("gpus per worker", wanted, "0, a part of one GPU, or a whole number")
    room = gpus * int(1 / wanted + 1e-9) if 0 < wanted <= 1 else gpus // max(int(wanted), 1)
    if wanted and workers > room:
        most = max(evenly, float(gpus // workers))
        raise ConfigurationError.of("gpus per worker", wanted, f"at most {most:g}: GPUs {gpus}, workers {workers}")
    return wanted


def gpus_of(number: int, share: float, gpus: Sequence[str]) -> list[str]:
    """The GPUs of the worker of this number, from 0; several workers share one where each has a part of it."""
    if not share:
        return []
    if share <= 1:
        return [gpus[number // int(1 / share + 1e-9)]]
    return list(gpus[number * int(share) : (number + 1) * int(share)])
