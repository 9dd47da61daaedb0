"""The client of a model's server: JSON over open connections, retries that back off, limits of requests and tokens.

Beside it stand what the ways to ask a server for log-probabilities have in common, and the budget of judges, in tokens
and money per hour: reserved before a call, or not begun.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol

from ragtrace.config import http_address, shown_address
from ragtrace.engines.tokens import ScoredToken
from ragtrace.errors import ConfigurationError, ModelError, NotJudged, ServerError
from ragtrace.http_client import Answer, HttpClient, NoAnswer

__all__ = [
    "Asking",
    "Budget",
    "Client",
    "LimitReached",
    "RequestLimits",
    "Reservation",
    "ServedModel",
    "ServerDialect",
    "Usage",
    "check_least",
    "floored",
    "malformed",
    "number",
]

_AGAIN: Final = (408, 425, 429, 500, 502, 503, 504, 529)
_LONGEST: Final = 60.0  # seconds between two attempts, whatever the server asks for
_CONNECT: Final = 2  # further attempts where nobody listens
_SHOWN: Final = 300  # characters of a server's message
_JSON: Final = {"Content-Type": "application/json"}


class LimitReached(ServerError):
    """The next request would pass a limit; it was not sent."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What was asked of a server so far: requests, repeated ones included, and tokens of their prompts."""

    requests: int = 0
    prompt_tokens: int = 0


class RequestLimits:
    """Counts what is asked of a server, and refuses what would pass a limit; requests under way count with a guess."""

    def __init__(self, max_requests: int | None, max_prompt_tokens: int | None) -> None:
        for name, limit in (("max_requests", max_requests), ("max_prompt_tokens", max_prompt_tokens)):
            if limit is not None and (isinstance(limit, bool) or limit < 0):
                raise ConfigurationError.of(name, limit, "a whole number from 0 on, or None for no limit")
        self.max_requests = max_requests
        self.max_prompt_tokens = max_prompt_tokens
        self._lock = threading.Lock()
        self._requests = self._tokens = self._characters = 0
        self._under_way = 0.0

    @property
    def usage(self) -> Usage:
        """What was counted so far."""
        return Usage(self._requests, self._tokens)

    def reserve(self, characters: int) -> float:
        """Count a request with a prompt so long; the guess of its tokens. Raises: LimitReached."""
        with self._lock:
            seen = self._tokens / self._characters if self._characters else 0.25
            guess = characters * seen
            self._check_requests()
            expected = self._tokens + self._under_way + guess
            if characters and self.max_prompt_tokens is not None and expected > self.max_prompt_tokens:
                raise LimitReached(
                    f"{self._tokens} of at most {self.max_prompt_tokens} prompt tokens are used, and the next prompt "
                    f"has about {guess:.0f}; raise max_prompt_tokens"
                )
            self._requests += 1
            self._under_way += guess
            return guess

    def repeat(self) -> None:
        """Count a request that is sent once more. Raises: LimitReached."""
        with self._lock:
            self._check_requests()
            self._requests += 1

    def settle(self, guess: float, characters: int, tokens: int | None) -> None:
        """Replace the guess by what the server counted, where it did; a request that failed has no characters."""
        with self._lock:
            self._under_way -= guess
            if characters:
                self._tokens += round(guess) if tokens is None else tokens
                self._characters += characters

    def _check_requests(self) -> None:
        if self.max_requests is not None and self._requests >= self.max_requests:
            raise LimitReached(f"the limit of {self.max_requests} requests is used up; raise max_requests")


def check_least(name: str, number: int, least: int) -> None:
    """Raises: ConfigurationError unless an argument is a whole number of at least `least`."""
    if isinstance(number, bool) or number < least:
        raise ConfigurationError.of(name, number, f"a whole number from {least} on")


