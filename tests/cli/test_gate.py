"""`ragtrace gate`: exit codes, reports in files, runs that are kept, and bad input in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import msgspec
import pytest

from bench.traffic import MINUTE, SERVICE, Break, Traffic, store_traffic
from ragtrace.gate.types import GateReport
from ragtrace.store import Store

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

START = 1_700_000_000_000_000_000
BEFORE, AFTER = "window:2023-11-14T22:00Z..2023-11-15T00:13Z", "window:2023-11-15T00:14Z..2023-11-15T03:00Z"
POLICY = """
metrics:
  broken_ranking: {margin: 0.1}
  evidence_recall: {margin: 0.05}
  answer_coverage: {margin: 0.1}
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four hours of requests; from the middle on a new reranker breaks a third of them."""
    file = tmp_path_factory.mktemp("traffic") / "traffic.db"
    broken = Break("ranking", 0.33, 0.5, component="reranker")
    with Store.open(f"sqlite:///{file}") as store:
        store_traffic(store, Traffic(600, START, START + 240 * MINUTE, (broken,)))
    return file


@pytest.fixture
def traffic(filled: Path, tmp_path: Path) -> str:
    """The URL of a store of one's own with that traffic, beside a policy."""
    shutil.copy(filled, tmp_path)
    (tmp_path / "gate.yaml").write_text(POLICY, encoding="utf-8")
    return f"sqlite:///{tmp_path}/{filled.name}"


def test_a_rollout_that_hurts_is_blocked(cli: Cli, traffic: str, tmp_path: Path) -> None:
    """Exit code 1, the stage on the terminal, and every report where it was asked for."""
    files = {name: str(tmp_path / f"report.{name}") for name in ("markdown", "junit", "html")}
    done = cli("gate", "run", "--baseline", BEFORE, "--candidate", AFTER, "--policy", "gate.yaml", "--store", traffic,
               *(word for name, file in files.items() for word in (f"--{name}", file)))  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "ranking" in done.stdout.splitlines()[0]
    assert "ranking" in Path(files["markdown"]).read_text(encoding="utf-8")
    assert ElementTree.parse(files["junit"]).getroot().tag == "testsuites"
    assert Path(files["html"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_canary_is_held_against_the_rest(cli: Cli, traffic: str) -> None:
    """Both versions in one window, as independent samples of the same mix; the run is kept like any other."""
    sides = ("--baseline", "version=reranker=r-1", "--candidate", "version=reranker=reranker-bad")
    window = ("--since", "2023-11-14T22:00Z", "--until", "2023-11-15T03:00Z")
    live = ("gate", "live", "--service", SERVICE, *sides, *window, "--policy", "gate.yaml", "--store", traffic)
    done = cli(*live)
    assert (done.returncode, done.stderr) == (1, "")
    assert "ranking" in done.stdout.splitlines()[0]
    assert "segments in the baseline's proportions" in " ".join(done.stdout.split())
    report = msgspec.json.decode(cli(*live, "--json").stdout, type=GateReport)
    assert not report.paired
    assert sum(each.baseline for each in report.mix) == pytest.approx(1)
    assert len(json.loads(cli("gate", "list", "--store", traffic, "--json").stdout)["runs"]) == 2
    beside = msgspec.json.decode(cli(*live[:4], *sides[2:], *live[8:], "--json").stdout, type=GateReport)
    assert beside.baseline.name.startswith("other:reranker=reranker-bad&")
    assert (beside.decision, beside.baseline.requests) == (report.decision, report.baseline.requests)
    refused = cli("gate", "live", "--service", SERVICE, "--baseline", "r-1", *sides[2:], "--store", traffic)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "COMPONENT=VERSION" in refused.stderr


def test_a_run_is_kept_and_shown(cli: Cli, traffic: str) -> None:
    """By the beginning of its id, in every format, unless it is not to be kept."""
    run = ("gate", "run", "--baseline", BEFORE, "--candidate", AFTER, "--policy", "gate.yaml", "--store", traffic)
    assert "no run is kept yet" in cli("gate", "list", "--store", traffic).stdout
    assert cli(*run, "--no-save").returncode == 1
    assert json.loads(cli("gate", "list", "--store", traffic, "--json").stdout) == {"runs": []}
    printed = cli(*run, "--json")
    report = msgspec.json.decode(printed.stdout, type=GateReport)
    assert (report.decision, report.first_broken, report.service) == ("block", "ranking", SERVICE)
    [kept] = json.loads(cli("gate", "list", "--store", traffic, "--json").stdout)["runs"]
    assert (kept["decision"], kept["first_broken"], kept["baseline"]) == ("block", "ranking", BEFORE)
    assert any(version.startswith("reranker=") for version in kept["versions"])
    assert kept["run_id"][:12] in cli("gate", "list", "--store", traffic).stdout
    assert report.questions
    bare = cli(*run, "--json", "--no-texts", "--no-save")
    assert msgspec.json.decode(bare.stdout, type=GateReport).questions == ()
    shown = cli("gate", "show", kept["run_id"][:10], "--store", traffic, "--json")
    assert json.loads(shown.stdout) == json.loads(printed.stdout)
    text = cli("gate", "show", kept["run_id"], "--store", traffic).stdout
    assert "Blocked" in text
    refused = cli("gate", "show", "x", "--format", "pdf", "--store", traffic)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "'pdf' is not usable; give text, markdown, junit, html" in refused.stderr


def test_too_little_data_decides_nothing(cli: Cli, traffic: str) -> None:
    """Exit code 3, which the policy can turn into a pass."""
    few = "window:2023-11-14T22:13Z..2023-11-14T22:23Z"
    run = ("gate", "run", "--baseline", BEFORE.replace("22:00Z", "22:24Z"), "--candidate", few, "--store", traffic)
    assert cli(*run).returncode == 3
    Path(traffic.removeprefix("sqlite:///")).with_name("easy.yaml").write_text(
        "on_inconclusive: warn\nmetrics: {answer_coverage: {margin: 0.2, minimum: 10}, citation_coverage: {}}\n"
    )
    assert cli(*run, "--policy", "easy.yaml").returncode == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--baseline", "replay:a", "--candidate", "replay:b"), "the baseline 'replay:a' selects no request"),
        (("--baseline", BEFORE, "--candidate", BEFORE), "baseline and candidate are both"),
        (("--baseline", BEFORE, "--candidate", "window:1h"), "--candidate 'window:1h' is not usable"),
        (("--baseline", BEFORE, "--candidate", AFTER, "--policy", "bad.yaml"), "metric 'fame' is not known"),
        (("--baseline", BEFORE, "--candidate", AFTER, "--policy", "none.yaml"), "cannot read the policy 'none.yaml'"),
        (("--baseline", BEFORE, "--candidate", AFTER, "--html", "no/where.html", "--no-save"), "give another --html"),
        (("--baseline", BEFORE, "--candidate", AFTER, "--json", "--html", "-"), "--json and --html would both be"),
        (("--baseline", BEFORE, "--candidate", "none.jsonl"), "the candidate 'none.jsonl' cannot be read"),
    ],
)
def test_bad_input_gets_one_line(
    cli: Cli, traffic: str, tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    """And exit code 2, with nothing on standard output."""
    (tmp_path / "bad.yaml").write_text("metrics: {fame: {margin: 0.1}}")
    done = cli("gate", "run", *options, "--store", traffic)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert complaint in done.stderr


def test_a_store_that_is_missing_is_said(cli: Cli, tmp_path: Path) -> None:
    """Where a side needs it; two files need none, and nothing is kept."""
    done = cli("gate", "run", "--baseline", "replay:a", "--candidate", "replay:b")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "does not exist or is empty" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_files_are_compared_without_a_store(cli: Cli, tmp_path: Path) -> None:
    """The note says that the run is not kept."""
    from ragtrace.types import encode_record
    from tests.gate.measured import recorded

    for name in ("old", "new"):
        records = (recorded(f"{name}{at:02}", versions={"model": name}) for at in range(40))
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(map(encode_record, records)))
    done = cli("gate", "run", "--baseline", "old.jsonl", "--candidate", "new.jsonl", "--json")
    assert done.returncode == 3, done.stderr  # forty pairs cannot show a margin of three points
    assert "this run is not kept" in done.stderr
    report = msgspec.json.decode(done.stdout, type=GateReport)
    assert (report.pairs, report.candidate.versions) == (40, {"model": {"new": 40}})


