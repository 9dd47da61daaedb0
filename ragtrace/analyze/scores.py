"""The scores of a request's coverage: one function for each score of the registry, and how all of them are called.

`computed_by` in `metrics/*.yaml` names the function of a score. It reads a `ScoreInput` and gives the value, or the
reason why there is none. The arithmetic is `ragtrace.coverage`; what is undefined, and why, is said here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace import coverage
from ragtrace.coverage.relevance import Rarity
from ragtrace.coverage.support import Evidence
from ragtrace.coverage.verifier import JudgedRelevance
from ragtrace.errors import RegistryError
from ragtrace.registry import AnalysisKind, Instrument
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.types import Candidate, Claim, Facet, PackedChunk, Reference, RequestRecord, Score

__all__ = ["Measure", "ScoreInput", "scores_of"]

Measure: TypeAlias = float | str | None
"""The value of a score; or the reason why it is undefined, a word for the label `reason`; None where the score does not
apply, and the request gets none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreInput:
    """What a score reads of one request.

    - record: the request, its rounds united; candidates: of all retrieve runs, the best rank first; chunks: those of
      its prompt, none where it was not recorded.
    - facets: those that count, matrix: how the candidates meet them, `(n_facets, n_candidates)` in [0, 1], NaN where a
      candidate has no text; no_facets: the reason where none counts.
    - reference: the kind of evidence that `wanted` is, by chunk id; packed: ids that stand whole in the prompt.
    - judged: the claims of the answer and their support; None where they are not judged, for the reason `unjudged`,
      which is also why there may be none among them. cites: whether citations are judged.
    - relevances: what a model says of the answer's and the candidates' relevance, where one was asked.
    - presence: the estimate that the candidates hold the evidence, or why there is none.
    """

    record: RequestRecord
    candidates: Sequence[Candidate]
    chunks: Sequence[PackedChunk]
    reference: Reference
    wanted: Sequence[str]
    packed: Sequence[str]
    judged: coverage.JudgedAnswer | None
    unjudged: str
    cites: bool
    relevances: JudgedRelevance | None = None
    facets: Sequence[Facet] = ()
    matrix: NDArray[np.float64] | None = None
    no_facets: str = "no_facets"
    presence: float | str = "not_recorded"

    @property
    def no_candidates(self) -> str | None:
        """Why the candidates cannot be compared with the reference evidence, if so."""
        return self._no_reference(is_recorded=self.record.is_retrieved)

    @property
    def no_prompt(self) -> str | None:
        """Why the prompt cannot be compared with the reference evidence, if so."""
        return self._no_reference(is_recorded=self.record.packing is not None)

    def _no_reference(self, *, is_recorded: bool) -> str | None:
        return "not_recorded" if not is_recorded else None if self.wanted else "no_reference"

    @property
    def claims(self) -> Sequence[Claim] | str:
        """The claims of the answer; or why they are not judged."""
        return self.unjudged if self.judged is None else self.judged.claims

    @property
    def cited(self) -> coverage.JudgedAnswer | str:
        """The claims whose citations are judged; or why they are not."""
        if self.judged is None:
            return self.unjudged
        return self.judged if self.cites else "not_citing"


def scores_of(analysis: AnalysisKind, source: Any, reference: Reference = "none") -> tuple[Score, ...]:
    """The scores of an analysis in the order of the registry.

    source: what the functions of this analysis read: a `ScoreInput` of a coverage analysis, an `Explanation` of an
    attribution. reference: of the scores that depend on it.
    Raises: RegistryError where a `computed_by` names no function.
    """
    found = ((one, compute(source)) for one, compute in _functions(analysis))
    return tuple(_score(one, measure, reference) for one, measure in found if measure is not None)


def _score(instrument: Instrument, measure: float | str, reference: Reference) -> Score:
    value, reason = (None, measure) if isinstance(measure, str) else (float(measure), None)
    given: Reference = reference if "reference" in instrument.attributes else "none"
    return Score(metric=instrument.id, value=value, reason=reason, reference=given)


@cache
def _functions(analysis: AnalysisKind) -> tuple[tuple[Instrument, Callable[[Any], Measure]], ...]:
    """The scores of an analysis, each with its function; loaded when the first request is scored."""
    return tuple((one, _function(one)) for one in INSTRUMENTS.values() if one.analysis == analysis)


def _function(instrument: Instrument) -> Callable[[Any], Measure]:
    module, _, name = (instrument.computed_by or "").partition(":")
    try:
        function: Callable[[Any], Measure] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise RegistryError(
            f"{instrument.id}: computed_by {instrument.computed_by!r} cannot be loaded ({error}); write the function, "
            "or mend its name in metrics/ and run python -m ragtrace.derive"
        ) from error
    return function


def _or(value: float | None, reason: str) -> float | str:
    return reason if value is None else value


def query_coverage(source: ScoreInput) -> float | str:
    """QC: see `ragtrace.coverage.query_coverage`."""
    if not (source.record.is_retrieved and source.facets):
        return source.no_facets
    return _or(coverage.query_coverage(source.facets, source.candidates, matrix=source.matrix), "no_candidate_text")


def joint_query_coverage(source: ScoreInput) -> float | str:
    """QC of the best single candidate: see `ragtrace.coverage.joint_query_coverage`."""
    if not (source.record.is_retrieved and source.facets):
        return source.no_facets
    return _or(
        coverage.joint_query_coverage(source.facets, source.candidates, matrix=source.matrix), "no_candidate_text"
    )


