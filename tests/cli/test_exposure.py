"""`ragtrace exposure report` as a person and a program see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragtrace.store import Store
from tests.analyze.test_exposure_experiment import ASKED
from tests.analyze.test_exposure_report import MINUTE, START, analysis, record

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

WINDOW = ("--service", "s", "--since", "2023-11-14T22:43:20Z", "--until", "2023-11-14T23:13:20Z")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """South loses its place to east in the second half hour, while its documents stay useful."""
    from ragtrace.store import Finished

    address = f"sqlite:///{tmp_path}/exposure.db"
    with Store.open(address) as store:
        records = [
            record(
                number, (0, 2 if number >= 60 else 1), at=START + (30 * MINUTE if number >= 60 else 0), version=version
            )
            for number, version in ((number, "i-2" if number >= 60 else "i-1") for number in range(120))
        ]
        store.write(records)
        by_id = {each.request_id: each for each in records}
        jobs = store.claim("test", limit=len(records))
        store.finish([Finished(job, analysis(by_id[job.request_id], (1, 3), (0,))) for job in jobs])
    return address


def test_who_is_starved_is_said(cli: Cli, url: str) -> None:
    """One line names the provider and the release; the table has the shares."""
    shown = cli("exposure", "report", *WINDOW, "--before", "2023-11-14T22:13:20Z", "--store", url).stdout
    assert "s, by source: 60 requests" in shown
    assert "useful by the proxy reference in 60 requests" in shown
    (south,) = (line.split() for line in shown.splitlines() if line.startswith("south") and "below" in line)
    assert south[1] == "0.0%"
    assert "south: lost places in prompts that the documents deserve; released since then: index=i-2" in shown


def test_the_json_has_the_same(cli: Cli, url: str) -> None:
    """Shares as numbers."""
    found = json.loads(cli("exposure", "report", *WINDOW, "--store", url, "--json").stdout)
    by_name = {each["provider"]: each for each in found["providers"]}
    assert by_name["east"]["exposed"]["value"] == pytest.approx(0.5)
    assert found["before_requests"] is None


def test_an_empty_window_says_so(cli: Cli, url: str) -> None:
    """With what to look at."""
    shown = cli("exposure", "report", "--service", "other", "--since", "1h", "--store", url).stdout
    assert "No request of this window can be counted" in shown


def test_documents_without_a_provider(cli: Cli, url: str) -> None:
    """One line says which key they lack, and no table compares nobody."""
    shown = cli("exposure", "report", *WINDOW, "--by", "author", "--store", url).stdout
    assert "No candidate names its 'author', so there are no providers to compare" in " ".join(shown.split())
    assert "(none)" not in shown


def test_a_wrong_source_is_refused(cli: Cli, url: str) -> None:
    """With what is allowed."""
    done = cli("exposure", "report", *WINDOW, "--used-by", "guess", "--store", url)
    assert done.returncode == 2
    assert "claims or citations or shapley" in done.stderr


def test_the_experiment_runs_a_pipeline_of_the_host(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, with a page beside what is printed."""
    monkeypatch.chdir(Path(__file__).parents[2])
    questions = tmp_path / "questions.jsonl"
    rows = [{"id": each.id, "question": each.text, "answer": each.answer, "gold": list(each.gold)} for each in ASKED]
    questions.write_text("\n".join(map(json.dumps, rows)))
    module = "tests.analyze.test_exposure_experiment"
    given = ("--questions", str(questions), "--pipeline", f"{module}:answer", "--retriever", f"{module}:retrieve")
    page = tmp_path / "report.html"
    few = ("--alpha", "0, 2", "--samples", "5", "--k", "2", "--html", str(page))
    shown = cli("exposure", "experiment", *given, *few).stdout
    assert "4 questions by item, 5 rankings at each alpha" in shown
    assert "unevenness of exposure (EE-D)" in shown
    assert page.read_text().count("<svg") == 4
    found = json.loads(cli("exposure", "experiment", *given, *few, "--json").stdout)
    assert [each["alpha"] for each in found["alphas"]] == [0, 2, None]
    refused = cli("exposure", "experiment", *given, "--alpha", "two")
    assert refused.returncode == 2
    assert "numbers with spaces or commas" in refused.stderr
