"""Asks a Prometheus server, over its HTTP interface, for what panels show."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final, NamedTuple

from ragtrace.dashboards.span import seconds_of
from ragtrace.errors import ConfigurationError, PrometheusError

__all__ = ["Exemplar", "Prometheus", "Series"]

_TIMEOUT_SECONDS: Final = 30
_USUAL_SCRAPE_SECONDS: Final = 60.0


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
    """A server by the URL that its interface stands under, like `http://localhost:9090`."""

    def __init__(self, url: str) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise ConfigurationError.of("--prometheus", url, "the server's URL, like http://localhost:9090")
        self.url = url.rstrip("/")

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
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            said = error.read(2000).decode("utf-8", "replace")
            raise PrometheusError(f"Prometheus at {self.url} refused {path}: {error.code} {said}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PrometheusError(
                f"Prometheus at {self.url} gave no usable answer to {path} ({error}); check that it runs there"
            ) from error


def _series(found: Any) -> list[Series]:
    series = [
        Series(dict(labels), {float(at): float(value) for at, value in points if math.isfinite(float(value))})
        for labels, points in found
    ]
    return [one for one in series if one.points]
