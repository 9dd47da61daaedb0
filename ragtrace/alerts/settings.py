"""The settings of the alerts: `alerts/objectives.yaml` and a user's file over it, read strictly.

What is not known is an error, and so is a number with which an alert could never fire, or would always.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import asin, inf, isfinite, nextafter, sqrt
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec
import yaml

from ragtrace import installation
from ragtrace.errors import ConfigurationError

__all__ = [
    "RISES_BY",
    "RISES_FROM",
    "AlertSettings",
    "BurnRate",
    "BurnRates",
    "Duration",
    "Evaluation",
    "Growth",
    "Hold",
    "Limit",
    "Links",
    "Notifications",
    "Override",
    "Platform",
    "Releases",
    "RiseThreshold",
    "SourceLateness",
    "Sources",
    "Suspicion",
    "UnjudgedThreshold",
    "check_bounds",
    "effect",
    "read_settings",
]

RISES_FROM: Final = 0.15  # the usual share of which `RiseThreshold.rise` is said
RISES_BY: Final = 0.75  # of it, in points, at least, however small the usual share is
# Mappings whose keys are names of the user's, or are checked against the registry.
_OPEN: Final = ("targets", "owners", "receivers", "hold.page", "releases.required")

_REMEDY: Final = "give a YAML file like alerts/objectives.yaml"
_UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_TEXT: Final = re.compile(r"(?:\d+(?:ms|[wdhms]))+")
_PART: Final = re.compile(r"(\d+)(ms|[wdhms])")
_ABOVE_0: Final = nextafter(0.0, 1.0)
_BELOW_1: Final = nextafter(1.0, 0.0)


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


class _Authored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what may stand in the file: an unknown key is an error."""


class Override(_Authored, frozen=True):
    """A service, a segment, or a segment of a service, with what differs there."""

    service: str | None = None
    segment: str | None = None
    targets: dict[str, float] = {}
    owners: dict[str, str] = {}
    alert: bool = True


class BurnRate(_Authored, frozen=True):
    """A pair of windows and the factor of the budget that must burn on both."""

    short: Duration
    long: Duration
    factor: float
    minimum: float

    @property
    def name(self) -> str:
        """As it stands in the names of recorded series."""
        return self.short.name + self.long.name

    @property
    def least_long(self) -> float:
        """The requests that the long window needs: the bound of a handful that just began holds too seldom."""
        return 3 * self.minimum


class BurnRates(_Authored, frozen=True):
    """The pairs of windows by severity, and how sure the bound is."""

    z: float
    page: tuple[BurnRate, ...]
    ticket: tuple[BurnRate, ...]

    @property
    def every(self) -> tuple[BurnRate, ...]:
        """Those of pages, then those of tickets."""
        return self.page + self.ticket


class Hold(_Authored, frozen=True):
    """How long conditions hold before an alert fires."""

    page: dict[str, Duration]
    ticket: Duration
    keep_firing: Duration


class Releases(_Authored, frozen=True):
    """Which stages page only after a release, and how long a release is suspected."""

    required: dict[str, Duration]
    suspected: Duration


def effect(share: float, usual: float) -> float:
    """How far a share lies above another one, both in [0, 1], after the arcsine transformation that gives all shares
    the same error: Cohen's h.

    Source: J. Cohen, Statistical power analysis for the behavioral sciences, 1988, chapter 6.
    """
    return 2 * (asin(sqrt(share)) - asin(sqrt(usual)))


class RiseThreshold(_Authored, frozen=True):
    """A window, the baseline before it, and by how much a share must have risen, in [0, 1], where `RISES_FROM` is
    usual: elsewhere by as much after the arcsine transformation, and by `points`: less of a smaller share, but not of
    next to nothing."""

    window: Duration
    baseline: Duration
    rise: float

    @property
    def points(self) -> float:
        """The least rise of any share, in [0, 1]."""
        return RISES_BY * self.rise

    @property
    def effect(self) -> float:
        """The least rise after the transformation."""
        return effect(min(1.0, RISES_FROM + self.rise), RISES_FROM)


class Suspicion(_Authored, frozen=True):
    """When a share has risen: z standard errors and `rise`, with `minimum` requests in both windows; and where the rise
    began: at the first stage that rose by more than `part` of it, which must be `sure` standard errors from that."""

    z: float
    minimum: float
    part: float
    sure: float
    windows: tuple[RiseThreshold, ...]


class Growth(_Authored, frozen=True):
    """When a value has grown."""

    window: Duration
    baseline: Duration
    factor: float
    floor: float
    minimum: float


class ShareGap(_Authored, frozen=True):
    """When two shares differ: by `gap` and by `z` standard errors, with `minimum` requests on both sides."""

    window: Duration
    gap: float
    z: float
    minimum: float


class ShareRise(ShareGap, frozen=True):
    """When a share of the window is above that of the `baseline` before it."""

    baseline: Duration


class GrowthRules(_Authored, frozen=True):
    """What is watched for growth."""

    suspected: Suspicion
    rank_shift: Growth
    candidate_age: Growth
    graded_incorrect: ShareRise
    confidently_wrong: ShareGap
    correction_disagrees: ShareGap


