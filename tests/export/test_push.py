"""Pushing: when, by whom, and what a receiver that fails changes."""

from __future__ import annotations

import logging
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric

from ragtrace.config import http_address, shown_address
from ragtrace.errors import ConfigurationError
from ragtrace.export import serve
from ragtrace.export.exporter import LeasedStore, Pusher, PushFailed
from ragtrace.store import Store
from tests.export.stores import add_request

DEADLINE_SECONDS = 60


class Recorded:
    """A target that keeps what it gets; `failures` are raised first, one for each try."""

    shown = "http://receiver"

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.tries: list[float] = []
        self.sent: list[dict[str, float]] = []
        self.is_closed = threading.Event()
        self.hangs = threading.Event()
        self.hanging = threading.Event()

    def send(self, metrics: Sequence[Metric], at: float) -> None:
        """Keep the values of the counter of requests."""
        self.tries.append(time.monotonic())
        if self.hangs.is_set():
            self.hanging.set()
            self.is_closed.wait(DEADLINE_SECONDS)
        if self.failures:
            raise self.failures.pop(0)
        samples = [sample for metric in metrics if metric.name == "ragtrace_requests" for sample in metric.samples]
        self.sent.append({sample.labels["segment"]: sample.value for sample in samples})

    def close(self) -> None:
        """Wake what waits."""
        self.is_closed.set()


def _await(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with one request."""
    url = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    with Store.open(url) as store:
        add_request(store, "r1")
    return url


@pytest.fixture
def leased(url: str) -> Iterator[LeasedStore]:
    """That store under the lease."""
    opened = LeasedStore(url)
    yield opened
    opened.close()


def test_every_push_has_what_is_committed(url: str, leased: LeasedStore) -> None:
    """The first push comes at once, later ones show what came since."""
    target = Recorded()
    pusher = Pusher(leased, target, 0.02)
    _await(lambda: target.sent)
    with Store.open(url) as store:
        add_request(store, "r2")
    _await(lambda: target.sent[-1] == {"price": 2.0})
    pusher.close()
    assert target.sent[0] == {"price": 1.0}
    assert target.is_closed.is_set()
    pushed = len(target.tries)
    time.sleep(0.1)
    assert len(target.tries) == pushed


def test_a_second_pusher_sends_nothing(url: str, leased: LeasedStore) -> None:
    """Until the exporter that has the lease ends; then the other one goes on."""
    second = LeasedStore(url)
    target = Recorded()
    pusher = Pusher(second, target, 0.02)
    time.sleep(0.3)
    assert target.tries == []
    leased.close()
    _await(lambda: target.sent)
    pusher.close()
    second.close()


def test_a_receiver_that_fails_gets_fewer_tries_and_the_newest_values(
    url: str, leased: LeasedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Pauses double; nothing is repeated, and the same trouble is logged once."""
    target = Recorded(*[PushFailed("answered 500: no") for _ in range(4)])
    pusher = Pusher(leased, target, 0.1)
    _await(lambda: len(target.tries) > 1)
    with Store.open(url) as store:
        add_request(store, "r2")
    _await(lambda: target.sent)
    pusher.close()
    assert target.sent[0] == {"price": 2.0}
    pauses = [later - earlier for earlier, later in zip(target.tries, target.tries[1:], strict=False)][:4]
    assert all(pause >= least - 0.01 for pause, least in zip(pauses, (0.1, 0.2, 0.4, 0.8), strict=True))
    assert [record.message for record in caplog.records] == [
        "metrics are not pushed to http://receiver: answered 500: no"
    ]


def test_retry_after_is_honored(leased: LeasedStore) -> None:
    """A receiver that names a time is left alone for so long, however short the period is."""
    target = Recorded(PushFailed("answered 429: slow down", retry_after=0.5))
    pusher = Pusher(leased, target, 0.01)
    _await(lambda: target.sent)
    pusher.close()
    assert target.tries[1] - target.tries[0] >= 0.5


def test_an_unforeseen_error_ends_nothing(leased: LeasedStore) -> None:
    """A fault of ours is logged, and the next push comes."""
    target = Recorded(ZeroDivisionError("ours"))
    pusher = Pusher(leased, target, 0.01)
    _await(lambda: target.sent)
    pusher.close()


def test_a_hanging_receiver_keeps_no_scrape_and_no_end_waiting(url: str) -> None:
    """While a push hangs, metrics are served; closing cuts it short."""
    target = Recorded()
    target.hangs.set()
    with serve(url, push_to=[target], push_seconds=0.01) as server:
        assert target.hanging.wait(DEADLINE_SECONDS)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as response:
            assert b"ragtrace_requests_total{" in response.read()
    assert target.is_closed.is_set()
    assert not [one for one in threading.enumerate() if one.name == "ragtrace-exporter-push"]


def test_a_broken_store_is_no_push(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The receiver gets nothing, the log says why, and the pushes go on once the store is there."""
    caplog.set_level(logging.WARNING)
    folder = tmp_path / "later"
    store = LeasedStore(f"sqlite:///{folder / 'ragtrace.db'}")
    target = Recorded()
    pusher = Pusher(store, target, 0.02)
    _await(lambda: any("are not pushed" in record.message for record in caplog.records))
    assert target.tries == []
    folder.mkdir()
    _await(lambda: target.sent)
    pusher.close()
    store.close()


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_the_period_must_be_positive(url: str, leased: LeasedStore, seconds: float) -> None:
    """Anything else is refused before a thread starts, by the server as well."""
    before = threading.active_count()
    with pytest.raises(ConfigurationError, match="push seconds"):
        Pusher(leased, Recorded(), seconds)
    with pytest.raises(ConfigurationError, match="push seconds"):
        serve(url, push_to=[Recorded()], push_seconds=seconds)
    assert threading.active_count() == before


def test_addresses_show_no_secret() -> None:
    """Neither a password nor a token in the query; what is no HTTP address is refused by name."""
    assert (
        shown_address(http_address("otlp", "https://me:secret@host:4318/v1?token=t", "a URL")) == "https://host:4318/v1"
    )
    with pytest.raises(ConfigurationError, match=r"otlp.*ftp://\*\*\*@host") as refused:
        http_address("otlp", "ftp://me:secret@host", "a URL")
    assert "secret" not in str(refused.value)
