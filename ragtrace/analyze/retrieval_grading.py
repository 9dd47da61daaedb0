"""Grades of what a request retrieved, by the host's own evaluator or by a model of the role `relevant`; and over a
window, what grades were worth.

A model's grade of a candidate is 2p − 1 of the probability that it holds what answers the question. The best one gives
the request its action (`ragtrace.grading`); the documents that are not thrown away are cut into strips, which the model
grades alike, and the best strips stay. Whether an action was right is told by feedback where there is any, else by the
verdict: right where generation was found sound, wrong where a stage is broken; requests of which neither tells count in
no outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Final
from zlib import crc32

from ragtrace.analyze.analysis import HOST, question_type_of
from ragtrace.analyze.diagnosis import answered_right
from ragtrace.coverage.text import sentences
from ragtrace.coverage.verifier import RelevanceJudge
from ragtrace.errors import ConfigurationError
from ragtrace.grading import (
    ACTIONS,
    LOWEST_GRADE,
    Action,
    ActionOutcome,
    FittedThreshold,
    GradedRequest,
    GradeThresholds,
    action_of,
    confidently_wrong,
    document_action,
    fit_upper,
    grade_of,
    outcomes,
    refine,
    strips,
)
from ragtrace.plausible_values import sampling_weight
from ragtrace.sample_statistics import TWO_SIDED_95, share_and_size, wilson
from ragtrace.store import GradeLine, Sampled, Store, outcome_of
from ragtrace.types import Grading, RequestRecord

__all__ = [
    "ActionShare",
    "Disagreement",
    "GradeReport",
    "GradedCandidate",
    "RequestGrades",
    "grade_report",
    "grade_request",
    "host_grades",
    "told_right",
]

_UNRECORDED: Final = "its question or the texts of its candidates were not recorded"
_PAGE: Final = 20  # records at a time: they come with their texts


@dataclass(frozen=True, slots=True)
class GradedCandidate:
    """One candidate with its grade in [−1, 1], what it alone would say, and the strips of it that stay."""

    chunk_id: str
    rank: int
    grade: float
    action: Action
    is_packed: bool
    strips: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestGrades:
    """A request's grades, best first. left_out: candidates whose text was not recorded. source: of a host's grades, the
    steps and evaluators whose spans said them."""

    request_id: str
    question: str
    action: Action
    thresholds: GradeThresholds
    judge: str
    candidates: tuple[GradedCandidate, ...]
    left_out: int = 0
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ActionShare:
    """How many requests of a segment got an action, and the share of its traffic that does, with its 95 % interval."""

    segment: str
    action: Action
    requests: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Of the requests whose host says which action it took, how many the grades say another one of, with the share of
    that traffic and its 95 % interval. cells: (taken by the host, said by the grades, requests), most first."""

    requests: int
    of: int
    share: float
    low: float
    high: float
    cells: tuple[tuple[Action, Action, int], ...]


@dataclass(frozen=True, slots=True)
class GradeReport:
    """Actions of a window's requests, and what they were worth.

    outcomes: by action; by_kind: by action and class of question. wrong_kinds: those trusted and answered worse.
    fitted: the threshold from which CORRECT would be right as often as was wanted, None where nothing was. line: what
    one half of the requests gives, with how it does on the other half; None where no threshold will do, or several
    judges graded. told_by: how
    many outcomes feedback and verdicts told. disagreed: how often the host's own step took another action than the
    grades say, None where it never says which one it took.
    """

    service: str
    judge: str
    thresholds: GradeThresholds
    requests: int
    left_out: dict[str, int]
    told_by: dict[str, int]
    actions: tuple[ActionShare, ...]
    outcomes: tuple[ActionOutcome, ...]
    by_kind: tuple[ActionOutcome, ...]
    wrong_kinds: tuple[ActionOutcome, ...]
    fitted: FittedThreshold | None = None
    disagreed: Disagreement | None = None
    line: GradeLine | None = None


def host_grades(record: RequestRecord, thresholds: GradeThresholds) -> RequestGrades:
    """The grades that the host's own evaluator gave. Raises: ConfigurationError where it gave none."""
    grades = {each.chunk_id: each.grade for each in (record.graded.grades if record.graded else ())}
    if not grades:
        raise ConfigurationError(
            f"the host of request {record.request_id!r} graded nothing: name a model by --judge relevant=MODEL"
        )
    ranks = {each.chunk_id: each.rank for each in record.candidates}
    graded = [
        GradedCandidate(chunk_id, ranks.get(chunk_id, 0), grade, document_action(grade, thresholds), is_packed)
        for chunk_id, grade in grades.items()
        for is_packed in [chunk_id in _packed(record)]
    ]
    return RequestGrades(
        request_id=record.request_id,
        question=record.query.original,
        action=action_of(list(grades.values()), thresholds),
        thresholds=thresholds,
        judge=HOST,
        candidates=tuple(sorted(graded, key=lambda each: (-each.grade, each.rank))),
        left_out=len(ranks.keys() - grades.keys()),
        source=record.graded.source if record.graded else None,
    )


