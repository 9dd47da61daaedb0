"""Sampled requests that models score now: their generators' use of documents under each condition, their retrieval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ragtrace.analyze.alignment_report.conditions import check_condition, under_condition
from ragtrace.analyze.alignment_report.observed import ORIGINAL, Explained, Observation, condition_of, observed
from ragtrace.analyze.attribution import Part, explain_record
from ragtrace.analyze.explaining.engines import GeneratorEngine, RetrieverEngine
from ragtrace.analyze.explaining.prompts import SubsetPrompts, Unexplained
from ragtrace.errors import AttributionError, ModelError, ScoringStopped, ServerError
from ragtrace.explanations import Explanation
from ragtrace.store import Store
from ragtrace.types import RequestRecord

__all__ = ["Skipped", "reexplained", "rescored", "sampled_records"]

_ANSWER: Final[tuple[Part, ...]] = ("generator",)
_RETRIEVAL: Final[tuple[Part, ...]] = ("retriever",)
_FIRST: Final = 200  # requests that are looked through at first; four times as many each time they do not suffice


@dataclass(slots=True)
class Skipped:
    """Why requests are missing, under one condition or several."""

    _first: dict[str, str] = field(default_factory=dict)

    @property
    def reasons(self) -> Counter[str]:
        """How many requests by reason; each counts once, by the first reason that was met."""
        return Counter(self._first.values())

    @contextmanager
    def noted(self, request_id: str) -> Iterator[None]:
        """Count what cannot be explained. A server that cannot be asked is an error: nothing else would go well."""
        try:
            yield
        except (ServerError, ScoringStopped):
            raise
        except (Unexplained, ModelError, AttributionError) as reason:
            self._first.setdefault(request_id, str(reason))


def sampled_records(
    store: Store, limit: int, *, service: str | None = None, since: int | None = None
) -> list[RequestRecord]:
    """Up to `limit` answered requests of the random stratum that state no condition of their own, newest first."""
    wanted = _FIRST
    while True:
        rows = store.find_requests(service=service, since=since, limit=wanted)
        records = _answered(store, (row.request_id for row in rows if row.head_sampled))
        found = list(islice(records, limit))
        if len(found) == limit or len(rows) < wanted:
            return found
        wanted *= 4


def _answered(store: Store, request_ids: Iterable[str]) -> Iterator[RequestRecord]:
    """A few at a time: records come with their texts."""
    known = iter(request_ids)
    while page := list(islice(known, 50)):
        records = store.get_records(page)
        for request_id in page:
            record = records.get(request_id)
            if record is not None and record.generation is not None and condition_of(record) == ORIGINAL:
                yield record


def rescored(
    records: Sequence[RequestRecord],
    generator: GeneratorEngine,
    conditions: Sequence[str],
    *,
    skipped: Skipped,
    budget: int | None = None,
    seed: int = 0,
    on_progress: Callable[[], None] | None = None,
) -> list[Observation]:
    """The observations of all records under all conditions, as far as they can be had; the answers stay as they are.

    Raises: ConfigurationError for a condition that cannot be made, ServerError and ScoringStopped.
    """
    for condition in conditions:
        check_condition(condition)
    found = []
    for record in records:
        known: dict[tuple[str, tuple[str, ...]], Explanation] = {}
        for condition in conditions:
            with skipped.noted(record.request_id):
                changed = under_condition(record, condition, seed)
                prompts = SubsetPrompts.of(changed)
                key = (prompts.of_documents(prompts.documents), prompts.documents)
                if key not in known:  # a condition may change nothing
                    known[key] = explain_record(changed, generator=generator, parts=_ANSWER, budget=budget)
                observation = observed(Explained(changed, known[key], drawn=True))
                if observation is None:
                    raise Unexplained(_reason(known[key]))
                found.append(observation)
        if on_progress is not None:
            on_progress()
    return found


def _reason(found: Explanation) -> str:
    return next(iter(found.skipped.values()), "the documents' ranking is not known")


def reexplained(
    records: Sequence[RequestRecord],
    retriever: RetrieverEngine,
    *,
    skipped: Skipped,
    on_progress: Callable[[], None] | None = None,
) -> list[Explained]:
    """Why the documents of all records were retrieved, as far as it can be said. Raises: as `rescored`."""
    found = []
    for record in records:
        with skipped.noted(record.request_id):
            explanation = explain_record(record, retriever=retriever, parts=_RETRIEVAL)
            if not explanation.retriever:
                raise Unexplained(_reason(explanation))
            found.append(Explained(record, explanation, drawn=True))
        if on_progress is not None:
            on_progress()
    return found
