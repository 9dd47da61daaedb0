"""The rendered rules: complete, named, explained, and of nothing but known series."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragtrace import resources
from ragtrace.alerts import render
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from tests.alerts.conftest import Written

OWNERS = {stage.name: stage.owner for stage in STAGES} | {"platform": "platform"}
SECTIONS = ["What it means", "Check, in this order", "Mitigate", "Confirm recovery"]


def rules(name: str, **arguments: Any) -> list[dict[str, Any]]:
    """The rules of one rendered file."""
    body = yaml.safe_load(render(**arguments)[name])
    return [rule for group in body["groups"] for rule in group["rules"]]


ALERTS = rules("alerts.yml")


def test_every_indicator_has_a_page_and_a_ticket() -> None:
    """Named after its metric."""
    names = {rule["alert"] for rule in ALERTS}
    for instrument in INSTRUMENTS.values():
        if instrument.sli is not None:
            signal = instrument.id.title().replace("_", "")
            assert {f"Ragtrace{signal}Page", f"Ragtrace{signal}Ticket"} <= names


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_says_whose_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    """Severity, stage, owner; a summary, values, links, and for a stage a suspected release and a command."""
    labels, told = rule["labels"], rule["annotations"]
    assert labels["severity"] in ("page", "ticket")
    assert labels["owner"] == OWNERS[labels["stage"]]
    assert told["summary"].startswith(f"{labels['stage']}: ")
    assert told["runbook"].startswith("docs/runbooks/")
    assert re.match(r"http://localhost:3000/d/ragtrace-\w+", told["dashboard"])
    if labels["stage"] != "platform":
        assert "ragtrace_release_timestamp_seconds" in told["release"]
        assert told["triage"].endswith("| ragtrace triage alert -")


def test_alerts_and_runbooks_are_the_same_set() -> None:
    """Each alert has a page that names it and has every section; no page is for nothing, and none stays unlisted."""
    root = resources.checkout()
    if root is None:
        pytest.skip("docs/ is not part of the wheel")
    pages = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs" / "runbooks").glob("*.md")}
    for rule in ALERTS:
        page = pages[Path(rule["annotations"]["runbook"]).name]
        assert f"`{rule['alert']}`" in page
        assert f"Owner: {rule['labels']['owner']}." in " ".join(page.split())
    named = {name for text in pages.values() for name in re.findall(r"`(Ragtrace\w+)`", text.split("## ")[0])}
    assert named == {rule["alert"] for rule in ALERTS}
    for name, text in pages.items():
        assert re.findall("^## (.*)$", text, re.MULTILINE) == SECTIONS, name
    listing = (root / "docs" / "alerts.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(Ragtrace\w+)`", listing))
    assert listed == {re.sub("(Page|Ticket)$", "", name) for name in named}


def test_rules_use_known_series_only() -> None:
    """Those of the registry, `up`, and those that are recorded before they are used."""
    known = {one.name + part for one in INSTRUMENTS.values() for part in ("", "_sum", "_count")}
    recorded = [rule["record"] for rule in rules("recording.yml")]
    assert len(set(recorded)) == len(recorded)
    for rule in [*rules("recording.yml"), *ALERTS]:
        assert set(re.findall(r"\bragtrace[_:][\w:]+", rule["expr"])) <= known | set(recorded), rule


def test_time_scale_changes_durations_alone() -> None:
    """Names of series, labels and texts are the same; every window and wait is shorter."""
    scaled = {rule["alert"]: rule for rule in rules("alerts.yml", time_scale=60)}
    for rule in ALERTS:
        other = scaled[rule["alert"]]
        assert other["labels"] == rule["labels"]
        assert other["annotations"]["summary"] == rule["annotations"]["summary"]
        names = re.compile(r"\bragtrace[\w:]+")
        assert names.findall(other["expr"]) == names.findall(rule["expr"])
        if "[" in rule["expr"]:
            assert other["expr"] != rule["expr"]
    page = scaled["RagtraceQueryCoveragePage"]
    assert (page["for"], page["keep_firing_for"]) == ("2s", "5s")
    assert "[1s]" not in str(ALERTS)
    citation = scaled["RagtraceCitationCoveragePage"]["expr"]
    assert "> time() - 360)" in citation


def test_own_targets_make_own_budgets(written: Written) -> None:
    """The first override that fits counts before the target of the metric; a silenced segment has no budget."""
    segments = [
        {"service": "shop", "segment": "legal", "targets": {"qc": 0.99}},
        {"segment": "canary", "alert": False},
    ]
    (budget,) = [
        rule["expr"]
        for rule in rules("recording.yml", config=written(targets={"eo": 0.9}, segments=segments, burn_rates=PAIRS))
        if rule["record"] == "ragtrace:sli:budget"
    ]
    known = "ragtrace:sli_requests:increase6h"  # the longest window that is recorded often
    by = "group by (service, segment, metric)"
    assert budget.split("\n") == [
        "(",
        f'0.01 * {by} ({known}{{service="shop", segment="legal", metric=~"qc"}})',
        "or",
        f'0.1 * {by} ({known}{{service="shop", segment="legal", metric=~"eo"}})',
        "or",
        f'0.05 * {by} ({known}{{service="shop", segment="legal", metric=~"ac|contradiction|cc"}})',
        "or",
        f'0.05 * {by} ({known}{{segment="canary", metric=~"qc|ac|contradiction|cc"}})',
        "or",
        f'0.1 * {by} ({known}{{segment="canary", metric=~"eo"}})',
        "or",
        f'0.05 * {by} ({known}{{metric=~"qc|ac|contradiction|cc"}})',
        "or",
        f'0.1 * {by} ({known}{{metric=~"eo"}})',
        ")",
        f'unless on (service, segment) ({known}{{segment="canary"}}',
        f'  unless on (service, segment) {known}{{service="shop", segment="legal"}})',
    ]


PAIRS = {
    "page": [{"short": "5m", "long": "30m", "factor": 5, "minimum": 3}],
    "ticket": [{"short": "2h", "long": "1d", "factor": 1, "minimum": 3}],
}
