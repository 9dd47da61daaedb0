"""`ragtrace source`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from ragtrace.store import Store
from ragtrace.types import SourceReport

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def _sources(cli: Cli, url: str, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("source", "list", "--store", url, "--json", *options).stdout)[
        "sources"
    ]
    return found


def test_a_report_is_in_the_store_when_the_command_ends(cli: Cli, store_url: str) -> None:
    """With its times in UTC, whatever zone they were given in."""
    times = ("--newest", "2026-01-02T03:04:05+01:00", "--at", "2026-01-02T03:00:00Z")
    done = cli(
        "source", "report", "wiki", "--service", "a", "--documents", "12", "--delay", "90", *times, "--store", store_url
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "a wiki reported at 2026-01-02 03:00:00Z\n"
    (state,) = _sources(cli, store_url)
    assert state.pop("newest_age_seconds") > 0
    assert state == {
        "service": "a",
        "source": "wiki",
        "reported_at": "2026-01-02T03:00:00.000Z",
        "documents": 12,
        "usual_documents": None,
        "change": None,
        "is_unusual": False,
        "newest_at": "2026-01-02T02:04:05.000Z",
        "delay_seconds": 90.0,
    }


def test_a_report_that_is_said_again_is_one(cli: Cli, store_url: str) -> None:
    """A job that is retried with the time of its run."""
    command = ("source", "report", "wiki", "--service", "a", "--documents", "5", "--at", "2026-01-02T03:00Z")
    for _ in range(2):
        assert cli(*command, "--store", store_url).returncode == 0
    with Store.open(store_url) as store:
        assert store.counts()["source_report"] == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("wiki", "--service", "a", "--documents", "-1"), "documents -1 is not usable; give how many there are"),
        (("wiki", "--service", "a", "--delay", "nan"), "delay_seconds nan is not usable; give seconds, 0 or more"),
        (
            ("wiki", "--service", "a", "--newest", "2026-01-02"),
            "--newest '2026-01-02' is not usable; give a time with its",
        ),
        (("wiki", "--service", "a", "--at", "2999-01-01T00:00Z"), "it lies in the future"),
        ((" ", "--service", "a"), "source ' ' is not usable; give a name"),
        (("wiki", "--service", ""), "service '' is not usable; give a name"),
    ],
)
def test_what_cannot_be_used_is_said(cli: Cli, store_url: str, options: tuple[str, ...], complaint: str) -> None:
    """In one line, with exit code 2, and nothing is stored."""
    done = cli("source", "report", *options, "--store", store_url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ragtrace: ")
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert _sources(cli, store_url) == []


def test_a_store_that_is_not_there_is_not_made(cli: Cli) -> None:
    """A job that runs in another folder would report to nobody; the remedy is named."""
    done = cli("source", "report", "wiki", "--service", "a")
    assert done.returncode == 2
    assert "ragtrace db upgrade --store sqlite:///ragtrace.db" in done.stderr


def test_the_list_marks_an_unusual_change(cli: Cli, store_url: str) -> None:
    """And shows ages instead of times."""
    with Store.open(store_url) as store:
        counts = enumerate((1_000, 1_010, 990, 1_000, 600))
        store.write([SourceReport(service="a", source="wiki", reported_at=at, documents=n) for at, n in counts])
        store.write([SourceReport(service="b", source="mail", reported_at=9, delay_seconds=5_400.0)])
    lines = cli("source", "list", "--store", store_url).stdout.splitlines()
    assert lines[0].split() == ["service", "source", "reported", "documents", "change", "newest", "document", "delay"]
    assert re.fullmatch(r"a +wiki +\d+ d ago +600 +-40% unusual +- +- *", lines[1])
    assert re.fullmatch(r"b +mail +\d+ d ago +- +- +- +1.5 h *", lines[2])
    assert [each["source"] for each in _sources(cli, store_url, "--service", "b")] == ["mail"]


def test_an_empty_list_says_how_to_fill_it(cli: Cli, store_url: str) -> None:
    """No report is no error."""
    done = cli("source", "list", "--store", store_url)
    assert done.returncode == 0
    assert "no source is reported yet: ragtrace source report" in done.stdout
    named = cli("source", "list", "--service", "suport", "--store", store_url).stdout
    assert "no source of service 'suport' is reported yet: ragtrace source report" in named


def test_forgetting_a_source(cli: Cli, store_url: str) -> None:
    """One that is unknown is an error that names the known ones."""
    with Store.open(store_url) as store:
        store.write([SourceReport(service="a", source=name, reported_at=1) for name in ("wiki", "mail")])
    done = cli("source", "forget", "wikki", "--service", "a", "--store", store_url)
    assert (done.returncode, done.stderr) == (2, "ragtrace: source 'wikki' is not usable; give one of a: mail, wiki\n")
    assert cli("source", "forget", "wiki", "--service", "a", "--store", store_url).stdout == "a wiki is forgotten\n"
    assert [each["source"] for each in _sources(cli, store_url)] == ["mail"]
