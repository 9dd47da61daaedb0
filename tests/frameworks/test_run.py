"""The environments of `make frameworks` hold what the tests need before any of them runs."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from tests.frameworks.run import TOOLS


def test_what_conftest_imports_is_installed() -> None:
    """Every package that tests/conftest.py imports, else no framework's tests would even begin."""
    read = ast.parse((Path(__file__).parents[1] / "conftest.py").read_text(encoding="utf-8"))
    names = {alias.name for node in read.body if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in read.body if isinstance(node, ast.ImportFrom) and node.module}
    packages = {name.partition(".")[0] for name in names} - sys.stdlib_module_names

    assert packages - {"tests", "ragtrace"} <= set(TOOLS)
