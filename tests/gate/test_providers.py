"""The gate's column of providers: whose documents lost places by the candidate, and that it decides nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtrace.gate.reports import Format, render
from ragtrace.gate.runs import run
from ragtrace.gate.types import GateReport
from ragtrace.store import Finished, Store
from ragtrace.types import Diagnosis, StageFinding, replace
from tests.analyze.test_exposure_report import START, analysis, record

FORMS: tuple[Format, ...] = ("text", "markdown", "html")
SOUND = Diagnosis(
    verdict="no_break_found",
    stages=tuple(StageFinding(stage=each, state="sound") for each in ("retrieval", "ranking", "generation")),
)


def fill(url: str, useful_then: tuple[int, ...], useful_now: tuple[int, ...]) -> None:
    """Version i-1 packs a document of north and one of south, i-2 one of east in place of south's."""
    with Store.open(url) as store:
        for at, (version, packed, useful) in enumerate((("i-1", (0, 1), useful_then), ("i-2", (0, 2), useful_now))):
            records = [record(1000 * at + one, packed, at=START, version=version) for one in range(60)]
            store.write(records)
            by_id = {each.request_id: each for each in records}
            jobs = store.claim("test", limit=60)
            found = [replace(analysis(by_id[job.request_id], useful, (0,)), diagnosis=SOUND) for job in jobs]
            store.finish([Finished(job, each) for job, each in zip(jobs, found, strict=True)])


def gate(url: str) -> GateReport:
    """i-2 against i-1."""
    return run("version:index=i-1", "version:index=i-2", store=url, service="s")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of an empty store."""
    return f"sqlite:///{tmp_path}/gate.db"


def test_who_is_starved_stands_in_every_form(url: str) -> None:
    """With its shares on both sides; the remark says that it decides nothing."""
    fill(url, (1, 3), (1, 3))
    report = gate(url)
    assert report.providers_by == "source"
    by_name = {each.provider: each for each in report.providers}
    assert by_name["south"].exposed == (0.5, 0)
    assert by_name["south"].deserved == (0.5, 0.5)
    assert [each.starved for each in report.providers] == [True, False, False]
    assert report.providers[0].provider == "south"
    assert [each for each in report.warnings if "south from 50 % to 0 %" in each and "decides nothing" in each]
    for form in FORMS:
        text = " ".join(render(report, form).split())
        assert "Whose documents stand in prompts" in text
        assert "50.0 % → 0.0 %" in text
        assert "starved" in text
    assert {each["provider"] for each in json.loads(render(report, "json"))["providers"]} == {"north", "south", "east"}


def test_who_is_less_useful_is_not_starved(url: str) -> None:
    """South's documents answer the candidate's questions no more."""
    fill(url, (0, 1), (0, 2))
    report = gate(url)
    assert not any(each.starved for each in report.providers)
    assert not any("decides nothing" in each for each in report.warnings)


def test_it_decides_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the column the decision and all cells are the same; and the setting takes it away."""
    fill(url, (1, 3), (1, 3))
    report = gate(url)
    monkeypatch.setenv("RAGTRACE_PROVIDER", "none")
    without = gate(url)
    assert without.providers == ()
    assert (without.decision, without.cells) == (report.decision, report.cells)
    assert "Whose documents" not in render(without, "text")


def test_where_nobody_has_a_name_there_is_no_column(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All documents then count as one that names no provider."""
    fill(url, (1, 3), (1, 3))
    monkeypatch.setenv("RAGTRACE_PROVIDER", "owner")
    assert gate(url).providers == ()
