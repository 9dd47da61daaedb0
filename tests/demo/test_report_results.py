"""Comparing diagnoses with the truth."""

from __future__ import annotations

import json

from ragtrace.demo._faults import Truth
from ragtrace.demo.report import DiagnosisAccuracy, FaultCase, summarize
from ragtrace.types import Analysis, Diagnosis, RequestRecord, Score, Stage


def _analysis(stage: Stage | None, answer_coverage: float | None = 1.0, rollout: str | None = None) -> Analysis:
    return Analysis(
        request_id="r",
        analyzer_version="test",
        scores=(Score(metric="answer_coverage", value=answer_coverage, reason=None),),
        diagnosis=Diagnosis(
            verdict="broken" if stage else "healthy",
            stage=stage,
            owner=f"{stage}-team" if stage else None,
            suspected_rollout=rollout,
        ),
    )


def _case(truth: Truth, oracle: Analysis, proxy: Analysis | None = None, segment: str = "limit") -> FaultCase:
    return FaultCase(RequestRecord(request_id="r", service="s", segment=segment), truth, oracle, proxy or oracle)


def test_accuracy_and_false_blame() -> None:
    """Accuracy is over affected requests, false blame over untouched ones."""
    confusion = {
        ("retrieval", "retrieval"): 6,
        ("retrieval", "ranking"): 2,
        ("untouched", "healthy"): 3,
        ("untouched", "no_break_found"): 1,
        ("untouched", "generation"): 1,
    }
    agreement = DiagnosisAccuracy(confusion)
    assert (agreement.affected, agreement.untouched) == (8, 5)
    assert agreement.first_stage_accuracy == 0.75
    assert agreement.false_blame == 0.2
    assert agreement.to_json()["confusion"]["retrieval"] == {"retrieval": 6, "ranking": 2}


def test_shares_without_requests_are_undefined() -> None:
    """Nothing affected or nothing untouched gives None, not zero."""
    assert DiagnosisAccuracy({("untouched", "healthy"): 1}).first_stage_accuracy is None
    assert DiagnosisAccuracy({("ranking", "ranking"): 1}).false_blame is None


def test_organic_requests_are_counted_apart() -> None:
    """A request that lacks evidence in the healthy run too is in no share."""
    cases = [
        _case(Truth("ranking"), _analysis("ranking")),
        _case(Truth("ranking", organic=True), _analysis("retrieval")),
        _case(Truth(), _analysis(None)),
    ]
    result = summarize("selection", "", cases)
    assert (result.requests, result.organic) == (3, 1)
    assert (result.oracle.affected, result.oracle.untouched) == (1, 1)
    assert result.oracle.first_stage_accuracy == 1.0


def test_oracle_and_proxy_are_apart() -> None:
    """The proxy's diagnoses have a table of their own."""
    result = summarize("recall", "", [_case(Truth("retrieval"), _analysis("retrieval"), _analysis(None))])
    assert result.oracle.first_stage_accuracy == 1.0
    assert result.proxy.first_stage_accuracy == 0.0


def test_segments() -> None:
    """A segment has averages of defined values, its most frequent broken stage, and that stage's owner and rollout."""
    cases = [
        _case(Truth(), _analysis("ranking", 0.5, "packer=2")),
        _case(Truth(), _analysis("ranking", None, "packer=2")),
        _case(Truth(), _analysis("ranking", 1.0, "reranker=3")),
        _case(Truth(), _analysis("retrieval", 1.0, "index=4")),
        _case(Truth(), _analysis(None), segment="change"),
    ]
    change, limit = summarize("selection", "", cases).segments
    assert (change.segment, change.first_broken_stage, change.owner, change.suspected_rollout) == (
        "change", None, None, None,
    )  # fmt: skip
    assert (limit.first_broken_stage, limit.owner, limit.suspected_rollout) == ("ranking", "ranking-team", "packer=2")
    assert limit.stages == {"ranking": 3, "retrieval": 1}
    assert limit.metrics["answer_coverage"] == (0.5 + 1.0 + 1.0) / 3
    assert limit.metrics["query_coverage"] is None


def test_json() -> None:
    """The JSON names what the command line documents."""
    data = json.loads(
        json.dumps(summarize("recall", "", [_case(Truth("retrieval"), _analysis("retrieval"))]).to_json())
    )
    assert data["name"] == "recall"
    assert (data["requests"], data["affected"], data["untouched"], data["organic"]) == (1, 1, 0, 0)
    assert (data["first_stage_accuracy"], data["false_blame"]) == (1.0, None)
    assert data["proxy"]["first_stage_accuracy"] == 1.0
    assert data["segments"][0]["first_broken_stage"] == "retrieval"
    assert data["example"] == "r"
