"""One simulated service, of which a release starves a provider while another's documents become less useful: alert,
panel, triage and report name the one and its release, and not the other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragtrace.alerts import render, write
from ragtrace.alerts._traffic import gauge, ramp
from ragtrace.analyze._totals import analysis_deltas
from ragtrace.analyze.exposure_report import exposure_report
from ragtrace.dashboards.contents.documents import EXPOSURE
from ragtrace.store import Finished, Store
from ragtrace.triage import Window, triage_segment
from ragtrace.types import RequestRecord
from tests.analyze.test_exposure_report import MINUTE, START, analysis, record

HALF = START + 30 * MINUTE
STEP = 5  # minutes between samples
BEFORE, AFTER = 24 * 60, 6 * 60  # minutes on either side of the release, as Prometheus sees them
MANY = 60  # requests on either side
STARVED, IRRELEVANT = "north", "east"


pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is missing; apt-get install prometheus"
)


def serve(store: Store, released: str) -> list[dict[tuple[str, tuple[tuple[str, str], ...]], float]]:
    """The service before and after: the totals that it exports at both ends.

    First each of three providers has one useful document, which stands in the prompt and is used. Then the prompt holds
    two of south: north's document stays useful and is passed over, east's answers the questions no more.
    """
    totals = []
    for at, packed, useful, used, version in (
        (START, (0, 1, 2), (0, 1, 2), (0, 1, 2), "r-1"),
        (HALF, (1, 4), (0, 1), (1, 4), released),
    ):
        records = [
            record(at // MINUTE % 1000 * 1000 + one, packed, at=at, versions={"reranker": version})
            for one in range(MANY)
        ]
        store.write(records)
        by_id = {each.request_id: each for each in records}
        store.finish([_finished(job, by_id[job.request_id], useful, used) for job in store.claim("test", limit=MANY)])
        totals.append({(each.name, each.labels): each.value for each in store.totals()})
    return totals


def _finished(job: Any, request: RequestRecord, useful: tuple[int, ...], used: tuple[int, ...]) -> Finished:
    found = analysis(request, useful, used)
    return Finished(job, found, analysis_deltas(request, found, now=request.ended_at, provider="source"))


def ask(folder: Path, totals: list[dict[Any, float]], released: str) -> str:
    """What promtool says of the rules over what the service exported, where no alert is expected; the dashboard's panel
    must show north below what it deserves, south above, and east neither."""
    write(folder, render())
    first, last = totals
    series = [
        {
            "series": f"{name}{{{', '.join(f'{key}={json.dumps(value)}' for key, value in labels)}}}",
            "values": ramp(
                [
                    (BEFORE // STEP, first.get((name, labels), 0.0)),
                    (AFTER // STEP, last[name, labels] - first.get((name, labels), 0.0)),
                ]
            ),
        }
        for name, labels in last
        if name.startswith("ragtrace_provider_")
    ]
    if released != "r-1":
        release = f'ragtrace_release_timestamp_seconds{{service="s", component="reranker", version="{released}"}}'
        series.append({"series": release, "values": gauge([((BEFORE + AFTER) // STEP + 1, BEFORE * 60.0)])})
    end = f"{BEFORE + AFTER}m"
    (panel,) = (
        panel for section in EXPOSURE.sections for panel in section.panels if panel.title == "In prompts less deserved"
    )
    shown = panel.targets[0].expr.replace("$service", ".*").replace("$__rate_interval", "3h")
    body = {
        "rule_files": ["recording.yml", "alerts.yml"],
        "evaluation_interval": "5m",
        "tests": [
            {
                "interval": f"{STEP}m",
                "input_series": series,
                "alert_rule_test": [{"eval_time": end, "alertname": "RagtraceProviderStarvedTicket", "exp_alerts": []}],
                "promql_expr_test": [
                    {
                        "expr": f"round({shown}, 0.01)",
                        "eval_time": end,
                        "exp_samples": [
                            {"labels": f'{{provider="{name}", reference="proxy", service="s"}}', "value": value}
                            for name, value in ((IRRELEVANT, 0), (STARVED, -0.5), ("south", 0.5))
                        ],
                    }
                ],
            }
        ],
    }
    file = folder / "service.yml"
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert "expr:" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(("released", "starved"), [("r-2", [STARVED]), ("r-1", [])])
def test_the_starved_one_is_named_with_its_release_everywhere(
    tmp_path: Path, released: str, starved: list[str]
) -> None:
    """By alert, triage and report, while the panel shows it; without a release nobody is called starved by one."""
    with Store.open(f"sqlite:///{tmp_path}/service.db") as store:
        totals = serve(store, released)
        triage = triage_segment(store, "s", None, Window(HALF, HALF + 30 * MINUTE, START))
        report = exposure_report(store, "s", since=HALF, until=HALF + 30 * MINUTE, before=(START, HALF))
    said = ask(tmp_path, totals, released)
    assert re.findall(r'alertname="RagtraceProviderStarvedTicket".*provider="(\w+)"', said) == starved
    assert [each.provider for each in triage.starved] == starved
    assert [each.provider for each in report.changes if each.starved] == [STARVED]
    assert report.releases == tuple(f"reranker={released}" for _ in starved)
    for _ in starved:
        assert f"reranker={released} at " in said
        assert f"reranker={released}" in triage.conclusion
