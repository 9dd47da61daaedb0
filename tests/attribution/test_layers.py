"""What `ragtrace.attribution` loads, and that its names are public."""

from __future__ import annotations

import subprocess
import sys
from types import FunctionType

import ragtrace.attribution


def test_no_model_is_needed() -> None:
    """Neither torch nor SciPy nor scikit-learn is imported, nor needed to be installed."""
    code = (
        "import sys; sys.modules.update(torch=None, scipy=None, sklearn=None, transformers=None)\n"
        "import numpy, ragtrace.attribution as a, ragtrace.alignment\n"
        "a.shapley_values(lambda c: c.sum(axis=1, keepdims=True) * 1.0, 7, budget=40)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_all_names_exist() -> None:
    """Each name of `__all__` is there; classes and functions have a docstring."""
    for name in ragtrace.attribution.__all__:
        held = getattr(ragtrace.attribution, name)
        assert held.__doc__ or not isinstance(held, type | FunctionType), name
