"""Exposure: whose documents stand in prompts, whose do answers use, and who is passed over?"""

from __future__ import annotations

from functools import partial
from typing import Final

from ragtrace.dashboards._panels import Dashboard, Panel, PanelSection, Target, commands, over_time
from ragtrace.dashboards._promql import gained, rate, share
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import (
    PROVIDER_ATTRIBUTED_EXPOSURE,
    PROVIDER_DESERVED_EXPOSURE,
    PROVIDER_EXPOSURE,
    PROVIDER_MISUSED,
    PROVIDER_REQUESTS,
    PROVIDER_USEFUL,
    PROVIDER_VALUED,
)

__all__ = ["EXPOSURE"]

_FILLS: Final = "It fills when `ragtrace analyze --follow` scores requests whose prompt is recorded."
_KNOWN: Final = "~oracle|proxy"
_over_time: Final = partial(over_time, unit="percentunit", empty=_FILLS)
_OWNERS: Final = "by each value of the key that `ragtrace analyze --provider` names (by default the source)"


def _part(instrument: Instrument, *by: str, **labels: str) -> str:
    """Each provider's part of what all providers of a service have, over time."""
    own = rate(instrument, "service", "provider", *by, **labels)
    return share(own, rate(instrument, "service", *by, **labels), ", ".join(("service", *by)))


def _over_range(instrument: Instrument, **labels: str) -> str:
    own = gained(instrument, "service", "provider", **labels)
    return share(own, gained(instrument, "service", **labels), "service")


_TABLE: Final = Panel(
    title="Providers",
    kind="table",
    description=f"Of the range, {_OWNERS}: parts of all places in prompts, of what documents deserve by gold evidence "
    "or the proxy reference, and of what answers use by their claims.",
    unit="percentunit",
    targets=(
        Target(_over_range(PROVIDER_EXPOSURE), "in prompts"),
        Target(_over_range(PROVIDER_DESERVED_EXPOSURE, reference=_KNOWN), "deserved"),
        Target(_over_range(PROVIDER_ATTRIBUTED_EXPOSURE, used_by="claims"), "of all used"),
        Target(gained(PROVIDER_REQUESTS, "service", "provider"), "requests", unit="short"),
    ),
    width=24,
    height=8,
    key=("provider", "service"),
    largest_first=True,
    empty=_FILLS,
)

EXPOSURE: Final = Dashboard(
    uid="ragtrace-exposure",
    title="ragtrace: exposure",
    description="Whose documents stand in prompts, whose do answers use, who is passed over? Owner: ranking-context.",
    sections=(
        PanelSection("All providers", (_TABLE,)),
        PanelSection(
            "Who gets the places, and who deserves them?",
            (
                _over_time(
                    "Part of the places in prompts",
                    PROVIDER_EXPOSURE.brief + " As a part of all places.",
                    Target(_part(PROVIDER_EXPOSURE), "{{provider}}"),
                ),
                _over_time(
                    "In prompts less deserved",
                    "Above 0 a provider has more places than its useful documents deserve, below 0 fewer; only of "
                    f"requests with a reference. {PROVIDER_DESERVED_EXPOSURE.brief}",
                    Target(
                        f"{_part(PROVIDER_EXPOSURE, 'reference', reference=_KNOWN)} - "
                        f"{_part(PROVIDER_DESERVED_EXPOSURE, 'reference', reference=_KNOWN)}",
                        "{{provider}} ({{reference}})",
                    ),
                    minimum=None,
                ),
            ),
        ),
        PanelSection(
            "What do answers use?",
            (
                _over_time(
                    "Part of what answers use",
                    f"{PROVIDER_ATTRIBUTED_EXPOSURE.brief} As a part of all such places, by what says so. A fall after "
                    "a release without a fall of what is deserved is a ticket.",
                    Target(_part(PROVIDER_ATTRIBUTED_EXPOSURE, "used_by"), "{{provider}} ({{used_by}})"),
                ),
                _over_time(
                    "Used and contradicted",
                    f"{PROVIDER_MISUSED.brief} As a share of the provider's used places.",
                    Target(
                        share(
                            rate(PROVIDER_MISUSED, "service", "provider", "used_by"),
                            rate(PROVIDER_ATTRIBUTED_EXPOSURE, "service", "provider", "used_by"),
                        ),
                        "{{provider}} ({{used_by}})",
                    ),
                ),
            ),
        ),
        PanelSection(
            "What would answers be worth with one document alone?",
            (
                _over_time(
                    "Useful candidates",
                    f"{PROVIDER_USEFUL.brief} As a share of the provider's candidates that were looked at, in prompts "
                    "or not: where it is high and the part of the places is small, answers miss something.",
                    Target(
                        share(
                            rate(PROVIDER_USEFUL, "service", "provider", "useful_by"),
                            rate(PROVIDER_VALUED, "service", "provider", "useful_by"),
                        ),
                        "{{provider}} ({{useful_by}})",
                    ),
                    width=24,
                    empty="It fills when `ragtrace analyze --generator MODEL --explain-utility-rate SHARE` runs.",
                ),
            ),
        ),
        commands(),
    ),
)
