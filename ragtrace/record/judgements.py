"""What is said of a request from outside: judgements of its answer, and flags, at any time and from any process."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Final

from ragtrace.record.coercion.values import label as label_of
from ragtrace.record.recorder import active
from ragtrace.record.requests import read_flags
from ragtrace.types import Feedback

__all__ = ["feedback", "flag"]

_LOG: Final = logging.getLogger("ragtrace")
THUMBS_DOWN: Final = "thumbs_down"
_TASK: Final = {True: ("task_success", 1.0), False: ("task_failure", 0.0)}


def feedback(
    request_id: str,
    *,
    score: float | None = None,
    label: str | None = None,
    task_success: bool | None = None,
    source: str = "user",
    comment: str | None = None,
) -> None:
    """Attach a judgement to a request, at once or days later, from any process that writes to the same store.

    A score below 0 or the label `thumbs_down` flags the request with `thumbs_down`. `task_success` is a judgement of
    its own, `task_success` or `task_failure`, and the latter flags it with that. It is on disk when this returns. Each
    judgement counts as an outcome, good or bad, where it can be read; the same of one source counts once
    (docs/how-to/outcomes.md).

    Args:
        score: from -1 or 0 to 1.
        source: who judges: `user`, `verifier` (or a name that begins so), or a name of your own.
    """
    recorder = active()
    if recorder is None:
        _LOG.warning("feedback for %s is lost: call ragtrace.configure() first", request_id)
        return
    try:
        for item in _judgements(str(request_id), score, label, task_success, source, comment):
            if item.score is not None and not -1.0 <= item.score <= 1.0:
                recorder.guard.count("feedback", "score", f"a score of {item.score:g} is no outcome: give -1 to 1")
            recorder.sink.submit(item, durable=True)
            if (item.score or 0.0) < 0.0 or item.label == THUMBS_DOWN:
                recorder.flag(item.request_id, (THUMBS_DOWN,))
            elif item.label == _TASK[False][0]:
                recorder.flag(item.request_id, (item.label,))
    except BaseException as error:
        recorder.guard.caught("feedback", error)


def flag(request_id: str, name: str) -> None:
    """Keep a request whatever the sample rate, and say why: while it runs, or after its end.

    One that this process has not kept is still there for a while (`recent_seconds`, `recent_bytes`). A request that
    was kept here or elsewhere gets the flag in the store. Either is on disk when this returns.
    """
    recorder = active()
    if recorder is None:
        _LOG.warning("flag %s for %s is lost: call ragtrace.configure() first", name, request_id)
        return
    try:
        recorder.flag(str(request_id), tuple(read_flags(name)))
    except BaseException as error:
        recorder.guard.caught("flag", error)


def _judgements(
    request_id: str,
    score: float | None,
    label: str | None,
    task_success: bool | None,
    source: str,
    comment: str | None,
) -> Iterator[Feedback]:
    said: list[tuple[str | None, float | None]] = []
    if task_success is not None:
        said.append(_TASK[bool(task_success)])
    if score is not None or label is not None or not said:
        said.append((label, None if score is None else float(score)))
    for name, value in said:
        yield Feedback(
            request_id=request_id,
            score=value,
            label=None if name is None else label_of(name),
            source=label_of(source or "user"),
            comment=None if comment is None else label_of(comment),
            created_at=time.time_ns(),
        )
