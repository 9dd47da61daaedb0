"""`ragtrace show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ragtrace.controls import UNSAFE
from ragtrace.store import Store
from ragtrace.types import Query, replace
from tests.cli.conftest import recorded

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

FIRST, SECOND = "0190aaaa" + "0" * 24, "0190aabb" + "0" * 24


def test_prints_the_evidence_path(cli: Cli, store_url: str) -> None:
    """The request's question, its chunk and its verdict are on the page."""
    cli("analyze", "--store", store_url)
    done = cli("show", FIRST, "--store", store_url)

    assert done.returncode == 0, done.stderr
    assert "What is the deductible of HX-2?" in done.stdout
    assert "hx-2" in done.stdout


def test_json_holds_record_and_analysis(cli: Cli, store_url: str) -> None:
    """`--json` prints both parts; the analysis is null until a worker has been there."""
    before = json.loads(cli("show", FIRST, "--store", store_url, "--json").stdout)
    cli("analyze", "--store", store_url)
    after = json.loads(cli("show", FIRST, "--store", store_url, "--json").stdout)

    assert before["record"]["request_id"] == after["record"]["request_id"] == FIRST
    assert before["analysis"] is None
    assert after["analysis"]["request_id"] == FIRST


def test_a_recorded_text_commands_no_terminal(cli: Cli, store_url: str) -> None:
    """Escapes in a segment, a question or an id are left out, on stdout and in an error; what else is there stays."""
    hostile = replace(
        recorded("\x1b[2Jid-1"), segment="\x1b]0;title\x07motor", query=Query(original="HX-2?\x1b[31m \u202e\x9b1m保険")
    )
    with Store.open(store_url) as store:
        store.write([hostile, recorded("\x1b[2Jid-2")])
    shown = cli("show", hostile.request_id, "--store", store_url)
    ambiguous = cli("show", "\x1b[2Jid-", "--store", store_url)

    assert shown.returncode == 0, shown.stderr
    assert not UNSAFE.search(shown.stdout + ambiguous.stderr)
    assert "motor" in shown.stdout
    assert "保険" in shown.stdout
    assert ambiguous.returncode == 2


def test_unique_beginning_is_enough(cli: Cli, store_url: str) -> None:
    """As much of an id as names one request finds it."""
    done = cli("show", "0190aab", "--store", store_url, "--json")

    assert json.loads(done.stdout)["record"]["request_id"] == SECOND


def test_shared_beginning_is_refused(cli: Cli, store_url: str) -> None:
    """A beginning of two ids is an error that lists them."""
    done = cli("show", "0190aa", "--store", store_url)

    assert done.returncode == 2
    assert FIRST in done.stderr
    assert SECOND in done.stderr
    assert done.stdout == ""


def test_unknown_request_is_refused(cli: Cli, store_url: str) -> None:
    """An id that no request has is one clear line and exit code 2."""
    done = cli("show", "ffff", "--store", store_url)

    assert done.returncode == 2
    assert done.stderr.startswith("ragtrace: no request 'ffff'")
    assert done.stderr.count("\n") == 1


def test_an_unknown_request_names_those_that_there_are(cli: Cli, store_url: str) -> None:
    """Ids to try, the newest first: an application's own requests are in no log."""
    done = cli("show", "ffff", "--store", store_url)

    assert SECOND in done.stderr
    assert FIRST in done.stderr


def test_a_store_without_requests(cli: Cli, tmp_path: Path) -> None:
    """It says that there are none."""
    url = f"sqlite:///{tmp_path}/none.db"
    Store.open(url).close()

    assert cli("show", "ffff", "--store", url).stderr.endswith("it holds no request\n")


def test_without_an_id(cli: Cli, store_url: str) -> None:
    """The newest requests are listed, with their verdicts once they have one."""
    before = cli("show", "--store", store_url)
    cli("analyze", "--store", store_url)
    rows = json.loads(cli("show", "--store", store_url, "--json").stdout)
    one = cli("show", "--limit", "1", "--store", store_url).stdout.splitlines()

    assert before.stdout.count("not analyzed") == 2
    assert {row["request_id"] for row in rows} == {FIRST, SECOND}
    assert all(row["verdict"] for row in rows)
    assert one[0].split() == ["request", "started", "service", "segment", "verdict", "owner"]
    assert len(one) == 2
    assert "no such requests" in cli("show", "--service", "other", "--store", store_url).stdout
