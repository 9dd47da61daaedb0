"""`ragtrace show` without an id: the filters of the list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtrace.cli.requests import _listed
from ragtrace.store import Listing, Store
from tests.cli.conftest import Cli
from tests.web.stored import ALTERED, HOSTILE, LOST, SERVICE, store_of


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store of the pages."""
    return store_of(tmp_path_factory.mktemp("list"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--stage", "generation"), {ALTERED}),
        (("--verdict", "selection_failure", "--unlabeled", "--segment", "limit"), {LOST}),
        (("--status", "error"), {HOSTILE}),
        (("--with-version", "index=i-1"), {ALTERED, LOST}),
        (("--labeled",), set()),
        (("--in-doubt", "ranking", "--segment", "limit"), {LOST}),
        (("--in-doubt", "citation"), set()),
        (("--until", "2001-01-01T00:00Z"), set()),
    ],
)
def test_a_filter_leaves_what_it_says(cli: Cli, url: str, options: tuple[str, ...], expected: set[str]) -> None:
    """As the page with the same filter does."""
    told = cli("show", "--service", SERVICE, *options, "--store", url, "--json")
    assert {row["request_id"] for row in json.loads(told.stdout)} == expected


def test_the_list_goes_either_way_in_time(cli: Cli, url: str) -> None:
    """Newest first, unless it is asked for the order of time, which no search has."""
    rows = json.loads(cli("show", "--service", SERVICE, "--store", url, "--json").stdout)
    turned = json.loads(cli("show", "--service", SERVICE, "--oldest-first", "--store", url, "--json").stdout)
    assert len(rows) > 1
    assert turned == rows[::-1]
    assert cli("show", "--search", "water", "--oldest-first", "--store", url).returncode == 2


def test_search_finds_words_once_it_is_on(cli: Cli, tmp_path: Path) -> None:
    """The message names the command until then; `off` says that it is."""
    url = store_of(tmp_path)
    told = cli("show", "--search", "deductible", "--store", url)
    assert "ragtrace db search on" in told.stderr
    assert json.loads(cli("db", "search", "on", "--store", url, "--json").stdout)["is_on"]
    with Store.open(url) as store:
        question = store.get_records([LOST])[LOST].query.original
    told = cli("show", "--search", question, "--service", SERVICE, "--store", url, "--json")
    assert LOST in {row["request_id"] for row in json.loads(told.stdout)}
    assert cli("db", "search", "off", "--store", url).stdout == "search is off\n"


def test_the_list_goes_back_as_far_as_needed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through many pages of requests that do not match, and no further than the limit."""
    monkeypatch.setattr("ragtrace.cli.requests._SCAN", 1)
    with Store.open(url) as store:
        assert [one.request_id for one in _listed(store, Listing(service=SERVICE, stage="generation"), 5)] == [ALTERED]
        assert len(_listed(store, Listing(), 2)) == 2


def test_the_list_says_that_there_are_more(cli: Cli, url: str) -> None:
    """Where the limit ended it, and only there."""
    assert "the newest 2; there are more: --limit 10 " in cli("show", "--limit", "2", "--store", url).stdout
    assert "there are more" not in cli("show", "--limit", "50", "--store", url).stdout


@pytest.mark.parametrize(
    "options", [("--stage", "packing"), ("--doubt", "broken"), ("--in-doubt", "packing"), ("--since", "soon")]
)
def test_a_word_that_no_request_has_is_refused(cli: Cli, url: str, options: tuple[str, ...]) -> None:
    """With those that there are, in one line."""
    told = cli("show", *options, "--store", url)
    assert told.returncode == 2
    assert options[0] in told.stderr


def test_a_filter_beside_an_id_is_refused(cli: Cli, url: str) -> None:
    """It would be ignored."""
    told = cli("show", ALTERED, "--stage", "generation", "--store", url)
    assert told.returncode == 2
    assert "leave one of them out" in told.stderr