class ExposureFall(_Authored, frozen=True):
    """When a provider is starved: over `window`, its shares of what answers used and of the places in prompts are both
    `fall` below those of the `baseline` before, by `z` standard errors of the first and with `minimum` requests in
    both, while the share that it deserves is at most `slack` below."""

    window: Duration
    baseline: Duration
    fall: float
    slack: float
    z: float
    minimum: float


class SourceLateness(_Authored, frozen=True):
    """When a source's time is out of the usual."""

    factor: float
    floor: Duration


class Volume(_Authored, frozen=True):
    """When a source's number of documents is out of the usual."""

    window: Duration
    fall: float
    rise: float


class Limit(_Authored, frozen=True):
    """What one source must keep, whatever is usual."""

    source: str
    service: str | None = None
    delay: Duration | None = None
    freshness: Duration | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its series."""
        return {"source": self.source} | ({} if self.service is None else {"service": self.service})


class Sources(_Authored, frozen=True):
    """The thresholds of source health."""

    history: Duration
    delay: SourceLateness
    freshness: SourceLateness
    report: SourceLateness
    limits: tuple[Limit, ...]
    volume: Volume
    hold: Duration


class UnjudgedThreshold(_Authored, frozen=True):
    """When a service cannot be judged: the share of requests in which any of the stages is sound or broken."""

    stages: tuple[str, ...]
    window: Duration
    share: float
    minimum: float


class Platform(_Authored, frozen=True):
    """The thresholds of the alerts about ragtrace itself."""

    job: str
    exporter_down: Duration
    analyzer_stale: Duration
    sli_absent: Duration
    sli_expected: float
    unjudged: UnjudgedThreshold
    backlog_age: Duration
    backlog_jobs: float
    internal_errors_per_hour: float
    late_share: float
    refused_share: float
    hold: Duration


class Evaluation(_Authored, frozen=True):
    """How often rules run."""

    interval: Duration
    slow_interval: Duration


class Notifications(_Authored, frozen=True):
    """Alertmanager's pace."""

    group_wait: Duration
    group_interval: Duration
    repeat_page: Duration
    repeat_ticket: Duration
    resolve_timeout: Duration


class Links(_Authored, frozen=True):
    """The first parts of addresses. pages: of `ragtrace web`; empty where nobody serves it."""

    grafana: str
    runbooks: str
    pages: str = ""

    def __post_init__(self) -> None:
        """Raises: ConfigurationError for pages that no browser opens."""
        if self.pages and not re.fullmatch(r"https?://[^\s?#{}]+", self.pages):
            raise ConfigurationError.of("links.pages", self.pages, "an address like https://rag.example.org")


class AlertSettings(_Authored, frozen=True):
    """All of `alerts/objectives.yaml`."""

    targets: dict[str, float]
    owners: dict[str, str]
    segments: tuple[Override, ...]
    burn_rates: BurnRates
    hold: Hold
    releases: Releases
    growth: GrowthRules
    exposure: ExposureFall
    sources: Sources
    platform: Platform
    evaluation: Evaluation
    notifications: Notifications
    links: Links
    receivers: dict[str, dict[str, dict[str, Any]]]
    triage: str | None


def read_settings(config: Path | None = None, *, time_scale: float = 1.0) -> AlertSettings:
    """The shipped settings with what the file `config` replaces.

    Args:
        time_scale: every duration is divided by it; names of series keep the duration that was written.

    Raises: ConfigurationError that names the file, the key, and what is allowed there.
    """
    if not 0 < time_scale < inf:
        raise ConfigurationError.of("time scale", time_scale, "a finite number above 0")
    shipped = installation.folder("alerts") / "objectives.yaml"
    body = _load(shipped)
    if config is not None:
        body = _merged(body, _load(config), config.name, "")
    source = shipped.name if config is None else config.name
    try:
        return msgspec.convert(body, AlertSettings, dec_hook=_hook(time_scale))
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{source}: {error}; docs/how-to/alerts.md says what stands there") from error


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


class _Bound(NamedTuple):
    """A number, where it stands, and between what it must lie."""

    where: str
    value: float
    least: float
    most: float
    allowed: str


def check_bounds(settings: AlertSettings) -> None:
    """Check what can be checked without the registry.

    Raises: ConfigurationError that names the place, the value, and what is allowed.
    """
    _check_pairs(settings)
    _check_comparisons(settings.growth.suspected)
    for bound in _bounds(settings):
        if not (bound.least <= bound.value <= bound.most and isfinite(bound.value)):
            raise ConfigurationError.of(bound.where, bound.value, bound.allowed)
    for where, text in _texts(settings):
        if not text.strip() or "{{" in text:
            raise ConfigurationError.of(where, text, "a text that is not empty and has no '{{'")


