"""`ragtrace alerts` on the command line."""

from __future__ import annotations

from pathlib import Path

from ragtrace.alerts import FILES
from tests.cli.conftest import Cli


def test_render_writes_every_file(cli: Cli, tmp_path: Path) -> None:
    """Into the folder that is named, with one's own settings, and says so."""
    (tmp_path / "own.yaml").write_text("targets: {retrieval: 0.96}\n")
    done = cli("alerts", "render", "--config", "own.yaml", "--out", "made", "--time-scale", "60")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == sorted(FILES)
    assert "0.04 * group by" in (tmp_path / "made" / "recording.yml").read_text()
    assert "increase1h\n" in (tmp_path / "made" / "recording.yml").read_text()
    assert "[1m])" in (tmp_path / "made" / "recording.yml").read_text()
    assert "wrote made/alerts.yml" in done.stdout


def test_settings_that_cannot_be_used_are_one_line(cli: Cli, tmp_path: Path) -> None:
    """With the value and the remedy, and exit code 2."""
    (tmp_path / "own.yaml").write_text("targets: {retrieval: 0.8}\n")
    done = cli("alerts", "check", "--config", "own.yaml")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "factor 9 at a target of retrieval of 0.8 needs a bad ratio of 180%" in done.stderr


def test_check_says_who_looked(cli: Cli) -> None:
    """promtool and amtool where they are, ragtrace itself where they are not."""
    done = cli("alerts", "check")
    assert done.returncode == 0
    assert done.stdout.count(": good") == 2
    without = cli("alerts", "check", PATH="/nowhere")
    assert without.returncode == 0
    assert without.stdout.count("ragtrace: good") == 2


def test_scenarios_without_promtool_are_an_error(cli: Cli) -> None:
    """Exit code 2, and what to install."""
    done = cli("alerts", "test", PATH="/nowhere")
    assert done.returncode == 2
    assert "apt-get install prometheus" in done.stderr


def test_a_folder_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    """One line with the folder and the remedy."""
    (tmp_path / "file").write_text("")
    done = cli("alerts", "render", "--out", str(tmp_path / "file" / "rules"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"cannot write into {tmp_path / 'file' / 'rules'}" in done.stderr
    assert "give another --out" in done.stderr
