"""The generator: what it refuses, what it writes, and how it compares."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragtrace import installation
from ragtrace.derive import OUTPUTS, differing, main, render, schema_text, write
from ragtrace.errors import RegistryError
from ragtrace.registry.authored import read

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the shipped metrics/ and no generated file yet."""
    shutil.copytree(installation.folder("metrics"), tmp_path / "metrics")
    shutil.copytree(installation.folder("alerts"), tmp_path / "alerts", ignore=shutil.ignore_patterns("generated"))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "ragtrace"\n', encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "ragtrace" / "registry").mkdir(parents=True)
    monkeypatch.setattr(installation, "_PACKAGE", tmp_path / "ragtrace")
    return tmp_path


def _edit(checkout: Path, file: str, entry: str, change: Edit) -> None:
    path = checkout / "metrics" / file
    body = yaml.safe_load(path.read_text(encoding="utf-8"))
    entries = next(iter(body.values()))
    change(next(one for one in entries if one["id"] == entry))
    path.write_text(yaml.safe_dump(body, allow_unicode=True, sort_keys=False), encoding="utf-8")


def _set(**changes: Any) -> Edit:
    return lambda entry: entry.update(changes)


REFUSED: list[tuple[Edit, str]] = [
    (_set(color="red"), "unknown field `color`"),
    (lambda entry: entry.pop("unit"), "missing required field `unit`"),
    (_set(type="event"), "Invalid value 'event'"),
    (_set(instrument="summary"), "Invalid enum value 'summary'"),
    (_set(id="query_coverage"), "id 'query_coverage' stands there twice"),
    (_set(id="Evidence-Recall"), "must be lower_snake_case"),
    (_set(metric_name="ragtrace_query_coverage_ratio"), "also that of 'query_coverage'"),
    (_set(metric_name="ragtrace.evidence.recall"), "must be ragtrace_lower_snake_case"),
    (_set(metric_name="evidence_recall_ratio"), "must be ragtrace_lower_snake_case"),
    (_set(metric_name="ragtrace_evidence_recall_sum"), "ends as a histogram's series do"),
    (_set(metric_name="ragtrace_evidence_recall_ratio_total"), "end with _total"),
    (_set(metric_name="ragtrace_evidence_recall"), "must end with _ratio"),
    (_set(unit="{chunk}"), "must end in no unit"),
    (_set(unit="percent"), "unit 'percent' is none of 1, s, By"),
    (_set(owner="release-guard"), "owner 'release-guard' of stage ranking must be 'ranking-context'"),
    (_set(owner="ranking-context", stage="reranking"), "stage 'reranking' is none of stages.yaml: retrieval, ranking"),
    (_set(stage=None), "must be 'platform'"),
    (_set(buckets=[0, 0.5, 0.5, 1]), "must increase"),
    (_set(buckets=[1, 0.5]), "must increase"),
    (_set(buckets=[]), "histograms, and only they, have buckets"),
    (_set(objective=1.5), "objective 1.5 of a ratio"),
    (_set(objective={"threshold": 0.9, "target": 0.95}), "Expected `float | null`, got `object`"),
    (_set(better="more"), "Invalid enum value 'more'"),
    (_set(better=None), "a score of coverage needs stage, and better: higher or lower"),
    (_set(analysis=None), "analysis and computed_by stand together, or neither"),
    (_set(analysis=None, computed_by=None), "only a score has better, objective, gate, triage, flag; give analysis"),
    (_set(analysis="retrieval"), "Invalid enum value 'retrieval'"),
    (_set(analysis="attribution"), "gate, triage and flag read scores of coverage only"),
    (_set(instrument="gauge", buckets=[]), "a score is a histogram"),
    (_set(attributes=[{"ref": "source"}]), r"attributes \['source'\]: a score is counted by service, segment"),
    (_set(objective=None), "flag 'low_coverage' needs an objective"),
    (_set(flag="Low Coverage"), "flag 'Low Coverage' must be lower_snake_case"),
    (_set(gate={"margin": 1.5}), r"gate: margin 1.5 must lie in \(0, 1\)"),
    (_set(gate={"margins": 0.1}), "unknown field `margins`"),
    (_set(gate={"guardrail_after": ["llm"]}), r"guardrail_after \['llm'\] is none of stages.yaml: retriever, index"),
    (_set(gate={"guardrail": True}, hint=True), "a hint warns and never blocks"),
    (_set(attributes=[{"ref": "tenant"}]), r"attributes \['tenant'\] are not in attributes.yaml"),
    (_set(attributes=[{"ref": "service"}, {"ref": "service"}]), "an attribute stands there twice"),
    (_set(computed_by="ragtrace.coverage.evidence_recall"), "must be ragtrace.module:function"),
    (_set(runbook="Query Coverage"), "runbook 'Query Coverage' must be the name of a page"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_entry_that_does_not_fit_is_refused(checkout: Path, change: Edit, message: str) -> None:
    """What does not fit is an error that names the file and says what is wrong."""
    _edit(checkout, "coverage.yaml", "evidence_recall", change)
    with pytest.raises(RegistryError, match=message) as caught:
        read(checkout / "metrics")
    assert str(caught.value).startswith("coverage.yaml: ")


def test_message_names_the_entry(checkout: Path) -> None:
    """The message names the entry by its id, or by its position where it has none."""
    _edit(checkout, "coverage.yaml", "evidence_recall", _set(buckets=[2, 1]))
    with pytest.raises(RegistryError, match=r"^coverage\.yaml: evidence_recall: buckets"):
        read(checkout / "metrics")
    _edit(checkout, "coverage.yaml", "joint_query_coverage", lambda entry: entry.pop("id"))
    with pytest.raises(RegistryError, match=r"^coverage\.yaml: entry 2: .*`id`"):
        read(checkout / "metrics")


def test_counter_without_total_is_refused(checkout: Path) -> None:
    """A counter's name ends with _total."""
    _edit(checkout, "requests.yaml", "requests", _set(metric_name="ragtrace_requests"))
    with pytest.raises(RegistryError, match=r"requests\.yaml: requests: .*_total"):
        read(checkout / "metrics")


@pytest.mark.parametrize(
    ("file", "entry", "change", "message"),
    [
        (
            "stages.yaml",
            "ranking",
            _set(id="retrieval"),
            "stages.yaml: retrieval: stage 'retrieval' stands there twice",
        ),
        ("stages.yaml", "ranking", _set(pager="x"), "stages.yaml: ranking: .*unknown field `pager`"),
        ("stages.yaml", "ranking", _set(target=1.0), r"stages.yaml: ranking: target 1.0 must lie in \(0, 1\)"),
        ("stages.yaml", "ranking", lambda entry: entry.pop("target"), "ranking: .*missing required field `target`"),
        (
            "stages.yaml",
            "ranking",
            _set(gate={"broken": {}, "suspected": {}, "not_known": {"blocks": "never"}}),
            "ranking: gate: suspected proves no break and never blocks; give blocks: never",
        ),
        (
            "stages.yaml",
            "generation",
            lambda entry: entry["refusals"].update(untold_refusals={}),
            "generation: refusals: untold_refusals proves no break and never blocks; give blocks: never",
        ),
        (
            "stages.yaml",
            "ranking",
            lambda entry: entry["gate"].pop("broken"),
            "ranking: .*missing required field `broken`",
        ),
        ("stages.yaml", "ranking", _set(runbook="Rank Shift"), "ranking: runbook 'Rank Shift' must be the name of"),
        ("gate.yaml", "latency", _set(blocks="always"), "gate.yaml: latency: moves with load, .*; give blocks: never"),
        ("gate.yaml", "errors", _set(margin=1.5), r"gate.yaml: errors: margin 1.5 must lie in \(0, 1\)"),
        ("gate.yaml", "latency", _set(id="output_tokens"), "gate.yaml: output_tokens: .* stands there twice; keep one"),
        ("gate.yaml", "errors", _set(id="mistakes"), "gate.yaml: mistakes: Invalid enum value 'mistakes'"),
        (
            "attributes.yaml",
            "labels",
            lambda e: e["attributes"].append(e["attributes"][0]),
            "'service' stands there twice",
        ),
        ("attributes.yaml", "labels", lambda e: e["attributes"][0].update(id="le"), "'le' cannot be a label name"),
    ],
)
def test_stages_and_labels_are_checked(checkout: Path, file: str, entry: str, change: Edit, message: str) -> None:
    """Stages and labels that do not fit are refused as metrics are."""
    _edit(checkout, file, entry, change)
    with pytest.raises(RegistryError, match=message):
        read(checkout / "metrics")


@pytest.mark.parametrize("text", ["groups: [", "", "groups: 3", "metrics: []", "groups: []\nmore: 1", "- a", "\x00"])
def test_file_of_another_shape_is_refused(checkout: Path, text: str) -> None:
    """A file that is no list of groups is an error that names the file."""
    (checkout / "metrics" / "self.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RegistryError, match=r"^self\.yaml: "):
        read(checkout / "metrics")


def test_missing_stages_are_refused(checkout: Path) -> None:
    """Without stages.yaml nothing can be checked."""
    (checkout / "metrics" / "stages.yaml").unlink()
    with pytest.raises(RegistryError, match=r"^stages\.yaml: cannot be read"):
        read(checkout / "metrics")


def test_generated_module_reads_back_as_the_registry(checkout: Path) -> None:
    """Executing the generated module gives the values that were authored."""
    registry = read(checkout / "metrics")
    source = render(checkout / "metrics")["ragtrace/registry/instruments.py"]
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(ast.parse(source), "instruments.py", "exec"), namespace)
    assert namespace["INSTRUMENTS"] == registry.instruments
    assert namespace["STAGES"] == registry.stages
    assert namespace["ATTRIBUTES"] == registry.attributes
    assert namespace["BUDGETS"] == registry.budgets
    assert set(namespace["__all__"]) <= set(namespace)


def test_generated_files_say_so_first() -> None:
    """The head of every generated file names the command that makes it."""
    for path, text in render(installation.folder("metrics")).items():
        head = text.split("\n")[1 if path.endswith(".json") else 0]
        assert "Generated by `python -m ragtrace.derive`" in head


def test_check_names_the_files_that_differ(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` fails on missing and on edited files, names them, and writes nothing."""
    paths = [path for path, _ in OUTPUTS]
    assert main(["--check"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == paths
    assert differing(checkout) == paths

    assert main([]) == 0
    assert main(["--check"]) == 0
    (checkout / "docs" / "reference" / "metrics.md").write_text("edited", encoding="utf-8")
    capsys.readouterr()
    assert main(["--check"]) == 1
    assert capsys.readouterr().out.startswith("docs/reference/metrics.md differs")


def test_second_run_changes_nothing(checkout: Path) -> None:
    """Writing is idempotent and touches only what differs."""
    assert write(checkout) == [path for path, _ in OUTPUTS]
    assert write(checkout) == []


def test_a_new_metric_is_one_entry(checkout: Path) -> None:
    """An entry added to the YAML appears in the module and on the page."""
    path = checkout / "metrics" / "self.yaml"
    path.write_text(
        path.read_text(encoding="utf-8")
        + "\n  - {id: spool_size, type: metric, metric_name: ragtrace_spool_size_bytes, brief: Spool., "
        "instrument: gauge, unit: By, owner: platform}\n",
        encoding="utf-8",
    )
    write(checkout)
    assert "SPOOL_SIZE: Final" in (checkout / "ragtrace" / "registry" / "instruments.py").read_text(encoding="utf-8")
    assert "`ragtrace_spool_size_bytes`" in (checkout / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def test_error_is_one_line_and_exit_code_2(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A registry that does not fit ends the command with the message alone."""
    _edit(checkout, "coverage.yaml", "evidence_recall", _set(owner="nobody"))
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("coverage.yaml: evidence_recall: owner 'nobody'")


def test_installed_package_generates_nothing(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outside a checkout the command refuses."""
    (checkout / "pyproject.toml").unlink()
    assert main([]) == 2
    assert "in a checkout of ragtrace only" in capsys.readouterr().err


def test_a_schema_reads_the_same_whatever_msgspec_leaves_of_a_docstring() -> None:
    """Some versions keep the indentation of its lines, others take it away."""
    left, taken = ({"$defs": {"A": {"description": f"What it is.\n\n{space}What for."}}} for space in ("    ", ""))
    assert schema_text(left, "title", "source") == schema_text(taken, "title", "source")
