"""Selections: one line of text that says which requests are a side."""

from __future__ import annotations

import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.gate.selection import Selection, parse

NOW = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000
URL = "postgresql://me:secret@host/db?sslmode=require&application_name=ci"


def _parsed(text: str) -> Selection:
    return parse("--baseline", text, NOW)


def test_every_part_is_read() -> None:
    """Parts stand in any order, with white space or without."""
    found = _parsed("sqlite:///a.db & version:reranker=v17,index=2 &window:2h ago..now& service:shop & version:model=m")
    assert (found.url, found.service, found.file, found.replay) == ("sqlite:///a.db", "shop", None, None)
    assert found.versions == (("reranker", "v17"), ("index", "2"), ("model", "m"))
    assert (found.since, found.until) == (NOW - 2 * HOUR, NOW)


def test_replays_and_files_have_questions_of_their_own() -> None:
    """So the other side is expected to have the same ones; live traffic is not."""
    assert _parsed("replay:nightly") == Selection("replay:nightly", replay="nightly")
    assert _parsed("a/b.jsonl").file == "a/b.jsonl"
    assert [_parsed(each).is_controlled for each in ("replay:a", "a.jsonl", "version:a=b", "sqlite:///a.db")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_an_ampersand_may_stand_in_a_url_or_in_the_name_of_a_file() -> None:
    """It parts only what begins like a part."""
    assert _parsed(URL).url == URL
    found = _parsed(f"{URL}&replay:x")
    assert (found.url, found.replay) == (URL, "x")
    assert _parsed("q&a.jsonl").file == "q&a.jsonl"
    assert _parsed("window:1h ago..&q.jsonl").file == "q.jsonl"


def test_a_password_is_never_shown() -> None:
    """The text of a selection goes into reports."""
    assert "secret" not in _parsed(f"{URL}&replay:x").text
    assert _parsed(f"{URL}&replay:x").text.endswith("&replay:x")


def test_a_window_may_end_now() -> None:
    """An end that is left out is the present."""
    assert _parsed("window:1h ago..").until == NOW


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (" & ", "--baseline ' & ' is not usable; give replay:NAME, version:COMPONENT=VERSION"),
        ("replay:", "--baseline 'replay:' is not usable; give a value behind replay:"),
        ("version:reranker", "'version:reranker' is not usable; give version:COMPONENT=VERSION, as in reranker=v17"),
        ("version:a=", "give version:COMPONENT=VERSION"),
        ("version:a=1,a=2", "give one version of a"),
        ("window:2h ago", "give window:SINCE..UNTIL, as in window:2h ago..now"),
        ("window:now..2h ago", "is empty: 2023-11-14T22:13:20.000Z is not before 2023-11-14T20:13:20.000Z"),
        ("window:soon..now", "--baseline: SINCE 'soon' is not usable; give a time with its zone"),
        ("replay:a&replay:b", "has two parts replay:; give one"),
        ("a.jsonl&sqlite:///a.db", "has two sources of requests; give one"),
        ("mysql://host/db", "is not supported"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, complaint: str) -> None:
    """In one line that names the option, what was given, and what may be."""
    with pytest.raises(ConfigurationError) as caught:
        _parsed(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
