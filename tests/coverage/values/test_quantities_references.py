"""Numbers that are part of a name, and numbers that say how much."""

from __future__ import annotations

import pytest

from ragtrace.coverage.values import head_of, is_example, values


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("as section 26 says", "section"),
        ("Article 6 applies", "article"),
        ("see pages 14 and 15", "page"),
        ("the Boats Act 2015 applies", "act"),
        ("Regulation (EU) 2016 applies", "regulation"),
        ("specified in RFC 9110", "rfc"),
    ],
)
def test_a_number_in_a_name_is_a_reference(text: str, head: str) -> None:
    """The word before it tells what it numbers."""
    assert next(head_of(text, value) for value in values(text)) == head


@pytest.mark.parametrize("text", ["it costs 26 euros", "in 2015 it rained", "30 days (2 weeks)", "at least 3 sections"])
def test_an_amount_or_a_date_is_none(text: str) -> None:
    """It says how much, or when."""
    assert [head_of(text, value) for value in values(text) if head_of(text, value) is not None] == []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("You may have sent something like `980.5`.", True),
        ("If you pay in, say, EUR 300, it is booked at once.", True),
        ("Enter the weight in grams, for example 1250.", True),
        ("A letter (e.g. 20 g) is cheaper.", True),
        ("They say 30 days is enough.", False),
        ("It costs something like 40 euros.", False),
        ("Some plans, for example that at EUR 9, are dearer.", False),
    ],
)
def test_a_value_that_is_introduced_as_an_example_states_nothing(text: str, is_one: bool) -> None:
    """It stands for any other; an approximate figure, or one that something else is an example with, does not."""
    assert [is_example(text, value) for value in values(text)] == [is_one]
