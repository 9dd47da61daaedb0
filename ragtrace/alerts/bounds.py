"""Numbers and texts of the settings with which an alert could never fire, always fire, or not be written."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite, nextafter
from typing import Final, NamedTuple

from ragtrace.alerts.settings import BurnRate, Settings
from ragtrace.errors import ConfigurationError

__all__ = ["check_bounds"]

_ABOVE_0: Final = nextafter(0.0, 1.0)
_BELOW_1: Final = nextafter(1.0, 0.0)


class _Bound(NamedTuple):
    """A number, where it stands, and between what it must lie."""

    where: str
    value: float
    least: float
    most: float
    allowed: str


def check_bounds(settings: Settings) -> None:
    """Check what can be checked without the registry.

    Raises: ConfigurationError that names the place, the value, and what is allowed.
    """
    _check_pairs(settings)
    for bound in _bounds(settings):
        if not (bound.least <= bound.value <= bound.most and isfinite(bound.value)):
            raise ConfigurationError.of(bound.where, bound.value, bound.allowed)
    for where, text in _texts(settings):
        if not text.strip() or "{{" in text:
            raise ConfigurationError.of(where, text, "a text that is not empty and has no '{{'")


def _check_pairs(settings: Settings) -> None:
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


def _pairs(settings: Settings) -> tuple[tuple[str, tuple[BurnRate, ...]], ...]:
    return ("page", settings.burn_rates.page), ("ticket", settings.burn_rates.ticket)


def _bounds(settings: Settings) -> Iterator[_Bound]:
    yield _Bound("burn_rates.z", settings.burn_rates.z, 0.0, 5.0, "a number from 0 to 5, such as 1.645")
    for severity, pairs in _pairs(settings):
        for pair in pairs:
            yield _at_least_1(f"burn_rates.{severity}.minimum", pair.minimum)
    growth = settings.growth
    for name in growth.__struct_fields__:
        one = getattr(growth, name)
        yield _at_least_1(f"growth.{name}.factor", one.factor)
        yield _positive(f"growth.{name}.floor", one.floor)
        yield _at_least_1(f"growth.{name}.minimum", one.minimum)
    sources, platform = settings.sources, settings.platform
    for name in ("delay", "freshness", "report"):
        yield _at_least_1(f"sources.{name}.factor", getattr(sources, name).factor)
    yield _share("sources.volume.fall", sources.volume.fall)
    yield _positive("sources.volume.rise", sources.volume.rise)
    yield _share("platform.late_share", platform.late_share)
    yield _share("platform.refused_share", platform.refused_share)
    yield _at_least_1("platform.sli_expected", platform.sli_expected)
    yield _positive("platform.backlog_jobs", platform.backlog_jobs)
    yield _positive("platform.internal_errors_per_hour", platform.internal_errors_per_hour)


def _at_least_1(where: str, value: float) -> _Bound:
    return _Bound(where, value, 1.0, inf, "a number of 1 or more")


def _positive(where: str, value: float) -> _Bound:
    return _Bound(where, value, _ABOVE_0, inf, "a number above 0")


def _share(where: str, value: float) -> _Bound:
    return _Bound(where, value, _ABOVE_0, _BELOW_1, "a share above 0 and below 1")


def _texts(settings: Settings) -> Iterator[tuple[str, str]]:
    """What is written into templates and names of receivers."""
    for stage, owner in settings.owners.items():
        yield f"owners.{stage}", owner
    for index, override in enumerate(settings.segments):
        for stage, owner in override.owners.items():
            yield f"segments[{index}].owners.{stage}", owner
    yield "links.grafana", settings.links.grafana
    yield "links.runbooks", settings.links.runbooks
    yield "platform.job", settings.platform.job
