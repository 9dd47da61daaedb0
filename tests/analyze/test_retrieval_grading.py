"""Grades of requests, by a judge that knows which texts are relevant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ragtrace.analyze._totals import analysis_deltas
from ragtrace.analyze.retrieval_grading import grade_report, grade_request, host_grades
from ragtrace.analyze.worker import WorkerSettings, run
from ragtrace.errors import ConfigurationError
from ragtrace.grading import POPQA
from ragtrace.registry.instruments import GRADED_ANSWERS, HOST_ACTIONS, RETRIEVAL_ACTIONS
from ragtrace.store import Finished, GradeLine, Store
from ragtrace.types import (
    Analysis,
    Candidate,
    Diagnosis,
    Feedback,
    GenerateRun,
    Generation,
    Grade,
    Grading,
    HostGrades,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrievalAction,
    RetrieveRun,
    StageFinding,
    replace,
)

START = 1_700_000_000_000_000_000
MINUTE = 60_000_000_000
GRADE = Grade(chunk_id="c1", grade=0.7)
GOOD = "The tariff is 4 percent. It holds since May. It ends in June. Bees make honey. They fly far. They are many."


@dataclass
class WordJudge:
    """Takes for relevant what holds the word `tariff`, and for doubtful what holds `fee`."""

    name: str = "words"
    digest: str = "d"
    calibration: None = None
    asked: list[str] = field(default_factory=list)

    def relevant(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One probability a pair."""
        self.asked += [text for _, text in pairs]
        return [0.9 if "tariff" in text else 0.4 if "fee" in text else 0.001 for _, text in pairs]


def record(number: int, *texts: str | None, kind: str | None = None, score: float | None = None) -> RequestRecord:
    """A request with these candidates, of which the first stands in the prompt."""
    request_id = f"r{number:04}"
    candidates = tuple(Candidate(chunk_id=f"c{rank}", rank=rank, text=text) for rank, text in enumerate(texts, 1))
    return RequestRecord(
        request_id=request_id,
        service="s",
        query=Query(original="What is the tariff?", query_class=kind),
        stages=(
            RetrieveRun(candidates=candidates),
            PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="c1", position=1),))),
            GenerateRun(generation=Generation(answer="4 percent.")),
        ),
        feedback=() if score is None else (Feedback(request_id=request_id, score=score, feedback_id="f"),),
        started_at=START + number,
        ended_at=START + number + 1,
    )


def test_one_request_by_hand() -> None:
    """The best candidate decides; strips that speak of the question stay; texts that are missing count."""
    found = grade_request(record(0, "Bees make honey.", GOOD, "A fee is due.", None), WordJudge(), POPQA)
    assert found.action == "CORRECT"
    assert [(each.chunk_id, each.action, each.is_packed) for each in found.candidates] == [
        ("c2", "CORRECT", False),
        ("c3", "AMBIGUOUS", False),
        ("c1", "INCORRECT", True),
    ]
    assert found.candidates[0].strips == ("The tariff is 4 percent. It holds since May. It ends in June.",)
    assert found.candidates[1].strips == ("A fee is due.",)
    assert found.candidates[2].strips == ()
    assert [each.grade for each in found.candidates] == pytest.approx([0.8, -0.2, -0.998])
    assert found.left_out == 1


