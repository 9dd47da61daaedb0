"""Judgments that people give in the browser: labels of a request, the chunks that its question needs, and whether an
alert was right.

What is sent is checked against what the request holds: no stage, no chunk and no alert comes from the form alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from ragtrace.errors import ConfigurationError
from ragtrace.registry.instruments import STAGES
from ragtrace.safe_text import visible
from ragtrace.store import RequestLabel, Store
from ragtrace.triage import judge_alert
from ragtrace.triage.labels import first_broken_of
from ragtrace.types import Analysis, Gold, RequestRecord, replace
from ragtrace.web._access import Viewer

__all__ = ["KEPT", "SAID", "as_sent", "asked_stages", "judge_page", "label_request"]

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
