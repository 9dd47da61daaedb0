"""The explanation that somebody asked for: where its job stands, in words, and what to do where it does not go on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragtrace.analyze.explainer import ATTRIBUTION_VERSION, explanation_cost
from ragtrace.store import ATTRIBUTION, JobRow, Store
from ragtrace.types import RequestRecord

__all__ = ["ExplanationState", "ask_for_explanation", "asking_cost", "explanation_state"]

Step: TypeAlias = Literal["none", "waits", "runs", "failed"]
_LONG: Final = 300_000  # characters of all texts
_LATE: Final = 30  # seconds, after which a job that waits may wait for a worker that is not there


@dataclass(frozen=True, slots=True)
class ExplanationState:
    """How far it is. error: of the last attempt; it may hold words of the request."""

    step: Step
    text: str = ""
    is_late: bool = False
    error: str = ""

    @property
    def may_ask(self) -> bool:
        """Whether asking would begin anything."""
        return self.step in ("none", "failed")


def ask_for_explanation(store: Store, request_id: str) -> None:
    """Enqueue it, before what the worker drew itself."""
    store.ask(request_id, ATTRIBUTION, ATTRIBUTION_VERSION)


def asking_cost(record: RequestRecord) -> str:
    """What an explanation asks of a worker's models where they are behind servers; which models it has is not known.

    Empty where nothing would be asked, and of texts so long that counting them would hold up the page.
    """
    texts = [chunk.text for chunk in record.packing.chunks] if record.packing is not None else []
    texts += [record.query.original, *(each.text for each in record.candidates)]
    if sum(len(text or "") for text in texts) > _LONG:
        return ""
    scored = explanation_cost(record, scored=True, embedded=True)
    closed = explanation_cost(record, closed=True, sentences=True)
    if not (scored.prompts or scored.vectors):
        return ""
    chat = f" A chat without log-probabilities: {closed.answers} answers at most, no scored prompts." * bool(
        closed.answers
    )
    return f"Where its models are behind servers: at most {scored}.{chat}"


def explanation_state(store: Store, request_id: str, now: float | None = None) -> ExplanationState:
    """Where the newest job of a request's explanation stands. now: Unix seconds."""
    jobs = store.jobs(kind=ATTRIBUTION, request_id=request_id, limit=1)
    if not jobs or jobs[0].state == "done":
        return ExplanationState("none")
    at = time.time() if now is None else now
    job = jobs[0]
    error = job.error or ""
    if job.state == "dead":
        return ExplanationState("failed", f"It failed after {_times(job.attempts)}.", error=error)
    if job.state == "leased":
        return ExplanationState("runs", f"It is being computed, attempt {job.attempts}.", error=error)
    return ExplanationState("waits", _waiting(store, job), at - job.created_at > _LATE, error)


def _waiting(store: Store, job: JobRow) -> str:
    before = store.jobs_before(job)
    others = f"{before:,} other explanation{'s' if before > 1 else ''} come{'' if before > 1 else 's'} before it"
    return f"It waits for a worker; {others if before else 'it is the next one'}."


def _times(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
