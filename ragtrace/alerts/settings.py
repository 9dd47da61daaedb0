"""Reads `alerts/objectives.yaml` and a user's file over it, strictly: what it does not know is an error."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from ragtrace import resources
from ragtrace.alerts.durations import Duration
from ragtrace.errors import ConfigurationError

__all__ = [
    "BurnRate",
    "BurnRates",
    "Drift",
    "Evaluation",
    "Growth",
    "Hold",
    "Limit",
    "Links",
    "Notifications",
    "Override",
    "Platform",
    "Releases",
    "Settings",
    "Sources",
    "read_settings",
]

# Mappings whose keys are names of the user's, or are checked against the registry.
_OPEN: Final = ("targets", "owners", "receivers", "hold.page", "releases.required")

_REMEDY: Final = "give a YAML file like alerts/objectives.yaml"


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what may stand in the file: an unknown key is an error."""


class Override(_Part, frozen=True):
    """A service, a segment, or a segment of a service, with what differs there."""

    service: str | None = None
    segment: str | None = None
    targets: dict[str, float] = {}
    owners: dict[str, str] = {}
    alert: bool = True


class BurnRate(_Part, frozen=True):
    """A pair of windows and the factor of the budget that must burn on both."""

    short: Duration
    long: Duration
    factor: float
    minimum: float

    @property
    def name(self) -> str:
        """As it stands in the names of recorded series."""
        return self.short.name + self.long.name


class BurnRates(_Part, frozen=True):
    """The pairs of windows by severity, and how sure the bound is."""

    z: float
    page: tuple[BurnRate, ...]
    ticket: tuple[BurnRate, ...]

    @property
    def every(self) -> tuple[BurnRate, ...]:
        """Those of pages, then those of tickets."""
        return self.page + self.ticket


class Hold(_Part, frozen=True):
    """How long conditions hold before an alert fires."""

    page: dict[str, Duration]
    ticket: Duration
    next: Duration
    keep_firing: Duration


class Releases(_Part, frozen=True):
    """Which stages page only after a release, and how long a release is suspected."""

    required: dict[str, Duration]
    suspected: Duration


class Growth(_Part, frozen=True):
    """When a value has grown."""

    window: Duration
    baseline: Duration
    factor: float
    floor: float
    minimum: float


class GrowthRules(_Part, frozen=True):
    """What is watched for growth."""

    contradiction_rate: Growth
    rank_shift: Growth
    candidate_age: Growth


class Drift(_Part, frozen=True):
    """When a source's time is out of the usual."""

    factor: float
    floor: Duration


class Volume(_Part, frozen=True):
    """When a source's number of documents is out of the usual."""

    window: Duration
    fall: float
    rise: float


class Limit(_Part, frozen=True):
    """What one source must keep, whatever is usual."""

    source: str
    service: str | None = None
    delay: Duration | None = None
    freshness: Duration | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its series."""
        return {"source": self.source} | ({} if self.service is None else {"service": self.service})


class Sources(_Part, frozen=True):
    """The thresholds of source health."""

    history: Duration
    delay: Drift
    freshness: Drift
    report: Drift
    limits: tuple[Limit, ...]
    volume: Volume
    hold: Duration


class Platform(_Part, frozen=True):
    """The thresholds of the alerts about ragtrace itself."""

    job: str
    exporter_down: Duration
    analyzer_stale: Duration
    sli_absent: Duration
    sli_expected: float
    backlog_age: Duration
    backlog_jobs: float
    internal_errors_per_hour: float
    late_share: float
    refused_share: float
    hold: Duration


class Evaluation(_Part, frozen=True):
    """How often rules run."""

    interval: Duration
    slow_interval: Duration


class Notifications(_Part, frozen=True):
    """Alertmanager's pace."""

    group_wait: Duration
    group_interval: Duration
    repeat_page: Duration
    repeat_ticket: Duration
    resolve_timeout: Duration


class Links(_Part, frozen=True):
    """The first parts of addresses."""

    grafana: str
    runbooks: str


class Settings(_Part, frozen=True):
    """All of `alerts/objectives.yaml`."""

    targets: dict[str, float]
    owners: dict[str, str]
    segments: tuple[Override, ...]
    burn_rates: BurnRates
    hold: Hold
    releases: Releases
    growth: GrowthRules
    sources: Sources
    platform: Platform
    evaluation: Evaluation
    notifications: Notifications
    links: Links
    receivers: dict[str, dict[str, dict[str, Any]]]
    triage: str | None


def read_settings(config: Path | None = None, *, time_scale: float = 1.0) -> Settings:
    """The shipped settings with what the file `config` replaces.

    Args:
        time_scale: every duration is divided by it; names of series keep the duration that was written.

    Raises: ConfigurationError that names the file, the key, and what is allowed there.
    """
    if not 0 < time_scale < inf:
        raise ConfigurationError.of("time scale", time_scale, "a finite number above 0")
    shipped = resources.folder("alerts") / "objectives.yaml"
    body = _load(shipped)
    if config is not None:
        body = _merged(body, _load(config), config.name, "")
    source = shipped.name if config is None else config.name
    try:
        return msgspec.convert(body, Settings, dec_hook=_hook(time_scale))
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{source}: {error}; docs/alerts.md says what stands there") from error


def _load(path: Path) -> dict[str, Any]:
    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigurationError(
            f"{path}: cannot be read: {error}; give a YAML file like alerts/objectives.yaml"
        ) from error
    if not isinstance(body, dict):
        raise ConfigurationError(f"{path}: holds no keys; {_REMEDY}")
    return body


def _merged(shipped: dict[str, Any], own: dict[str, Any], file: str, where: str) -> dict[str, Any]:
    """`shipped` with the keys of `own` in their place, mappings key by key."""
    merged = dict(shipped)
    for key, value in own.items():
        path = f"{where}.{key}" if where else str(key)
        if key not in shipped and where not in _OPEN:
            raise ConfigurationError(f"{file}: {path!r} is no setting; give one of {', '.join(shipped)}")
        nested = isinstance(shipped.get(key), dict) and isinstance(value, dict)
        merged[key] = _merged(shipped[key], value, file, path) if nested else value
    return merged


def _hook(time_scale: float) -> Any:
    def decoded(kind: type, value: Any) -> Any:
        if kind is not Duration:
            raise NotImplementedError(kind)
        try:
            return Duration.parse(value, time_scale)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error

    return decoded
