"""Answers the alerts that wait, one after the other, and tries again what a store or a URL does not take now."""

from __future__ import annotations

import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from ragtrace.errors import ConfigurationError, RagtraceError
from ragtrace.store import Store
from ragtrace.triage.alerts import Alert, triage_alert
from ragtrace.triage.jobs import Jobs
from ragtrace.triage.markdown import markdown
from ragtrace.triage.report import Report

__all__ = ["Answerer", "Forward"]

_LOG: Final = logging.getLogger(__name__)
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_TIMEOUT: Final = 10.0


class Forward:
    """Posts reports to a URL as `{"key", "markdown", "report"}`; the key is also in the header `Idempotency-Key`, since
    a report is posted again where no answer came.

    Raises: ConfigurationError for another URL than http:// or https://.
    """

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ConfigurationError.of("--forward", url, "a URL that begins with http:// or https://")
        self._url = url

    def __call__(self, key: str, report: Report) -> None:
        """Post one report. Raises: OSError when it was not taken."""
        body = msgspec.json.encode({"key": key, "markdown": markdown(report), "report": report})
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        request = urllib.request.Request(self._url, data=body, headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            response.read(1)


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
