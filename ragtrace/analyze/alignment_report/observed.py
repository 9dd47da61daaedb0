"""What the analyses over a store rest on: explained requests, where they come from, and which of them speak for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, TypeAlias

from ragtrace.bounds import sampling_weight
from ragtrace.explanations import Alignment, Explanation
from ragtrace.store import ATTRIBUTION, Store
from ragtrace.types import RequestRecord

__all__ = ["CONDITION", "ORIGINAL", "Explained", "Observation", "Stratum", "condition_of", "observed", "read_explained"]

Stratum: TypeAlias = Literal["random", "flagged"]

CONDITION: Final = "condition"
"""The attribute (or version) of a record that names its condition."""
ORIGINAL: Final = "original"
_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Explained:
    """A request with its explanation. `drawn`: it was explained because it was drawn at random, whatever its flags."""

    record: RequestRecord
    explanation: Explanation
    drawn: bool

    @property
    def weight(self) -> float:
        """The inverse of the probability with which the request was sampled; 1 for one that a flag brought."""
        return sampling_weight(self.record.head_probability) if self.drawn else 1.0


@dataclass(frozen=True, slots=True)
class Observation:
    """How retriever and generator agree in one request, under one condition.

    model: what answered. attributed_by: the model whose log-probabilities the generator's ranking comes from, or the
    likeness of whose answers, where it gives no log-probabilities.
    """

    request_id: str
    segment: str
    model: str
    attributed_by: str
    condition: str
    weight: float
    drawn: bool
    alignment: Alignment

    @property
    def k(self) -> int:
        """The number of ranked documents."""
        return len(self.alignment.retriever)


def condition_of(record: RequestRecord) -> str:
    """The condition under which a request ran: its attribute `condition`, else its version of it, else `original`."""
    stated = record.attributes.get(CONDITION) or record.versions.get(CONDITION)
    return str(stated) if stated else ORIGINAL


def observed(explained: Explained) -> Observation | None:
    """The observation of an explained request; None where nothing is known of its generator's ranking."""
    record, found = explained.record, explained.explanation
    if found.alignment is None or found.generator is None or not found.alignment.retriever:
        return None
    generation = record.generation
    answered_by = (generation.model if generation is not None else None) or record.versions.get("model")
    scorer = found.generator.model or "unknown"
    return Observation(
        request_id=record.request_id,
        segment=record.segment,
        model=answered_by or scorer,
        attributed_by=scorer if found.generator.unit == "log_probability" else f"{scorer}, likeness of answers",
        condition=condition_of(record),
        weight=explained.weight,
        drawn=explained.drawn,
        alignment=found.alignment,
    )


def read_explained(store: Store, *, service: str | None = None, since: int | None = None) -> Iterator[Explained]:
    """All requests with a stored explanation, oldest first. since: nanoseconds."""
    found = store.analyses(service=service, kind=ATTRIBUTION, since=since)
    for page in _pages((row.request_id, analysis.explanation) for row, analysis in found):
        records = store.get_records(page)
        drawn = store.drawn(page, ATTRIBUTION)
        for request_id, explanation in page.items():
            if request_id in records:
                record = records[request_id]
                yield Explained(record, explanation, request_id in drawn and record.head_sampled)


def _pages(found: Iterable[tuple[str, Explanation | None]]) -> Iterator[dict[str, Explanation]]:
    """A few at a time: records come with their texts."""
    known = ((request_id, explanation) for request_id, explanation in found if explanation is not None)
    while page := dict(islice(known, _PAGE)):
        yield page
