"""Labels one after the other, and a request as a test case: the next request of a drawing that this viewer has not
labeled, and the line of a file of questions that asks it again."""

from __future__ import annotations

from dataclasses import dataclass

from ragtrace.gate.replay.questions import is_usable_id
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


def label_queue(store: Store, viewer: Viewer, service: str, after: str = "") -> LabelQueue | None:
    """The next request in the order of the draw, behind the one that was labeled or skipped last; behind the last one
    those that were skipped. None where nothing is drawn."""
    drawing = next(iter(store.drawings(service)), None)
    if drawing is None:
        return None
    drawn = [one.request_id for one in store.drawn_requests(drawing.drawing_id)]
    start = drawn.index(after) + 1 if after in drawn else 0
    waiting = {one.request_id for one in unlabeled(store, drawing, viewer.name)}
    first = [one for one in (*drawn[start:], *drawn[:start]) if one in waiting]
    later = first[1] if len(first) > 1 else None
    done = len(drawn) - len(waiting)
    return LabelQueue(service, drawing.drawing_id, done, len(drawn), first[0] if first else None, later)


def test_case(store: Store, viewer: Viewer, record: RequestRecord, analysis: Analysis | None) -> str:
    """A line for the file of questions of `ragtrace replay`: the question with the evidence that it needs, by the gold
    evidence of the store, else by this viewer's label, else by the analysis where that knew gold evidence. What an
    analysis guessed is no gold. An id, a segment or a session that such a file refuses is left out."""
    names = {"id": record.request_id, "segment": record.segment, "session": record.session_id}
    line: dict[str, object] = {name: value for name, value in names.items() if value and is_usable_id(value)}
    line["question"] = record.query.original
    chunks = _gold_chunks(store, viewer, record, analysis)
    if chunks is not None:
        line["gold"] = list(chunks)
    return dumps(line, indent=None) + "\n"


def _gold_chunks(
    store: Store, viewer: Viewer, record: RequestRecord, analysis: Analysis | None
) -> tuple[str, ...] | None:
    """Empty where the gold set says that no chunk answers; None where none are known, and where the label says that no
    *candidate* holds the answer: another chunk may."""
    key = (record.service, record.query.original)
    gold = store.find_golds([key]).get(key)
    if gold is not None and (gold.chunk_ids or gold.is_unanswerable):
        return gold.chunk_ids
    labels = store.labels(request_ids=[record.request_id], labeler=viewer.name)
    needed = next((one.needed for one in labels if one.needed is not None), None)
    if needed is not None:
        return needed or None
    return analysis.reference_chunks or None if analysis and analysis.reference == "oracle" else None
