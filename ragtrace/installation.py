"""The installation: which packages of the extra `analyze` are there, and the folders that stand beside the package.

An application that only records goes without the extra. The folders are metrics, alerts, dashboards, collectors,
migrations and runbooks: an installed ragtrace carries a copy of them in `ragtrace/_share/`, a checkout has them at its
top level.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from ragtrace.errors import ConfigurationError, MissingExtraError

__all__ = ["EXTRA", "FOLDERS", "PACKAGES", "checkout", "find_missing", "folder", "missing_extra", "require_analyzer"]

FOLDERS: Final = ("alerts", "collectors", "dashboards", "metrics", "migrations", "docs/runbooks")

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `name`, one of `FOLDERS`: the packaged copy first, else the checkout's.

    Raises: ConfigurationError when the name is none of ours or the folder is nowhere.
    """
    if name not in FOLDERS:
        raise ConfigurationError(f"no folder {name!r}; ragtrace has {', '.join(FOLDERS)}")
    packaged = _PACKAGE / "_share" / name
    if packaged.is_dir():
        return packaged
    root = checkout()
    if root is not None and (root / name).is_dir():
        return root / name
    raise ConfigurationError(
        f"folder {name!r} is neither in {packaged.parent} nor in a checkout of ragtrace at {_PACKAGE.parent}; "
        "install ragtrace from its wheel again"
    )


def checkout() -> Path | None:
    """The root of the checkout that this package runs from, None when it is installed.

    A folder counts as the checkout only when ragtrace's own `pyproject.toml` stands in it, so that an installed
    ragtrace never takes the host application's folders for its own.
    """
    project = _PACKAGE.parent / "pyproject.toml"
    try:
        declared = tomllib.loads(project.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    section = declared.get("project")
    named = isinstance(section, dict) and section.get("name") == "ragtrace"
    return project.parent if named else None


EXTRA: Final = "analyze"
PACKAGES: Final = {
    "dateparser": "dateparser",
    "jinja2": "jinja2",
    "numpy": "numpy",
    "packaging": "packaging",
    "pint": "pint",
    "prometheus_client": "prometheus-client",
    "pycountry": "pycountry",
    "pytz": "pytz",
    "rich": "rich",
    "sentencex": "sentencex",
    "snowballstemmer": "snowballstemmer",
    "typer": "typer",
    "yaml": "pyyaml",
}
"""Each by the module that is imported."""


def find_missing() -> str | None:
    """The first of `PACKAGES` that is not installed; none of them is loaded."""
    from importlib.util import find_spec

    return next((package for module, package in PACKAGES.items() if find_spec(module) is None), None)


def require_analyzer() -> None:
    """Raises: MissingExtraError unless all of `PACKAGES` are installed."""
    if missing := find_missing():
        raise MissingExtraError(missing, EXTRA)


def missing_extra(error: Exception) -> MissingExtraError | None:
    """What to say instead of an import error where the module is of `PACKAGES`; None for any other error."""
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    package = PACKAGES.get((module or "").partition(".")[0])
    return MissingExtraError(package, EXTRA) if package else None
