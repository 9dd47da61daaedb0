"""How heavy a fault must be for a page, or only for a ticket, and how long that takes, for the scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from ragtrace.alerts.durations import Duration
from ragtrace.alerts.policy import Indicator, Policy
from ragtrace.alerts.replay import Phase
from ragtrace.alerts.settings import BurnRate
from ragtrace.wilson import wilson

__all__ = ["Plan", "minutes"]

_HEALTHY: Final = 0.2  # of the budget
_LEAD: Final = 20  # healthy minutes before a fault
_TRAFFIC: Final = Phase(0).traffic


def minutes(duration: Duration) -> int:
    """Whole minutes, rounded up."""
    return ceil(duration.milliseconds / 60_000)


class Plan:
    """The numbers of a policy's scenarios."""

    def __init__(self, made: Policy) -> None:
        self.made = made
        self.lead = _LEAD
        rates, hold = made.settings.burn_rates, made.settings.hold
        needed = [rate.factor * one.budget for rate in rates.page for one in made.indicators]
        self.heavy = (1 + max(needed)) / 2
        self.healthy = {one.name: _HEALTHY * one.budget for one in made.indicators}
        waits = [minutes(hold.page[one.stage.name]) + one.position * minutes(hold.next) for one in made.indicators]
        self.page = min(minutes(rate.long) for rate in rates.page) + max(waits) + 4
        self.recovery = max(minutes(rate.short) for rate in rates.page) + minutes(hold.keep_firing) + 4
        self.ticket = 2 * minutes(hold.ticket)

    def phase(self, length: int, **bad: float) -> Phase:
        """Traffic that is healthy but for what is `bad`."""
        return Phase(length, {**self.healthy, **bad})

    def fault(self, bad: Mapping[str, float]) -> list[Phase]:
        """Health, then the fault, then health again."""
        return [self.phase(self.lead), self.phase(self.page, **bad), self.phase(self.recovery)]

    def beside(self, upstream: Indicator, downstream: Indicator) -> float:
        """A bad ratio of a later stage that burns its budget no faster than the earlier stage's heavy fault does.

        Where the earlier stage may be worse than the later one, the later one would burn long before it.
        """
        return self.heavy * min(1.0, downstream.budget / upstream.budget)

    def slow(self, to: Indicator) -> tuple[float, int] | None:
        """A bad ratio too small for a page and enough for a ticket, and the minutes until it has one.

        None where tickets need as much as pages do.
        """
        rates = self.made.settings.burn_rates
        paging = min(rate.factor for rate in rates.page)
        factor = max((rate.factor for rate in rates.ticket if rate.factor < paging), default=None)
        if factor is None:
            return None
        bad = (factor + paging) / 2 * to.budget
        length = self.until_ticket(to, bad)
        return None if length is None else (bad, length)

    def until_ticket(self, to: Indicator, bad: float) -> int | None:
        """How long a fault lasts until it is a ticket; None where it never is one."""
        pairs = self.made.settings.burn_rates.ticket
        onsets = [onset for pair in pairs if (onset := self._onset(pair, to, bad)) is not None]
        return max(min(onsets) + minutes(self.made.settings.hold.ticket) + 5, self.ticket) if onsets else None

    def _onset(self, pair: BurnRate, to: Indicator, bad: float) -> int | None:
        """The minutes after which a fault burns on both windows of a pair."""
        z, needed = self.made.settings.burn_rates.z, pair.factor * to.budget
        for lasted in range(1, minutes(pair.long) + 1):
            long, short = (self._counted(minutes(window), lasted, to, bad) for window in (pair.long, pair.short))
            if wilson(*long, z)[0] > needed and short[0] / short[1] > needed and short[1] >= pair.minimum:
                return lasted
        return None

    def _counted(self, window: int, lasted: int, to: Indicator, bad: float) -> tuple[float, float]:
        """Bad requests and all of them in a window after so many minutes of the fault."""
        fault = min(lasted, window)
        calm = min(self.lead, window - fault)
        return _TRAFFIC * (fault * bad + calm * self.healthy[to.name]), _TRAFFIC * (fault + calm)