def _check_pairs(settings: AlertSettings) -> None:
    """Each severity has a pair of windows, and each pair stands once: series are named after it."""
    seen: set[str] = set()
    for severity, pairs in _pairs(settings):
        if not pairs:
            raise ConfigurationError.of(f"burn_rates.{severity}", [], "at least one pair of windows")
        for pair in pairs:
            if pair.name in seen:
                named = f"{pair.short.name} of {pair.long.name}"
                remedy = "each pair of short and long window only once in page and ticket together"
                raise ConfigurationError.of(f"burn_rates.{severity}'s pair", named, remedy)
            seen.add(pair.name)


def _check_comparisons(suspicion: Suspicion) -> None:
    """There is one, each window stands once, and its baseline is longer: it is counted in whole windows."""
    where, seen = "growth.suspected.windows", set()
    if not suspicion.windows:
        raise ConfigurationError.of(where, [], "at least one window with its baseline")
    for one in suspicion.windows:
        if one.window.name in seen:
            raise ConfigurationError.of(where, one.window.name, "each window only once")
        seen.add(one.window.name)
        if one.baseline.milliseconds < 2 * one.window.milliseconds:
            named = f"{one.baseline.name} before {one.window.name}"
            raise ConfigurationError.of(where, named, "a baseline at least twice as long as its window")


def _pairs(settings: AlertSettings) -> tuple[tuple[str, tuple[BurnRate, ...]], ...]:
    return ("page", settings.burn_rates.page), ("ticket", settings.burn_rates.ticket)


def _bounds(settings: AlertSettings) -> Iterator[_Bound]:
    yield _Bound("burn_rates.z", settings.burn_rates.z, 0.0, 5.0, "a number from 0 to 5, such as 1.645")
    for severity, pairs in _pairs(settings):
        for pair in pairs:
            yield _at_least_1(f"burn_rates.{severity}.minimum", pair.minimum)
    growth = settings.growth
    yield _Bound("growth.suspected.z", growth.suspected.z, 0.0, 10.0, "a number from 0 to 10, such as 4")
    yield _at_least_1("growth.suspected.minimum", growth.suspected.minimum)
    yield _share("growth.suspected.part", growth.suspected.part)
    yield _Bound("growth.suspected.sure", growth.suspected.sure, 0.0, 10.0, "a number from 0 to 10, such as 1.75")
    for comparison in growth.suspected.windows:
        yield _share("growth.suspected.windows.rise", comparison.rise)
    gaps: tuple[tuple[str, ShareGap], ...] = (
        ("graded_incorrect", growth.graded_incorrect),
        ("confidently_wrong", growth.confidently_wrong),
        ("correction_disagrees", growth.correction_disagrees),
    )
    for name, apart in gaps:
        yield _share(f"growth.{name}.gap", apart.gap)
        yield _Bound(f"growth.{name}.z", apart.z, 0.0, 10.0, "a number from 0 to 10, such as 4")
        yield _at_least_1(f"growth.{name}.minimum", apart.minimum)
    for name, one in (("rank_shift", growth.rank_shift), ("candidate_age", growth.candidate_age)):
        yield _at_least_1(f"growth.{name}.factor", one.factor)
        yield _positive(f"growth.{name}.floor", one.floor)
        yield _at_least_1(f"growth.{name}.minimum", one.minimum)
    yield _share("exposure.fall", settings.exposure.fall)
    yield _share("exposure.slack", settings.exposure.slack)
    yield _Bound("exposure.z", settings.exposure.z, 0.0, 10.0, "a number from 0 to 10, such as 4")
    yield _at_least_1("exposure.minimum", settings.exposure.minimum)
    sources, platform = settings.sources, settings.platform
    for name in ("delay", "freshness", "report"):
        yield _at_least_1(f"sources.{name}.factor", getattr(sources, name).factor)
    yield _share("sources.volume.fall", sources.volume.fall)
    yield _positive("sources.volume.rise", sources.volume.rise)
    yield _share("platform.late_share", platform.late_share)
    yield _share("platform.refused_share", platform.refused_share)
    yield _at_least_1("platform.sli_expected", platform.sli_expected)
    yield _share("platform.unjudged.share", platform.unjudged.share)
    yield _at_least_1("platform.unjudged.minimum", platform.unjudged.minimum)
    yield _positive("platform.backlog_jobs", platform.backlog_jobs)
    yield _positive("platform.internal_errors_per_hour", platform.internal_errors_per_hour)


def _at_least_1(where: str, value: float) -> _Bound:
    return _Bound(where, value, 1.0, inf, "a number of 1 or more")


def _positive(where: str, value: float) -> _Bound:
    return _Bound(where, value, _ABOVE_0, inf, "a number above 0")


def _share(where: str, value: float) -> _Bound:
    return _Bound(where, value, _ABOVE_0, _BELOW_1, "a share above 0 and below 1")


def _texts(settings: AlertSettings) -> Iterator[tuple[str, str]]:
    """What is written into templates and names of receivers."""
    for stage, owner in settings.owners.items():
        yield f"owners.{stage}", owner
    for index, override in enumerate(settings.segments):
        for stage, owner in override.owners.items():
            yield f"segments[{index}].owners.{stage}", owner
    yield "links.grafana", settings.links.grafana
    yield "links.runbooks", settings.links.runbooks
    yield "platform.job", settings.platform.job
