"""Layer 2 in the worker: claims judged by a model, all requests of a batch together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from ragtrace.analyze import worker
from ragtrace.analyze.verification import judge_batch, verified_by
from ragtrace.coverage import JudgedAnswer
from ragtrace.coverage.verifier import Pair, Verdict
from ragtrace.engines.calibration import Calibration
from ragtrace.store import Store
from ragtrace.types import (
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    VerifiedBy,
)


@dataclass
class Scripted:
    """A verifier that does as it is told, and remembers how many pairs each call had."""

    says: Callable[[str, str], Verdict]
    calibration: Calibration | None = None
    calls: list[int] = field(default_factory=list)
    name: str = "scripted"
    digest: str = "0123456789ab"

    def verify(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """What `says` says."""
        self.calls.append(len(pairs))
        return [self.says(*pair) for pair in pairs]


def request(number: int, answer: str | None = "The limit is thirty days.") -> RequestRecord:
    """A request with one packed chunk."""
    chunk = PackedChunk(chunk_id="a", position=1, text=f"The limit is thirty days in case {number}.")
    return RequestRecord(
        request_id=f"r{number}",
        service="support",
        query=Query(original="What is the limit?"),
        stages=(PackRun(packing=Packing(chunks=(chunk,))), GenerateRun(generation=Generation(answer=answer))),
    )


def says(support: float) -> Callable[[str, str], Verdict]:
    """The same of every pair."""
    return lambda claim, evidence: (support, 0.0)


def unreadable(claim: str, evidence: str) -> Verdict:
    """What fails for one request only."""
    if "case 1." in evidence:
        raise ValueError("no such evidence")
    return 0.9, 0.0


def test_a_model_without_vectors_leaves_relevance_to_the_words() -> None:
    """A verifier of claims says nothing of question and answer."""
    judged = judge_batch({"r0": request(0)}, Scripted(says(0.9)))["r0"]
    assert isinstance(judged, JudgedAnswer)
    assert judged.cosine is None


def test_scores_follow_the_verifier(store: Store) -> None:
    """What words alone support, the model may not; claims, scores and the verifier are stored together."""
    store.write([request(0), request(1)])
    verifier = Scripted(says(0.1), Calibration("temperature", "0123456789ab", ece=0.03))
    assert worker.run(store, verifier=verifier).done == 2
    assert verifier.calls == [2]
    analysis = store.get_analysis("r0")
    assert analysis is not None
    assert analysis.score("answer_coverage") == 0.0
    assert (analysis.claims[0].support, analysis.claims[0].layer) == (0.1, "entailment")
    assert analysis.verified_by == verified_by(verifier)
    assert analysis.verified_by == VerifiedBy(
        name="scripted",
        weights="0123456789ab",
        calibration=verifier.calibration.id if verifier.calibration else None,
        calibration_error=0.03,
    )


def test_without_a_verifier_words_alone_judge(store: Store) -> None:
    """The analysis names no verifier."""
    store.write([request(0)])
    worker.run(store)
    analysis = store.get_analysis("r0")
    assert analysis is not None
    assert analysis.verified_by is None
    assert analysis.score("answer_coverage") == 1.0


def test_one_request_that_fails(store: Store) -> None:
    """Its job fails and is tried again; the others of the batch are done, and nothing unverified is stored for it."""
    store.write([request(number) for number in range(3)])
    summary = worker.run(store, verifier=Scripted(unreadable), limit=3)
    assert (summary.done, summary.failed) == (2, 1)
    assert store.get_analysis("r1") is None
    assert store.get_analysis("r2") is not None


@pytest.mark.parametrize("answer", [None, "", "Wie lange ist die Frist und wer hat sie für uns gesetzt?"])
def test_answers_that_cannot_be_judged(answer: str | None, store: Store) -> None:
    """They ask the model nothing, and their scores are undefined as without it."""
    store.write([request(0, answer)])
    verifier = Scripted(says(1.0))
    assert worker.run(store, verifier=verifier).done == 1
    assert verifier.calls == []
    analysis = store.get_analysis("r0")
    assert analysis is not None
    assert analysis.score("answer_coverage") is None
    assert analysis.verified_by is None


def test_a_batch_gives_what_each_gives_alone() -> None:
    """The answers come back to their own requests."""
    by_case = Scripted(lambda claim, evidence: (float(evidence[-2]) / 10, 0.0))
    records = {f"r{number}": request(number) for number in (3, 7)}
    together = judge_batch(records, by_case)
    supports = {}
    for key, answer in together.items():
        assert isinstance(answer, JudgedAnswer)
        supports[key] = answer.claims[0].support
    assert supports == {"r3": 0.3, "r7": 0.7}
