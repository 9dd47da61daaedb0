"""Chunks are compared between index builds, each once, whatever the order in which requests find them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from subprocess import Popen

import pytest

from ragtrace.store import ChunkSeen, Drift, Store
from ragtrace.store.corpus import VERSIONS
from ragtrace.types import RequestRecord

METRIC = "ragtrace_chunk_drift_total"


def _build(store: Store, *versions: str, service: str = "shop") -> None:
    """Requests that carry these index versions, in this order in time."""
    store.write(
        [
            RequestRecord(
                request_id=f"{service}-{version}", service=service, started_at=at, versions={"index": version}
            )
            for at, version in enumerate(versions, start=1)
        ]
    )


def _seen(version: str, service: str = "shop", **held: str) -> list[ChunkSeen]:
    return [ChunkSeen(service, version, chunk_id, content) for chunk_id, content in held.items()]


def _counted(store: Store, service: str = "shop") -> dict[str, float]:
    named = [(dict(total.labels), total.value) for total in store.totals() if total.name == METRIC]
    return {labels["kind"]: value for labels, value in named if labels["service"] == service}


def test_unchanged_rewritten_and_renumbered_are_told_apart(store: Store) -> None:
    """Same id and content, same id with other content, other id with same content; a new chunk is none of them."""
    _build(store, "v1", "v2")
    store.note_chunks(_seen("v1", a="A", b="B", c="C"))
    assert (store.drift(), _counted(store)) == ([], {"rewritten": 0.0, "renumbered": 0.0})
    store.note_chunks(_seen("v2", a="A", b="B, edited", d="C", e="new"))
    expected = Drift(
        "shop", "v1", "v2", unchanged=1, rewritten=1, renumbered=1, rewritten_ids=("b",), renumbered_ids=(("c", "d"),)
    )
    assert store.drift() == [expected]
    assert expected.chunks == 3
    assert _counted(store) == {"rewritten": 1.0, "renumbered": 1.0}


def test_chunks_that_moved_up_by_one_are_renumbered(store: Store) -> None:
    """A chunk inserted at the top gives every place another content: the contents moved, the first id is rewritten."""
    _build(store, "v1", "v2")
    store.note_chunks(_seen("v1", d1="A", d2="B", d3="C"))
    store.note_chunks(_seen("v2", d1="X", d2="A", d3="B", d4="C"))
    [found] = store.drift()
    assert (found.rewritten_ids, found.renumbered_ids) == (("d1",), (("d1", "d2"), ("d2", "d3"), ("d3", "d4")))


def test_a_copy_is_no_drift(store: Store) -> None:
    """A second id with content that the first id still holds is a chunk more."""
    _build(store, "v1", "v2")
    store.note_chunks(_seen("v1", a="A"))
    store.note_chunks(_seen("v2", copy="A", a="A"))
    assert store.drift() == [Drift("shop", "v1", "v2", unchanged=1)]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_order_of_requests_does_not_matter(store: Store, order: tuple[int, ...]) -> None:
    """A late result of the old build completes the comparison as an early one does."""
    _build(store, "v1", "v2")
    noted = [_seen("v1", a="A"), _seen("v1", b="B"), _seen("v2", a="A2"), _seen("v2", c="B")]
    for place in order:
        store.note_chunks(noted[place])
    [found] = store.drift()
    assert (found.unchanged, found.rewritten_ids, found.renumbered_ids) == (0, ("a",), (("b", "c"),))
    assert _counted(store) == {"rewritten": 1.0, "renumbered": 1.0}


def test_noting_again_changes_nothing(store: Store) -> None:
    """The same chunks, alone or with others, count once; the first content of an id under a version stands."""
    _build(store, "v1", "v2")
    store.note_chunks(_seen("v1", a="A") + _seen("v2", a="A2"))
    before = store.counts(), store.drift(), store.totals()
    store.note_chunks(_seen("v1", a="A") + _seen("v2", a="A2") + _seen("v2", a="A3"))
    store.note_chunks([])
    assert (store.counts(), store.drift(), store.totals()) == before


def test_a_chunk_is_compared_with_the_version_that_had_it_last(store: Store) -> None:
    """Whatever builds were between; only its two newest versions are held."""
    _build(store, "v1", "v2", "v3")
    store.note_chunks(_seen("v1", a="A", b="B"))
    store.note_chunks(_seen("v2", b="B2"))
    store.note_chunks(_seen("v3", a="A", b="B2"))
    pairs = [(found.previous_version, found.version, found.chunks) for found in store.drift()]
    assert pairs == [("v2", "v3", 1), ("v1", "v3", 1), ("v1", "v2", 1)]
    assert store.counts()["chunk_identity"] == 4  # a and b, two each
    store.note_chunks(_seen("v1", b="B"))
    assert store.counts()["chunk_identity"] == 4
    assert _counted(store)["rewritten"] == 1.0


def test_ids_of_old_builds_are_dropped(store: Store) -> None:
    """With new ids in each build, the rows of the newest versions are all that is held."""
    versions = [f"v{number:02}" for number in range(VERSIONS + 5)]
    for number, version in enumerate(versions):
        _build(store, *versions[: number + 1])
        store.note_chunks([ChunkSeen("shop", version, f"{version}-{place}", f"text {place}") for place in range(3)])
    assert store.counts()["chunk_identity"] == 3 * VERSIONS
    newest = store.drift()[0]
    assert (newest.previous_version, newest.version, newest.renumbered) == (versions[-2], versions[-1], 3)
    assert _counted(store)["renumbered"] == 3 * (len(versions) - 1)


def test_services_do_not_mix(store: Store) -> None:
    """The same ids and versions of another service are another index."""
    _build(store, "v1", "v2")
    _build(store, "v1", "v2", service="other")
    store.note_chunks(_seen("v1", a="A") + _seen("v2", service="other", a="A2", b="A"))
    assert store.drift() == []
    store.note_chunks(_seen("v2", a="A2"))
    assert [found.service for found in store.drift()] == ["shop"]
    assert store.drift("other") == []
    assert _counted(store, "other") == {"rewritten": 0.0, "renumbered": 0.0}


def test_a_version_that_no_request_carried_is_not_noted(store: Store) -> None:
    """Its place in time is not known."""
    store.note_chunks(_seen("v1", a="A"))
    assert store.counts()["chunk_identity"] == 0


def test_any_text_is_an_id(store: Store) -> None:
    """Long ids, and those with NUL, fit the database and are told apart."""
    long = ["x" * 5_000 + end for end in "ab"]
    _build(store, "v1", "v2")
    store.note_chunks([ChunkSeen("shop", "v1", chunk_id, "h") for chunk_id in [*long, "\x00"]])
    assert store.counts()["chunk_identity"] == 3
    store.note_chunks([ChunkSeen("shop", "v2", chunk_id, "h") for chunk_id in [*long, "\x00"]])
    assert store.drift() == [Drift("shop", "v1", "v2", unchanged=3)]


NOTE = """
import sys
from ragtrace.store import ChunkSeen, Store
order = 1 if sys.argv[2] == "up" else -1
with Store.open(sys.argv[1]) as store:
    for start in range(0, 60, 6):
        store.note_chunks([
            ChunkSeen("shop", version, f"c{number}", f"{version} {number % 2 or number}")
            for number in range(start, start + 6)[::order] for version in ("v1", "v2")[::order]
        ])
"""


def test_workers_that_note_at_once_count_once(url: str, python: Callable[..., Popen[str]]) -> None:
    """Several processes find the same chunks: no deadlock, and each chunk is counted by one of them."""
    with Store.open(url) as store:
        _build(store, "v1", "v2")
        processes = [python(NOTE, url, order) for order in ("up", "down", "up", "down")]
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert (process.returncode, errors) == (0, "")
        [found] = store.drift()
        assert (found.chunks, found.rewritten) == (60, 60)
        assert _counted(store)["rewritten"] == 60.0
        assert store.counts()["chunk_identity"] == 120
