"""A method of estimation as it is asked for: the estimator's name with its settings, written as one text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, Self, TypeAlias

from ragtrace.attribution.game import CoalitionLog, Game
from ragtrace.attribution.shapley._estimation import METHODS, estimator_of, known_values, shapley_values
from ragtrace.attribution.shapley._values import ShapleyValues
from ragtrace.errors import ConfigurationError

__all__ = ["Method", "SettingValue"]

SettingValue: TypeAlias = bool | int | float | str

_NAMES: Final = ("auto", "exact", *METHODS)
_WRITTEN: Final = f"one of {', '.join(_NAMES)}, its settings behind a colon: pmcshap:n_fits=100+released=true"
_TRUTH: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Method:
    """An estimator of Shapley values by name, with settings that are not its defaults. See `shapley_values`."""

    name: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        estimator_of(self.name, 2, dict(self.options))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `NAME`, or `NAME:SETTING=VALUE+SETTING=VALUE`.

        Raises: ConfigurationError for another form, an unknown method, or a setting that the method does not have.
        """
        name, _, rest = text.strip().partition(":")
        if name not in _NAMES:
            raise ConfigurationError.of("method", text, _WRITTEN)
        pairs = [each.partition("=") for each in rest.split("+")] if rest else []
        if not all(key.strip() and value.strip() for key, _, value in pairs):
            raise ConfigurationError.of("method", text, _WRITTEN)
        return cls(name, {key.strip(): _value(value.strip()) for key, _, value in pairs})

    def __str__(self) -> str:
        settings = "+".join(f"{key}={_text(value)}" for key, value in self.options.items())
        return f"{self.name}:{settings}" if settings else self.name

    def values(self, game: Game, n_players: int, **how: Any) -> ShapleyValues:
        """`shapley_values` by this method; `how`: its further arguments. Raises: as it does."""
        return shapley_values(game, n_players, method=self.name, **how, **self.options)

    def known_values(self, log: CoalitionLog, *, budget: int | None = None, seed: int = 0) -> ShapleyValues:
        """`known_values` by this method. Raises: as it does."""
        return known_values(log, method=self.name, budget=budget, seed=seed, **self.options)

    def settings(self, found: ShapleyValues) -> dict[str, SettingValue]:
        """All settings of the estimator that gave a result, defaults included; none of exact values."""
        estimator = None if found.exact else estimator_of(self.name, found.n_evaluations, dict(self.options))
        if estimator is None or not is_dataclass(estimator):
            return {}
        stated = {each.name: getattr(estimator, each.name) for each in fields(estimator)}
        return {name: value for name, value in stated.items() if isinstance(value, SettingValue)}


def _value(text: str) -> SettingValue:
    """A truth value or a number where the text is one."""
    if text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _text(value: SettingValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
