"""Builds the sdist and the wheel once, from a copy of the checkout that also holds what must not be shipped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
LITTER = (
    ".venv/lib/secret.py",
    "ragtrace/__pycache__/types.cpython-311.pyc",
    "ragtrace/local.db",
    "metrics/local.db",
    "metrics/__pycache__/x.pyc",
    "migrations/versions/__pycache__/0001.cpython-311.pyc",
    "local.db.spool/0001",
)


class Built(NamedTuple):
    """A copy of the checkout, the files that belong to it, and what was built from it."""

    checkout: Path
    files: frozenset[str]
    sdist: Path
    wheel: Path


def _listed() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout: which files belong to it is not known")
    return [name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist of the copied checkout, and the wheel that was built from that sdist."""
    checkout, dist = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    files = _listed()
    for name in files:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, checkout / name)
    for name in LITTER:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("litter")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(checkout)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    return Built(checkout, frozenset(files), sdist, wheel)
