"""What the ways to ask a server for log-probabilities have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from ragtrace.engines.http_client import Client
from ragtrace.engines.token_texts import ScoredToken
from ragtrace.errors import ModelError

__all__ = ["LEAST", "Asking", "Dialect", "floored", "malformed", "number"]

LEAST: Final = -104.0
"""Below the logarithm of the smallest float32."""
_ROUNDED_UP: Final = 1e-3


class Dialect(Protocol):
    """One way to ask a server for the log-probabilities of an answer's tokens."""

    def __init__(self, client: Client, model: str, chat: bool, options: Mapping[str, Any]) -> None: ...

    def tokens(self, prompt: str, answer: str) -> list[ScoredToken]:
        """The answer's tokens behind the prompt. Raises: ModelError, ServerError."""


class Asking:
    """The server, the model's name, and the body of a request."""

    def __init__(self, client: Client, model: str, chat: bool, options: Mapping[str, Any]) -> None:
        self._client = client
        self._model = model
        self._chat = chat
        self._options = options

    def _body(self, **fields: Any) -> dict[str, Any]:
        body = {"model": self._model, "max_tokens": 1, "temperature": 0, **fields, **self._options}
        return {name: value for name, value in body.items() if value is not None}


def malformed(what: str, value: Any) -> ModelError:
    """What to raise for a part of an answer that has another form than its dialect; to ask again would not help."""
    return ModelError(
        f"the server gives {str(value)[:80]!r} as {what}, which is none; name the dialect that it speaks, or use "
        "another version of it"
    )


def number(value: Any) -> float:
    """A log-probability as it came. Raises: ModelError when it is none; that of a probability of 0 may be infinite."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value <= _ROUNDED_UP:
        return float(value)
    raise ModelError(
        f"the server gives the log-probability {value!r} for a token of the answer; it must be a number up to 0 (the "
        "very first token of a text has none: begin the prompt with something)"
    )


def floored(value: float) -> float:
    """A log-probability that float32 can hold the probability of: for 0 servers write -9999, or the lowest float."""
    return max(value, LEAST)
