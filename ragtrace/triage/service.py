"""The service behind `ragtrace triage serve`: Alertmanager's webhook, a folder of alerts, the thread that answers them.

An alert is on disk before Alertmanager is told 200, and stays a file until its report is one: no restart loses or
repeats it. What a store or a URL does not take now is tried again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ragtrace.config import http_address, variable
from ragtrace.errors import ConfigurationError, RagtraceError
from ragtrace.http_client import HttpClient
from ragtrace.http_server import HttpServer, plain
from ragtrace.store import Store
from ragtrace.triage._alerts import Alert, read_payload, triage_alert
from ragtrace.triage._report import Report
from ragtrace.triage.rendering import markdown

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

__all__ = ["Answerer", "Forward", "Jobs", "Receiver"]

_LOG: Final = logging.getLogger(__name__)
_LARGEST: Final = 1_048_576  # bytes of one payload
_AT_ONCE: Final = 16  # connections
_SILENCE: Final = 10.0  # seconds
_BODY_SECONDS: Final = 20.0
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_TIMEOUT: Final = 10.0
_WAITING: Final = "waiting"
_FAILED: Final = "failed"


class Receiver(HttpServer):
    """A running webhook at `/alerts`. Close it, or use it as a context manager. `port` is the port that it listens on,
    also where 0 was asked for.

    An alert is on disk before its sender is told 200. Resolved alerts are taken and need no answer. A payload that is
    none gets 400 with the reason, a long one 413, one that cannot be kept now 503.

    Raises: ConfigurationError when the address cannot be listened on or `out` cannot be written.
    """

    def __init__(
        self,
        store_url: str,
        out: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        forward: str | None = None,
        authorization: str | None = None,
        lookback: int | None = None,
    ) -> None:
        sending = Forward(forward, authorization) if forward else None
        self._jobs = Jobs(out)
        self._answerer = Answerer(store_url, self._jobs, sending, lookback)
        self._keeping = threading.Lock()
        try:
            super().__init__(host, port, at_once=_AT_ONCE, silence=_SILENCE)
        except ConfigurationError:
            self._jobs.close()
            raise
        self.start(self._answer, "ragtrace-receiver")
        self._answerer.start()

    def close(self) -> None:
        """Take no more, and end behind the alert at hand; what waits is answered after the next start."""
        super().close()
        self._answerer.close()
        self._jobs.close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return plain(start_response, *self._handled(environ))

    def _handled(self, environ: WSGIEnvironment) -> tuple[str, str]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == "/healthz":
            return "200 OK", "ok"
        if path != "/alerts":
            return "404 Not Found", "alerts go to /alerts"
        if method != "POST":
            return "405 Method Not Allowed", "alerts are posted"
        return self._taken(environ)

    def _taken(self, environ: WSGIEnvironment) -> tuple[str, str]:
        length = environ.get("CONTENT_LENGTH") or ""
        if not (length.isascii() and length.isdigit()):
            return "411 Length Required", "the payload's Content-Length is missing"
        if len(length) > 9 or int(length) > _LARGEST:
            return "413 Content Too Large", f"a payload may have {_LARGEST} bytes"
        body = _read(environ["wsgi.input"], int(length))
        if len(body) < int(length):
            return "408 Request Timeout", f"only {len(body)} of {length} bytes of the payload came"
        try:
            payload = read_payload(body)
        except ConfigurationError as error:
            return "400 Bad Request", str(error)
        try:
            with self._keeping:
                new = sum(self._jobs.add(alert) for alert in payload.alerts if alert.status != "resolved")
        except OSError as error:
            _LOG.error("an alert cannot be kept: %s", error)
            return "503 Service Unavailable", f"the alert cannot be kept now: {error.strerror}; send it again"
        self._answerer.wake()
        return "200 OK", f"{new} new of {len(payload.alerts)} alerts"


def _read(stream: Any, length: int) -> bytes:
    """What of the body comes in time."""
    parts, left, until = [], length, time.monotonic() + _BODY_SECONDS
    with contextlib.suppress(OSError):  # a connection that ended or says nothing
        while left and time.monotonic() < until:
            part = stream.read1(left)
            if not part:
                break
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


class Forward:
    """Posts reports to a URL as `{"key", "markdown", "report"}`; the key is also in the header `Idempotency-Key`, since
    a report is posted again where no answer came. It is taken where the answer is 2xx: a redirect would turn the POST
    into a GET without a body, so that none is followed.

    Args:
        url: where to.
        authorization: the value of the header `Authorization`.

    Raises: ConfigurationError for another URL than http:// or https://, or one with a user or password in it;
    MissingExtraError.
    """

    def __init__(self, url: str, authorization: str | None = None) -> None:
        parts = http_address("--forward", url, "a URL that begins with http:// or https://")
        if "@" in parts.netloc:
            raise ConfigurationError.of(
                "--forward",
                url,
                f"a URL without user and password; give them in {variable('forward_authorization')}, for instance "
                '"Bearer TOKEN"',
            )  # fmt: skip
        headers = {"Content-Type": "application/json"} | ({"Authorization": authorization} if authorization else {})
        self._client = HttpClient(parts, headers=headers, seconds=_TIMEOUT, is_proxied=True)

    def __call__(self, key: str, report: Report) -> None:
        """Post one report. Raises: OSError when it was not taken."""
        body = msgspec.json.encode({"key": key, "markdown": markdown(report), "report": report})
        answer = self._client.request("POST", self._client.address, body, {"Idempotency-Key": key})
        if answer.status >= 300:
            raise OSError(f"--forward answered {answer.status}: {self._client.masked(answer.said)}")


class Answerer:
    """A thread that answers what waits in a folder. An alert whose answer is a matter of time (the store cannot be
    reached, the URL does not take it) is tried again, later each time; one that fails otherwise is put aside."""

    def __init__(
        self, store_url: str, jobs: Jobs, forward: Callable[[str, Report], None] | None, lookback: int | None
    ) -> None:
        self._store_url = store_url
        self._jobs = jobs
        self._forward = forward
        self._lookback = lookback
        self._wake = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="ragtrace-triage", daemon=True)

    def start(self) -> None:
        """Begin, with what an earlier process left."""
        self._thread.start()

    def wake(self) -> None:
        """There is something new."""
        self._wake.set()

    def close(self) -> None:
        """End behind the alert at hand."""
        self._ending = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while not self._ending:
            self._wake.clear()
            try:
                left = self._answer_all()
            except Exception:
                _LOG.exception("the alerts that wait cannot be read")
                left = True
            if self._ending:
                return
            wait = min(_LONGEST_WAIT, 2 * wait) if left else _FIRST_WAIT
            self._wake.wait(wait if left else None)

    def _answer_all(self) -> bool:
        """Answer what waits; whether something must be tried again."""
        left = False
        for key, alert in self._jobs.waiting():
            if self._ending:
                return True
            try:
                self._answer(key, alert)
            except (RagtraceError, OSError) as error:
                _LOG.warning("the alert %s is not answered yet: %s", key, error)
                left = True
            except Exception as error:
                _LOG.exception("the alert %s cannot be answered", key)
                self._jobs.fail(key, f"{type(error).__name__}: {error}")
        return left

    def _answer(self, key: str, alert: Alert) -> None:
        with Store.open(self._store_url) as store:
            report = triage_alert(store, alert, lookback=self._lookback)
        self._jobs.write(key, report)
        if self._forward:
            self._forward(key, report)
        self._jobs.done(key)


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
