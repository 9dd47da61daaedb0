"""Starts the process of `server.py` and talks to its side doors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Served"]


class Served:
    """A running model server."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def at(self, kind: str) -> str:
        """The base URL of one of its kinds: vllm, echo, llamacpp, closed, embeddings."""
        return f"{self.url}/{kind}/v1"

    def fail(self, *faults: dict[str, Any]) -> None:
        """Let the next requests fail in these ways; none: none any more."""
        import httpx2

        httpx2.post(f"{self.url}/faults", content=json.dumps(faults))

    def seen(self) -> list[dict[str, Any]]:
        """What was asked since the last time: path, body, key."""
        import httpx2

        found: list[dict[str, Any]] = httpx2.get(f"{self.url}/seen").json()
        return found

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[Served]:
        """A server of the model in a folder, on a free port, until the block ends."""
        command = [sys.executable, str(Path(__file__).with_name("server.py")), str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield cls(int(process.stdout.readline()))
            finally:
                process.terminate()
