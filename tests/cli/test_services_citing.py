"""`ragtrace citing`, and what judges stored requests again afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ragtrace.store import Store
from tests.cli.conftest import IDS

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_list(cli: Cli, store_url: str) -> None:
    """What is known of each service, for people and programs."""
    assert cli("citing", "list", "--store", store_url).stdout.startswith("nothing is known of any service yet")
    with Store.open(store_url) as store:
        store.note_answers({"faq": (30, 1), "support": (30, 29), "wiki": (2, 0)})
    rows = cli("citing", "list", "--store", store_url).stdout.splitlines()[1:]
    assert [" ".join(row.split()[:3]) for row in rows if row.strip(" ─━")] == [
        "faq not judged",
        "support judged " + rows[1].split()[2],
        "wiki not known",
    ]
    found = json.loads(cli("citing", "list", "--store", store_url, "--json").stdout)["services"]
    assert [(each["service"], each["cites"], each["answers"], each["cited"]) for each in found] == [
        ("faq", False, 30, 1),
        ("support", True, 30, 29),
        ("wiki", None, 2, 0),
    ]
    assert [each["since"] is not None for each in found] == [False, True, False]


def test_an_answer_that_is_analyzed_again_is_counted_once(cli: Cli, store_url: str) -> None:
    """However often: it is one answer."""
    counts = []
    for again in ((), ("--again",), ("--again",)):
        assert cli("analyze", *again, "--store", store_url).returncode == 0
        (known,) = json.loads(cli("citing", "list", "--store", store_url, "--json").stdout)["services"]
        counts.append((known["answers"], known["cited"]))
    assert counts == [(2, 2)] * 3


def test_forget(cli: Cli, store_url: str) -> None:
    """It is learned anew; a service of which nothing is known is refused with those of which something is."""
    with Store.open(store_url) as store:
        store.note_answers({"support": (30, 29)})
    unknown = cli("citing", "forget", "suport", "--store", store_url)
    assert unknown.returncode == 2
    assert "one of support" in unknown.stderr
    done = cli("citing", "forget", "support", "--store", store_url)
    assert done.stdout.startswith("support counted as citing; it is learned anew")
    assert cli("citing", "forget", "support", "--store", store_url).stdout.startswith("support did not count as citing")
    with Store.open(store_url) as store:
        assert store.citing()["support"].cites is None


def test_stored_requests_are_analyzed_again_on_demand(cli: Cli, store_url: str) -> None:
    """`--again` for what this version scored as well, `--service` and `--since` choose among them."""
    commands = ((), (), ("--redo",), ("--again", "--service", "faq"), ("--again", "--since", "1h ago"))
    done = [json.loads(cli("analyze", "--store", store_url, "--json", *each).stdout)["done"] for each in commands]
    assert done == [len(IDS), 0, 0, 0, 0]
    again = cli(
        "analyze", "--store", store_url, "--json", "--again", "--service", "support", "--since", "2020-01-01T00:00Z"
    )
    assert json.loads(again.stdout)["done"] == len(IDS)


def test_what_is_chosen_belongs_to_an_order(cli: Cli, store_url: str) -> None:
    """`--service` alone would be taken for what is analyzed at all."""
    done = cli("analyze", "--store", store_url, "--service", "support")
    assert done.returncode == 2
    assert (
        done.stderr == "ragtrace: --service and --since choose what --redo and --again enqueue; give one of these too\n"
    )
