"""Explanations on the page of a request: the one that somebody asked for, and grades of what was retrieved.

Of the first it is told where its job stands, and what to do where it does not go on; of the second why a chunk got its
grade, where a judge of relevance runs beside the pages.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ragtrace.analyze.analysis import HOST
from ragtrace.analyze.explainer import ATTRIBUTION_VERSION, explanation_cost
from ragtrace.errors import ConfigurationError
from ragtrace.html_page import Html, tag
from ragtrace.store import ATTRIBUTION, JobRow, Store
from ragtrace.types import Analysis, Grade, Grading, RequestRecord, RetrievalAction

if TYPE_CHECKING:
    from ragtrace.coverage.verifier import RelevanceJudge

__all__ = [
    "ExplanationState",
    "GradePages",
    "GradeRow",
    "GradesView",
    "ask_for_explanation",
    "asking_cost",
    "explanation_state",
]

_SHOWN: Final = 30
_BUDGET: Final = 128  # pairs that the judge reads while somebody waits
_LONGEST: Final = 6_000  # characters of a chunk that is explained
_WIDTH, _HEIGHT = 160, 12


@dataclass(frozen=True, slots=True)
class GradeRow:
    """One candidate: its grade, the bar from 0 to it, and whether it can be explained."""

    chunk_id: str
    grade: float
    bar: Html
    can_explain: bool


@dataclass(frozen=True, slots=True)
class GradesView:
    """The grades that are stored, the best first. others: how many are not shown."""

    action: RetrievalAction
    taken: RetrievalAction | None
    by: str
    upper: float
    lower: float
    question_type: str
    rows: tuple[GradeRow, ...]
    others: int


class GradePages:
    """What the pages say of grades. judge: what explains them; None: nothing does."""

    def __init__(self, judge: RelevanceJudge | None) -> None:
        self._judge = judge
        self._lock = Lock()  # a judge takes a whole core

    def view(self, record: RequestRecord, analysis: Analysis | None) -> GradesView | None:
        """The stored grades of a request; None where nobody graded."""
        grading = analysis.grading if analysis is not None else None
        if grading is None:
            return None
        texts = {each.chunk_id for each in record.candidates if each.text and each.text.strip()}
        can_explain = self._judge is not None and bool(record.query.original.strip())
        ordered = sorted(grading.grades, key=lambda each: -each.grade)
        rows = [_row(each, can_explain=can_explain and each.chunk_id in texts) for each in ordered[:_SHOWN]]
        return GradesView(
            grading.action,
            grading.taken,
            _graded_by(record, grading),
            grading.upper,
            grading.lower,
            grading.question_type,
            tuple(rows),
            len(ordered) - len(rows),
        )

    def explained(self, record: RequestRecord, chunk_id: str) -> Html:
        """Why a chunk got its grade. Raises: ConfigurationError where that cannot be said."""
        from ragtrace.analyze.grade_attribution import explain_grade
        from ragtrace.export.explanation_html import grade_sections

        if self._judge is None:
            raise ConfigurationError("no judge explains grades here; start ragtrace web with --relevance builtin")
        text = next((each.text for each in record.candidates if each.chunk_id == chunk_id), None)
        if not (text and text.strip() and record.query.original.strip()):
            raise ConfigurationError("the question or the text of this chunk is not kept, so its grade has no words")
        if not self._lock.acquire(blocking=False):
            raise ConfigurationError("another grade is being explained; open this page again in some seconds")
        try:
            return grade_sections(explain_grade(self._judge, record.query.original, text[:_LONGEST], _BUDGET))
        finally:
            self._lock.release()


def _graded_by(record: RequestRecord, grading: Grading) -> str:
    """The judge; of the host's grades also the steps and evaluators whose spans said them."""
    source = record.graded.source if record.graded is not None and grading.by == HOST else None
    return f"{grading.by} ({source})" if source else grading.by


def _row(grade: Grade, *, can_explain: bool) -> GradeRow:
    middle = _WIDTH / 2
    length = abs(grade.grade) * middle
    bar = tag(
        "svg",
        tag("rect", x=round(middle if grade.grade > 0 else middle - length, 1), y=2, width=round(length, 1),
            height=_HEIGHT - 4, class_="bar"),
        tag("line", x1=middle, x2=middle, y1=0, y2=_HEIGHT, class_="zero"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        class_="d0" if grade.grade > 0 else "d5",
        role="img",
        aria_label=f"{grade.grade:+.2f}",
    )  # fmt: skip
    return GradeRow(grade.chunk_id, grade.grade, bar, can_explain)


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
