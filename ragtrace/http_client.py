"""The client of what ragtrace asks over HTTP: servers of models, receivers of metrics and of reports, Prometheus.

A login in an address goes along as basic authentication. No message shows it, nor any other authorization.
"""

from __future__ import annotations

import base64
import math
import ssl
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote

from ragtrace.errors import ConfigurationError, MissingExtraError
from ragtrace.safe_text import masked

__all__ = ["Answer", "HttpClient", "NoAnswer", "retry_after"]

_CONNECT_SECONDS: Final = 10.0
_LARGEST: Final = 256 << 20  # bytes of an answer, unpacked
_SHOWN: Final = 300  # characters of what a server says


class NoAnswer(OSError):
    """A server that gave no answer, or none that can be read. is_absent: nobody took the connection."""

    def __init__(self, message: str, *, is_absent: bool = False) -> None:
        super().__init__(message)
        self.is_absent = is_absent


class Answer(NamedTuple):
    """What a server answered, whatever its status. retry_after: the seconds that it asks to be left alone for."""

    status: int
    body: bytes
    retry_after: float | None

    @property
    def said(self) -> str:
        """The beginning of the body, for a message."""
        return self.body[:_SHOWN].decode("utf-8", "replace").strip()


class HttpClient:
    """One server, for many threads.

    Args:
        parts: the server's address; requests go to `address`, which is the same without user and password.
        extra: the extra that brings the package, for whoever lacks it.
        headers: of each request; an `Authorization` among them counts more than the address's login.
        seconds: that a server may be silent for, while a connection is made at most ten of them; one that goes on
            sending a little is listened to.
        connections: how many stay open for further requests.
        is_proxied: whether the environment's proxies are used (HTTPS_PROXY, NO_PROXY).
        is_redirected: whether redirects are followed: on the same server, and from http to https of the same host. One
            that leads elsewhere is no answer: whoever answers could make the client ask servers of its own network.

    Raises: MissingExtraError; ConfigurationError for proxies of the environment that cannot be used.
    """

    def __init__(
        self,
        parts: SplitResult,
        *,
        extra: str = "http",
        headers: Mapping[str, str] | None = None,
        seconds: float = _CONNECT_SECONDS,
        connections: int = 0,
        is_proxied: bool = False,
        is_redirected: bool = False,
    ) -> None:
        try:
            import httpx2
        except ImportError:
            raise MissingExtraError("httpx2", extra) from None
        self.address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        sent = dict(headers or {})
        authorization = next((value for name, value in sent.items() if name.lower() == "authorization"), "")
        if parts.username and not authorization:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            sent["Authorization"] = authorization = f"Basic {base64.b64encode(login.encode()).decode()}"
        self._secret = authorization.rpartition(" ")[2]
        self._package = httpx2
        try:
            self._client = httpx2.Client(
                headers={name.encode(): value.encode() for name, value in sent.items()},
                timeout=httpx2.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=connections),
                verify=ssl.create_default_context(),
                trust_env=is_proxied,
                follow_redirects=is_redirected,
                event_hooks={"response": [_refuse_elsewhere] if is_redirected else []},
            )
        except (ImportError, ValueError, httpx2.InvalidURL) as error:  # it reads the proxies of the environment
            raise ConfigurationError(
                f"a proxy of the environment cannot be used: {masked(str(error))}; give HTTP_PROXY, HTTPS_PROXY or "
                "ALL_PROXY as http://HOST:PORT, or leave the server out by NO_PROXY"
            ) from None

    def request(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The answer to one request. Raises: NoAnswer, whose message shows no secret."""
        package, read = self._package, bytearray()
        try:
            with self._client.stream(method, url, content=body, headers=headers) as response:
                for part in response.iter_bytes():
                    read += part
                    if len(read) > _LARGEST:
                        raise NoAnswer(f"its answer has more than {_LARGEST:,} bytes")
                return Answer(response.status_code, bytes(read), retry_after(response.headers.get("Retry-After")))
        except package.LocalProtocolError:  # its message quotes the header
            raise NoAnswer("a header cannot be sent as it is") from None
        except (package.HTTPError, package.InvalidURL, UnicodeError) as error:  # the last: no name of a host
            absent = isinstance(error, package.ConnectError | package.ConnectTimeout)
            raise NoAnswer(self.masked(str(error) or type(error).__name__), is_absent=absent) from None

    def masked(self, text: str) -> str:
        """A text without the authorization."""
        return text.replace(self._secret, "***") if self._secret else text

    def close(self) -> None:
        """Close the connections, for good."""
        self._client.close()


def _refuse_elsewhere(response: Any) -> None:
    """Raises: NoAnswer for a redirect to another server, or from https to http."""
    if not response.has_redirect_location:
        return
    asked, target = response.url, response.url.join(response.headers["Location"])
    is_same = (target.scheme, target.port) == (asked.scheme, asked.port)
    is_safer = (asked.scheme, target.scheme) == ("http", "https")
    if target.host != asked.host or not (is_same or is_safer):
        raise NoAnswer(
            f"it leads to {target.scheme}://{target.netloc.decode('ascii')}, another server: give the address that "
            "answers"
        )


def retry_after(value: str | None) -> float | None:
    """The seconds that a header `Retry-After` asks for, as a number or a date; None where it says nothing of use."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return _until(value)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(value: str) -> float | None:
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, aware.timestamp() - time.time())
