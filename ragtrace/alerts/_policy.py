"""The alerting policy: the registry's stages under the settings, and whether the two fit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ragtrace.alerts.settings import AlertSettings, BurnRate, Override, check_bounds
from ragtrace.errors import ConfigurationError
from ragtrace.registry import Instrument, StageInfo
from ragtrace.registry.authored import Registry

__all__ = ["PLATFORM", "AlertPolicy", "Indicator", "known_registry", "policy"]

PLATFORM: Final = "platform"

_CERTAIN: Final = 0.9  # a bad ratio that no alert may need: the bound of a small sample never reaches it


class Indicator(NamedTuple):
    """The service level indicator of a stage: of the requests in which it is sound or broken, the share that is sound.

    Args:
        stage: whose it is; its name is the indicator's.
        budget: the share that may be broken.
        upstream: the names of the earlier stages; where they burn, this one keeps still.
    """

    stage: StageInfo
    budget: float
    upstream: tuple[str, ...]

    @property
    def name(self) -> str:
        """The value of the label `stage`."""
        return self.stage.name


class AlertPolicy(NamedTuple):
    """The registry, the settings, and the indicators in the order in which a break is looked for."""

    registry: Registry
    settings: AlertSettings
    indicators: tuple[Indicator, ...]

    def instrument(self, id_: str) -> Instrument:
        """A metric of the registry.

        Raises: ConfigurationError when the registry has none of this id.
        """
        try:
            return self.registry.instruments[id_]
        except KeyError:
            raise ConfigurationError(f"alerts watch the metric {id_!r}, which metrics/*.yaml lacks; add it") from None

    def series(self, id_: str) -> str:
        """The name of a metric in Prometheus."""
        return self.instrument(id_).name

    def owner(self, stage: str) -> str:
        """Who answers for a stage."""
        shipped = {one.name: one.owner for one in self.registry.stages} | {PLATFORM: PLATFORM}
        return self.settings.owners.get(stage, shipped[stage])

    def overriding(self, stage: str) -> tuple[tuple[Override, str], ...]:
        """The overrides up to the last that names an owner of the stage, each with the owner where it fits."""
        overrides = self.settings.segments
        last = max((index for index, one in enumerate(overrides, start=1) if stage in one.owners), default=0)
        return tuple((one, one.owners.get(stage, self.owner(stage))) for one in overrides[:last])

    @property
    def owners(self) -> tuple[str, ...]:
        """Everybody who gets alerts, `platform` last."""
        stages = [*(stage.name for stage in self.registry.stages), PLATFORM]
        owners = [*map(self.owner, stages)]
        owners[-1:-1] = [owner for override in self.settings.segments for owner in override.owners.values()]
        return tuple(dict.fromkeys(owners))


def known_registry() -> Registry:
    """The registry that this ragtrace was built with."""
    from ragtrace.registry import instruments  # late, so that the generator runs without what it writes

    return Registry(
        instruments.STAGES,
        instruments.INSTRUMENTS,
        instruments.ATTRIBUTES,
        instruments.BUDGETS,
        instruments.REQUEST_RULES,
    )


def policy(registry: Registry, settings: AlertSettings) -> AlertPolicy:
    """The policy of a registry and settings.

    Raises: ConfigurationError when the settings name what the registry does not have, or an alert could never fire.
    """
    check_bounds(settings)
    made = AlertPolicy(registry, settings, tuple(_indicators(registry, settings)))
    _check_names(made)
    _check_targets(made)
    for burn_rate in settings.burn_rates.every:
        _check_windows(burn_rate)
    _check_factors(made)
    _check_hold(made)
    return made


def _indicators(registry: Registry, settings: AlertSettings) -> Iterator[Indicator]:
    stages = sorted(registry.stages, key=lambda stage: stage.order)
    for position, stage in enumerate(stages):
        target = settings.targets.get(stage.name, stage.target)
        yield Indicator(stage, _budget(target), tuple(earlier.name for earlier in stages[:position]))


def _budget(target: float) -> float:
    return round(1 - target, 9)


def _check_names(made: AlertPolicy) -> None:
    stages = [stage.name for stage in made.registry.stages]
    settings = made.settings
    _known("targets", settings.targets, stages)
    _known("owners", settings.owners, [*stages, PLATFORM])
    _known("hold.page", settings.hold.page, stages)
    _known("releases.required", settings.releases.required, stages)
    _known("platform.unjudged.stages", settings.platform.unjudged.stages, stages)
    for index, override in enumerate(settings.segments):
        where = f"segments[{index}]"
        if override.service is None and override.segment is None:
            raise ConfigurationError(f"{where} names neither a service nor a segment; give one of them or both")
        _known(f"{where}.targets", override.targets, stages)
        _known(f"{where}.owners", override.owners, stages)
    _known("receivers", settings.receivers, made.owners)
    for owner, by_severity in settings.receivers.items():
        _known(f"receivers.{owner}", by_severity, ("page", "ticket"))
    missing = [stage for stage in stages if stage not in settings.hold.page]
    if missing:
        raise ConfigurationError(f"hold.page lacks the stage {missing[0]!r}; give a duration for each of {stages}")
    if not settings.platform.unjudged.stages:
        raise ConfigurationError.of("platform.unjudged.stages", [], f"at least one of {', '.join(stages)}")


def _known(where: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    for name in names:
        if name not in allowed:
            raise ConfigurationError(f"{where}: {name!r} is not known; give one of {', '.join(allowed)}")


def _targets(made: AlertPolicy) -> Iterator[tuple[str, float]]:
    """Every target, with the place where it is set."""
    for indicator in made.indicators:
        yield f"target of {indicator.name}", 1 - indicator.budget
    for index, override in enumerate(made.settings.segments):
        for name, target in override.targets.items():
            yield f"segments[{index}].targets.{name}", target


def _check_targets(made: AlertPolicy) -> None:
    for where, target in _targets(made):
        if not 0 < target < 1:
            raise ConfigurationError.of(where, target, "a share above 0 and below 1, such as 0.95")


def _check_windows(burn_rate: BurnRate) -> None:
    if burn_rate.short.milliseconds >= burn_rate.long.milliseconds:
        named = f"{burn_rate.short.name} of {burn_rate.long.name}"
        raise ConfigurationError.of("burn rate's short window", named, "one that is shorter than the long window")


def _check_factors(made: AlertPolicy) -> None:
    for where, target in _targets(made):
        for burn_rate in made.settings.burn_rates.every:
            needed = burn_rate.factor * _budget(target)
            if not 0 < needed < _CERTAIN:
                raise ConfigurationError(
                    f"burn rate {burn_rate.name}: factor {burn_rate.factor:g} at a {where} of {target:g} needs a bad "
                    f"ratio of {needed:.0%}, which no alert may need; give a factor above 0 and below "
                    f"{_CERTAIN / _budget(target):.3g}, or another target"
                )


def _check_hold(made: AlertPolicy) -> None:
    """A stage waits longer than those before it."""
    hold = made.settings.hold.page
    for indicator in made.indicators:
        later = hold[indicator.name]
        for stage in indicator.upstream:
            if later.milliseconds <= hold[stage].milliseconds:
                raise ConfigurationError.of(
                    f"hold.page.{indicator.name}", later.name, f"more than that of {stage}, {hold[stage].name}"
                )
