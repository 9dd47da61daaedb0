"""What one analysis adds to the totals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest

from ragtrace.analyze import analyze_record
from ragtrace.analyze._stage_states import REASONS
from ragtrace.analyze._totals import LATE_AFTER_SECONDS, analysis_deltas
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import Delta
from ragtrace.types import (
    Analysis,
    Diagnosis,
    GenerateRun,
    Generation,
    Gold,
    Reference,
    RequestRecord,
    StageFinding,
    replace,
)
from tests.analyze.examples import QUESTION, RERANK, RETRIEVE, packed, request

GOLD = Gold(service="s", question=QUESTION, chunk_ids=("water",))
ABSENT = Gold(service="s", question=QUESTION, chunk_ids=("elsewhere",))
STAGES = ("retrieval", "ranking", "generation", "citation")


def counted(record: RequestRecord, gold: Gold | None = GOLD, *, late: float = 0.0) -> dict[str, float]:
    """Series written as `name{a=b,...}` -> sum of its deltas."""
    now = record.ended_at + int(late * 1e9)
    return _sums(analysis_deltas(record, analyze_record(record, gold), now=now))


def judged(
    record: RequestRecord | None = None, reference: Reference = "oracle", **states: str | None
) -> dict[str, float]:
    """What an analysis with these states adds: a state of each stage, `suspected:why`, or None where none applies."""
    given = record or request()
    return _sums(analysis_deltas(given, _analysis(given, reference, states), now=given.ended_at))


def _analysis(
    record: RequestRecord, reference: Reference, states: Mapping[str, str | None], doubted: Collection[str] = ()
) -> Analysis:
    stated = {stage: states.get(stage, "sound") for stage in STAGES}
    parts = {stage: state.partition(":") for stage, state in stated.items() if state is not None}
    findings = [
        StageFinding(stage=stage, state=part[0], reason=part[2] or None, doubted=stage in doubted)  # type: ignore[arg-type]
        for stage, part in parts.items()
    ]
    found = Diagnosis(verdict="no_break_found", stages=tuple(findings), judge="a1b2", reference=reference)
    return Analysis(request_id=record.request_id, analyzer_version="v", reference=reference, diagnosis=found)


def _sums(deltas: Iterable[Delta]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for delta in deltas:
        sums[f"{delta.name}{{{','.join(f'{name}={value}' for name, value in sorted(delta.labels))}}}"] += delta.value
    return dict(sums)


def sli(stage: str, scope: str, stratum: str = "random", reference: str = "oracle", *, good: bool = False) -> str:
    """The name of an indicator's series."""
    name = "ragtrace_sli_good_requests_total" if good else "ragtrace_sli_requests_total"
    labels = f"reference={reference},scope={scope},segment=limit,service=s,stage={stage},stratum={stratum}"
    return f"{name}{{judge=a1b2,{labels}}}"


def unjudged(stage: str, scope: str, state: str, reason: str) -> str:
    """The name of the series of requests in which a stage is not judged."""
    labels = f"reason={reason},reference=oracle,scope={scope},segment=limit,service=s,stage={stage},state={state}"
    return f"ragtrace_sli_unjudged_requests_total{{judge=a1b2,{labels},stratum=random}}"


def states_of(found: Mapping[str, float]) -> dict[str, float]:
    """The series of indicators among others."""
    return {series: value for series, value in found.items() if series.startswith("ragtrace_sli_")}


def test_a_sound_stage_is_good_in_every_scope() -> None:
    """One indicator for each stage, and no other."""
    found = states_of(judged())
    good = {sli(stage, scope, good=True) for stage in STAGES for scope in ("all", "conditional")}
    assert found == dict.fromkeys(
        good | {sli(stage, scope) for stage in STAGES for scope in ("all", "conditional")}, 1.0
    )


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("state", ["broken", "suspected:low_match"])
def test_a_stage_that_is_not_sound_keeps_those_behind_it_out_of_the_conditional_scope(place: int, state: str) -> None:
    """They tell nothing of their own any more; itself it counts in both."""
    states: dict[str, Any] = {STAGES[place]: state}
    found = states_of(judged(**states))
    conditional = {
        stage for stage in STAGES if any(f"stage={stage}," in each for each in found if "conditional" in each)
    }
    assert conditional == set(STAGES[: place + 1])
    for stage in STAGES[place + 1 :]:
        assert found[sli(stage, "all", good=True)] == 1.0
    if state == "broken":
        assert (found[sli(STAGES[place], "conditional")], found[sli(STAGES[place], "conditional", good=True)]) == (
            1.0,
            0.0,
        )
        assert (found[sli(STAGES[place], "all")], found[sli(STAGES[place], "all", good=True)]) == (1.0, 0.0)
        assert not any("unjudged" in series for series in found)


