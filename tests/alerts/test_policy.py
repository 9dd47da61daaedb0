"""The indicators in the order in which a break is looked for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ragtrace.alerts._platform import platform_alerts
from ragtrace.alerts._policy import known_registry, policy
from ragtrace.alerts.settings import read_settings
from ragtrace.errors import ConfigurationError
from ragtrace.registry.instruments import CORRECTED_RATE, CORRECTED_RATE_TIMESTAMP
from tests.alerts.conftest import Made


def test_indicators_follow_the_stages(made: Made) -> None:
    """One for each stage; each knows what silences it: the earlier stages."""
    assert {one.name: one.upstream for one in made().indicators} == {
        "retrieval": (),
        "ranking": ("retrieval",),
        "generation": ("retrieval", "ranking"),
        "citation": ("retrieval", "ranking", "generation"),
    }


def test_targets_and_owners_come_from_the_registry(made: Made) -> None:
    """Unless the settings name others."""
    shipped, own = made(), made(targets={"retrieval": 0.99}, owners={"retrieval": "search", "platform": "sre"})
    assert [round(one.budget, 9) for one in shipped.indicators] == [0.05] * 4
    assert own.indicators[0].budget == pytest.approx(0.01)
    assert (shipped.owner("retrieval"), own.owner("retrieval"), own.owner("platform")) == (
        "retrieval-indexing",
        "search",
        "sre",
    )
    assert own.owners == ("search", "ranking-context", "generation-governance", "release-guard", "sre")


def test_a_metric_that_the_registry_lacks_is_named() -> None:
    """Rules cannot be made without what they watch."""
    registry = known_registry()
    less = registry._replace(instruments={k: v for k, v in registry.instruments.items() if k != "dropped"})
    with pytest.raises(ConfigurationError, match=r"the metric .dropped., which .* lacks"):
        policy(less, read_settings()).series("dropped")


def test_a_watched_metric_without_a_runbook_is_named() -> None:
    """The generator refuses it, instead of an alert that leads to no page."""
    registry = known_registry()
    dropped = msgspec.structs.replace(registry.instruments["dropped"], runbook=None)
    without = registry._replace(instruments={**registry.instruments, "dropped": dropped})
    with pytest.raises(
        ConfigurationError, match=r"'dropped', which names no page of docs/runbooks/; give it a runbook"
    ):
        list(platform_alerts(policy(without, read_settings())))


def test_no_rule_reads_what_people_labeled() -> None:
    """Corrected rates are few, late and of one window: neither an alert nor a recording rule may rest on them."""
    generated = Path(__file__).parents[2] / "alerts" / "generated"
    rules = [(generated / name).read_text() for name in ("alerts.yml", "recording.yml")]
    assert all("ragtrace_sli" in text or "ragtrace:" in text for text in rules)
    assert not [text for text in rules if CORRECTED_RATE.name in text or CORRECTED_RATE_TIMESTAMP.name in text]
