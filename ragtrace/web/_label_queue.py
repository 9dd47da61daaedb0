"""Labels one after the other, and a request as a test case: the next request of a drawing that this viewer has not
labeled, and the line of a file of questions that asks it again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ragtrace.safe_text import dumps
from ragtrace.store import Store
from ragtrace.triage.labels import unlabeled
from ragtrace.types import Analysis, RequestRecord
from ragtrace.web._access import Viewer

__all__ = ["LabelQueue", "label_queue", "test_case"]


@dataclass(frozen=True, slots=True)
class LabelQueue:
    """How far a viewer is with the newest drawing of a service. next_id: None where all of it is labeled."""

    service: str
    drawing_id: str
    done: int
    whole: int
    next_id: str | None
    later_id: str | None


def label_queue(store: Store, viewer: Viewer, service: str, skipped: Collection[str] = ()) -> LabelQueue | None:
    """The next request in the order of the draw, behind those that were skipped; None where nothing is drawn."""
    drawing = next(iter(store.drawings(service)), None)
    if drawing is None:
        return None
    waiting = [one.request_id for one in unlabeled(store, drawing, viewer.name)]
    whole = len(store.drawn_requests(drawing.drawing_id))
    first = [one for one in waiting if one not in skipped] or waiting
    later = first[1] if len(first) > 1 else None
    return LabelQueue(service, drawing.drawing_id, whole - len(waiting), whole, first[0] if first else None, later)


def test_case(store: Store, viewer: Viewer, record: RequestRecord, analysis: Analysis | None) -> str:
    """A line for the file of questions of `ragtrace replay`: the question with the evidence that it needs, by the gold
    evidence of the store, else by this viewer's label, else by the analysis."""
    key = (record.service, record.query.original)
    gold = store.find_golds([key]).get(key)
    labels = store.labels(request_ids=[record.request_id], labeler=viewer.name)
    label = next((one for one in labels if one.needed), None)
    if gold is not None and gold.chunk_ids:
        chunks = gold.chunk_ids
    elif label is not None:
        chunks = label.needed or ()
    else:
        chunks = analysis.reference_chunks if analysis else ()
    line: dict[str, object] = {
        "id": record.request_id,
        "question": record.query.original,
        "segment": record.segment,
    }
    if chunks:
        line["gold"] = list(chunks)
    if record.session_id:
        line["session"] = record.session_id
    return dumps(line, indent=None) + "\n"
