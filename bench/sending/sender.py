"""Starts the process that sends, and tells when it has and what it took."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

__all__ = ["Sending", "Sent"]

_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Sent:
    """What a run of exporters did. Times by the clock that all processes share (`time.monotonic`), in seconds."""

    began: float
    ended: float
    failed: int
    cpu: float


class Sending:
    """A sender that is ready, and starts when it is told to."""

    def __init__(self, file: Path, endpoint: str, exporters: int, requests: int) -> None:
        command = [sys.executable, "-m", "bench.sending.exporter", str(file), endpoint, str(exporters), str(requests)]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        if self._out.readline() != "ready\n":
            raise RuntimeError("the sender did not start")

    @property
    def _out(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def start(self) -> None:
        """Let it send."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def is_done(self) -> bool:
        """Whether every request was answered, or given up."""
        return bool(select.select([self._out], [], [], 0)[0])

    def result(self) -> Sent:
        """What it did, once it is done."""
        return Sent(**json.loads(self._out.readline()))

    def stop(self) -> None:
        """End it, whatever is left."""
        self._process.kill()
        self._process.communicate()


def _environment() -> dict[str, str]:
    """Without the settings of OpenTelemetry that this machine may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
