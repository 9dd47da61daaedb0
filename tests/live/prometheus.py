"""A real Prometheus on loopback that a test starts, stops and asks."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

__all__ = ["DEADLINE_SECONDS", "Prometheus", "await_", "program"]

DEADLINE_SECONDS = 120

T = TypeVar("T")


def program(name: str, package: str = "prometheus") -> str:
    """The path of a program; the test is skipped without it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing; apt-get install {package}")
    return found


def await_(found: Callable[[], T], log: Path | None = None) -> T:
    """What `found` gives once it is something."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (result := found()):
        said = log.read_text(encoding="utf-8")[-2000:] if log else ""
        assert time.monotonic() < deadline, f"nothing arrived in {DEADLINE_SECONDS} s\n{said}"
        time.sleep(0.1)
    return result


class Prometheus:
    """Scrapes these ports every second and takes remote write; what it holds outlives `stop`.

    more: further parts of its configuration, such as rule files; they replace what is there. flags: further ones.
    """

    def __init__(
        self,
        folder: Path,
        scraped: Sequence[int] = (),
        more: Mapping[str, Any] | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self._program = program("prometheus")
        self._folder = folder
        self._flags = flags
        folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self._port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        target = {"job_name": "ragtrace", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in scraped]}]}
        paced = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        settings = {"global": paced, "scrape_configs": [target], **(more or {})}
        (folder / "prometheus.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [
            self._program,
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--enable-feature=exemplar-storage",
            "--web.enable-remote-write-receiver",
            *self._flags,
        ]
        log = self._folder / "log"
        with log.open("ab") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file)
        await_(self._is_ready, log)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """End it, and wait for its end."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def api(self, path: str, **arguments: Any) -> Any:
        """The data that a call of its HTTP API gives."""
        query = urllib.parse.urlencode(arguments)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an instant query gives."""
        found: list[dict[str, Any]] = self.api("query", query=expression)["result"]
        return found

    def value(self, expression: str) -> float | None:
        """The value of the one series that an instant query gives; None where it gives none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None
