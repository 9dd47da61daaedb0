"""`ragtrace triage` and `ragtrace postmortem`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.traffic import SERVICE, Break, Traffic, store_traffic
from ragtrace.store import Store
from ragtrace.types import RequestRecord
from tests.cli.conftest import environment
from tests.triage.conftest import END, START
from tests.triage.test_alerts import alert, payload
from tests.triage.test_receiver import post, until

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SINCE, UNTIL = "2023-11-14T20:13:20Z", "2023-11-14T22:13:20Z"
TIMES = ("--since", SINCE, "--until", UNTIL)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store whose ranking is broken since a release of the packer."""
    found = f"sqlite:///{tmp_path_factory.mktemp('triage')}/traffic.db"
    with Store.open(found) as store:
        store_traffic(store, Traffic(600, START, END, (Break("ranking", 0.6, 0.8, component="packer"),)))
    return found


def test_a_segment_is_walked(cli: Cli, url: str) -> None:
    """Text names stage, owner, release and the commands that look closer; JSON says the same."""
    shown = cli("triage", "segment", "limit", "--service", SERVICE, *TIMES, "--store", url, COLUMNS="80")
    assert shown.returncode == 0, shown.stderr
    for expected in ("ranking-context", "packer=packer-bad", "ragtrace show", "BROKEN"):
        assert expected in shown.stdout
    report = json.loads(
        cli("triage", "segment", "limit", "--service", SERVICE, *TIMES, "--store", url, "--json").stdout
    )
    assert (report["schema"], report["stage"], report["segment"]) == ("ragtrace.triage/2", "ranking", "limit")
    every = json.loads(cli("triage", "segment", "--service", SERVICE, *TIMES, "--store", url, "--json").stdout)
    assert every["segment"] is None
    assert {line["state"] for line in every["segments"]} == {"broken"}


def test_a_request_is_walked(cli: Cli, url: str) -> None:
    """By as much of its id as is unique."""
    with Store.open(url) as store:
        row = store.find_requests(stage="ranking", limit=1)[0]
    report = json.loads(cli("triage", "request", row.request_id[:-1], "--store", url, "--json").stdout)
    assert report["request"]["request_id"] == row.request_id
    assert report["suspected_release"] == "packer=packer-bad"
    assert cli("triage", "request", "zz", "--store", url).returncode == 2


def test_how_many_requests_fit_is_not_understated(cli: Cli, tmp_path: Path) -> None:
    """Only so many are looked for; where there are fewer, their number is exact."""
    found = f"sqlite:///{tmp_path}/ids.db"
    with Store.open(found) as store:
        for count, beginning in ((12, "aa"), (3, "bb")):
            store.write([RequestRecord(request_id=f"{beginning}{number:02}", service="s") for number in range(count)])
    assert "10 or more requests begin with 'aa'" in cli("triage", "request", "aa", "--store", found).stderr
    assert "3 requests begin with 'bb'" in cli("triage", "request", "bb", "--store", found).stderr


