"""Owns the outcomes of requests: what a judgement says, counted once, whichever comes first, it or its request.

Counted are judgements of the random stratum. A complaint keeps a request that was outside the sample, praise does not:
counted together, they would show an application worse than it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

import sqlalchemy as sa

from ragtrace.registry.instruments import OUTCOMES
from ragtrace.store.bulk import chunks
from ragtrace.store.once import uncounted
from ragtrace.store.rows import Delta, Exemplar
from ragtrace.store.tables import request
from ragtrace.store.text import clean
from ragtrace.types import Feedback

__all__ = ["COUNTED", "Outcome", "count", "outcome_of"]

Kind: TypeAlias = Literal["task", "rating", "verifier"]

COUNTED: Final = "outcome"
_TASK: Final = {"task_success": True, "task_failure": False}
_GOOD: Final = frozenset(("thumbs_up", "pass", "passed", "good", "correct"))
_BAD: Final = frozenset(("thumbs_down", "fail", "failed", "bad", "wrong", "incorrect"))
_VERIFIER: Final = "verifier"
_PASSES: Final = 0.5  # the least score with which a verifier agrees
_RESULTS: Final = {True: "good", False: "bad"}


class Outcome(NamedTuple):
    """What was judged, and whether it was good."""

    kind: Kind
    is_good: bool


class _Request(NamedTuple):
    service: str
    segment: str
    trace_id: str | None
    started_at: int
    ended_at: int


def outcome_of(said: Feedback) -> Outcome | None:
    """What a judgement says; None where it says nothing that can be read: a comment, an unknown label without a score,
    a score outside [-1, 1].

    A label that is known decides, else the score: a verifier's is good from 0.5 on, anybody else's above 0.
    """
    label = (said.label or "").strip().casefold().replace("-", "_").replace(" ", "_")
    if label in _TASK:
        return Outcome("task", _TASK[label])
    is_verifier = said.source.casefold().startswith(_VERIFIER)
    kind: Kind = "verifier" if is_verifier else "rating"
    if label in _GOOD or label in _BAD:
        return Outcome(kind, label in _GOOD)
    if said.score is None or not -1.0 <= said.score <= 1.0:
        return None
    return Outcome(kind, said.score >= _PASSES if is_verifier else said.score > 0.0)


def count(connection: sa.Connection, given: Mapping[str, Feedback]) -> list[Delta]:
    """Increments of the totals for judgements whose request is stored, each once for ever.

    given: judgements by identity.
    """
    outcomes = {identity: found for identity, said in given.items() if (found := outcome_of(said)) is not None}
    requests = _requests(connection, {clean(given[identity].request_id) for identity in outcomes})
    ready = {identity: of for identity in outcomes if (of := requests.get(clean(given[identity].request_id)))}
    first = uncounted(connection, ((identity, COUNTED, of.started_at) for identity, of in ready.items()))
    return [
        delta
        for identity, _ in sorted(first)
        for delta in _deltas(given[identity], outcomes[identity], ready[identity])
    ]


def _requests(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, _Request]:
    """Those of these requests that are stored and were drawn at random."""
    found: dict[str, _Request] = {}
    columns = (request.c.request_id, *(request.c[name] for name in _Request._fields))
    for ids in chunks(sorted(request_ids)):
        rows = connection.execute(sa.select(*columns).where(request.c.request_id.in_(ids), request.c.head_sampled))
        found.update((request_id, _Request(*rest)) for request_id, *rest in rows)
    return found


def _deltas(said: Feedback, outcome: Outcome, of: _Request) -> list[Delta]:
    """Both results, so that neither series is absent; the exemplar is a bad one's."""
    at = (said.created_at or of.ended_at) / 1e9
    exemplar = Exemplar(of.trace_id, 1.0, at) if of.trace_id and not outcome.is_good else None
    labels = (("service", of.service), ("segment", of.segment), ("outcome", outcome.kind))
    counts = ((result, is_good == outcome.is_good) for is_good, result in _RESULTS.items())
    return [
        Delta(OUTCOMES.name, (*labels, ("result", result)), float(is_it), exemplar if is_it else None)
        for result, is_it in counts
    ]
