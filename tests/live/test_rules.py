"""The rules under promtool: every scenario, what the alerts say, when they fire, and that the tests can fail."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragtrace.alerts import check, render, run_tests, write
from ragtrace.alerts.policy import known_registry, policy
from ragtrace.alerts.promql import selector
from ragtrace.alerts.replay import SERVICE, Phase, judged, requests
from ragtrace.alerts.scenarios import wilson_bound
from ragtrace.alerts.settings import read_settings
from ragtrace.triage import read_payload
from tests.alerts.mutants import MUTANTS, Mutant, failing

AWKWARD = 'it\'s "quoted" $HOME `x` \\ é'
SOME = [mutant for mutant in MUTANTS if mutant.name in ("no gate", "no bound", "no silence beside upstream")]

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is missing; apt-get install prometheus"
)


def test_every_scenario_holds(tmp_path: Path) -> None:
    """Under the shipped settings, as they stand in alerts/generated/."""
    write(tmp_path, render())
    found = run_tests(tmp_path)
    assert found.good, found.said


def test_scenarios_follow_the_settings(tmp_path: Path) -> None:
    """Another objective, other windows and owners, and the same scenarios hold."""
    own: dict[str, Any] = {
        "targets": {"qc": 0.97, "eo": 0.96},
        "owners": {"ranking": "rankers"},
        "burn_rates": {"page": [{"short": "10m", "long": "40m", "factor": 5, "minimum": 4}]},
        "hold": {"page": {"retrieval": "1m", "ranking": "5m", "generation": "8m", "citation": "8m"}},
    }
    config = tmp_path / "own.yaml"
    config.write_text(yaml.safe_dump(own), encoding="utf-8")
    files = render(config)
    body = yaml.safe_load(files["tests.yml"])
    names = {"selection failure", "later stage burns first", "few requests, bad by chance", "slow recall failure"}
    body["tests"] = [test for test in body["tests"] if test["name"] in names]
    assert len(body["tests"]) == len(names)
    write(tmp_path, files | {"tests.yml": yaml.safe_dump(body)})
    found = run_tests(tmp_path)
    assert found.good, found.said
    assert 'owner="rankers"' in files["tests.yml"]


@pytest.mark.parametrize("mutant", SOME, ids=lambda mutant: mutant.name)
def test_a_rule_without_one_of_its_conditions_fails(mutant: Mutant) -> None:
    """Three of `make alert-mutants`."""
    assert failing(mutant, mutant.scenario)


@pytest.mark.parametrize("scale", [1.0, 60.0, 600.0])
def test_promtool_and_amtool_accept_what_is_rendered(tmp_path: Path, scale: float) -> None:
    """At every time scale."""
    write(tmp_path, render(time_scale=scale))
    for found in check(tmp_path):
        assert found.good, found.said


def test_routes_lead_to_the_owners(tmp_path: Path) -> None:
    """As Alertmanager's own program reads them, a segment's owner first."""
    if shutil.which("amtool") is None:
        pytest.skip("amtool is missing; apt-get install prometheus-alertmanager")
    config = tmp_path / "own.yaml"
    config.write_text("segments: [{service: shop, segment: legal, owners: {ranking: lawyers}}]\n", encoding="utf-8")
    write(tmp_path, render(config))

    def receiver(*labels: str) -> str:
        command = ["amtool", "config", "routes", "test", f"--config.file={tmp_path / 'alertmanager.yml'}", *labels]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert receiver("stage=retrieval", "severity=page", "service=shop", "segment=legal") == "retrieval-indexing-page"
    assert receiver("stage=ranking", "severity=page", "service=shop", "segment=legal") == "lawyers-page"
    assert receiver("stage=ranking", "severity=ticket", "service=shop", "segment=other") == "ranking-context-ticket"
    assert receiver("stage=generation", "severity=page") == "generation-governance-page"
    assert receiver("stage=citation", "severity=ticket") == "release-guard-ticket"
    assert receiver("stage=platform", "severity=page") == "platform-page"
    assert receiver("severity=page") == "platform-ticket"


class Fired:
    """What promtool says an alert was at a minute of a fault of query coverage."""

    def __init__(self, folder: Path, bad: float, minute: int, segment: str = "first") -> None:
        made = policy(known_registry(), read_settings())
        phases = [Phase(180), Phase(120, {"qc": bad})]
        released = {"service": SERVICE, "component": "index", "version": "v7"}
        older = {"service": SERVICE, "component": "reranker", "version": "v3"}
        series = [
            *judged(made, phases, segment),
            *requests(made, phases, segment),
            {"series": selector(made.series("release_timestamp"), released), "values": "10680x300"},
            {"series": selector(made.series("release_timestamp"), older), "values": "10800x300"},
        ]
        asked = {"eval_time": f"{minute}m", "alertname": "RagtraceQueryCoveragePage", "exp_alerts": []}
        test = {"interval": "1m", "input_series": series, "alert_rule_test": [asked]}
        files = render()
        body = yaml.safe_load(files["tests.yml"]) | {"tests": [test]}
        write(folder, files | {"tests.yml": yaml.safe_dump(body, allow_unicode=True)})
        command = ["promtool", "test", "rules", str(folder / "tests.yml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.firing = done.returncode != 0
        self.said = done.stdout + done.stderr

    def annotation(self, name: str) -> str:
        """The value of an annotation, as it would be sent."""
        found = re.search(rf'\b{name}=("(?:[^"\\]|\\.)*")', self.said)
        assert found is not None, self.said
        return str(json.loads(found[1]))


def test_a_page_says_what_is_known(tmp_path: Path) -> None:
    """Values, segment, the newest release of the stage's components, and links with the labels in them."""
    page = Fired(tmp_path, 0.8, 240, AWKWARD)
    assert page.annotation("summary") == f"retrieval: query coverage is bad in {AWKWARD} of {SERVICE}"
    told = page.annotation("description")
    assert "At least 75.9% of the requests are bad, at most 5% may be." in re.sub(r"(\d\.\d)\d*%", r"\1%", told)
    assert "Last 30m: 80% of 300 requests by proxy;" in told
    assert page.annotation("release") == "index=v7 at 1970-01-01 02:58:00 +0000 UTC"
    assert page.annotation("runbook") == "docs/runbooks/query-coverage.md"
    assert page.annotation("dashboard").startswith(
        "http://localhost:3000/d/ragtrace-retrieval?var-service=ragtrace-test"
    )


