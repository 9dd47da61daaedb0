"""Keeps the embeddings of the demo's chunks on disk, so that a further process does not compute them again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragtrace.types import content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.engines.encoder import Encoder

__all__ = ["cache_folder", "kept_embeddings"]


def cache_folder() -> Path:
    """Where they lie: `ragtrace` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ragtrace"


def kept_embeddings(
    texts: Sequence[str], encoder: Encoder, on_progress: Callable[[int], None] | None = None
) -> NDArray[np.float32]:
    """The vectors of `texts`, from the disk where this encoder has made them before: `(n, dimension)`."""
    key = content_hash("\0".join([encoder.name, str(encoder.revision), *texts]))
    file = cache_folder() / f"demo-{key[:32]}.npy"
    known = _read(file)
    if known is not None and len(known) == len(texts):
        return known
    vectors = encoder.encode(texts, on_progress=on_progress, threads=None)
    _write(file, vectors)
    return vectors


def _read(file: Path) -> NDArray[np.float32] | None:
    import numpy as np

    try:
        vectors: NDArray[np.float32] = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):  # not there, or not whole
        return None
    return vectors


def _write(file: Path, vectors: NDArray[np.float32]) -> None:
    """Other processes see all of it or nothing. Where the folder takes no file, the next one embeds again."""
    import numpy as np

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".npy", delete=False) as made:
            np.save(made, vectors)
        os.replace(made.name, file)
    except OSError:
        return
