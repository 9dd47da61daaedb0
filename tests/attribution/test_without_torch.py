"""The mathematics needs no model library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ragtrace

PROGRAM = """
import sys
for name in ("torch", "transformers", "sentence_transformers"):
    sys.modules[name] = None
from ragtrace.alignment import warg_adjusted
from ragtrace.attribution import integrated_gradients, leave_one_out, shapley_values, sparse_surrogate
import numpy as np
found = integrated_gradients(lambda p: ((p**2).sum((1, 2)), 2 * p), np.ones((2, 1)), np.zeros((2, 1)))
print(found.values.round(6).tolist(), warg_adjusted("ab".split() + ["c"], ["ab", "c"]))
"""


def test_everything_imports_and_works_without_torch() -> None:
    """In a process in which torch, transformers and sentence-transformers cannot be imported."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "[1.0, 1.0] 0.0\n"
