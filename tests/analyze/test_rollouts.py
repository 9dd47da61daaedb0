"""Which release a request suspects: one that replaced another version, or a component that was new to the service."""

from __future__ import annotations

from typing import Any

from ragtrace.analyze.diagnosis import SETTLED, is_new, is_rollout, replaces, suspected_rollout
from ragtrace.registry.instruments import STAGES
from ragtrace.store import Release

RANKING = next(stage for stage in STAGES if stage.name == "ranking")
DAY = 86_400_000_000_000


def seen(component: str, version: str, at: int, **fields: Any) -> Release:
    """A version that a request first carried then."""
    return Release("shop", component, version, at, **fields)


def test_a_version_that_replaced_another_is_a_rollout() -> None:
    """The first one is not: nobody knows what was before it."""
    first, second = seen("reranker", "r1", 0), seen("reranker", "r2", DAY)
    known = [first, second]
    assert [is_rollout(one, known) for one in known] == [False, True]
    assert (replaces(second, known), is_new(second, known)) == (True, False)


def test_a_component_that_is_new_to_a_service_that_ran_is_a_rollout() -> None:
    """A reranker that appears on the second day replaced nothing, and changed the service."""
    index, reranker = seen("index", "i1", 0), seen("reranker", "r1", DAY)
    known = [index, reranker]
    assert [is_rollout(one, known) for one in known] == [False, True]
    assert (replaces(reranker, known), is_new(reranker, known)) == (False, True)


def test_components_of_a_services_first_minutes_are_no_rollout() -> None:
    """Not every request names all of them: one that the third request names was there from the beginning."""
    known = [seen("index", "i1", 0), seen("reranker", "r1", SETTLED)]
    assert not is_rollout(known[1], known)
    assert is_rollout(seen("reranker", "r1", SETTLED + 1), known[:1])


def test_a_release_that_no_request_preceded_is_no_rollout() -> None:
    """Somebody recorded the index a day before the service had its first request."""
    recorded = Release("shop", "index", "i1", None, 0)
    known = [recorded, seen("reranker", "r1", DAY)]
    assert not is_rollout(known[1], known)


def test_a_new_component_is_known_since_somebody_recorded_it() -> None:
    """Its first request came late; it came into use before all others."""
    reranker = seen("reranker", "r1", 9 * DAY, recorded_at=DAY)
    known = [seen("index", "i1", 2 * DAY), reranker]
    assert not is_rollout(reranker, known)


def test_a_request_suspects_what_came_last() -> None:
    """A reranker that is new to the service came behind the packer that replaced another one."""
    known = [
        seen("index", "i1", 0),
        seen("packer", "p1", 0),
        seen("packer", "p2", DAY),
        seen("reranker", "r1", 2 * DAY),
    ]
    versions = {"packer": "p2", "reranker": "r1"}
    assert suspected_rollout(RANKING, "", versions, known) == "reranker=r1"
    assert suspected_rollout(RANKING, "lost_in_packing", versions, known) == "packer=p2"
    assert suspected_rollout(RANKING, "", {"packer": "p1"}, known) is None


def test_the_first_hash_of_a_prompt_is_no_rollout() -> None:
    """It is inferred once enough prompts were seen, however late that is: nothing changed. The second one changed."""
    first, second = seen("prompt_hash", "a", DAY), seen("prompt_hash", "b", 2 * DAY)
    known = [seen("index", "i1", 0), first, second]
    assert [is_rollout(one, known) for one in known] == [False, False, True]
    assert not is_new(first, known)