def test_alerts_come_from_a_file_or_from_standard_input(cli: Cli, url: str, tmp_path: Path) -> None:
    """Each alert of the payload has a report."""
    file = tmp_path / "alert.json"
    file.write_bytes(payload(alert(segment="limit"), alert(segment="deadline")))
    found = json.loads(cli("triage", "alert", str(file), "--store", url, "--json").stdout)["reports"]
    assert [(report["segment"], report["stage"]) for report in found] == [("limit", "ranking"), ("deadline", "ranking")]
    command = [sys.executable, "-m", "ragtrace", "triage", "alert", "-", "--store", url]
    piped = subprocess.run(command, input=file.read_bytes(), capture_output=True, env=environment(), check=True)
    assert piped.stdout.decode().count("RagtraceEvidencePage") == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("segment", "--service", SERVICE, "--since", "soon"), "--since 'soon'"),
        (("segment", "--service", SERVICE, "--since", UNTIL, "--until", SINCE), "before --until"),
        (("segment", "--service", SERVICE, *TIMES, "--reference", "gold"), "oracle, proxy or none"),
        (("segment", "--service", "other", *TIMES), "--service 'other' is not usable; give a service that has"),
        (("segment", "nowhere", "--service", SERVICE, *TIMES), "NAME 'nowhere' is not usable; give a segment of"),
        (("segment", "nowhere", "--service", SERVICE, *TIMES), "'limit'"),
        (("alert", "/no/such/file"), "cannot read"),
        (("alert", __file__), "no payload"),
    ],
)
def test_what_cannot_be_used_is_one_line(cli: Cli, url: str, arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2, and the remedy."""
    done = cli("triage", *arguments, "--store", url)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_postmortem_is_printed_or_written(cli: Cli, url: str, tmp_path: Path) -> None:
    """The alert stands in its timeline."""
    file = tmp_path / "alert.json"
    file.write_bytes(payload(alert(segment="limit")))
    asked = ("postmortem", "--service", SERVICE, "--segment", "limit", *TIMES, "--alert", str(file), "--store", url)
    printed = cli(*asked)
    assert printed.returncode == 0, printed.stderr
    assert "alert RagtraceEvidencePage fires" in printed.stdout
    assert cli(*asked, "--out", "report.md").stdout == "wrote report.md\n"
    assert "# Postmortem: assistant, limit" in (tmp_path / "report.md").read_text()
    refused = cli(*asked, "--out", "no/such/folder/report.md")
    assert refused.returncode == 2
    assert "--out" in refused.stderr


def test_an_alert_is_judged_and_judged_again(cli: Cli, tmp_path: Path) -> None:
    """By its labels, or by the id in the list; the list says how many pages were right."""
    url = f"sqlite:///{tmp_path}/pages.db"
    Store.open(url).close()
    assert "no alert is judged yet" in cli("triage", "judge", "--store", url).stdout
    about = ("--service", "s", "--segment", "limit", "--stage", "ranking", "--at", SINCE)
    first = cli("triage", "judge", "right", *about, "--store", url)
    assert first.stdout.startswith("s, limit, ranking, page: right (alert "), first.stderr
    second = cli("triage", "judge", "wrong-stage", *about, "--comment", "it was the index", "--store", url)
    assert second.stdout.startswith("s, limit, ranking, page: wrong stage, in place of right (alert ")
    assert ["does not know which alerts fired" in each.stdout for each in (first, second)] == [True, False]
    cli("triage", "judge", "right", "--service", "s", "--stage", "generation", "--store", url)
    listed = cli("triage", "judge", "--store", url).stdout
    assert "it was the index" in listed
    assert "1 of 2 judged pages were right (50 %); 1 named the wrong stage, 0 were false" in listed
    found = json.loads(cli("triage", "judge", "--store", url, "--json").stdout)
    assert [one["judgment"] for one in found["judgments"]] == ["right", "wrong_stage"]
    assert found["pages"]["precision"] == 0.5
    again = cli("triage", "judge", "false", "--alert", found["judgments"][1]["alert_id"], "--store", url, "--json")
    answer = json.loads(again.stdout)
    assert (answer["judgment"]["judgment"], answer["former"]["judgment"]) == ("false", "wrong_stage")
    assert answer["judgment"]["comment"] == "it was the index"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("maybe", "--service", "s", "--stage", "ranking"), "right, wrong-stage or false"),
        (("right", "--service", "s"), "--stage"),
        (("right", "--stage", "ranking"), "--service"),
        (("right", "--service", "assistant", "--stage", "packing"), "--stage 'packing'"),
        (("right", "--service", "assistant", "--stage", "ranking", "--at", "soon"), "--at 'soon'"),
        (("right", "--service", "assistant", "--stage", "ranking", "--at", "2999-01-01T00:00Z"), "in the future"),
        (("right", "--alert", "none"), "--alert 'none'"),
        (("right", "--service", "other", "--stage", "ranking"), "--service 'other'"),
        (("right", "--service", SERVICE, "--segment", "nowhere", "--stage", "ranking"), "--segment 'nowhere'"),
    ],
)
def test_what_judges_no_alert_is_one_line(cli: Cli, url: str, arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2, and nothing is kept."""
    done = cli("triage", "judge", *arguments, "--store", url)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_receiver_answers_until_it_is_ended(url: str, tmp_path: Path) -> None:
    """SIGTERM ends it with code 0, behind the alert at hand."""
    command = [sys.executable, "-m", "ragtrace", "triage", "serve", "--port", "0", "--out", "out", "--store", url]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        port = int(running.stderr.readline().partition("http://127.0.0.1:")[2].partition("/")[0])
        assert post(port, payload(alert(segment="limit")))[0] == 200
        (report,) = until(lambda: list((tmp_path / "out").glob("*.md")))
        assert "packer=packer-bad" in report.read_text()
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
