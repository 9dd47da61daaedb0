"""Versions and constraints on them."""

from __future__ import annotations

import pytest
from packaging.version import Version

from ragtrace.coverage.values.versions import constraint_of, constraints_in, version_match, versions_stated


@pytest.mark.parametrize(
    ("wanted", "given", "match"),
    [
        ("between 1.27 and 1.29", "1.28", 1.0),
        ("between 1.27 and 1.29", "1.30", 0.0),
        ("v3 or later", "3.2", 1.0),
        ("v3 or later", "2.9", 0.0),
        ("version 2.1+", "2.1", 1.0),
        ("before 3.0", "2.9.9", 1.0),
        ("before 3.0", "3.0", 0.0),
        (">=2.1,<3", "2.10", 1.0),
        (">=2.1,<3", "3.0", 0.0),
        ("2.x", "2.7", 1.0),
        ("2.x", "3.0", 0.0),
        ("1.2 to 1.8", "1.10", 0.0),
        ("1.2 to 1.10", "1.9", 1.0),
        ("^1.2", "1.9", 1.0),
        ("1.10", "1.9", 0.0),
        ("1.10", "1.10.0", 1.0),
        ("3", "3.1", 1.0),
        ("3.1", "3", 0.5),
        ("3.1.2", "3.1.4", 0.0),
        ("v2.0.0-beta.3", "2.0.0b3", 1.0),
        ("2.0 and older", "1.4", 1.0),
    ],
)
def test_versions_compare_as_versions(wanted: str, given: str, match: float) -> None:
    """1.10 is above 1.9; a bound allows, a range holds, a release of the version asked for meets it."""
    constraint = constraint_of(wanted)
    assert constraint is not None
    assert version_match(constraint, Version(given)) == match


def test_a_question_asks_for_versions_in_words() -> None:
    """Bounds and specifiers are found with their spans; bare numbers are none."""
    question = "Does v3 or later of it support Pydantic >=2.1,<3 on 4 cores with 3.5 hours?"
    assert [question[found.start : found.end] for found in constraints_in(question)] == ["v3 or later", ">=2.1,<3"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What held under edition 2.0 of 2019?", ["edition 2.0"]),
        ("from edition 3.2 of 2022 to edition 4.1 of 2024", ["edition 3.2", "edition 4.1"]),
        ("from version 3 onwards", ["from version 3 onwards"]),
        ("from version 3 to 4", ["from version 3 to 4"]),
        ("before edition 3.2", ["before edition 3.2"]),
        ("under v3", ["under v3"]),
    ],
)
def test_an_edition_is_named_under_which_something_held(question: str, expected: list[str]) -> None:
    """ "Under edition 2.0" and "from edition 3.2" name that edition, and are no bounds."""
    found = constraints_in(question)
    assert [question[each.start : each.end] for each in found] == expected
    assert [each.exact is None for each in found] == [each[0] != "e" for each in expected]


def test_a_bare_decimal_is_no_clear_version() -> None:
    """ "3.5" may be a version, "version 3" is one."""
    every, clear = versions_stated("version 3 takes 3.5 hours, 4 pages")
    assert every == {Version("3"), Version("3.5")}
    assert clear == {Version("3")}


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What if I pass limit=500?", []),
        ("Are orders of > 30 items cheaper, or <= 250?", []),
        ("Does it run with python>=3?", [">=3"]),
        ("Is pandas==2 enough, or numpy < 1.20?", ["==2", "< 1.20"]),
    ],
)
def test_the_value_of_a_parameter_is_no_version(question: str, found: list[str]) -> None:
    """Nor is a bound on a number without a point that no version is written with."""
    assert [question[each.start : each.end].strip() for each in constraints_in(question)] == found


def test_a_number_of_thousands_of_digits_is_no_version() -> None:
    """Python refuses to read it; that is no error of the request."""
    written = "version " + "1" * 5000
    assert versions_stated(written) == (frozenset(), frozenset())
    assert constraints_in(written) == []
