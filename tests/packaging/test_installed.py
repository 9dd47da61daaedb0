"""The wheel at work: installed in a fresh environment, with the sources out of the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragtrace.installation import FOLDERS

if TYPE_CHECKING:
    from tests.packaging.conftest import Built


class Environment:
    """A virtual environment with the wheel in it; its commands run in an empty folder."""

    def __init__(self, folder: Path, cwd: Path) -> None:
        self.bin = folder / "bin"
        self.cwd = cwd

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, with nothing of the outer environment's Python settings."""
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "RAGTRACE"))}
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.cwd,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel in an environment that borrows this one's dependencies, but not its ragtrace."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(built.wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    purelib = Path(sysconfig.get_path("purelib"))
    (site_packages,) = folder.glob("lib/python*/site-packages")
    # A path line, not a site directory: the .pth of an editable ragtrace in there is not followed.
    (site_packages / "dependencies.pth").write_text(f"{purelib}\n")
    return Environment(folder, tmp_path_factory.mktemp("elsewhere"))


def test_import_comes_from_the_wheel(installed: Environment) -> None:
    """`import ragtrace` finds the installed package, not the checkout."""
    done = installed.run("python", "-c", "import ragtrace; print(ragtrace.__file__)")

    assert done.stdout.strip().startswith(str(installed.bin.parent)), done.stderr


@pytest.mark.parametrize("name", FOLDERS)
def test_resources_finds_the_packaged_folder(installed: Environment, name: str) -> None:
    """`installation.folder` gives the copy in the wheel, with its files."""
    program = (
        f"from ragtrace.installation import folder; f = folder({name!r}); print(f); print(len(list(f.rglob('*'))))"
    )
    done = installed.run("python", "-c", program)

    assert done.returncode == 0, done.stderr
    folder, files = done.stdout.split()
    assert folder.endswith(f"ragtrace/_share/{name}")
    assert int(files) >= 1


def test_wheel_migrates_reports_and_exports(installed: Environment) -> None:
    """The installed command makes a database from the packaged migrations, finds it healthy, and exports it."""
    store = ("--store", "sqlite:///wheel.db")
    upgrade = installed.run("ragtrace", "db", "upgrade", *store)
    doctor = installed.run("ragtrace", "doctor", "--json", *store)
    export = installed.run("ragtrace", "export", "--once", *store)

    assert upgrade.returncode == 0, upgrade.stderr
    assert (installed.cwd / "wheel.db").is_file()
    assert doctor.returncode == 0, doctor.stderr
    report = json.loads(doctor.stdout)
    assert report["store"]["revision"] == report["store"]["head"]
    assert export.returncode == 0, export.stderr
    assert "# TYPE ragtrace_build_info gauge" in export.stdout


def test_module_and_command_are_the_same(installed: Environment) -> None:
    """`python -m ragtrace --version` and `ragtrace --version` print the installed version."""
    command, module = installed.run("ragtrace", "--version"), installed.run("python", "-m", "ragtrace", "--version")

    assert command.stdout == module.stdout == "ragtrace 0.1.0.dev0\n"
