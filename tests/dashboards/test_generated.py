"""The dashboards' files: derived in one run, whatever changed, and left alone where their SDK is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ragtrace import installation
from ragtrace.dashboards import FILES

ROOT = Path(__file__).resolve().parents[2]

WITHOUT_SDK = """
import importlib.util
import sys

find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *given: None if name == "grafana_foundation_sdk" else find_spec(name, *given)

from ragtrace.derive import OUTPUTS, main

print([path for path, _ in OUTPUTS if path.startswith("dashboards/")])
main(["--check"])
print("grafana_foundation_sdk" in sys.modules)
"""


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_file_is_there() -> None:
    """One file for each dashboard, and no other."""
    generated = installation.folder("dashboards") / "generated"
    assert sorted(path.name for path in generated.iterdir()) == sorted(FILES)


def test_without_its_sdk_the_check_works_for_the_others() -> None:
    """The dashboards are left as they are, which is said, and the SDK is not asked for."""
    done = _python(ROOT, "-c", WITHOUT_SDK)
    assert done.stdout.startswith("[]\n"), done.stderr
    assert done.stdout.endswith("False\n")
    assert "dashboards/generated" not in done.stdout
    assert "dashboards/ is left as it is: grafana-foundation-sdk is missing" in done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the checkout, as far as generating needs it."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("ragtrace", "metrics", "alerts", "dashboards"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_a_changed_brief_and_target_arrive_in_one_run(copy: Path) -> None:
    """What the entries of a metric and of a stage say stands on the panels after one run of the generator."""
    for name, before, after in (
        ("coverage.yaml", "Share of the query's required facets", "A new brief of facets"),
        ("stages.yaml", "target: 0.95", "target: 0.97"),
    ):
        entry = copy / "metrics" / name
        text = entry.read_text(encoding="utf-8")
        assert before in text
        entry.write_text(text.replace(before, after, 1), encoding="utf-8")

    done = _python(copy, "-m", "ragtrace.derive")

    assert done.returncode == 0, done.stderr
    assert _python(copy, "-m", "ragtrace.derive", "--check").stdout == ""
    dashboard = json.loads((copy / "dashboards/generated/ragtrace-retrieval.json").read_text(encoding="utf-8"))
    (panel,) = (each for each in dashboard["panels"] if each["type"] == "stat")
    assert "sound in 97 % of the requests" in panel["description"]
    assert [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]] == [None, 0.94, 0.97]
    assert any("A new brief of facets" in each.get("description", "") for each in dashboard["panels"])