def test_a_blank_text_has_the_lowest_grade_unasked(store: Store) -> None:
    """By hand, of a window and in the analysis; a text that was not recorded is left out."""
    judge = WordJudge()
    found = grade_request(record(0, "", GOOD, " \n", None), judge, POPQA)
    assert [(each.chunk_id, each.grade) for each in found.candidates[1:]] == [("c1", -1.0), ("c3", -1.0)]
    assert (found.action, found.left_out) == ("CORRECT", 1)
    assert grade_request(record(0, ""), judge, POPQA).action == "INCORRECT"
    store.write([record(1, "", GOOD, None), record(2, ""), record(3, None)])
    run(store, WorkerSettings(relevance=judge))
    stored = store.get_analyses(["r0001", "r0002", "r0003"])
    gradings = [stored[key].grading for key in sorted(stored)]
    assert [each and {one.chunk_id: one.grade for one in each.grades} for each in gradings] == [
        {"c1": -1.0, "c2": pytest.approx(0.8)},
        {"c1": -1.0},
        None,
    ]
    for asked in (judge, None):
        window = grade_report(store, "s", asked, POPQA, since=START, until=START + MINUTE)
        assert {each.action: each.requests for each in window.actions} == {"CORRECT": 1, "INCORRECT": 1}
        assert sum(window.left_out.values()) == 1
    assert not [text for text in judge.asked if not text.strip()]


def test_the_hosts_own_grades_count_before_any_model(store: Store) -> None:
    """In the analysis, of texts that were never recorded as well; a model is asked all the same for the verdict."""
    judge = WordJudge()
    graded = replace(
        record(1, "Bees make honey.", None),
        graded=HostGrades(
            grades=(Grade(chunk_id="c1", grade=0.7), Grade(chunk_id="c2", grade=-1.0)), action="INCORRECT"
        ),
    )
    store.write([graded, record(2, GOOD)])
    run(store, WorkerSettings(relevance=judge))
    stored = store.get_analyses(["r0001", "r0002"])
    host, model = (stored[key].grading for key in ("r0001", "r0002"))
    assert host is not None
    assert model is not None
    assert (host.by, host.action, host.taken) == ("host", "CORRECT", "INCORRECT")
    assert [(each.chunk_id, each.grade) for each in host.grades] == [("c1", 0.7), ("c2", -1.0)]
    assert [stored[key].score("host_relevance") for key in ("r0001", "r0002")] == [pytest.approx(0.85), None]
    assert (model.by, model.taken) == ("words", None)
    shown = host_grades(graded, POPQA)
    assert (shown.action, shown.judge, [each.chunk_id for each in shown.candidates]) == (
        "CORRECT",
        "host",
        ["c1", "c2"],
    )
    with pytest.raises(ConfigurationError, match="graded nothing"):
        host_grades(record(2, GOOD), POPQA)


def test_a_host_that_disagrees_with_the_grades_is_counted(store: Store) -> None:
    """By what it did beside what the grades say, its own or a judge's; who states no action is in no count."""
    actions: list[tuple[str, float, RetrievalAction | None]] = [
        ("c1", 0.9, "CORRECT"),
        ("c1", 0.9, "INCORRECT"),
        ("c1", -1.0, "INCORRECT"),
        ("c1", 0.9, None),
    ]
    store.write(
        [
            replace(
                record(number, GOOD),
                graded=HostGrades(grades=(Grade(chunk_id=chunk_id, grade=grade),), action=action),
            )
            for number, (chunk_id, grade, action) in enumerate(actions)
        ]
    )
    run(store, WorkerSettings())
    for judge, cells in (
        (None, (("INCORRECT", "CORRECT", 1),)),
        (WordJudge(), (("INCORRECT", "CORRECT", 2),)),
    ):
        found = grade_report(store, "s", judge, POPQA, since=START, until=START + MINUTE).disagreed
        assert found is not None
        assert (found.of, found.cells, found.requests) == (3, cells, cells[0][2])
        assert found.share == pytest.approx(found.requests / 3)
        assert found.low < found.share < found.high


def test_what_was_not_recorded_cannot_be_graded() -> None:
    """With what is missing."""
    with pytest.raises(ConfigurationError, match="texts of the candidates"):
        grade_request(record(0, None), WordJudge(), POPQA)


