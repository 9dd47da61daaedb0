"""The alerts of the indicators: a page and a ticket of each, of which the earliest broken stage speaks alone."""

from __future__ import annotations

from collections.abc import Iterator

from ragtrace.alerts.annotations import labeled_owner, of_indicator
from ragtrace.alerts.durations import Duration
from ragtrace.alerts.policy import Indicator, Policy
from ragtrace.alerts.promql import Pattern, burning, either, page_burning, selector
from ragtrace.alerts.recording import Rule
from ragtrace.alerts.settings import BurnRate

__all__ = ["indicator_alerts", "signal", "upstream_pages"]


def signal(id_: str) -> str:
    """The part of an alert's name that tells what it is about: query_coverage is QueryCoverage."""
    return "".join(word.capitalize() for word in id_.split("_"))


def indicator_alerts(made: Policy) -> Iterator[Rule]:
    """The page and the ticket of each indicator, in the order in which a break is looked for."""
    for indicator in made.indicators:
        yield _page(made, indicator)
        yield _ticket(made, indicator)


def upstream_pages(metrics: tuple[str, ...], over: Duration | None = None) -> str:
    """Silence where an earlier indicator burns, or did `over` a window that still holds its requests."""
    burns = selector(page_burning(), metric=Pattern("|".join(metrics)))
    return f"unless on (service, segment) {burns if over is None else f'max_over_time({burns}[{over}])'}"


def _page(made: Policy, indicator: Indicator) -> Rule:
    pairs = made.settings.burn_rates.page
    expr = either(*(_gated(indicator, pair) for pair in pairs))
    released = _released(made, indicator)
    hold = made.settings.hold
    waits = hold.page[indicator.stage.name].milliseconds + indicator.position * hold.next.milliseconds
    name = f"Ragtrace{signal(indicator.instrument.id)}Page"
    return {
        "alert": name,
        "expr": f"(\n{expr}\n)\n{released}" if released else expr,
        "for": str(Duration(waits, hold.next.scale)),
        "keep_firing_for": str(hold.keep_firing),
        **_told(made, indicator, name, "page", pairs),
    }


def _ticket(made: Policy, indicator: Indicator) -> Rule:
    """A ticket is not for what its own page tells."""
    pairs = made.settings.burn_rates.ticket
    released = _released(made, indicator)
    parts = []
    for pair in pairs:
        own = f"max_over_time({selector(page_burning(), metric=indicator.name)}[{pair.short}])"
        own = f"({own} {released})" if released else own
        parts.append(f"({_gated(indicator, pair)}\nunless on (service, segment) {own})")
    name = f"Ragtrace{signal(indicator.instrument.id)}Ticket"
    return {
        "alert": name,
        "expr": either(*parts),
        "for": str(made.settings.hold.ticket),
        **_told(made, indicator, name, "ticket", pairs),
    }


def _gated(indicator: Indicator, pair: BurnRate) -> str:
    burns = selector(burning(pair), metric=indicator.name)
    return f"{burns}\n{upstream_pages(indicator.upstream)}" if indicator.upstream else burns


def _released(made: Policy, indicator: Indicator) -> str:
    """The condition of a stage that pages only after a release: one of its components, not long ago."""
    within = made.settings.releases.required.get(indicator.stage.name)
    if within is None:
        return ""
    components = Pattern("|".join(indicator.stage.components))
    released = selector(made.series("release_timestamp"), component=components)
    return f"and on (service) (max by (service) ({released} <= time()) > time() - {within.seconds:g})"


def _told(made: Policy, indicator: Indicator, name: str, severity: str, pairs: tuple[BurnRate, ...]) -> Rule:
    """The labels and the annotations of an alert."""
    labels = {"severity": severity, "stage": indicator.stage.name}
    return {
        "labels": {**labels, "owner": labeled_owner(made, indicator.stage.name)},
        "annotations": of_indicator(made, indicator, {"alertname": name, **labels}, pairs),
    }
