"""Alertmanager's configuration: who gets what, and what keeps still beside an earlier stage's page."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from ragtrace.alerts.policy import PLATFORM, Policy
from ragtrace.alerts.recording import quoted

__all__ = ["alertmanager"]

Routing: TypeAlias = dict[str, Any]

_SEVERITIES: Final = ("page", "ticket")
_PLACEHOLDER: Final = "http://localhost:9466"  # nothing of ragtrace listens there


def alertmanager(made: Policy) -> Routing:
    """The whole configuration, as Alertmanager reads it."""
    pace = made.settings.notifications
    nobody = f"{made.owner(PLATFORM)}-ticket"
    return {
        "global": {"resolve_timeout": str(pace.resolve_timeout)},
        "route": {
            "receiver": nobody,
            "group_by": ["service", "stage"],
            "group_wait": str(pace.group_wait),
            "group_interval": str(pace.group_interval),
            "repeat_interval": str(pace.repeat_ticket),
            "routes": [*_triage_route(made), *_segment_routes(made), *_stage_routes(made)],
        },
        "inhibit_rules": _inhibitions(made),
        "receivers": [*_receivers(made), *_triage_receiver(made)],
    }


def _triage_route(made: Policy) -> list[Routing]:
    return [{"receiver": "triage", "matchers": ['stage!=""'], "continue": True}] if made.settings.triage else []


def _triage_receiver(made: Policy) -> list[Routing]:
    url = made.settings.triage
    return [{"name": "triage", "webhook_configs": [{"url": url, "send_resolved": True}]}] if url else []


def _segment_routes(made: Policy) -> list[Routing]:
    return [
        route
        for stage in made.registry.stages
        for override, owner in made.overriding(stage.name)
        for route in _routes(made, owner, stage=stage.name, service=override.service, segment=override.segment)
    ]


def _stage_routes(made: Policy) -> list[Routing]:
    stages = [*(stage.name for stage in made.registry.stages), PLATFORM]
    return [route for stage in stages for route in _routes(made, made.owner(stage), stage=stage)]


def _routes(made: Policy, owner: str, **labels: str | None) -> list[Routing]:
    matchers = [f"{name}={quoted(value)}" for name, value in labels.items() if value is not None]
    pace = made.settings.notifications
    repeats = {"page": pace.repeat_page, "ticket": pace.repeat_ticket}
    return [
        {
            "receiver": f"{owner}-{severity}",
            "matchers": [*matchers, f'severity="{severity}"'],
            "repeat_interval": str(repeats[severity]),
        }
        for severity in _SEVERITIES
    ]


def _receivers(made: Policy) -> list[Routing]:
    return [
        {"name": f"{owner}-{severity}", **_destination(made, owner, severity)}
        for owner in made.owners
        for severity in _SEVERITIES
    ]


def _destination(made: Policy, owner: str, severity: str) -> dict[str, Any]:
    given = made.settings.receivers.get(owner, {}).get(severity)
    if given is not None:
        return given
    return {"webhook_configs": [{"url": f"{_PLACEHOLDER}/{owner}/{severity}", "send_resolved": True}]}


def _inhibitions(made: Policy) -> list[Routing]:
    """An earlier stage's page keeps the pages of the later stages still, in the same segment.

    Alertmanager takes two labels that are missing for equal ones: the source must have both.
    """
    rules = []
    for stage in made.registry.stages:
        later = [one.name for one in made.indicators if stage.name in one.upstream]
        if later:
            rules.append(
                {
                    "source_matchers": [f'stage="{stage.name}"', 'severity="page"', 'service!=""', 'segment!=""'],
                    "target_matchers": [f'stage=~"{"|".join(later)}"', 'severity="page"'],
                    "equal": ["service", "segment"],
                }
            )
    absent = ['alertname="RagtraceSliAbsent"']
    stale = ['alertname="RagtraceAnalyzerStale"', 'service!=""']
    rules.append({"source_matchers": stale, "target_matchers": absent, "equal": ["service"]})
    rules.append({"source_matchers": ['alertname="RagtraceExporterDown"'], "target_matchers": absent})
    return rules