def test_a_stage_of_which_nothing_is_known_keeps_none_out() -> None:
    """With six candidates and no facets retrieval is hardly ever known: made-up answers must page all the same."""
    found = states_of(judged(retrieval="not_known:undecided", generation="broken"))
    assert found[sli("generation", "conditional")] == 1.0
    assert sli("citation", "conditional") not in found
    for scope in ("all", "conditional"):
        assert found[unjudged("retrieval", scope, "not_known", "undecided")] == 1.0
        assert sli("retrieval", scope) not in found


def test_what_is_not_judged_is_neither_good_nor_bad() -> None:
    """It is counted apart, with its state and why, in one of at most nine words."""
    assert "low_match" in REASONS
    assert len(REASONS) <= 9
    found = states_of(judged(ranking="suspected:low_match"))
    assert not {sli("ranking", "all"), sli("ranking", "all", good=True)} & found.keys()
    assert found[unjudged("ranking", "all", "suspected", "low_match")] == 1.0


@pytest.mark.parametrize("state", ["sound", "broken", "suspected:low_match", "not_known:refused"])
@pytest.mark.parametrize("earlier", ["sound", "broken"])
def test_a_stage_in_doubt_is_counted_once(state: str, earlier: str) -> None:
    """Whatever its state, in no scope and so beside every earlier stage; those that are in no doubt are not."""
    record = request()
    analysis = _analysis(record, "proxy", {"retrieval": earlier, "ranking": state}, doubted=("ranking", "generation"))
    found = _sums(analysis_deltas(record, analysis, now=record.ended_at))
    labels = "judge=a1b2,reference=proxy,segment=limit,service=s"
    assert {series: value for series, value in found.items() if "doubted" in series} == {
        f"ragtrace_sli_doubted_requests_total{{{labels},stage={stage},stratum=random}}": 1.0
        for stage in ("ranking", "generation")
    }


def test_an_answer_far_from_its_question_is_counted_once() -> None:
    """Of generation, beside its state and its doubt."""
    record = request()
    analysis = _analysis(record, "proxy", {"retrieval": "broken"})
    stages = tuple(replace(one, distant=one.stage == "generation") for one in analysis.diagnosis.stages)
    analysis = replace(analysis, diagnosis=replace(analysis.diagnosis, stages=stages))
    found = _sums(analysis_deltas(record, analysis, now=record.ended_at))
    labels = "judge=a1b2,reference=proxy,segment=limit,service=s,stage=generation,stratum=random"
    assert {series: value for series, value in found.items() if "distant" in series} == {
        f"ragtrace_sli_distant_requests_total{{{labels}}}": 1.0
    }


def test_a_stage_that_does_not_apply_is_counted_nowhere() -> None:
    """Citation, in a service that does not cite; all of them, where nothing had to be retrieved."""
    assert not any("stage=citation" in series for series in judged(citation=None))
    nothing: dict[str, Any] = dict.fromkeys(STAGES)
    assert states_of(judged(**nothing)) == {}


def test_a_healthy_request_is_counted_by_what_judged_it() -> None:
    """The label `judge` is that of its diagnosis; all that is counted of the request says so."""
    record = request()
    analysis = analyze_record(record, GOLD)
    found = states_of(_sums(analysis_deltas(record, analysis, now=record.ended_at)))
    assert {series.partition("judge=")[2].partition(",")[0] for series in found} == {analysis.diagnosis.judge}
    assert len(analysis.diagnosis.judge or "") == 8


def test_a_loss_is_counted_by_its_place() -> None:
    """Gold evidence that was found and not packed."""
    broken = request(RETRIEVE, RERANK, packed("theft"), GenerateRun(generation=Generation(answer="We pay €1.")))
    assert (
        counted(broken)["ragtrace_lost_evidence_total{reference=oracle,segment=limit,service=s,where=packing}"] == 1.0
    )


def test_undefined_values_are_counted_apart() -> None:
    """An abstention has no answer coverage; the reason is counted."""
    found = counted(request(answer="I don't know."))
    assert found["ragtrace_undefined_total{metric=answer_coverage,reason=abstained,segment=limit,service=s}"] == 1.0