def grade_request(record: RequestRecord, judge: RelevanceJudge, thresholds: GradeThresholds) -> RequestGrades:
    """Grade each candidate of a request by a model, and the strips of those that are not thrown away.

    Raises: ConfigurationError where question or candidates were not recorded, ModelError, ServerError.
    """
    question = record.query.original
    known = [each for each in record.candidates if each.text is not None]
    if not question or not known:
        what = "the question" if not question else "the texts of the candidates"
        raise ConfigurationError(f"{what} of request {record.request_id!r} were not recorded, so nothing can be graded")
    grades = _grades(judge, [(question, each.text or "") for each in known])
    packed = _packed(record)
    actions = [document_action(grade, thresholds) for grade in grades]
    parts = {
        place: [text[start:end] for start, end in strips([(each.start, each.end) for each in sentences(text)])]
        for place, text in enumerate(each.text or "" for each in known)
        if actions[place] != "INCORRECT"
    }
    said = iter(_grades(judge, [(question, part) for found in parts.values() for part in found]))
    kept = {place: _kept(found, [next(said) for _ in found]) for place, found in parts.items()}
    graded = [
        GradedCandidate(each.chunk_id, each.rank, grade, action, each.chunk_id in packed, kept.get(place, ()))
        for place, (each, grade, action) in enumerate(zip(known, grades, actions, strict=True))
    ]
    return RequestGrades(
        request_id=record.request_id,
        question=question,
        action=action_of(grades, thresholds),
        thresholds=thresholds,
        judge=judge.name,
        candidates=tuple(sorted(graded, key=lambda each: (-each.grade, each.rank))),
        left_out=len(record.candidates) - len(known),
    )


def _packed(record: RequestRecord) -> set[str]:
    return {chunk.chunk_id for chunk in record.packing.chunks} if record.packing is not None else set()