class Client:
    """One server, for many threads. The key is read from an environment variable and shown nowhere."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key_env: str | None,
        timeout: float,
        retries: int,
        connections: int,
        limits: RequestLimits,
    ) -> None:
        check_least("concurrency", connections, 1)
        check_least("retries", retries, 0)
        if not timeout > 0:
            raise ConfigurationError.of("timeout", timeout, "a number of seconds above 0")
        parts = http_address(
            "base_url", base_url.rstrip("/"), "http://HOST:PORT/v1, or another address of an OpenAI API"
        )
        self._secret = _secret(api_key_env)
        self._http = HttpClient(
            parts,
            headers={"Authorization": f"Bearer {self._secret}"} if self._secret else {},
            seconds=timeout,
            connections=connections,
        )
        self.base_url = self._http.address
        self.root_url = self.base_url.removesuffix("/v1")
        self._shown = shown_address(parts)
        self.limits = limits
        self._retries = retries

    def post(self, path: str, body: Mapping[str, Any], *, characters: int = 0, at_root: bool = False) -> dict[str, Any]:
        """The answer to a request. characters: of the prompt, as far as its tokens count; at_root: not below `/v1`.

        Raises: LimitReached before it is sent, ServerError when the server does not answer, or not with JSON.
        """
        return self._exchange("POST", path, body, characters, at_root)

    def get(self, path: str, *, at_root: bool = False) -> dict[str, Any]:
        """What stands at a path. Raises: as `post`."""
        return self._exchange("GET", path, None, 0, at_root)

    def close(self) -> None:
        """Close the connections, for good."""
        self._http.close()

    def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, characters: int, at_root: bool
    ) -> dict[str, Any]:
        guess = self.limits.reserve(characters)
        done, tokens = 0, None
        try:
            sent = None if body is None else json.dumps(body).encode()
            answer = self._read(path, self._sent(method, (self.root_url if at_root else self.base_url) + path, sent))
            done, tokens = characters, _counted(answer)
        except NoAnswer as error:
            raise ServerError(
                f"no answer from {self._shown}{path}: {self._cleaned(str(error))}; check that the server runs there, "
                "or raise timeout"
            ) from None
        finally:
            self.limits.settle(guess, done, tokens)
        return answer

    def _sent(self, method: str, url: str, body: bytes | None) -> Answer:
        """The answer to a request, which is sent again after what may pass: behind doubled pauses, each cut by chance,
        or what the server asks for in Retry-After. Raises: NoAnswer, LimitReached."""
        absent = 0
        for attempt in count():
            pause = min(_LONGEST, 0.5 * 2.0**attempt) * random.uniform(0.5, 1.0)
            try:
                answer = self._http.request(method, url, body, _JSON)
            except NoAnswer as error:
                absent += error.is_absent
                if attempt >= self._retries or absent > _CONNECT:
                    raise
            else:
                if answer.status not in _AGAIN or attempt >= self._retries:
                    return answer
                pause = pause if answer.retry_after is None else min(_LONGEST, answer.retry_after)
            self.limits.repeat()
            time.sleep(pause)
        raise AssertionError("the loop ends by itself")

    def _read(self, path: str, response: Answer) -> dict[str, Any]:
        where = f"{self._shown}{path}"
        try:
            found = json.loads(response.body)
        except (ValueError, RecursionError):
            found = None
        if response.status >= 300:
            remedy = "; give the name of the environment variable with the key as api_key_env"
            raise ServerError(
                f"{where} refused with {response.status}: {self._cleaned(_message(found, response.body))}"
                + (remedy if response.status in (401, 403) else ""),
                response.status,
            )
        if not isinstance(found, dict):
            said = self._cleaned(response.body[:_SHOWN].decode("utf-8", "replace"))
            raise ServerError(f"{where} answered no JSON object but {said!r}; give the base_url of an OpenAI API")
        return found

    def _cleaned(self, text: str) -> str:
        text = " ".join(text.split())
        return (text.replace(self._secret, "***") if self._secret else text)[:_SHOWN]


class ServedModel:
    """A model at a server: its name there, the connections to it, and what was asked of it so far."""

    revision: Final = None
    device: Final = "remote"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key_env: str | None,
        concurrency: int,
        timeout: float,
        retries: int,
        max_requests: int | None,
        max_prompt_tokens: int | None,
    ) -> None:
        self.name = model
        self._concurrency = concurrency
        self._limits = RequestLimits(max_requests, max_prompt_tokens)
        self._client = Client(
            base_url,
            api_key_env=api_key_env,
            timeout=timeout,
            retries=retries,
            connections=concurrency,
            limits=self._limits,
        )

    @property
    def usage(self) -> Usage:
        """Requests and prompt tokens so far."""
        return self._limits.usage

    def close(self) -> None:
        """Close the connections to the server, for good."""
        self._client.close()


def _secret(variable: str | None) -> str | None:
    if variable is None:
        return None
    secret = os.environ.get(variable, "").strip()
    if not secret:
        raise ConfigurationError.of("api_key_env", variable, "the name of an environment variable that holds the key")
    return secret


def _counted(answer: Mapping[str, Any]) -> int | None:
    """The prompt's tokens as the server counts them."""
    usage = answer.get("usage")
    found = usage.get("prompt_tokens") if isinstance(usage, dict) else answer.get("tokens_evaluated")
    return found if isinstance(found, int) and found >= 0 else None


