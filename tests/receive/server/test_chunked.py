"""Bodies whose length is not said beforehand."""

from __future__ import annotations

import gzip
import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.receive.server.test_routes import JSON, Receiver
from tests.receive.test_otlp import SPAN, batch


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """A receiver for everybody."""
    running = Receiver(tmp_path)
    yield running
    running.close()


def send(receiver: Receiver, body: bytes, **headers: str) -> tuple[int, bytes]:
    """Status and body of the answer to a request that comes in chunks."""
    connection = http.client.HTTPConnection(urlsplit(receiver.url).netloc, timeout=10)
    pieces = [body[at : at + 50] for at in range(0, len(body), 50)]
    named = {"Content-Type": JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request("POST", "/v1/traces", iter(pieces), named, encode_chunked=True)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_stored(receiver: Receiver, encoding: str) -> None:
    """Its spans are stored when it is answered, compressed or not."""
    body = batch(SPAN) if encoding == "identity" else gzip.compress(batch(SPAN))

    assert send(receiver, body, content_encoding=encoding) == (200, b"{}")
    assert receiver.stored == 1


def test_longer_than_allowed(receiver: Receiver) -> None:
    """It is refused where the bound is met, not at its end."""
    status, _ = send(receiver, b" " * 150_000)

    assert status == 413
    assert receiver.stored == 0


@pytest.mark.parametrize("encoding", ["deflate", "zstd", "br", "gzip, gzip"])
def test_another_encoding(receiver: Receiver, encoding: str) -> None:
    """It is refused by its name; the body is not guessed at."""
    status, answer = send(receiver, batch(SPAN), content_encoding=encoding)

    assert status == 415
    assert encoding in answer.decode()
    assert receiver.stored == 0
