"""Answer Coverage: what share of the answer's claims does the packed evidence support, and what share contradict?"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.claims import claim_weight, shared_citations, split_claims
from ragtrace.coverage.support import Evidence, Lexical, Statement, Support, Vocabulary, opposition
from ragtrace.coverage.support.fragments import CERTAIN, Proposition, affirmed, misplaced, proposition_of
from ragtrace.coverage.text import content_words
from ragtrace.coverage.thresholds import SUPPORTED
from ragtrace.coverage.verifier import sparse
from ragtrace.types import Candidate, Citation, Claim, PackedChunk, replace

__all__ = ["answer_coverage", "claim_supports", "contradiction_rate", "judge_claims"]


def answer_coverage(claims: Sequence[Claim]) -> float | None:
    """AC = Σ w_i · supported(s_i) / Σ w_i over the factual claims, in [0, 1]; None without factual claims.

    supported is 1 from `SUPPORTED` on and 0 below.
    Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §3.
    """
    return _rate([(claim.weight, claim.support) for claim in claims if claim.factual])


def contradiction_rate(claims: Sequence[Claim]) -> float | None:
    """Σ w_i · contradicted(s_i) / Σ w_i over the factual claims, in [0, 1]; None without factual claims."""
    return _rate([(claim.weight, claim.contradiction) for claim in claims if claim.factual])


def claim_supports(claims: Sequence[Claim]) -> tuple[float, ...]:
    """The support of each factual claim by the packed evidence, in the order of the answer, each in [0, 1]."""
    return tuple(claim.support for claim in claims if claim.factual and claim.support is not None)


def judge_claims(
    answer: str,
    packed: Sequence[PackedChunk],
    candidates: Sequence[Candidate] = (),
    *,
    citations: Sequence[Citation] = (),
    query: str | None = None,
    first: int | None = None,
) -> tuple[tuple[Claim, ...], tuple[dict[str, float], ...]]:
    """The claims of `answer` with their support by the packed chunks, and for each claim {chunk id: support}.

    packed: in prompt order, with texts; candidates: the whole pool, from which word weights and the support by what the
    prompt does not hold come: candidates that were not packed, and the full texts of those that were cut; query: its
    words are not held against a claim; first: the number of the first chunk, where it is known. A claim's support is
    that by all packed chunks together, at least the largest by one of them. A chunk that the claim cites and that
    contradicts it counts as a contradiction even where another chunk supports the claim: an answer that cites a chunk
    says what that chunk says. Each claim weighs by what it says beyond the question. A citation that the host reported
    without a place belongs to every claim that its chunk supports, and so do those of a closing list of sources, or of
    the end of a claim's paragraph (`shared_citations`).
    """
    selected = [Evidence.read(chunk.chunk_id, chunk.text) for chunk in packed if chunk.text]
    chosen = {chunk.chunk_id for chunk in packed}
    whole = chosen - {chunk.chunk_id for chunk in packed if chunk.truncated}
    others = [
        Evidence.read(item.chunk_id, item.text) for item in candidates if item.text and item.chunk_id not in whole
    ]
    evidence = Lexical(selected, others, query or "")
    asked = frozenset(content_words(query or ""))
    found_claims = split_claims(answer, packed, citations, candidates, first)
    claims = [replace(each, weight=claim_weight(each.text, asked)) for each in found_claims]
    placeless = [_resolved(mark, chosen) for mark in citations if mark.start is None]
    loose = [(*placeless, *shared) for shared in shared_citations(answer, claims)]
    statements = [Statement.read(claim) for claim in claims if claim.factual]
    found = iter(zip(statements, evidence.judge(statements), strict=True))
    judged = [
        _judged(claim, *next(found), evidence, marks) if claim.factual else (claim, {})
        for claim, marks in zip(claims, loose, strict=True)
    ]
    judged = _with_question(judged, selected, others, query or "")
    return tuple(claim for claim, _ in judged), tuple(support for _, support in judged)


def _with_question(
    judged: list[tuple[Claim, dict[str, float]]], selected: Sequence[Evidence], others: Sequence[Evidence], query: str
) -> list[tuple[Claim, dict[str, float]]]:
    """The claims of an answer of a word or two, read with the question; "yes" and "no" are claims where it decides."""
    spoken = [each for each in judged if any(map(str.isalnum, without_citations(each[0].text)))]
    if len(spoken) != 1 or not query or not selected:
        return judged
    claim, by_chunk = spoken[0]
    bare = without_citations(claim.text).strip()
    if proposition := proposition_of(bare, query):
        found = _polar(claim, proposition, Lexical(selected, others), selected)
        return [found if each is spoken[0] else each for each in judged] if found else judged
    vocabulary = Vocabulary([*selected, *others])
    wrong = misplaced(bare, query, selected, vocabulary) if claim.factual and not claim.contradiction else None
    if wrong is None:
        return judged
    against = replace(claim, contradiction=wrong.contradiction, best_chunk=wrong.chunk_id, reason=wrong.reason,
                      contradictions={wrong.chunk_id: wrong.contradiction})  # fmt: skip
    return [(against, by_chunk) if each is spoken[0] else each for each in judged]


def _polar(
    claim: Claim, proposition: Proposition, evidence: Lexical, selected: Sequence[Evidence]
) -> tuple[Claim, dict[str, float]] | None:
    """A "yes" or "no" as a claim, where the evidence says what was asked, or its opposite; else None."""
    said = Statement.read(Claim(text=proposition.text, start=0, end=len(proposition.text)))
    ((_, supports),) = evidence.judge([said])
    against, contradiction, reason = _against([], supports)
    affirming = None if against else affirmed(proposition.text, selected, evidence.vocabulary)
    deciding = against.chunk_id if against else affirming
    if deciding is None:
        return None
    is_wrong = (against is None) == proposition.is_denied
    sureness = contradiction if against else CERTAIN
    by_chunk = {} if is_wrong else {deciding: sureness}
    judged = replace(
        claim,
        factual=True,
        support=0.0 if is_wrong else sureness,
        contradiction=sureness if is_wrong else 0.0,
        best_chunk=deciding,
        reason=(reason or f"“{claim.text}”, and the evidence says so") if is_wrong else None,
        supports=sparse(by_chunk),
        contradictions=sparse({deciding: sureness} if is_wrong else {}),
    )
    return judged, by_chunk


def _judged(
    claim: Claim,
    statement: Statement,
    support: tuple[float, Sequence[Support]],
    evidence: Lexical,
    loose: Sequence[Citation],
) -> tuple[Claim, dict[str, float]]:
    together, supports = support
    by_chunk = {each.chunk_id: each.support for each in supports}
    named = {mark.chunk_id for mark in claim.citations}
    fitting = {mark.chunk_id: mark for mark in loose if by_chunk.get(mark.chunk_id or "", 0.0) >= SUPPORTED}
    claim = replace(claim, citations=(*claim.citations, *(mark for key, mark in fitting.items() if key not in named)))
    best = max(supports, key=lambda each: each.support, default=Support("", 0.0))
    cited = {citation.chunk_id for citation in claim.citations}
    against, contradiction, reason = _against([each for each in supports if each.chunk_id in cited], supports)
    if together < SUPPORTED and reason is None and (missing := evidence.lacks(statement)):
        reason = f"{missing} stands nowhere in the prompt"
    elsewhere = evidence.elsewhere(statement) if together < SUPPORTED else None
    deciding = against or best
    judged = replace(
        claim,
        support=together,
        contradiction=contradiction,
        best_chunk=deciding.chunk_id if deciding.support or against else None,
        reason=reason,
        unselected_chunk=elsewhere.chunk_id if elsewhere and elsewhere.support >= SUPPORTED else None,
        unselected_support=elsewhere.support if elsewhere else None,
        supports=sparse(by_chunk),
        contradictions=sparse({each.chunk_id: each.contradiction for each in supports}),
    )
    return judged, by_chunk


def _resolved(mark: Citation, packed: Collection[str]) -> Citation:
    """A citation of a chunk that is not in the prompt is dangling."""
    return mark if mark.chunk_id in packed else replace(mark, chunk_id=None)


def _against(cited: Sequence[Support], supports: Sequence[Support]) -> tuple[Support | None, float, str | None]:
    """The chunk that contradicts the claim: one that it cites, else any where no cited chunk supports the claim."""
    groups = [cited] if any(support.support >= SUPPORTED for support in cited) else [cited, supports]
    for heard in groups:
        contradiction, reason = opposition([support.finding for support in heard])
        if reason:
            return max(heard, key=lambda support: support.contradiction), contradiction, reason
    return None, 0.0, None


def _rate(weighted: Sequence[tuple[float, float | None]]) -> float | None:
    total = sum(weight for weight, _ in weighted)
    return sum(weight for weight, value in weighted if (value or 0.0) >= SUPPORTED) / total if total else None
