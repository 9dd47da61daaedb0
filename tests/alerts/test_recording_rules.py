"""The PromQL that rules share."""

from __future__ import annotations

from ragtrace.alerts._recording_rules import Pattern, selector


def test_only_a_pattern_is_a_regular_expression() -> None:
    """A name that begins like one is a name."""
    assert selector("up", job="~legal", stage=Pattern("a|b")) == 'up{job="~legal", stage=~"a|b"}'
