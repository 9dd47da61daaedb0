"""A folder of alerts to answer: an alert is a file until its report is one, so that no restart loses or repeats it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from ragtrace.errors import ConfigurationError
from ragtrace.triage.alerts import Alert
from ragtrace.triage.markdown import markdown
from ragtrace.triage.report import Report

__all__ = ["Jobs"]

_WAITING: Final = "waiting"
_FAILED: Final = "failed"


class Jobs:
    """`waiting/KEY.json` holds an alert that was accepted, `KEY.json` and `KEY.md` its report; KEY names the alert and
    the time at which it began to fire. One process owns a folder.

    Raises: ConfigurationError when the folder cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            (folder / _WAITING).mkdir(parents=True, exist_ok=True)
            self._lock = (folder / ".lock").open("w")
        except OSError as error:
            raise ConfigurationError(f"cannot write to {folder}: {error.strerror}; give another --out") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise ConfigurationError(
                f"{folder} is used by another receiver; end that, or give another --out"
            ) from error

    def close(self) -> None:
        """Leave the folder to another process."""
        self._lock.close()

    def add(self, alert: Alert) -> bool:
        """Keep an alert on disk; False where it waits already or was answered. Raises: OSError."""
        key = alert.key
        if self.is_answered(key) or (self.folder / _WAITING / f"{key}.json").exists():
            return False
        _write(self.folder / _WAITING, f"{key}.json", msgspec.json.encode(alert))
        return True

    def is_answered(self, key: str) -> bool:
        """Whether an alert has its report, or could not be given one."""
        return (self.folder / f"{key}.json").exists() or (self.folder / _FAILED / f"{key}.json").exists()

    def waiting(self) -> Iterator[tuple[str, Alert]]:
        """The alerts that wait, the first accepted first. A file that is none goes to the failed ones."""
        files = [file for file in (self.folder / _WAITING).iterdir() if file.suffix == ".json"]
        for file in sorted(files, key=lambda each: (each.stat().st_mtime_ns, each.name)):
            try:
                alert = msgspec.json.decode(file.read_bytes(), type=Alert)
            except msgspec.DecodeError as error:
                self.fail(file.stem, str(error))
                continue
            yield file.stem, alert

    def write(self, key: str, report: Report) -> None:
        """Write an alert's report, the Markdown first: where the JSON stands, both do."""
        _write(self.folder, f"{key}.md", markdown(report).encode())
        _write(self.folder, f"{key}.json", msgspec.json.format(msgspec.json.encode(report), indent=2))

    def done(self, key: str) -> None:
        """The alert is answered."""
        (self.folder / _WAITING / f"{key}.json").unlink(missing_ok=True)

    def fail(self, key: str, reason: str) -> None:
        """Put an alert that cannot be answered aside, with the reason beside it."""
        aside = self.folder / _FAILED
        aside.mkdir(exist_ok=True)
        _write(aside, f"{key}.txt", f"{reason}\n".encode())
        os.replace(self.folder / _WAITING / f"{key}.json", aside / f"{key}.json")


def _write(folder: Path, name: str, body: bytes) -> None:
    """Write a file whole or not at all, and let it survive a crash of the machine."""
    draft = folder / f".{name}.{os.getpid()}"
    with draft.open("wb") as opened:
        opened.write(body)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(draft, folder / name)
    with contextlib.suppress(OSError):  # not every file system lets a folder be synced
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
