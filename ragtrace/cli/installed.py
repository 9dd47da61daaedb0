"""What is installed: this ragtrace, its extras and the servers' own tools, read from package metadata and PATH."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from importlib import metadata
from typing import Final, NamedTuple

__all__ = ["Extra", "Tool", "extras", "tools", "torch_device", "version"]

UNKNOWN_VERSION: Final = "unknown (a checkout that is not installed; pip install -e .)"

_TOOLS: Final = (
    ("promtool", "prometheus"),
    ("amtool", "prometheus-alertmanager"),
)
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+)[^;]*;.*\bextra\s*==\s*['\"]([^'\"]+)['\"]")


class Extra(NamedTuple):
    """One extra of ragtrace: the versions of its packages (None where one is missing) and what installs it."""

    name: str
    packages: dict[str, str | None]

    @property
    def installed(self) -> bool:
        """Whether all of its packages are there."""
        return None not in self.packages.values()

    @property
    def remedy(self) -> str:
        """The command that installs it."""
        return f"pip install 'ragtrace[{self.name}]'"


class Tool(NamedTuple):
    """A program that checks what ragtrace exports; optional."""

    name: str
    path: str | None
    remedy: str


def version() -> str:
    """The installed version of ragtrace."""
    return _version("ragtrace") or UNKNOWN_VERSION


def extras() -> list[Extra]:
    """Every extra that a user may want: `all` (a sum of others) and `dev` are left out."""
    try:
        requirements = metadata.requires("ragtrace") or []
    except metadata.PackageNotFoundError:
        return []
    return [Extra(name, {package: _version(package) for package in packages}) for name, packages in _by(requirements)]


def tools() -> list[Tool]:
    """The external programs, found on PATH or not."""
    return [Tool(name, shutil.which(name), f"apt-get install {package}") for name, package in _TOOLS]


def torch_device() -> str | None:
    """The device that models run on, or None when torch is not installed or cannot be loaded."""
    from ragtrace.engines.models import load_package
    from ragtrace.errors import MissingExtraError

    try:
        torch = load_package("torch")
    except (MissingExtraError, ImportError, OSError):
        return None
    if torch.cuda.is_available():
        return f"cuda ({torch.cuda.get_device_name()})"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _by(requirements: Iterable[str]) -> list[tuple[str, list[str]]]:
    grouped: dict[str, list[str]] = {}
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found is not None and found[2] not in ("all", "dev"):
            grouped.setdefault(found[2], []).append(found[1])
    return list(grouped.items())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
