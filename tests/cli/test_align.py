"""`ragtrace align report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragtrace.store import Store
from tests.analyze.alignment_report.explained import explain, request
from tests.engines.serving import Served

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with three explained requests."""
    url = f"sqlite:///{tmp_path / 'explained.db'}"
    with Store.open(url) as store:
        explain(store, request("r1"), request("r2"), parts=("generator", "retriever"))
        explain(store, request("r3"), drawn=False)
    return url


def test_prints_tables(cli: Cli, url: str) -> None:
    """Each with what it speaks of."""
    done = cli("align", "report", "--store", url)

    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["Failure", "rates"]
    assert lines[2][:5] == ["m-1", "original", "all", "4", "2"]
    assert "1 explained requests of the other stratum are left out" in done.stdout
    assert "WARG" in done.stdout
    assert "Query words among the strongest half" in done.stdout


def test_writes_json_and_plots(cli: Cli, url: str, tmp_path: Path) -> None:
    """JSON with names for all numbers, nothing else on stdout; plots into a folder that it makes."""
    done = cli("align", "report", "--store", url, "--json", "--plots", "plots/new")

    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    assert written["basis"] == {"source": "stored", "stratum": "random", "requests": 2, "left_out": 1, "skipped": {}}
    assert written["rates"][0]["group"]["k"] == 4
    assert written["rates"][0]["wasted_retrieval"]["estimate"]["mean"] == 1.0
    assert [each["p"] for each in written["rates"][0]["sweep"]] == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert sorted(file.name for file in (tmp_path / "plots" / "new").iterdir()) == [
        "failure_rates.svg",
        "places_m-1_k4.svg",
        "token_overlap.svg",
        "warg_m-1_k4.svg",
    ]


def test_the_flagged_stratum_is_asked_for(cli: Cli, url: str) -> None:
    """And says that it speaks for no others."""
    done = cli("align", "report", "--store", url, "--stratum", "flagged")

    assert "1 request that flags had explained, which speak for no others" in done.stdout


def test_a_store_without_explanations_says_what_mends_it(cli: Cli, store_url: str) -> None:
    """No table, and no error."""
    done = cli("align", "report", "--store", store_url, "--plots", "plots")

    assert done.returncode == 0, done.stderr
    assert "no request has a stored explanation" in done.stdout
    assert "0 plots written" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--stratum", "all"), "stratum 'all' is not usable; give random or flagged"),
        (("--conditions", "shuffled"), "give a generator (--generator MODEL)"),
        (("--service", "none"), "--service 'none' is not usable; give a service that the store has requests of"),
        (("--generator", "./no-such-model"), "no model folder"),
        (("--plots", "/dev/null/plots"), "--plots '/dev/null/plots' is not usable; give a folder that can be made"),
    ],
)
def test_wrong_options_are_one_line(cli: Cli, url: str, options: tuple[str, ...], message: str) -> None:
    """What was wrong, and what mends it."""
    done = cli("align", "report", "--store", url, *options)

    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_chat_without_log_probabilities_is_one_line(cli: Cli, url: str, model_server: Served) -> None:
    """Nothing could be scored with it."""
    done = cli("align", "report", "--store", url, "--generator", f"chat:{model_server.at('closed')}#tiny")

    assert done.returncode == 2
    assert "a model that gives log-probabilities" in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_spacy_is_one_line(cli: Cli, url: str, tmp_path: Path) -> None:
    """Before anything is read."""
    (tmp_path / "spacy.py").write_text("raise ModuleNotFoundError(name='spacy')")
    done = cli("align", "report", "--store", url, "--pos", "en_core_web_sm")

    assert done.returncode == 2
    assert done.stderr == "ragtrace: spacy is not installed; pip install 'ragtrace[spacy]'\n"
