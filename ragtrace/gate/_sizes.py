"""Sizes: how many questions a margin takes at least, which segments are too small for it, and what is said of them.

Two sides without any difference leave room for a rare loss that n questions did not show: 1 - alpha^(1/n), the exact
binomial bound. So a margin has a least number of questions, whatever the answers are, and it is known before any is
asked. Segments with fewer can be found worse, and never be found no worse: those are judged together as `OTHER`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log, log1p
from typing import Final

from ragtrace.gate._population import is_state
from ragtrace.gate.types import Policy, Rule

__all__ = ["OTHER", "announcement", "least_questions", "too_small"]

OTHER: Final = "*other*"
"""The segments that are too small to be judged alone, together."""

_NAMED: Final = 6
_ROUNDING: Final = 1e-9


def least_questions(rule: Rule, segment: str | None, alpha: float) -> int:
    """The fewest questions with which this rule can pass at all: those without any difference."""
    margin = rule.margin_of(segment)
    if rule.kind == "quantity" or rule.relative or not 0 < margin < 1:
        return rule.minimum
    return max(rule.minimum, ceil(log(alpha) / log1p(-margin) - _ROUNDING))


def too_small(sizes: Mapping[str, int], policy: Policy) -> tuple[str, ...]:
    """The segments in which a stage can never be shown to be no more broken, by name; of a policy without the states of
    stages those in which no rule that blocks can ever pass. sizes: questions of each segment."""
    return tuple(sorted(name for name, size in sizes.items() if name and size < _least_of(name, policy)))


def _least_of(segment: str, policy: Policy) -> int:
    rules = [rule for rule in policy.rules if rule.segment_action == "block"] or policy.rules
    states = [least_questions(rule, segment, policy.alpha) for rule in rules if is_state(rule.metric)]
    return max(states) if states else min(least_questions(rule, segment, policy.alpha) for rule in rules)


def announcement(
    sizes: Mapping[str, int], policy: Policy, *, paired: bool = True, needed: int | None = None
) -> tuple[str, ...]:
    """What can be said before anything is asked. sizes: questions of each segment, "" for those of none.

    paired: whether both sides were asked the same ones; else these are requests of each side. needed: how many decide
    the run; no second number is said beside it.
    """
    unit, sides, ask = ("questions", "", "ask") if paired else ("requests", " on each side", "wait for")
    whole = sum(sizes.values())
    rules = [rule for rule in policy.rules if rule.action == "block"] or policy.rules
    least = max(least_questions(rule, None, policy.alpha) for rule in rules)
    if whole < least:
        return (
            f"{whole:,} {unit}{sides} are too few to pass any candidate by this policy, even one without any "
            f"difference; they can only block one. {ask.capitalize()} at least {_tens(least):,}.",
        )
    small = too_small(sizes, policy)
    if not small:
        return ()
    size = _tens(max(_least_of(name, policy) for name in small))
    named = ", ".join(f"{name} ({sizes[name]:,})" for name in small[:_NAMED])
    more = f" and {len(small) - _NAMED} more" if len(small) > _NAMED else ""
    if len(small) == 1:
        alone = "" if needed else f": {ask} about {size:,} {unit} of it{sides} to judge it alone"
        return (f"The segment {named} is too small to pass alone, whatever the answers, and can only fail{alone}.",)
    pool = sum(sizes[name] for name in small)
    enough = "" if pool >= size else ", which is too small as well"
    together = f"all {unit}" if pool == whole else f"{OTHER} ({pool:,}){enough}"
    alone = "" if needed else f"; {ask} about {size:,} {unit} of each{sides} to judge them alone"
    return (
        f"The segments {named}{more} are too small to pass alone, whatever the answers, and can only fail. For passing "
        f"they count together, as {together}{alone}.",
    )


def _tens(number: int) -> int:
    """Rounded up, as all announced numbers of questions are."""
    return -(-number // 10) * 10
