"""Why a cell has its outcome, in a sentence or two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragtrace.gate.model import Outcome, Policy, Rule

if TYPE_CHECKING:
    from ragtrace.gate.statistics.estimates import Estimate
    from ragtrace.gate.statistics.floors import Floor

__all__ = ["compared", "floor", "not_enough", "too_alike"]


def not_enough(n: tuple[int, int], minimum: int, *, paired: bool) -> str:
    """How many requests have a value, and how many a verdict takes."""
    if paired:
        return f"{_count(n[0], 'pair')} with a value on both sides; a verdict takes {minimum}."
    return f"{n[0]} and {n[1]} requests with a value; a verdict takes {minimum} on each side."


def too_alike(units: int, fewest: int) -> str:
    """How many sessions or documents the requests are of."""
    return f"The requests are of only {_count(units, 'session')} or documents; a verdict takes {fewest}."


def compared(
    found: Estimate,
    outcome: Outcome,
    adjusted: float,
    wanted: int | None,
    n: tuple[int, int],
    policy: Policy,
    rule: Rule,
    *,
    paired: bool,
) -> str:
    """The interval against the margin, and what it would take to know more."""
    margin, span = _figure(found.margin), _span(found.low, found.high)
    if outcome == "fail":
        told = f"{_change(found.difference)} ({span}); chance is ruled out (adjusted p {_p(adjusted)})."
        within = found.p_inferior <= policy.alpha
        return f"{told} {'Within the margin of' if within else 'The margin is'} {margin}" + (
            ", but this metric is a guardrail: it must not get worse at all." if within else "."
        )
    if outcome == "pass":
        told = f"{span.capitalize()}, within the margin of {margin}."
        return f"{told} It is worse for certain, by less than the margin." if adjusted <= policy.alpha else told
    told = f"{span.capitalize()}: neither within the margin of {margin} for certain, nor certainly worse."
    if rule.kind == "quantity" and found.low == found.high:
        return told
    if wanted is None:
        return f"{told} There is less than the margin to lose."
    have = n[0] if paired else min(n)
    kind = "pair" if paired else "request"
    each = "" if paired else " on each side"
    more = f"A loss of the margin takes {_count(wanted, kind)}{each} to be found; here are {have}."
    return f"{told} {more}" if wanted > have else told


def floor(found: Floor, outcome: Outcome, rule: Rule) -> str:
    """The candidate's mean against its floor, which is a ceiling where lower is better."""
    name = "floor" if rule.direction == "higher" else "ceiling"
    told = f"Mean {_figure(found.mean)} ({_figure(found.low)} to {_figure(found.high)}), {name} {_figure(found.floor)}"
    if outcome == "pass":
        return f"{told}: kept."
    wrong = "below" if rule.direction == "higher" else "above"
    return f"{told}: {wrong} it" + (" for certain." if outcome == "fail" else ", which may be chance.")


def _span(low: float, high: float) -> str:
    if low >= 0:
        return f"{_figure(low)} to {_figure(high)} better"
    if high <= 0:
        return f"{_figure(-high)} to {_figure(-low)} worse"
    return f"between {_figure(-low)} worse and {_figure(high)} better"


def _change(difference: float) -> str:
    return f"Worse by {_figure(-difference)}" if difference < 0 else f"Better by {_figure(difference)}"


def _figure(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 1e-9 else "0"


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 0.0001 else "< 0.0001"


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")
