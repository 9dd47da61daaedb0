"""Lines are raised until no more is blamed than the bound allows, and come down only where labels say so."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace as replaced

import pytest

from ragtrace.analyze import examine
from ragtrace.analyze._doubt_model import USUAL
from ragtrace.analyze._fault_injection import FAULTS, Subject, inject
from ragtrace.analyze._stage_states import RULES, judge_stages, proofs
from ragtrace.analyze.diagnosis import first_broken
from ragtrace.analyze.service_calibration import ENOUGH_SOUND, _lower, _Proven, _raise
from ragtrace.sample_statistics import wilson
from ragtrace.types import RequestRecord, replace
from tests.triage.calibrated import requests

DEFAULT = dict.fromkeys(RULES, 0.0)


@pytest.fixture(scope="module")
def subjects() -> list[Subject]:
    """Sound requests with the claims of their answers."""
    return [Subject(record, examine(record)[0].claims) for record in requests(12)]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_breaks_its_stage_and_leaves_what_comes_before(subjects: list[Subject], fault: str) -> None:
    """The copy has an id of its own; the question, and the stages before the broken one, are as they were."""
    records = [subject.record for subject in subjects]
    made = [(one, inject(one, fault, records, random.Random(number))) for number, one in enumerate(subjects)]
    pairs = [(one.record, copy) for one, copy in made if copy is not None]
    assert len(pairs) > len(subjects) / 2
    for record, copy in pairs:
        assert copy.request_id != record.request_id
        assert copy.query == record.query
        assert (copy.candidates == record.candidates) == (fault != "removed")
        assert (copy.packing == record.packing) == (FAULTS[fault] in ("generation", "citation"))
        assert copy.generation != record.generation


def test_what_is_lost_is_nowhere_else_and_what_is_moved_names_another_chunk(subjects: list[Subject]) -> None:
    """The evidence of the answer is gone from where the fault takes it; nothing is injected where another text says
    the same."""
    for subject in subjects:
        evidence = subject.supported[0].best_chunk
        removed = _made(subject, "removed")
        assert evidence not in {each.chunk_id for each in removed.candidates}
        assert removed.packing is not None
        assert evidence not in {each.chunk_id for each in removed.packing.chunks}
        sunk = _made(subject, "sunk")
        assert sunk.packing is not None
        assert evidence in {each.chunk_id for each in sunk.candidates}
        assert evidence not in {each.chunk_id for each in sunk.packing.chunks}
        assert len(sunk.packing.chunks) == 3
        moved = _made(subject, "moved")
        assert moved.generation is not None
        assert "[1]" not in (moved.generation.answer or "")
    first = subjects[0]
    text = next(each.text for each in first.record.candidates if each.chunk_id == first.supported[0].best_chunk)
    run = first.record.stages[0]
    copies = tuple(each if place else _with_text(each, text) for place, each in enumerate(run.candidates[::-1]))  # type: ignore[union-attr]
    twice = Subject(_replaced(first.record, copies), first.claims)
    assert inject(twice, "removed", [], random.Random(0)) is None


def _made(subject: Subject, fault: str) -> RequestRecord:
    made = inject(subject, fault, [], random.Random(1))
    assert made is not None
    return made


def _with_text(candidate: object, text: str | None) -> object:
    from ragtrace.types import replace

    return replace(candidate, text=text)  # type: ignore[type-var]


def _replaced(record: RequestRecord, candidates: tuple[object, ...]) -> RequestRecord:
    from ragtrace.types import replace

    run = replace(record.stages[0], candidates=candidates)
    return replace(record, stages=(run, *record.stages[1:]))


def test_what_is_proven_is_what_is_named(subjects: list[Subject]) -> None:
    """By the lines that all services have, the first proof and the verdict agree on every copy."""
    records = [subject.record for subject in subjects]
    named: Counter[str | None] = Counter()
    for number, subject in enumerate(subjects):
        for fault in FAULTS:
            copy = inject(subject, fault, records, random.Random(number))
            if copy is not None:
                analysis, case = examine(copy)
                assert _Proven(proofs(case)).named(DEFAULT) == analysis.diagnosis.stage
                named[analysis.diagnosis.stage] += 1
    assert named.keys() == {None, "ranking", "generation", "citation"}


@pytest.mark.parametrize("line", [-8.0, -2.0, 0.5])
def test_what_a_moved_line_names_is_what_the_fit_counted(subjects: list[Subject], line: float) -> None:
    """Wherever the line of a rule comes to lie, also where the score alone calls the stage sound: the verdict names a
    stage by it exactly where the fit says so."""
    records = [subject.record for subject in subjects]
    copies = (inject(one, fault, records, random.Random(0)) for one in subjects for fault in FAULTS)
    cases = [examine(record)[1] for record in (*records, *filter(None, copies))]
    led = [replaced(each, signs=replaced(each.signs, left_match=0.3, packed_match=0.1)) for each in cases]
    cases += [replaced(each, usual=usual) for each in led for usual in ({}, {"RANKING": (9.0,) * USUAL})]
    named: Counter[str | None] = Counter()
    for case in cases:
        for rule in ("ranking", "generation", "miscited"):
            lines = DEFAULT | {rule: line}
            found = first_broken(judge_stages(replaced(case, raised=lines)))
            assert _Proven(proofs(case)).named(lines) == (found.stage if found else None)
            named[found.stage if found else None] += 1
    assert named.keys() >= {None, "ranking", "citation"}


def test_lines_are_raised_where_that_loses_the_least() -> None:
    """Of two rules that blame alike, the one goes up whose faults are named by far; a rule without a score is switched
    off."""
    untouched = [_Proven({"ranking": 0.2}), _Proven({"generation": 0.2})] * 3 + [_Proven({})] * 94
    broken = [_Proven({"ranking": 5.0}, stage="ranking"), _Proven({"generation": 0.1}, stage="generation")] * 20
    lines = _raise(DEFAULT, untouched, broken, 0.03, is_measured=False)
    assert lines["generation"] == 0.0
    assert lines["ranking"] == pytest.approx(0.201)
    switched = _raise(DEFAULT, [_Proven({"uncited": 0.0})] * 5 + [_Proven({})] * 95, broken, 0.015, is_measured=False)
    assert switched == DEFAULT | {"uncited": None}


def test_no_line_is_ever_lower_than_the_one_at_work() -> None:
    """Where nothing is blamed, the lines stay as they are."""
    current = DEFAULT | {"ranking": 0.7, "uncited": None}
    assert _raise(current, [_Proven({"ranking": 0.5})] * 200, [], 0.015, is_measured=False) == current


def test_lines_come_down_as_far_as_labels_carry_it() -> None:
    """The upper end of false blame among requests that people call sound stays within the bound, and a line comes down
    no further than faults are named by it."""
    sound = [_Proven({"generation": -1.0})] * 8 + [_Proven({"ranking": -3.0})] * 400
    broken = [_Proven({"generation": -0.6}, stage="generation")] * 5 + [
        _Proven({"generation": -1.4}, stage="generation")
    ]
    lines = _lower(DEFAULT, sound, broken, 0.015)
    assert lines["generation"] == -0.75
    blamed = sum(each.named(lines) is not None for each in sound)
    assert wilson(blamed, len(sound))[1] <= 0.015


def test_as_many_labels_are_asked_for_as_it_takes() -> None:
    """One request less, and no false blame at all would still not be within the bound."""
    assert wilson(0, ENOUGH_SOUND)[1] <= 0.015 < wilson(0, ENOUGH_SOUND - 1)[1]
    assert math.isclose(wilson(0, ENOUGH_SOUND)[1], 0.015, abs_tol=2e-4)


def test_a_request_without_an_answer_exchanges_none(subjects: list[Subject]) -> None:
    """One that failed before its answer is passed over, and the others are broken."""
    failed = replace(subjects[0].record, stages=subjects[0].record.stages[:-1])
    assert failed.generation is None
    others = [subject.record for subject in subjects]
    assert inject(Subject(failed, subjects[0].claims), "exchanged", others, random.Random(0)) is None


def test_raising_a_line_may_name_more_at_a_later_stage() -> None:
    """Copies that ranking hid are named at generation once its line is raised: that step is the best, not an error."""
    untouched = [_Proven({"ranking": 0.1}) for _ in range(3)] + [_Proven({"generation": 0.3}) for _ in range(3)]
    untouched += [_Proven({}) for _ in range(94)]
    broken = [_Proven({"ranking": 0.05, "generation": 1.0}, stage="generation") for _ in range(5)]
    broken += [_Proven({"generation": 0.2}, stage="generation") for _ in range(4)]
    lines = _raise(DEFAULT, untouched, broken, 0.03, is_measured=False)
    assert sum(each.named(lines) == each.stage for each in broken) == 9


def test_a_hidden_copy_is_no_division_by_zero() -> None:
    """One step frees requests and names one copy more."""
    untouched = [_Proven({"ranking": 0.1, "generation": 0.5}) for _ in range(3)] + [_Proven({}) for _ in range(97)]
    broken = [_Proven({"ranking": 0.05, "generation": 1.0}, stage="generation")]
    lines = _raise(DEFAULT, untouched, broken, 0.015, is_measured=False)
    assert broken[0].named(lines) == "generation"