def evidence_presence(source: ScoreInput) -> float | str:
    """The estimate by which the facets were chosen: see `ragtrace.coverage.evidence_presence`."""
    return source.presence


def best_relevance(source: ScoreInput) -> Measure:
    """What a judge of relevance says of the best candidate; no score where none was asked."""
    if source.relevances is None or source.relevances.by is None:
        return None
    if not source.record.is_retrieved:
        return "not_recorded"
    if not source.candidates:
        return 0.0
    return max(source.relevances.candidates.values(), default="no_candidate_text")


def host_relevance(source: ScoreInput) -> Measure:
    """What the host's own evaluator says of the best candidate; no score where it graded none."""
    grades = source.record.graded.grades if source.record.graded else ()
    return (1 + max(each.grade for each in grades)) / 2 if grades else None


def candidate_recall(source: ScoreInput) -> float | str:
    """The share of the reference evidence among the candidates."""
    ids = [candidate.chunk_id for candidate in source.candidates]
    return source.no_candidates or _or(coverage.candidate_recall(ids, source.wanted), "no_reference")


def evidence_depth(source: ScoreInput) -> float | str:
    """How many candidates one must read to see all reference evidence."""
    ids = [candidate.chunk_id for candidate in source.candidates]
    return source.no_candidates or _or(coverage.evidence_depth(ids, source.wanted), "absent")


def evidence_overlap(source: ScoreInput) -> float | str:
    """Jaccard overlap of the prompt and the reference evidence."""
    return source.no_prompt or _or(coverage.evidence_overlap(source.packed, source.wanted), "no_reference")


def evidence_recall(source: ScoreInput) -> float | str:
    """The share of the reference evidence that stands whole in the prompt."""
    return source.no_prompt or _or(coverage.evidence_recall(source.packed, source.wanted), "no_reference")


def evidence_precision(source: ScoreInput) -> float | str:
    """The share of the prompt that is reference evidence."""
    return source.no_prompt or _or(coverage.evidence_precision(source.packed, source.wanted), "nothing_packed")


def rank_shift(source: ScoreInput) -> float | str:
    """By how many ranks reranking moved the reference evidence."""
    moves = source.record.moves
    if not (moves and source.wanted):
        return "no_reference" if moves else "not_recorded"
    return _or(coverage.rank_shift(moves, source.wanted), "not_kept")


def evidence_token_share(source: ScoreInput) -> float | str:
    """The share of the prompt's tokens that the reference evidence got."""
    why = "no_token_counts" if source.chunks else "nothing_packed"
    return source.no_prompt or _or(coverage.evidence_token_share(source.chunks, source.wanted), why)


def truncated_tokens(source: ScoreInput) -> float | str:
    """Tokens that packing cut off."""
    return _or(coverage.truncated_tokens(source.chunks), "no_token_counts")


def answer_coverage(source: ScoreInput) -> float | str:
    """The weighted share of the claims that the prompt supports."""
    return (
        source.claims
        if isinstance(source.claims, str)
        else _or(coverage.answer_coverage(source.claims), source.unjudged)
    )


def contradiction_rate(source: ScoreInput) -> float | str:
    """The weighted share of the claims that the prompt contradicts."""
    return (
        source.claims
        if isinstance(source.claims, str)
        else _or(coverage.contradiction_rate(source.claims), source.unjudged)
    )


def answer_relevance(source: ScoreInput) -> float | str:
    """Whether the answer is one to this question. Words weigh by their rarity among the candidates, which the record
    has; not by what the service returned else. What a model says of the answer goes before words."""
    answer = source.record.generation.answer if source.record.generation else None
    if answer is None:
        return "not_recorded"
    question = source.record.query.original
    reason = coverage.why_no_relevance(question, answer)
    judged = source.relevances.answer if source.relevances else None
    if judged is not None and reason in (None, "language"):
        return judged
    if reason:
        return reason
    rarity = Rarity([Evidence.read(item.chunk_id, item.text) for item in source.candidates if item.text])
    cosine = source.judged.cosine if source.judged else None
    return _or(coverage.answer_relevance(question, answer, rarity.weight, cosine), "no_answer")


def citation_coverage(source: ScoreInput) -> float | str:
    """The share of the claims that cite."""
    return (
        source.cited
        if isinstance(source.cited, str)
        else _or(coverage.citation_coverage(source.cited.claims), source.unjudged)
    )


def citation_precision(source: ScoreInput) -> float | str:
    """The share of the citations whose chunk supports the claim."""
    if isinstance(source.cited, str):
        return source.cited
    return _or(coverage.citation_precision(source.cited.claims, source.cited.supports), "no_citations")


def citation_recall(source: ScoreInput) -> float | str:
    """The share of the supported claims that cite a chunk which supports them."""
    if isinstance(source.cited, str):
        return source.cited
    return _or(coverage.citation_recall(source.cited.claims, source.cited.supports), "no_supported_claims")


def dangling_citations(source: ScoreInput) -> float | str:
    """Citations that name no chunk of the prompt."""
    return (
        source.cited
        if isinstance(source.cited, str)
        else _or(coverage.dangling_citations(source.cited.claims), "no_citations")
    )
