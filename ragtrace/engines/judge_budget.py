"""The budget of judges behind a server, in tokens and money per hour: reserved before a call, or not begun."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ragtrace.errors import ConfigurationError, NotJudged

__all__ = ["Budget", "Reservation"]

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
