"""Addresses of receivers: what is shown of them, and what they ask for in answers."""

from __future__ import annotations

import math
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ragtrace.errors import ConfigurationError

__all__ = ["parsed", "retry_after", "shown"]


def parsed(name: str, url: str) -> SplitResult:
    """The parts of an http or https URL.

    Raises: ConfigurationError naming `name`, what is allowed, and the value without a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError.of(name, shown(parts), "a URL such as http://localhost:4318")
    return parts


def shown(parts: SplitResult) -> str:
    """The URL without user, password and query."""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


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