def test_the_triage_command_survives_a_shell(tmp_path: Path) -> None:
    """Whatever stands in a label, triage reads the alert from the command's pipe."""
    command = Fired(tmp_path, 0.8, 240, AWKWARD).annotation("triage")
    piped, _, program = command.rpartition(" | ")
    assert program == "ragtrace triage alert -"
    done = subprocess.run(["sh", "-c", piped], capture_output=True, check=True)
    (alert,) = read_payload(done.stdout).alerts
    assert alert.labels == {
        "alertname": "RagtraceQueryCoveragePage",
        "severity": "page",
        "stage": "retrieval",
        "service": SERVICE,
        "segment": AWKWARD,
    }
    assert alert.started_at == 240 * 60 * 10**9


@pytest.mark.parametrize(("bad", "silent", "firing"), [(1.0, 13, 18), (0.6, 22, 28), (0.4, 44, 54)])
def test_worse_faults_page_sooner(tmp_path: Path, bad: float, silent: int, firing: int) -> None:
    """Minutes after the onset of a fault, with ten requests a minute."""
    assert not Fired(tmp_path, bad, 180 + silent).firing
    assert Fired(tmp_path, bad, 180 + firing).firing


@pytest.mark.parametrize(("bad", "total"), [(0, 3), (1, 3), (2, 4), (30, 60), (60, 60), (1, 1)])
def test_the_recorded_bound_is_wilsons(tmp_path: Path, bad: int, total: int) -> None:
    """What promtool computes equals the formula; the scenarios choose their numbers by it."""
    labels = {"service": "s", "segment": "x", "metric": "qc", "reference": "proxy"}
    counted = {**labels, "scope": "conditional", "stratum": "random"}
    good = total - bad
    expected = wilson_bound(bad, total, 1.645)
    wanted = {"expr": 'round(ragtrace:sli_bad:wilson1h{metric="qc"} * 1e4)', "eval_time": "61m"}
    sample = {"labels": selector("", labels), "value": round(expected * 1e4)}
    test = {
        "interval": "1m",
        "input_series": [
            {"series": selector("ragtrace_sli_requests_total", counted), "values": f"0x1 {total}x60"},
            {"series": selector("ragtrace_sli_good_requests_total", counted), "values": f"0x1 {good}x60"},
        ],
        "promql_expr_test": [wanted | {"exp_samples": [sample]}],
    }
    files = render()
    body = yaml.safe_load(files["tests.yml"]) | {"tests": [test]}
    write(tmp_path, files | {"tests.yml": yaml.safe_dump(body)})
    command = ["promtool", "test", "rules", str(tmp_path / "tests.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
