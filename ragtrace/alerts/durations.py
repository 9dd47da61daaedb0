"""Durations as Prometheus writes them, with a factor that shortens them all alike."""

from __future__ import annotations

import re
from typing import Final, Self

from ragtrace.errors import ConfigurationError

__all__ = ["Duration"]

_UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_TEXT: Final = re.compile(r"(?:\d+(?:ms|[wdhms]))+")
_PART: Final = re.compile(r"(\d+)(ms|[wdhms])")


class Duration:
    """A time span of `milliseconds`, as it is named; in rules it lasts `milliseconds / scale`."""

    def __init__(self, milliseconds: int, scale: float = 1.0) -> None:
        self.milliseconds = milliseconds
        self.scale = scale

    @classmethod
    def parse(cls, text: object, scale: float = 1.0) -> Self:
        """The duration that `text` names, such as `90s`, `5m` or `1h30m`.

        Raises: ConfigurationError when it is none, or is zero.
        """
        milliseconds = 0
        if isinstance(text, str) and _TEXT.fullmatch(text):
            milliseconds = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
        if milliseconds == 0:
            raise ConfigurationError.of("duration", text, "a number and a unit (ms, s, m, h, d, w), as in 5m or 1h30m")
        return cls(milliseconds, scale)

    @property
    def name(self) -> str:
        """As it stands in names of series: the same whatever the scale."""
        return _written(self.milliseconds)

    @property
    def seconds(self) -> float:
        """How long it lasts, in seconds."""
        return self._scaled / 1000

    def __str__(self) -> str:
        return _written(self._scaled)

    @property
    def _scaled(self) -> int:
        return max(1, round(self.milliseconds / self.scale))


def _written(milliseconds: int) -> str:
    text = ""
    for unit, size in _UNITS.items():
        if unit != "w":
            count, milliseconds = divmod(milliseconds, size)
            text += f"{count}{unit}" if count else ""
    return text
