"""`ragtrace drift`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ragtrace.store import ChunkSeen, Store
from ragtrace.types import RequestRecord

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def _drifted(folder: Path) -> str:
    url = f"sqlite:///{folder / 'kept.db'}"
    with Store.open(url) as store:
        store.write(
            [
                RequestRecord(request_id=f"r{at}", service="support", started_at=at, versions={"index": f"v{at}"})
                for at in (1, 2)
            ]
        )
        store.note_chunks(ChunkSeen("support", "v1", name, text) for name, text in (("a", "A"), ("b", "B"), ("c", "C")))
        store.note_chunks(ChunkSeen("support", "v2", name, text) for name, text in (("a", "A"), ("b", "X"), ("d", "C")))
    return url


def test_prints_each_pair_of_builds_with_examples(cli: Cli, tmp_path: Path) -> None:
    """Counts in a table, then some of the ids."""
    done = cli("drift", "--store", _drifted(tmp_path))

    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[:2] == [
        ["service", "from", "to", "chunks", "unchanged", "rewritten", "renumbered"],
        ["support", "v1", "v2", "3", "1", "1", "1"],
    ]
    assert "support v2 rewritten, for example: b" in done.stdout
    assert "support v2 renumbered, for example: c → d" in done.stdout


def test_json_holds_the_same(cli: Cli, tmp_path: Path) -> None:
    """One document, with the pairs of ids by name; `--service` leaves others out."""
    url = _drifted(tmp_path)
    done = cli("drift", "--store", url, "--service", "support", "--json")

    assert json.loads(done.stdout) == {
        "drift": [
            {
                "service": "support",
                "from": "v1",
                "to": "v2",
                "chunks": 3,
                "unchanged": 1,
                "rewritten": 1,
                "renumbered": 1,
                "rewritten_ids": ["b"],
                "renumbered_ids": [{"from": "c", "to": "d"}],
            }
        ]
    }
    assert json.loads(cli("drift", "--store", url, "--service", "other", "--json").stdout) == {"drift": []}


def test_says_that_there_is_nothing_to_compare(cli: Cli, store_url: str) -> None:
    """Requests of one build, or of none, are no error."""
    done = cli("drift", "--store", store_url)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nothing to compare yet")
