"""Runs each framework's tests in a virtual environment of its own, with its current version, and records its results.

    python tests/frameworks/run.py FOLDER [NAME...]

FOLDER holds the environments. `TORCH` and `PIP_EXTRA_INDEX` are those of the Makefile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_TORCH: Final = os.environ.get("TORCH", "torch==2.13.0")
# What the tests need beside ragtrace[analyze,otel]. torch comes first and exact, so that nothing pulls another build.
FRAMEWORKS: Final[dict[str, list[list[str]]]] = {
    "chroma": [["chromadb"]],
    "faiss": [["faiss-cpu"]],
    "haystack": [["haystack-ai"]],
    "langchain": [["langchain-core", "langchain", "langchain-classic", "langgraph"]],
    "llama_index": [["llama-index-core"]],
    "openai": [["openai"]],
    "pgvector": [["pgvector", "SQLAlchemy", "psycopg[binary]", "pgserver"]],
    "qdrant": [["qdrant-client"]],
    "sentence_transformers": [[_TORCH], ["sentence-transformers", "openai"]],
}

TOOLS: Final = ("pytest", "hypothesis")  # what tests/conftest.py imports


def files_of(name: str) -> list[Path]:
    """The test files that run in this framework's environment."""
    folder = Path(__file__).parent
    files = [folder / f"test_{kind}{name}.py" for kind in ("", "path_", "instrument_")]
    if (folder / "applications" / f"{name}_app.py").exists():
        files.append(folder / "test_launch.py")
    return [path for path in files if path.exists()]


def main(folder: Path, names: list[str]) -> int:
    """The number of frameworks whose tests failed."""
    unknown = set(names) - set(FRAMEWORKS)
    if unknown:
        print(f"{', '.join(sorted(unknown))}: no such framework; there are {', '.join(FRAMEWORKS)}", file=sys.stderr)
        return 2
    failed = [name for name in names or FRAMEWORKS if not _passes(name, folder / name)]
    print(f"frameworks: {', '.join(failed)} failed" if failed else "frameworks: all passed")
    return len(failed)


def _passes(name: str, folder: Path) -> bool:
    print(f"== {name}", flush=True)
    if not (folder / "pyvenv.cfg").exists():
        venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", *_further_index()]
    for packages in FRAMEWORKS[name]:
        if subprocess.run([*install, *packages], cwd=ROOT).returncode:
            return False
    if subprocess.run([*install, "--editable", ".[analyze,otel]", *TOOLS], cwd=ROOT).returncode:
        return False
    tests = [str(path.relative_to(ROOT)) for path in files_of(name)]
    return subprocess.run([python, "-m", "pytest", "--quiet", *tests, "--record", name], cwd=ROOT).returncode == 0


def _further_index() -> list[str]:
    indexes = os.environ.get("PIP_EXTRA_INDEX", "").split()
    return [part for index in indexes for part in ("--extra-index-url", index)]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