def test_each_factual_claim_is_an_observation() -> None:
    """Two claims, one supported and one not: two observations, and the sum of their supports."""
    answer = "We pay up to €5,000 for escape of water [1]. The moon is made of green cheese and old bread."
    record = request(answer=answer)
    found = counted(record)
    claims = [claim for claim in analyze_record(record, GOLD).claims if claim.factual]
    labels = "segment=limit,service=s,stratum=random"
    assert found[f"ragtrace_claim_support_ratio_count{{{labels}}}"] == len(claims) == 2.0
    supports = [claim.support or 0.0 for claim in claims]
    assert found[f"ragtrace_claim_support_ratio_sum{{{labels}}}"] == sum(supports)
    assert max(supports) > min(supports)


def test_the_lag_is_the_time_since_the_requests_end() -> None:
    """Observed for late results as well; a clock that was set back in between makes it 0 and no sum fall."""
    for late, seconds in ((7.0, 7.0), (1000.0, 1000.0), (-50.0, 0.0)):
        found = counted(request(ended_at=10**18), late=late)
        assert found["ragtrace_analyzer_lag_seconds_count{service=s}"] == 1.0
        assert found["ragtrace_analyzer_lag_seconds_sum{service=s}"] == seconds


def test_depth_and_token_share_are_counted_by_reference() -> None:
    """The evidence is the first candidate; what is undefined has its reason."""
    found = counted(request())
    labels = "reference=oracle,segment=limit,service=s,stratum=random"
    assert found[f"ragtrace_evidence_depth_sum{{{labels}}}"] == 1.0
    unknown = "ragtrace_undefined_total{metric=evidence_token_share,reason=no_token_counts,segment=limit,service=s}"
    assert found[unknown] == 1.0
    absent = counted(request(), ABSENT)
    assert absent["ragtrace_undefined_total{metric=evidence_depth,reason=absent,segment=limit,service=s}"] == 1.0


def test_nothing_is_ever_subtracted() -> None:
    """No delta is negative, whatever the clock did between the request and its analysis."""
    for now in (0, 10**18, 3 * 10**18):
        record = request(ended_at=10**18)
        assert all(delta.value >= 0 for delta in analysis_deltas(record, analyze_record(record, GOLD), now=now))


def test_late_results_do_not_page() -> None:
    """Past the shortest alert window a result counts as late and in no indicator; it is still diagnosed."""
    found = counted(request(), late=LATE_AFTER_SECONDS + 1)
    assert found["ragtrace_late_evaluations_total{segment=limit,service=s}"] == 1.0
    assert not any(series.startswith("ragtrace_sli_") for series in found)
    assert any(series.startswith("ragtrace_diagnoses_total") for series in found)


def test_the_flagged_stratum_and_the_proxy_have_series_of_their_own() -> None:
    """Neither is ever mixed with the random stratum or the oracle."""
    found = judged(request(head_sampled=False), "proxy")
    assert sli("ranking", "all", "flagged", "proxy") in found
    assert not any("stratum=random" in series or "reference=oracle" in series for series in found)


def test_names_and_labels_are_those_of_the_registry() -> None:
    """Nothing is exported that the registry does not know."""
    known = {instrument.name: set(instrument.attributes) for instrument in INSTRUMENTS.values()}
    record = request()
    states = {"retrieval": "suspected:low_match", "ranking": "not_known:undecided"}
    apart = analysis_deltas(record, _analysis(record, "oracle", states, doubted=("retrieval",)), now=0)
    for delta in (*analysis_deltas(record, analyze_record(record, GOLD), now=0), *apart):
        name = delta.name
        for suffix in ("_bucket", "_sum", "_count"):
            name = name.removesuffix(suffix) if name.removesuffix(suffix) in known else name
        assert {label for label, _ in delta.labels} - {"le"} == known[name]


def test_the_exemplar_of_an_indicator_is_a_bad_request() -> None:
    """So that the way from the alert leads to a request that shows the fault; what is not known is no fault."""
    record = request()
    states = {"retrieval": "suspected:low_match", "ranking": "not_known:undecided", "generation": "broken"}
    deltas = analysis_deltas(record, _analysis(record, "oracle", states), now=0)
    shown = {
        (delta.name, dict(delta.labels)["stage"])
        for delta in deltas
        if delta.name.startswith("ragtrace_sli_") and delta.exemplar
    }
    assert shown == {
        ("ragtrace_sli_requests_total", "generation"),
        ("ragtrace_sli_unjudged_requests_total", "retrieval"),
    }
