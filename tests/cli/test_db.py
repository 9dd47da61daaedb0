"""`ragtrace db upgrade`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ragtrace.store import check

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_makes_a_database_at_head(cli: Cli, tmp_path: Path) -> None:
    """A database that does not exist is made with the newest schema, and a second run changes nothing."""
    url = f"sqlite:///{tmp_path / 'new.db'}"
    first, second = cli("db", "upgrade", "--store", url, "--json"), cli("db", "upgrade", "--store", url, "--json")

    assert first.returncode == second.returncode == 0, first.stderr
    assert json.loads(first.stdout) == json.loads(second.stdout) == {"revision": check(url).head}
    assert check(url).current == check(url).head


def test_store_of_the_environment_is_used(cli: Cli, tmp_path: Path) -> None:
    """Without `--store` the verb works on RAGTRACE_STORE."""
    done = cli("db", "upgrade", RAGTRACE_STORE=f"sqlite:///{tmp_path / 'named.db'}")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "named.db").is_file()
    assert not (tmp_path / "ragtrace.db").exists()
