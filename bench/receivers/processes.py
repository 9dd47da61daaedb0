"""What processes use, read out of /proc: processor time and memory of a process and all its children."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Server", "Usage", "free_port", "used"]

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PATIENCE: Final = 120.0  # seconds until a server listens
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Usage:
    """cpu: seconds, user and system, of living processes and of their children that ended; peak: the most bytes in
    memory, each process by itself."""

    cpu: float
    peak: int


def used(roots: Iterable[int]) -> Usage:
    """What these processes and their children have used."""
    cpu, peak = 0, 0
    for pid in _trees(roots):
        try:
            fields = _stat(pid)
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has ended: its parent counts it
            continue
        cpu += sum(map(int, fields[11:15]))
        peak += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0) * 1024
    return Usage(cpu / _TICKS, peak)


def _stat(pid: int) -> list[str]:
    """The fields behind the name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _trees(roots: Iterable[int]) -> set[int]:
    parents: dict[int, int] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                parents[int(each.name)] = int(_stat(int(each.name))[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    found = set(roots)
    while further := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= further
    return found


def free_port() -> int:
    """A port of the loopback interface on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server's process, from its start until it listens to its end."""

    def __init__(self, command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None):
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=out, cwd=_ROOT, env={**os.environ, **(environment or {})}
            )
        deadline = time.monotonic() + _PATIENCE
        while not _listens(port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{' '.join(command[:4])} did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self._process.pid

    def check(self) -> None:
        """Raises: RuntimeError when it has ended by itself."""
        if self._process.poll() is not None:
            raise RuntimeError(f"a server ended by itself:\n{self._log.read_text()[-2000:]}")

    def stop(self) -> None:
        """Tell it to end, and wait."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