def analyzed(store: Store, records: list[RequestRecord], stage: str | None, state: str) -> None:
    """Store requests whose generation has this state, and whose first broken stage is this one."""
    store.write(records)
    jobs = store.claim("test", limit=len(records))
    diagnosis = Diagnosis(
        verdict="grounding_failure" if stage else "no_break_found",
        stage=stage,  # type: ignore[arg-type]
        stages=(StageFinding(stage="generation", state=state),),  # type: ignore[arg-type]
    )
    store.finish(
        [Finished(job, Analysis(request_id=job.request_id, analyzer_version="v", diagnosis=diagnosis)) for job in jobs]
    )


def test_a_window_by_hand(store: Store) -> None:
    """Shares of actions, outcomes by action and kind, the confidently wrong kind, and who told."""
    analyzed(store, [record(place, GOOD, kind="country") for place in range(60)], None, "sound")
    analyzed(store, [record(100 + place, GOOD, kind="religion") for place in range(20)], "generation", "broken")
    analyzed(store, [record(200 + place, "Bees.", kind="country") for place in range(20)], None, "not_known")
    analyzed(store, [record(300, GOOD, score=0.0)], None, "sound")
    analyzed(store, [record(301, None)], None, "sound")
    found = grade_report(store, "s", WordJudge(), POPQA, since=START, until=START + MINUTE, wanted=0.5)
    assert found.requests == 101
    assert sum(found.left_out.values()) == 1
    assert {(each.action, each.requests) for each in found.actions} == {("CORRECT", 81), ("INCORRECT", 20)}
    assert found.told_by == {"verdict": 80, "feedback": 1}
    (correct,) = found.outcomes
    assert (correct.action, correct.requests, correct.right) == ("CORRECT", 81, 60 / 81)
    assert [each.kind for each in found.wrong_kinds] == ["religion"]
    assert found.fitted is not None
    assert found.fitted.threshold == pytest.approx(0.8)


def test_shares_are_those_of_the_traffic(store: Store) -> None:
    """A request that was drawn with a tenth of the probability stands for ten times as many."""
    often = [replace(record(place, GOOD), head_probability=0.1) for place in range(10)]
    rare = [record(100 + place, "Bees.") for place in range(10)]
    analyzed(store, often, None, "sound")
    analyzed(store, rare, None, "sound")
    found = grade_report(store, "s", WordJudge(), POPQA, since=START, until=START + MINUTE)
    assert {each.action: each.share for each in found.actions} == pytest.approx(
        {"CORRECT": 10 / 11, "INCORRECT": 1 / 11}
    )


def test_grades_that_the_analyzer_stored(store: Store) -> None:
    """Are reported without a judge; the rest is left out, with why. Nothing retrieved is INCORRECT."""
    store.write([record(0, GOOD, kind="rates"), record(1, "Bees."), record(2)])
    run(store, WorkerSettings(relevance=WordJudge()))
    analyzed(store, [record(3, GOOD)], None, "sound")
    found = grade_report(store, "s", None, POPQA, since=START, until=START + MINUTE)
    assert (found.requests, found.judge) == (3, "words")
    assert {each.action: each.requests for each in found.actions} == {"CORRECT": 1, "INCORRECT": 2}
    assert found.left_out == {"neither the host nor a judge of the analyzer graded them": 1}
    stored = store.get_analyses(["r0000", "r0002"])
    grading = stored["r0000"].grading
    assert grading is not None
    assert grading.question_type == "rates"
    assert [each.grade for each in grading.grades] == pytest.approx([0.8])
    assert stored["r0000"].score("best_relevance") == pytest.approx(0.9)
    assert stored["r0002"].score("best_relevance") == 0.0


