"""Finding the folders beside the package: packaged copy, checkout, neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace import installation
from ragtrace.errors import ConfigurationError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for the package, with nothing beside it."""
    place = tmp_path / "site" / "ragtrace"
    place.mkdir(parents=True)
    monkeypatch.setattr(installation, "_PACKAGE", place)
    return place


def _declare(package: Path, text: str) -> None:
    (package.parent / "pyproject.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", installation.FOLDERS)
def test_every_folder_is_found_from_here(name: str) -> None:
    """Each of the folders exists for the package that is running."""
    assert installation.folder(name).is_dir()


def test_packaged_copy_comes_before_the_checkout(package: Path) -> None:
    """Where both exist, the copy inside the package is taken."""
    _declare(package, '[project]\nname = "ragtrace"\n')
    (package.parent / "metrics").mkdir()
    (package / "_share" / "metrics").mkdir(parents=True)
    assert installation.folder("metrics") == package / "_share" / "metrics"


def test_checkout_is_known_by_its_own_pyproject(package: Path) -> None:
    """Without a packaged copy the checkout's folder is taken."""
    _declare(package, '[project]\nname = "ragtrace"\n')
    (package.parent / "metrics").mkdir()
    assert installation.checkout() == package.parent
    assert installation.folder("metrics") == package.parent / "metrics"


@pytest.mark.parametrize("text", [None, '[project]\nname = "shop"\n', "[project", "project = 1\n", ""])
def test_another_projects_folder_is_never_taken(package: Path, text: str | None) -> None:
    """A folder beside the package counts only when ragtrace's own pyproject.toml stands there."""
    if text is not None:
        _declare(package, text)
    (package.parent / "metrics").mkdir()
    assert installation.checkout() is None
    with pytest.raises(ConfigurationError, match="install ragtrace from its wheel again"):
        installation.folder("metrics")


@pytest.mark.parametrize("name", ["metric", "", "../etc", "tests"])
def test_unknown_folder_is_refused(name: str) -> None:
    """A name that is none of ours is an error that lists the allowed ones."""
    with pytest.raises(ConfigurationError, match="alerts, collectors, dashboards, metrics, migrations, docs/runbooks"):
        installation.folder(name)