def _grades(judge: RelevanceJudge, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Of each (question, text); of a blank text the judge is not asked."""
    asked = [pair for pair in pairs if pair[1].strip()]
    said = iter(judge.relevant(asked) if asked else ())
    return [grade_of(float(next(said))) if text.strip() else LOWEST_GRADE for _, text in pairs]


def _kept(parts: Sequence[str], grades: Sequence[float]) -> tuple[str, ...]:
    return tuple(parts[place] for place in refine(grades))


@dataclass(frozen=True, slots=True)
class _Graded:
    """One request of a window with its best grade and its action."""

    row: Sampled
    record: RequestRecord
    best: float
    action: Action
    kind: str

    @property
    def weight(self) -> float:
        return sampling_weight(self.row.head_probability)


def grade_report(
    store: Store,
    service: str,
    judge: RelevanceJudge | None,
    thresholds: GradeThresholds,
    *,
    since: int,
    until: int,
    segment: str | None = None,
    wanted: float | None = None,
    limit: int = 200,
    on_progress: Callable[[int, int], None] | None = None,
) -> GradeReport:
    """Grades of a window's analyzed requests of the random stratum, thinned out evenly to about `limit`.

    judge: grades them now; None: the grades that the analyzer stored count (the host's own where it grades), with these
    thresholds. wanted: the share in which CORRECT shall be right, for which a threshold is fitted: `fitted` on all of
    the requests, and told on the same; `line` on one half, and judged on the other.
    Raises: ConfigurationError, StoreError, ModelError, ServerError.
    """
    rows = store.sample(service, segment, since, until, (), limit).rows
    graded: list[_Graded] = []
    left_out: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for start in range(0, len(rows), _PAGE):
        page = rows[start : start + _PAGE]
        records = store.get_records([row.request_id for row in page])
        known = [(row, records[row.request_id]) for row in page if row.request_id in records]
        analyses = store.get_analyses([row.request_id for row, _ in known])
        gradings = [analyses[row.request_id].grading if row.request_id in analyses else None for row, _ in known]
        found = _stored(gradings, names) if judge is None else _judged(judge, known)
        missing = "neither the host nor a judge of the analyzer graded them" if judge is None else _UNRECORDED
        for (row, record), grading, grades in zip(known, gradings, found, strict=True):
            if grades is None:
                left_out[missing] += 1
            else:
                best = max(grades, default=LOWEST_GRADE)  # nothing retrieved: nothing is relevant
                kind = grading.question_type if grading is not None else question_type_of(record)
                graded.append(_Graded(row, record, best, action_of(grades, thresholds), kind))
        if on_progress is not None:
            on_progress(min(start + _PAGE, len(rows)), len(rows))
    name = judge.name if judge is not None else " and ".join(names) or "nobody"
    report = _reported(service, name, thresholds, graded, dict(left_out), wanted)
    if wanted is None or (judge is None and len(names) != 1):  # a threshold is of one judge's grades
        return report
    return replace(report, line=_line(report, graded, wanted, since, until))


def _judged(judge: RelevanceJudge, known: Sequence[tuple[Sampled, RequestRecord]]) -> Iterator[Sequence[float] | None]:
    """The grades of each request's candidates by a judge; None of what was not recorded."""
    texts = [_texts(record) if record.query.original else [] for _, record in known]
    pairs = [(record.query.original, text) for (_, record), found in zip(known, texts, strict=True) for text in found]
    said = iter(_grades(judge, pairs))
    for (_, record), found in zip(known, texts, strict=True):
        is_empty = record.is_retrieved and not record.candidates and bool(record.query.original)
        yield [next(said) for _ in found] if found or is_empty else None


def _stored(gradings: Sequence[Grading | None], names: Counter[str]) -> Iterator[Sequence[float] | None]:
    """Those that stand in the analyses; None where the analyzer asked no judge."""
    for found in gradings:
        names.update([found.by] if found is not None else [])
        yield None if found is None else [each.grade for each in found.grades]


def _texts(record: RequestRecord) -> list[str]:
    return [each.text for each in record.candidates if each.text is not None]


def _reported(
    service: str,
    judge: str,
    thresholds: GradeThresholds,
    graded: Sequence[_Graded],
    left_out: dict[str, int],
    wanted: float | None,
) -> GradeReport:
    told = [_is_right(each.row, each.record) for each in graded]
    known = [
        (GradedRequest(each.action, right, each.kind, each.weight), each.best)
        for each, (right, _) in zip(graded, told, strict=True)
        if right is not None
    ]
    requests = [each for each, _ in known]
    best, right = [best for _, best in known], [each.is_right for each in requests]
    fitted = fit_upper(best, right, wanted, [each.weight for each in requests]) if wanted else None
    return GradeReport(
        service=service,
        judge=judge,
        thresholds=thresholds,
        requests=len(graded),
        left_out=left_out,
        told_by=dict(Counter(by for right, by in told if right is not None)),
        actions=tuple(_shares(graded)),
        outcomes=tuple(outcomes(requests)),
        by_kind=tuple(outcomes(requests, by_kind=True)),
        wrong_kinds=tuple(confidently_wrong(requests)),
        fitted=fitted,
        disagreed=_disagreed(graded),
    )


def _line(report: GradeReport, graded: Sequence[_Graded], wanted: float, since: int, until: int) -> GradeLine | None:
    """A threshold that the requests with an even hash give, judged on the others."""
    told = [(each, right) for each in graded if (right := _is_right(each.row, each.record)[0]) is not None]
    halves = [[pair for pair in told if crc32(pair[0].record.request_id.encode()) % 2 == half] for half in (0, 1)]
    seen, others = halves
    fitted = fit_upper(
        [each.best for each, _ in seen], [right for _, right in seen], wanted, [e.weight for e, _ in seen]
    )
    if fitted.threshold is None:
        return None
    upper = floor(fitted.threshold * 1e4) / 1e4
    trusted = [(right, each.weight) for each, right in others if each.best >= upper]
    share, size = share_and_size(trusted) if trusted else (None, 0.0)
    low, high = wilson(share * size, size, TWO_SIDED_95) if share is not None else (None, None)
    return GradeLine(
        service=report.service,
        judge=report.judge,
        upper=upper,
        lower=min(report.thresholds.lower, upper),
        wanted=wanted,
        share=share,
        low=low,
        high=high,
        requests=len(trusted),
        fitted_on=len(seen),
        since=since,
        until=until,
    )


def _disagreed(graded: Sequence[_Graded]) -> Disagreement | None:
    """The host's own steps beside the grades; None where no host said what it did."""
    known = [(each, each.record.graded.action) for each in graded if each.record.graded and each.record.graded.action]
    if not known:
        return None
    share, size = share_and_size([(taken != each.action, each.weight) for each, taken in known])
    cells = Counter((taken, each.action) for each, taken in known if taken != each.action)
    return Disagreement(
        cells.total(),
        len(known),
        share,
        *wilson(share * size, size, TWO_SIDED_95),
        tuple((taken, said, count) for (taken, said), count in cells.most_common()),
    )


def _is_right(row: Sampled, record: RequestRecord) -> tuple[bool | None, str]:
    """Whether the answer was right, and what tells."""
    told = [outcome for each in record.feedback if (outcome := outcome_of(each)) is not None]
    if told:
        return told[-1].is_good, "feedback"
    is_right = told_right(row)
    return is_right, "" if is_right is None else "verdict"


def told_right(row: Sampled) -> bool | None:
    """Whether the verdict says that the answer is right, as `answered_right` reads it; None where it tells neither."""
    return answered_right(row.stage, row.states)


def _shares(graded: Sequence[_Graded]) -> list[ActionShare]:
    """By segment, those with the most requests first; each request counts for as many as it was drawn among."""
    sizes, found = Counter(each.row.segment for each in graded), []
    for segment in sizes:
        own = [each for each in graded if each.row.segment == segment]
        for action, count in Counter(each.action for each in own).items():
            share, size = share_and_size([(each.action == action, each.weight) for each in own])
            found.append(ActionShare(segment, action, count, share, *wilson(share * size, size, TWO_SIDED_95)))
    return sorted(found, key=lambda each: (-sizes[each.segment], each.segment, ACTIONS.index(each.action)))
