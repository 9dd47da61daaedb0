"""Exposure by provider on both sides, whose documents stand in prompts: a column of the gate that decides nothing.

A release may leave every stage as sound as it was and pass over one owner's documents all the same. Which key names
the owner is the analyzer's setting.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import msgspec

from ragtrace.analyze.exposure_report import NO_PROVIDER, OTHERS, UNNAMED, ProviderExposure, compared_exposures
from ragtrace.config import SETTINGS, variable
from ragtrace.gate.selection import Selection
from ragtrace.gate.types import GateReport, Population, ProviderShift
from ragtrace.store import Store
from ragtrace.triage.rendering import joined, percent, plain

__all__ = ["with_providers"]

_MOST: Final = 2_000  # requests of a side: they are read with their texts


def with_providers(
    report: GateReport, selections: Sequence[Selection], populations: Sequence[Population], store: str | None
) -> GateReport:
    """The report with exposure by provider on both sides, and a remark on who is starved; as it is where the setting
    says that nothing counts by provider, a side is a file, or fewer than two providers have a name.

    store: the URL that selections without a source are read from. Raises: StoreError.
    """
    by = os.environ.get(variable("provider")) or SETTINGS["provider"].default
    urls = [None if selection.file else selection.url or store for selection in selections]
    if by == NO_PROVIDER or not all(urls):
        return report
    with ExitStack() as opened:
        stores = {url: opened.enter_context(Store.open(url)) for url in dict.fromkeys(urls) if url}
        before, after = (
            (stores[url], _weights(side)) for url, side in zip(urls, populations, strict=True) if url is not None
        )
        then, now, changes = compared_exposures(before, after, by=by)
    starved = {each.provider for each in changes if each.starved} - {OTHERS, UNNAMED}
    if len({each.provider for each in now} - {OTHERS, UNNAMED}) < 2:
        return report
    earlier = {each.provider: each for each in then}
    shifts = tuple(
        _shift(earlier[each.provider], each, each.provider in starved)
        for each in sorted(now, key=lambda each: each.provider not in starved)
    )
    remark = _remark([each for each in shifts if each.starved])
    return msgspec.structs.replace(
        report, providers=shifts, providers_by=by, warnings=(*report.warnings, *([remark] if remark else []))
    )


def _weights(side: Population) -> Mapping[str, float]:
    """The weight of each request, of many of a part that is spread evenly."""
    step = -(-len(side) // _MOST)
    return dict(zip(list(side.request_ids)[::step], side.weights[::step].tolist(), strict=True))


def _shift(before: ProviderExposure, after: ProviderExposure, starved: bool) -> ProviderShift:
    return ProviderShift(
        provider=after.provider,
        exposed=(before.exposed.value, after.exposed.value),
        deserved=(before.deserved.value, after.deserved.value),
        attributed=(before.attributed.value, after.attributed.value),
        starved=starved,
    )


def _remark(starved: Sequence[ProviderShift]) -> str:
    """One sentence; empty where nobody is starved."""
    lost = [
        f"{plain(each.provider)} from {percent(each.exposed[0] or 0.0)} to {percent(each.exposed[1] or 0.0)}"
        for each in starved
    ]
    return f"places in prompts fell that documents deserve: {joined(lost)}; it decides nothing here" if lost else ""
