"""The set-up of a developer's machine: what `make` does once, and what it says where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def _dry_run(*arguments: str) -> list[str]:
    """The commands that make would run, without the environment of a make that runs these tests."""
    variables = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "--no-print-directory", "-n", *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )[:-1]


def _set_up(venv: Path, *arguments: str) -> None:
    """Leave in `venv` the stamps that a finished set-up leaves."""
    stamps = [line.split()[1:] for line in _dry_run(*arguments) if line.startswith("touch ")]
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    for name in (name.strip('"') for names in stamps for name in names):
        Path(name).touch()


def _failing_python(folder: Path, version: str, *, venv: bool) -> Path:
    """A stand-in for an interpreter of that version, with or without the venv module."""
    python = folder / "python"
    python.write_text(
        "#!/bin/sh\n"
        'case "$2" in\n'
        f"*ensurepip*) exit {0 if venv else 1} ;;\n"
        f"*sys.exit*) exit {1 if version < '3.11' else 0} ;;\n"
        f"*) echo {version} ;;\n"
        "esac\n"
    )
    python.chmod(0o755)
    return python


def test_torch_comes_first(tmp_path: Path) -> None:
    """The torch requirement is installed before the package, from the further index too when one is named."""
    commands = _dry_run("demo", f"VENV={tmp_path / 'v'}", "TORCH=torch==9.9", "PIP_EXTRA_INDEX=https://index.example")
    installs = [line for line in commands if " -m pip install " in line]

    assert len(installs) == 2
    assert '"torch==9.9"' in installs[0]
    assert '-e ".[otel,models]"' in installs[1]
    assert all("--extra-index-url https://index.example" in line for line in installs)


def test_second_run_sets_nothing_up(tmp_path: Path) -> None:
    """Once set up, `make demo` is the demo and nothing else."""
    venv = tmp_path / "v"
    _set_up(venv, "test", f"VENV={venv}")

    assert _dry_run("demo", f"VENV={venv}") == [f"{venv}/bin/ragtrace demo "]
    assert [line for line in _dry_run("test", f"VENV={venv}") if "pip install" in line] == []


def test_another_torch_is_installed_over_the_old_one(tmp_path: Path) -> None:
    """Naming another torch on a machine that is set up installs that one."""
    venv = tmp_path / "v"
    _set_up(venv, "demo", f"VENV={venv}")
    installs = [line for line in _dry_run("demo", f"VENV={venv}", "TORCH=torch==9.9") if "pip install" in line]

    assert '"torch==9.9"' in installs[0]


def test_old_python_is_one_clear_line(tmp_path: Path) -> None:
    """A Python that is too old is named with its version, and nothing is made."""
    python = _failing_python(tmp_path, "3.10", venv=True)
    done = subprocess.run([ROOT / ".ci" / "venv", python, tmp_path / "v"], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "is 3.10" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "v").exists()


def test_missing_python_is_one_clear_line(tmp_path: Path) -> None:
    """An interpreter that is not there is named."""
    done = subprocess.run(
        [ROOT / ".ci" / "venv", tmp_path / "none", tmp_path / "v"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert f"{tmp_path / 'none'} was not found" in done.stderr


def test_missing_venv_module_names_the_debian_package(tmp_path: Path) -> None:
    """Where venv is missing and nothing may be installed, the package to install is named."""
    python = _failing_python(tmp_path, "3.12", venv=False)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "dirname"):
        (programs / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [ROOT / ".ci" / "venv", python, tmp_path / "v"],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "sudo apt-get install python3.12-venv" in done.stderr
