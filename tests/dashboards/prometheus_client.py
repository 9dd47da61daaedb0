"""Asks a Prometheus server, over its HTTP interface, for what panels show over a span of time."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from ragtrace.config import http_address
from ragtrace.dashboards._panels import Panel
from ragtrace.dashboards._promql import ANY
from ragtrace.errors import ConfigurationError
from ragtrace.http_client import HttpClient, NoAnswer

__all__ = ["Exemplar", "PreviewScope", "Prometheus", "Series", "seconds_of"]

_TIMEOUT_SECONDS: Final = 30
_USUAL_SCRAPE_SECONDS: Final = 60.0
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


class PrometheusError(Exception):
    """A server that cannot be reached, refuses, or answers what cannot be read."""


class PreviewScope(NamedTuple):
    """What a preview covers: from `start` to `end`, in seconds since the epoch, the series that the patterns choose."""

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


class Series(NamedTuple):
    """One series: its labels, and its values by time in seconds; NaN and infinities are left out."""

    labels: dict[str, str]
    points: dict[float, float]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[max(self.points)]

    def label(self, name: str) -> str:
        """A label's value. A server leaves out a label whose value is empty."""
        return self.labels.get(name, "")


class Exemplar(NamedTuple):
    """The trace behind one value."""

    trace_id: str
    value: float
    at: float
    labels: dict[str, str]


class Prometheus:
    """A server by the URL that its interface stands under, like `http://localhost:9090`; a user and a password in it
    are sent as basic authentication, and shown nowhere."""

    def __init__(self, url: str) -> None:
        parts = http_address("--prometheus", url, "the server's URL, like http://localhost:9090")
        self._client = HttpClient(parts, seconds=_TIMEOUT_SECONDS, is_proxied=True, is_redirected=True)
        self.url = self._client.address.rstrip("/")

    def query(self, expr: str, at: float) -> list[Series]:
        """The values of an expression at one time, in seconds since the epoch."""
        found = self._get("query", query=expr, time=at)["result"]
        return _series((entry["metric"], [entry["value"]]) for entry in found)

    def query_range(self, expr: str, start: float, end: float, step: float) -> list[Series]:
        """The values of an expression over time."""
        found = self._get("query_range", query=expr, start=start, end=end, step=step)["result"]
        return _series((entry["metric"], entry["values"]) for entry in found)

    def exemplars(self, expr: str, start: float, end: float) -> list[Exemplar]:
        """Exemplars of all series that an expression reads, newest first; none where the server keeps none."""
        try:
            found = self._get("query_exemplars", query=expr, start=start, end=end)
        except PrometheusError:
            return []  # older servers and some that speak the same language have no exemplars
        exemplars = [
            Exemplar(one["labels"]["trace_id"], float(one["value"]), float(one["timestamp"]), series["seriesLabels"])
            for series in found
            for one in series["exemplars"]
            if "trace_id" in one["labels"]
        ]
        return sorted(exemplars, key=lambda exemplar: exemplar.at, reverse=True)

    def names(self) -> frozenset[str]:
        """The names of all series."""
        return frozenset(self._get("label/__name__/values"))

    def scrape_interval(self, metric: str) -> float:
        """How often the jobs that served `metric` within a day are scraped, in seconds; a minute where the server does
        not say."""
        found_in = self._get("query", query=f"last_over_time({metric}[1d])")["result"]
        jobs = {one["metric"].get("job") for one in found_in}
        try:
            targets = self._get("targets", state="active")["activeTargets"]
            found = [seconds_of(one["scrapeInterval"]) for one in targets if one["labels"].get("job") in jobs]
        except (PrometheusError, KeyError):
            found = []
        return max(found, default=_USUAL_SCRAPE_SECONDS)

    def _get(self, path: str, **arguments: object) -> Any:
        try:
            answer = self._client.request("GET", f"{self.url}/api/v1/{path}?{urlencode(arguments)}")
            if answer.status >= 300:
                raise PrometheusError(f"Prometheus at {self.url} refused {path}: {answer.status} {answer.said}")
            return json.loads(answer.body)["data"]
        except (NoAnswer, ValueError, KeyError, TypeError) as error:
            raise PrometheusError(
                f"Prometheus at {self.url} gave no usable answer to {path} ({error}); check that it runs there"
            ) from error


def _series(found: Any) -> list[Series]:
    series = [
        Series(dict(labels), {float(at): float(value) for at, value in points if math.isfinite(float(value))})
        for labels, points in found
    ]
    return [one for one in series if one.points]