def test_the_default_policy_is_printed(cli: Cli, tmp_path: Path) -> None:
    """As a file that is the default itself."""
    from ragtrace.gate.policy import read_policy

    (tmp_path / "gate.yaml").write_text(cli("gate", "policy").stdout)
    assert read_policy(tmp_path / "gate.yaml") == read_policy()


def test_a_selfcheck_tells_how_often_nothing_is_blocked(cli: Cli, traffic: str) -> None:
    """As figures for a machine, and in sentences."""
    options = ("gate", "selfcheck", "--baseline", BEFORE, "--policy", "gate.yaml", "--runs", "20", "--store", traffic)
    found = json.loads(cli(*options, "--json").stdout)
    assert (found["runs"], found["alpha"]) == (20, 0.05)
    assert 0 <= found["false_block_rate"] <= 1
    assert set(found["powers"]) == {"broken_ranking", "evidence_recall", "answer_coverage"}
    text = cli(*options).stdout
    assert "of 20 random splits of the baseline were blocked" in text
    assert "evidence recall" in text


def test_a_selfcheck_of_two_versions_is_refused(cli: Cli, traffic: str) -> None:
    """Exchanging their sides would mix a change into what is called chance."""
    options = ("--baseline", BEFORE, "--candidate", AFTER, "--policy", "gate.yaml", "--store", traffic)
    done = cli("gate", "selfcheck", *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "two versions (reranker r-1 and reranker-bad)" in done.stderr


def test_outdated_analyses_are_done_again(cli: Cli, store_url: str) -> None:
    """`ragtrace analyze --redo` is what the gate tells people to run."""
    import sqlite3

    assert "2 requests analyzed" in cli("analyze", "--store", store_url).stdout
    file = store_url.removeprefix("sqlite:///")
    with sqlite3.connect(file) as connection:
        for table in ("diagnosis", "job"):
            connection.execute(f"UPDATE {table} SET analyzer_version = 'coverage-0'")
    assert "0 requests analyzed" in cli("analyze", "--store", store_url).stdout
    assert "2 requests analyzed" in cli("analyze", "--redo", "--store", store_url).stdout
    assert "0 requests analyzed" in cli("analyze", "--redo", "--store", store_url).stdout
