"""Versions and constraints on them."""

from __future__ import annotations

import pytest
from packaging.version import Version

from ragtrace.coverage.values.versions import constraint_of, constraints_in, version_match, versions_stated


@pytest.mark.parametrize(
    ("wanted", "given", "match"),
    [
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


def test_a_bare_decimal_is_no_clear_version() -> None:
    """ "3.5" may be a version, "version 3" is one."""
    every, clear = versions_stated("version 3 takes 3.5 hours, 4 pages")
    assert every == {Version("3"), Version("3.5")}
    assert clear == {Version("3")}


def test_a_number_of_thousands_of_digits_is_no_version() -> None:
    """Python refuses to read it; that is no error of the request."""
    written = "version " + "1" * 5000
    assert versions_stated(written) == (frozenset(), frozenset())
    assert constraints_in(written) == []
