"""Judgments that people give in the browser: labels of a request, the chunks that its question needs, and whether an
alert was right; labels one after the other; and a request as a test case.

What is sent is checked against what the request holds: no stage, no chunk and no alert comes from the form alone. The
queue gives the next request of a drawing that a viewer has not labeled, a test case is the line of a file of questions
that asks a request again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay_inputs import is_usable_id
from ragtrace.registry.instruments import STAGES
from ragtrace.safe_text import dumps, visible
from ragtrace.store import RequestLabel, Store
from ragtrace.triage import judge_alert
from ragtrace.triage.labels import first_broken_of, unlabeled
from ragtrace.types import Analysis, Gold, RequestRecord, replace
from ragtrace.web._access import Viewer

__all__ = [
    "KEPT",
    "SAID",
    "LabelQueue",
    "as_sent",
    "asked_stages",
    "judge_page",
    "label_queue",
    "label_request",
    "test_case",
]

SAID: Final = {"sound": "sound", "broken": "broken", "cannot_tell": "cannot tell"}
"""What may be said of a stage."""

_JUDGMENTS: Final = ("right", "wrong_stage", "false")
KEPT: Final = {
    "label": "Your label is kept.",
    "unanswerable": "Your label is kept, and by the question's gold set no chunk answers it from now on.",
    "gold": "Your label is kept, and these chunks are the question's gold evidence from now on.",
    "right": "Kept: the alert was judged right.",
    "wrong_stage": "Kept: the alert was judged wrong stage.",
    "false": "Kept: the alert was judged false.",
}
"""What a page says when it comes back, by what was kept: an address chooses among these words and brings none."""
_LONGEST: Final = 2_000  # characters of a note

Form = Mapping[str, Sequence[str]]


def asked_stages(record: RequestRecord, analysis: Analysis | None) -> list[str]:
    """The stages that are asked about: citation only where it is a stage of this request."""
    cites = record.cites or (analysis is not None and analysis.diagnosis.state("citation") is not None)
    return [stage.name for stage in STAGES if stage.name != "citation" or cites]


def label_request(store: Store, viewer: Viewer, record: RequestRecord, analysis: Analysis | None, form: Form) -> str:
    """Keep a label of the request, and where that is asked for its question's gold evidence. Returns what was kept.

    Raises: ConfigurationError for what cannot be said.
    """
    stages = {}
    for stage in asked_stages(record, analysis):
        said = _one(form, f"stage-{stage}")
        if said and said not in SAID:
            raise ConfigurationError.of(stage, said, ", ".join(SAID))
        if said:
            stages[stage] = said
    if not stages:
        raise ConfigurationError("nothing was said of any stage; choose at least one answer")
    known = {as_sent(one.chunk_id): one.chunk_id for one in record.candidates}
    named = [as_sent(one) for one in dict.fromkeys(form.get("needed", ())) if one]
    if any(one not in known for one in named):
        raise ConfigurationError("a chunk that was chosen is no candidate of this request")
    chosen = tuple(known[one] for one in named)
    is_unanswerable = _one(form, "unanswerable") == "yes"
    if chosen and is_unanswerable:
        raise ConfigurationError("chunks were chosen, and that no chunk answers the question; leave one of them out")
    is_told = bool(chosen) or is_unanswerable or _one(form, "none-needed") == "yes"
    label = RequestLabel(
        request_id=record.request_id,
        labeler=viewer.name,
        first_broken=first_broken_of(stages),
        stages=stages,
        needed=chosen if is_told else None,
        note=_one(form, "note")[:_LONGEST] or None,
        labeled_at=time.time_ns(),
        verdict=analysis.diagnosis.verdict if analysis else None,
        judge=analysis.diagnosis.judge if analysis else None,
        analyzer_version=analysis.analyzer_version if analysis else None,
    )
    store.put_labels([label])
    if is_unanswerable:
        _keep_gold(store, viewer, record, ())
        return "unanswerable"
    if chosen and _one(form, "gold") == "yes":
        _keep_gold(store, viewer, record, chosen)
        return "gold"
    return "label"


def _keep_gold(store: Store, viewer: Viewer, record: RequestRecord, chosen: tuple[str, ...]) -> None:
    """chosen: empty where no chunk answers the question."""
    if not viewer.owns(record.service):
        raise ConfigurationError("the gold evidence of this service is not yours alone to set; leave the box empty")
    key = (record.service, record.query.original)
    known = store.find_golds([key]).get(key)
    gold = known or Gold(service=record.service, question=record.query.original)
    store.put_gold([replace(gold, chunk_ids=chosen, is_unanswerable=not chosen)])


def judge_page(store: Store, viewer: Viewer, form: Form) -> str:
    """Keep whether an alert was right. Returns what was kept. Raises: ConfigurationError."""
    service, said = _one(form, "service"), _one(form, "judgment")
    if said not in _JUDGMENTS:
        raise ConfigurationError.of("judgment", said, ", ".join(_JUDGMENTS))
    known = store.services() if viewer.tenant is None else store.services_of(viewer.tenant)
    if not viewer.owns(service) or service not in known:
        raise ConfigurationError("there is no such service")
    comment = f"{viewer.name}: {note}" if (note := _one(form, "note")[:_LONGEST]) else viewer.name
    judge_alert(
        store,
        said,  # type: ignore[arg-type]  # one of the three
        service=service,
        segment=_one(form, "segment"),
        stage=_one(form, "stage"),
        severity=_one(form, "severity") or "page",
        comment=comment,
    )
    return said


def _one(form: Form, name: str) -> str:
    return next(iter(form.get(name, ())), "").strip()


def as_sent(chunk_id: str) -> str:
    """An id as a page's form sends it back: as a page shows it, and with a browser's line ends."""
    return " ".join(visible(chunk_id).split())


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
