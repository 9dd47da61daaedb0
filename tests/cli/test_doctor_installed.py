"""What `ragtrace.cli.doctor` reads from package metadata."""

from __future__ import annotations

from importlib import metadata

import pytest

from ragtrace.cli import doctor

REQUIREMENTS = [
    "msgspec>=0.19",
    "psycopg[binary]>=3.2; extra == 'server'",
    'ray>=2; extra == "ray"',
    "numpy>=1.26; extra == 'analyze'",
    "typer>=0.16; extra == 'analyze'",
    "typer>=0.16; extra == 'cli'",
    "numpy>=1.26; extra == 'ray'",
    "typer>=0.16; extra == 'ray'",
    "ragtrace[otel,ray]; extra == 'all'",
    "pytest>=8; extra == 'dev'",
]


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ragtrace with the requirements above, where psycopg is installed and ray is not."""

    def version(package: str) -> str:
        if package == "psycopg":
            return "3.2.1"
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "requires", lambda _: REQUIREMENTS)
    monkeypatch.setattr(metadata, "version", version)


@pytest.mark.usefixtures("packages")
def test_extras_know_what_is_there() -> None:
    """Each extra lists its packages with their versions; `all`, `dev` and the core are no extras of their own.

    Where one brings another, their packages are listed once.
    """
    server, ray, analyze, cli = doctor.extras()

    assert (server.name, server.packages, server.installed) == ("server", {"psycopg": "3.2.1"}, True)
    assert (ray.name, ray.packages, ray.installed) == ("ray", {"ray": None}, False)
    assert [(it.name, list(it.packages)) for it in (analyze, cli)] == [("analyze", ["numpy"]), ("cli", ["typer"])]


@pytest.mark.usefixtures("packages")
def test_missing_extra_names_its_install_command() -> None:
    """The remedy is a command that can be pasted."""
    assert doctor.extras()[1].remedy == "pip install 'ragtrace[ray]'"


@pytest.mark.usefixtures("packages")
def test_checkout_without_metadata_has_no_version() -> None:
    """Where ragtrace is not installed the version says so instead of failing."""
    assert doctor.version() == doctor.UNKNOWN_VERSION