def test_a_service_is_graded_by_its_own_line(store: Store) -> None:
    """Of what graded: a line of the host's grades says nothing of a model's. What a worker is given wins; the newest
    line counts."""
    store.write([record(0, "A fee is due."), replace(record(1, GOOD), graded=HostGrades(grades=(GRADE,)))])
    for upper in (0.0, -0.3):
        store.keep_grade_line(GradeLine(service="s", judge="words", upper=upper, lower=-0.9, wanted=0.9))
    run(store, WorkerSettings(relevance=WordJudge()))
    stored = store.get_analyses(["r0000", "r0001"])
    model, host = (stored[key].grading for key in ("r0000", "r0001"))
    assert model is not None
    assert host is not None
    assert (model.action, model.upper, model.lower) == ("CORRECT", -0.3, -0.9)
    assert (host.by, host.upper) == ("host", POPQA.upper)
    store.write([record(2, "A fee is due.")])
    run(store, WorkerSettings(relevance=WordJudge(), thresholds=POPQA))
    given = store.get_analyses(["r0002"])["r0002"].grading
    assert given is not None
    assert given.action == "AMBIGUOUS"
    report = grade_report(store, "s", None, POPQA, since=START, until=START + MINUTE, wanted=0.1)
    assert sorted(report.judge.split(" and ")) == ["host", "words"]
    assert report.line is None  # it is of one judge's grades


def test_the_hosts_own_classifier_names_types_of_questions(store: Store) -> None:
    """Behind the query class, before the relations of PopQA; where it fails or says nothing these count. The report
    takes what was stored."""

    def own(question: str) -> str | None:
        if "fee" in question:
            raise ValueError("no fees")
        return "taxes" if "tariff" in question else None

    questions = ("What is the tariff?", "What is the capital of Peru?", "What sport does the fee play?")
    asked = [
        replace(record(place, GOOD, score=1.0), query=Query(original=said)) for place, said in enumerate(questions)
    ]
    store.write([*asked, record(3, GOOD, kind="rates")])
    run(store, WorkerSettings(relevance=WordJudge(), question_types=own))
    stored = store.get_analyses([f"r000{number}" for number in range(4)])
    kinds = [(found.grading.question_type if found.grading else None) for _, found in sorted(stored.items())]
    assert kinds == ["taxes", "capital", "sport", "rates"]
    found = grade_report(store, "s", None, POPQA, since=START, until=START + MINUTE)
    assert "taxes" in [cell.kind for cell in found.by_kind]


def test_totals_of_graded_requests() -> None:
    """The action always; what became of the answer only at random, and where the verdict tells."""
    graded = Grading(action="CORRECT", upper=0.59, lower=-0.99, by="words", question_type="rates")
    request = record(0, GOOD)

    def counted(request: RequestRecord, stage: str | None, state: str, graded: Grading = graded) -> list[str]:
        finding = StageFinding(stage="generation", state=state)  # type: ignore[arg-type]
        found = Diagnosis(verdict="no_break_found", stage=stage, stages=(finding,))  # type: ignore[arg-type]
        analysis = Analysis(request_id="r0000", analyzer_version="v", grading=graded, diagnosis=found)
        deltas = analysis_deltas(request, analysis, now=request.ended_at)
        return [
            " ".join(value for _, value in each.labels)
            for each in deltas
            if each.name in (RETRIEVAL_ACTIONS.name, GRADED_ANSWERS.name, HOST_ACTIONS.name)
        ]

    assert counted(request, None, "sound") == ["s default random CORRECT", "s rates CORRECT good"]
    assert counted(request, "retrieval", "sound") == ["s default random CORRECT", "s rates CORRECT bad"]
    assert counted(request, None, "not_known") == ["s default random CORRECT"]
    assert counted(replace(request, head_sampled=False), None, "sound") == ["s default flagged CORRECT"]
    actions: list[tuple[RetrievalAction, str]] = [("CORRECT", "good"), ("INCORRECT", "bad")]
    for taken, result in actions:
        steps = counted(request, None, "not_known", replace(graded, taken=taken))
        assert steps == ["s default random CORRECT", f"s default random {result}"]


def test_an_empty_window(store: Store) -> None:
    """Has no figures."""
    found = grade_report(store, "s", WordJudge(), POPQA, since=START, until=START + MINUTE)
    assert (found.requests, found.actions, found.outcomes, found.fitted) == (0, (), (), None)
