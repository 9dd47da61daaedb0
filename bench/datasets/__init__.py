"""Questions with known evidence and a reference answer, and the passages to look for it, from published data sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.datasets.clapnq import read_clapnq
from bench.datasets.model import Case, DataSet, Half, Statement, half_of, read_rows
from bench.datasets.mtrag import read_mtrag
from bench.datasets.scifact import read_scifact

__all__ = ["DATA", "READERS", "Case", "DataSet", "Half", "Statement", "half_of", "read", "read_rows"]

DATA: Final = Path(os.environ.get("RAGTRACE_BENCH_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
READERS: Final[Mapping[str, Callable[[Path], DataSet]]] = {
    "scifact": read_scifact,
    "clapnq": read_clapnq,
    "mtrag": read_mtrag,
}


def read(name: str, folder: Path) -> DataSet:
    """The data set called `name`. Raises: FileNotFoundError where its files are not in `folder`."""
    return READERS[name](folder)
