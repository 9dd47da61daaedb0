"""The time that a preview covers, and how its variables are filled in."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ragtrace.dashboards.model import Panel
from ragtrace.dashboards.variables import ANY
from ragtrace.errors import ConfigurationError

__all__ = ["Span", "seconds_of"]

_POINTS: Final = 240
_FEWEST_POINTS: Final = 36
_LEAST_STEP: Final = 1.0
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION: Final = re.compile(r"(\d+)(ms|[smhdw])")


def seconds_of(duration: str) -> float:
    """A duration as Prometheus writes it (`90s`, `1h30m`) in seconds.

    Raises: ConfigurationError when it is none, or zero.
    """
    parts = _DURATION.findall(duration)
    seconds = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if not seconds or "".join(map("".join, parts)) != duration:
        raise ConfigurationError.of("duration", duration, "one like 6h, 90s or 1h30m")
    return float(seconds)


class Span(NamedTuple):
    """From `start` to `end`, in seconds since the epoch, of the series that the patterns choose."""

    start: float
    end: float
    scrape: float = 60.0
    service: str = ANY
    segment: str = ANY
    stratum: str = "random"

    def step(self, panel: Panel) -> float:
        """Seconds between two points of a panel: its least step, unless that would leave few points."""
        least = seconds_of(panel.least_step) if panel.least_step else _LEAST_STEP
        length = self.end - self.start
        return max(length / _POINTS, min(least, length / _FEWEST_POINTS), _LEAST_STEP)

    def filled(self, expr: str, panel: Panel) -> str:
        """The expression with Grafana's variables filled in, as Grafana does it."""
        window = max(self.step(panel) + self.scrape, 4 * self.scrape)
        values = {
            "$__rate_interval": f"{window:.0f}s",
            "$__range": f"{self.end - self.start:.0f}s",
            "${__from}": f"{self.start * 1000:.0f}",
            "${__from:date:iso}": f"{datetime.fromtimestamp(self.start, UTC):%Y-%m-%dT%H:%M:%SZ}",
            "$service": self.service.replace("\\", "\\\\").replace('"', '\\"'),
            "$segment": self.segment.replace("\\", "\\\\").replace('"', '\\"'),
            "$stratum": self.stratum,
        }
        pattern = "|".join(re.escape(name) for name in sorted(values, key=len, reverse=True))
        return re.sub(pattern, lambda found: values[found[0]], expr)
