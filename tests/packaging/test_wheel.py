"""What the wheel and the sdist carry."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

from ragtrace.installation import FOLDERS

if TYPE_CHECKING:
    from tests.packaging.conftest import Built


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_the_package_and_the_shared_folders_and_nothing_else(built: Built) -> None:
    """Every file under version control of the package and the shared folders is in the wheel, and no other file."""
    expected = {name for name in built.files if name.startswith("ragtrace/")}
    expected |= {
        f"ragtrace/_share/{name}" for name in built.files if name.startswith(tuple(f"{one}/" for one in FOLDERS))
    }
    metadata = {name for name in _names(built.wheel) if ".dist-info/" in name}

    assert _names(built.wheel) - metadata == expected
    assert {name.split("/", 1)[1] for name in metadata} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_every_shared_folder_is_in_the_wheel(built: Built) -> None:
    """Each folder that `installation.folder` promises has at least one file in the wheel."""
    shipped = {name.rpartition("/")[0] for name in _names(built.wheel) if name.startswith("ragtrace/_share/")}

    assert {one for one in FOLDERS if any(f"{name}/".startswith(f"ragtrace/_share/{one}/") for name in shipped)} == set(
        FOLDERS
    )


def test_sdist_holds_every_file_under_version_control(built: Built) -> None:
    """The sdist is the checkout: all of its files, none that version control ignores."""
    with tarfile.open(built.sdist) as archive:
        names = {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}

    assert names - {"PKG-INFO"} == built.files


def test_editable_wheel_carries_no_copies(built: Built, tmp_path: Path) -> None:
    """An editable install reads the checkout's folders: it has no copy that could go stale."""
    program = f"from hatchling.build import build_editable; build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=built.checkout, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")

    assert any(name.endswith(".pth") for name in _names(wheel))
    assert not [name for name in _names(wheel) if "_share" in name]


def test_a_plain_install_brings_what_a_host_needs_and_no_more(built: Built) -> None:
    """OpenTelemetry's API, msgspec, and what storing takes: `pip install ragtrace` puts nothing else into a host."""
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(archive.read(name).decode())
    core = [requirement for requirement in fields.get_all("Requires-Dist", []) if "extra ==" not in requirement]
    names = {re.split(r"[<>=!~ ]", requirement)[0].lower() for requirement in core}

    assert names == {"alembic", "msgspec", "opentelemetry-api", "sqlalchemy", "zstandard"}


def test_extras_are_the_documented_ones(built: Built) -> None:
    """The wheel offers the extras of docs/how-to/installing.md, each by the name that stands there."""
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(archive.read(name).decode())
    document = (built.checkout / "docs" / "how-to" / "installing.md").read_text(encoding="utf-8")

    extras = fields.get_all("Provides-Extra", [])
    assert len(extras) == 20
    assert [extra for extra in extras if f"`{extra}`" not in document] == []
