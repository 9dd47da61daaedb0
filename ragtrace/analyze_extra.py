"""The packages of the extra `analyze`: an application that only records goes without them."""

from __future__ import annotations

from typing import Final

from ragtrace.errors import MissingExtraError

__all__ = ["EXTRA", "PACKAGES", "find_missing", "missing_extra", "require_analyzer"]

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
