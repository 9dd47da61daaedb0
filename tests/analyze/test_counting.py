"""What one analysis adds to the totals."""

from __future__ import annotations

from collections import defaultdict

from ragtrace.analyze import analyze_record
from ragtrace.analyze.counting import LATE_AFTER_SECONDS, analysis_deltas
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.types import GenerateRun, Generation, Gold, RequestRecord
from tests.analyze.examples import QUESTION, RERANK, RETRIEVE, packed, request

GOLD = Gold(service="s", question=QUESTION, chunk_ids=("water",))
ABSENT = Gold(service="s", question=QUESTION, chunk_ids=("elsewhere",))


def counted(record: RequestRecord, gold: Gold | None = GOLD, *, late: float = 0.0) -> dict[str, float]:
    """Series written as `name{a=b,...}` -> sum of its deltas."""
    sums: dict[str, float] = defaultdict(float)
    now = record.ended_at + int(late * 1e9)
    for delta in analysis_deltas(record, analyze_record(record, gold), now=now):
        sums[f"{delta.name}{{{','.join(f'{name}={value}' for name, value in sorted(delta.labels))}}}"] += delta.value
    return dict(sums)


def sli(metric: str, scope: str, stratum: str = "random", reference: str = "oracle", *, good: bool = False) -> str:
    """The name of an indicator's series."""
    name = "ragtrace_sli_good_requests_total" if good else "ragtrace_sli_requests_total"
    return f"{name}{{metric={metric},reference={reference},scope={scope},segment=limit,service=s,stratum={stratum}}}"


def test_a_healthy_request_is_good_in_every_scope() -> None:
    """All five indicators count it, and count it good."""
    found = counted(request())
    for metric in ("qc", "eo", "ac", "cc", "contradiction"):
        for scope in ("all", "conditional"):
            assert found[sli(metric, scope)] == found[sli(metric, scope, good=True)] == 1.0


def test_a_bad_stage_keeps_the_request_out_of_the_indicators_behind_it() -> None:
    """Evidence absent from the candidates: EO is bad overall, but is no selection failure, so it is not conditional."""
    found = counted(request(), ABSENT)
    assert (found[sli("eo", "all")], found[sli("eo", "all", good=True)]) == (1.0, 0.0)
    assert sli("eo", "conditional") not in found
    assert sli("ac", "conditional") not in found


def test_a_selection_failure_leaves_grounding_alone() -> None:
    """EO is bad in both scopes; AC is not asked of a prompt without the evidence."""
    broken = request(RETRIEVE, RERANK, packed("theft"), GenerateRun(generation=Generation(answer="We pay €1.")))
    found = counted(broken)
    assert (found[sli("eo", "conditional")], found[sli("eo", "conditional", good=True)]) == (1.0, 0.0)
    assert sli("ac", "conditional") not in found
    assert found["ragtrace_lost_evidence_total{reference=oracle,segment=limit,service=s,where=packing}"] == 1.0


def test_undefined_values_are_counted_apart() -> None:
    """An abstention enters no indicator of the answer; its reason is counted."""
    found = counted(request(answer="I don't know."))
    assert sli("ac", "all") not in found
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
    found = counted(request(head_sampled=False), None)
    assert sli("eo", "all", "flagged", "proxy") in found
    assert not any("stratum=random" in series or "reference=oracle" in series for series in found)


def test_names_and_labels_are_those_of_the_registry() -> None:
    """Nothing is exported that the registry does not know."""
    known = {instrument.name: set(instrument.attributes) for instrument in INSTRUMENTS.values()}
    for delta in analysis_deltas(request(), analyze_record(request(), GOLD), now=0):
        name = delta.name
        for suffix in ("_bucket", "_sum", "_count"):
            name = name.removesuffix(suffix) if name.removesuffix(suffix) in known else name
        assert {label for label, _ in delta.labels} - {"le"} == known[name]


def test_the_exemplar_of_an_indicator_is_a_bad_request() -> None:
    """So that the way from the alert leads to a request that shows the fault.

    Retrieval is bad here although its facets are covered: gold evidence is absent from the candidates. Its only
    indicator says so, since otherwise nobody would be paged.
    """
    deltas = analysis_deltas(request(), analyze_record(request(), ABSENT), now=0)
    shown = {
        dict(delta.labels)["metric"]
        for delta in deltas
        if delta.name == "ragtrace_sli_requests_total" and delta.exemplar
    }
    assert shown == {"qc", "eo"}