def _message(found: Any, body: bytes) -> str:
    """What a server says of its refusal, in one of the forms that servers have for it."""
    said = found.get("error", found) if isinstance(found, dict) else found
    said = said.get("message", said.get("detail", said)) if isinstance(said, dict) else said
    return str(said) if said else body[:_SHOWN].decode("utf-8", "replace")


_LEAST: Final = -104.0
"""Below the logarithm of the smallest float32."""
_ROUNDED_UP: Final = 1e-3


class ServerDialect(Protocol):
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
    return max(value, _LEAST)


HOUR: Final = 3600.0
_MILLION: Final = 1e6


class Reservation:
    """What a call may still spend of what was set aside for it."""

    def __init__(self, budget: Budget, tokens: float, money: float) -> None:
        self._budget = budget
        self.tokens = tokens
        self.money = money

    def spend(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Note one request."""
        self._budget.note(self, prompt_tokens, completion_tokens)


class Budget:
    """Limits over the last hour, for all judges and threads that share it.

    Args:
        tokens_per_hour: of prompts and answers; None: no limit.
        money_per_hour: by `prices`; None: no limit.
        prices: of a million tokens of prompts, and of a million tokens of answers.
        clock: seconds that only rise.

    Raises: ConfigurationError for limits below 0, or money without prices.
    """

    def __init__(
        self,
        *,
        tokens_per_hour: float | None = None,
        money_per_hour: float | None = None,
        prices: tuple[float, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, limit in (("tokens_per_hour", tokens_per_hour), ("money_per_hour", money_per_hour)):
            if limit is not None and not limit >= 0:
                raise ConfigurationError.of(name, limit, "a number from 0 on, or None for no limit")
        if prices is not None and not all(price >= 0 for price in prices):
            raise ConfigurationError.of("prices", prices, "two prices from 0 on, of a million tokens each")
        if money_per_hour is not None and prices is None:
            raise ConfigurationError(
                "money_per_hour needs prices; give those of a million tokens of prompts and answers"
            )
        self.tokens_per_hour = tokens_per_hour
        self.money_per_hour = money_per_hour
        self.prices = prices or (0.0, 0.0)
        self._clock = clock
        self._lock = threading.Lock()
        self._last: deque[tuple[float, float, float]] = deque()
        self._reserved: list[Reservation] = []

    def price(self, prompt_tokens: float, completion_tokens: float) -> float:
        """What so many tokens cost; 0 without prices."""
        return (prompt_tokens * self.prices[0] + completion_tokens * self.prices[1]) / _MILLION

    @contextmanager
    def reserve(self, prompt_tokens: float, completion_tokens: float) -> Iterator[Reservation]:
        """Set aside what a call may spend, until it ends. Raises: NotJudged where the hour has not so much left."""
        tokens, money = prompt_tokens + completion_tokens, self.price(prompt_tokens, completion_tokens)
        with self._lock:
            now = self._clock()
            while self._last and self._last[0][0] <= now - HOUR:
                self._last.popleft()
            self._check("tokens", self.tokens_per_hour, tokens, 1)
            self._check("money", self.money_per_hour, money, 2)
            reservation = Reservation(self, tokens, money)
            self._reserved.append(reservation)
        try:
            yield reservation
        finally:
            with self._lock:
                self._reserved.remove(reservation)

    def note(self, reservation: Reservation, prompt_tokens: int, completion_tokens: int) -> None:
        """Count one request, and no longer as set aside."""
        tokens, money = prompt_tokens + completion_tokens, self.price(prompt_tokens, completion_tokens)
        with self._lock:
            reservation.tokens = max(0.0, reservation.tokens - tokens)
            reservation.money = max(0.0, reservation.money - money)
            self._last.append((self._clock(), tokens, money))

    def _check(self, what: str, limit: float | None, wanted: float, place: int) -> None:
        if limit is None:
            return
        used = sum(entry[place] for entry in self._last) + sum(getattr(each, what) for each in self._reserved)
        if used + wanted > limit:
            too_much = f"; one call wants more than the {limit:g} of a whole hour" if wanted > limit else ""
            raise NotJudged(
                "budget",
                f"{used:g} of {limit:g} {what} of this hour are used or set aside, and the next pairs need about "
                f"{wanted:g}{too_much}; words judge until the hour has passed, or give the judge more",
            )
