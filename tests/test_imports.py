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
