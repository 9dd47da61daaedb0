"""Records what each tracing package sends, in a virtual environment of its own with its current version.

    python tests/receive/senders/record.py FOLDER [NAME...]

FOLDER holds the environments. `PIP_EXTRA_INDEX` is that of the Makefile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
_EXPORTER: Final = "opentelemetry-exporter-otlp-proto-http"
PACKAGES: Final[dict[str, list[str]]] = {
    "langfuse": ["langfuse", "langchain", "langchain-core", _EXPORTER],
    "openinference": [
        "openinference-instrumentation-langchain",
        "openinference-instrumentation-llama-index",
        "langchain",
        "langchain-core",
        "llama-index-core",
        _EXPORTER,
    ],
    # Its instrumentation of LlamaIndex imports `llama_index.llms`, which any of these packages brings.
    "openllmetry": [
        "opentelemetry-instrumentation-langchain",
        "opentelemetry-instrumentation-llamaindex",
        "langchain-core",
        "llama-index-core",
        "llama-index-llms-openai",
        _EXPORTER,
    ],
    "trulens": ["trulens-core", "trulens-apps-langchain", "langchain", "langchain-core", _EXPORTER],
}


def main(folder: Path, names: list[str]) -> int:
    """The number of packages that could not be recorded."""
    unknown = set(names) - set(PACKAGES)
    if unknown:
        print(f"{', '.join(sorted(unknown))}: no such package; there are {', '.join(PACKAGES)}", file=sys.stderr)
        return 2
    failed = [name for name in names or PACKAGES if not _records(name, folder / name)]
    print(f"spans: {', '.join(failed)} failed" if failed else "spans: all recorded")
    return len(failed)


def _records(name: str, folder: Path) -> bool:
    print(f"== {name}", flush=True)
    if not (folder / "pyvenv.cfg").exists():
        venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    indexes = os.environ.get("PIP_EXTRA_INDEX", "").split()
    further = [part for index in indexes for part in ("--extra-index-url", index)]
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", *further]
    if subprocess.run([*install, *PACKAGES[name]]).returncode:
        return False
    target = HERE.parent / "recorded" / f"{name}.json"
    return subprocess.run([python, f"send_{name}.py", str(target)], cwd=HERE).returncode == 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
