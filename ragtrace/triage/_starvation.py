"""Starved providers: whose documents lost places in prompts that they deserve, since a release; a hint, no break."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Final

from ragtrace.analyze.exposure_report import NO_PROVIDER, OTHERS, UNNAMED, exposure_report, replacements
from ragtrace.config import SETTINGS, variable
from ragtrace.registry.instruments import STAGES
from ragtrace.store import Store
from ragtrace.triage._evidence import Window
from ragtrace.triage._report import StarvedProvider
from ragtrace.triage.rendering import joined, percent
from ragtrace.types import Stage

__all__ = ["starved_providers", "starved_sentence"]

_LIMIT: Final = 300  # requests of each window: they are read with their texts
_STAGES: Final[tuple[Stage, ...]] = ("retrieval", "ranking")


def starved_providers(
    store: Store, service: str, segment: str | None, window: Window, broken: Collection[Stage]
) -> tuple[StarvedProvider, ...]:
    """Those whose share of the places in prompts fell, and further than what they deserve, where a release of retrieval
    or ranking came and neither is broken; never what has no name or many. What names a provider is the analyzer's
    setting."""
    by = os.environ.get(variable("provider")) or SETTINGS["provider"].default
    if by == NO_PROVIDER or set(_STAGES) & set(broken):
        return ()
    components = {component for stage in STAGES if stage.name in _STAGES for component in stage.components}
    released = [
        each for each in replacements(store, service, window.before, window.until) if each.component in components
    ]
    if not released:
        return ()
    found = exposure_report(
        store,
        service,
        since=window.since,
        until=window.until,
        by=by,
        segment=segment,
        before=(window.before, window.since),
        limit=_LIMIT,
    )
    now = {each.provider: each.exposed.value or 0.0 for each in found.providers}
    return tuple(
        StarvedProvider(
            provider=each.provider,
            now=now[each.provider],
            before=now[each.provider] - (each.exposed.value or 0.0),
            releases=tuple(f"{release.component}={release.version}" for release in released),
        )
        for each in found.changes
        if each.starved and each.provider not in (OTHERS, UNNAMED)
    )


def starved_sentence(starved: Collection[StarvedProvider]) -> str:
    """One sentence for the conclusion; nothing where nobody is starved."""
    if not starved:
        return ""
    lost = joined([f"{each.provider} from {percent(each.before)} to {percent(each.now)}" for each in starved])
    releases = joined(next(iter(starved)).releases)
    return f"places in prompts fell that documents deserve, and no stage broke by it: {lost}; released then: {releases}"
