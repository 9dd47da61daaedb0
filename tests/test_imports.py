"""`import ragtrace` is light: a host pays for nothing that it does not use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ragtrace

HEAVY = {"torch", "transformers", "sqlalchemy", "alembic", "yaml", "numpy", "typer", "click", "rich", "sentencex"}
HEAVY |= {"prometheus_client", "zstandard", "asyncio", "tempfile", "subprocess", "urllib.request", "http.client"}


def test_import_loads_nothing_heavy() -> None:
    """Neither models nor SQL nor YAML nor a terminal library."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import ragtrace"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "ragtrace.record" in loaded
    assert {name for name in HEAVY if name in loaded} == set()


def test_adapters_can_be_imported_before_the_rest_of_the_record() -> None:
    """No circle joins them to coercion: each of the packages loads first, without what its parents load before it."""
    script = (
        "import importlib, sys, types\n"
        "for first in ('adapters', 'coercion', 'instrumentation'):\n"
        "    for name in [name for name in sys.modules if name.partition('.')[0] == 'ragtrace']:\n"
        "        del sys.modules[name]\n"
        "    for name, path in (('ragtrace', sys.argv[1]), ('ragtrace.record', sys.argv[1] + '/record')):\n"
        "        sys.modules[name] = types.ModuleType(name)\n"
        "        sys.modules[name].__path__ = [path]\n"
        "    importlib.import_module('ragtrace.record.' + first)\n"
    )
    root = Path(ragtrace.__file__).parent
    done = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
