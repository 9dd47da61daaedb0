"""A probe asks an application's index once more, deeper and exactly, and tells why a chunk was not found.

Four causes, each with its own fix: the chunk is not indexed; the approximate search missed it; it ranks below the depth
that was asked for; a filter removed it. Without a probe none of them is known.
Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §4 (recall failure).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from ragtrace.config import read_probe
from ragtrace.coverage import Background, are_duplicates, contradictions, facet_matrix, is_abstention
from ragtrace.coverage.relevance import Rarity, question_match
from ragtrace.coverage.support import Evidence
from ragtrace.coverage.text import content_words
from ragtrace.errors import ConfigurationError, ProbeError
from ragtrace.object_loading import load_object
from ragtrace.record.coercion import read_chunks
from ragtrace.types import (
    Candidate,
    Facet,
    IndexProbe,
    ProbeCause,
    ProbedChunk,
    RequestRecord,
    RetrieveRun,
    replace,
)

__all__ = [
    "DEEPER",
    "Answers",
    "CallableProbe",
    "Probe",
    "ask",
    "better_evidence",
    "cause_of",
    "compare",
    "load_probe",
]

DEEPER: Final = 10  # times the depth that the application asked for
MOST: Final = 1_000  # candidates that a probe is asked for at most
QUERIES: Final = 4  # of one request that are asked, the last ones
ALIKE: Final = 0.5  # share of the candidates that the probe must return at the same depth to be the same search
IN_ORDER: Final = 0.8  # share of the pairs of candidates that an exact search must rank as the application's own does
SHOWN: Final = 3  # chunks that are kept of one finding
FACET_MET: Final = 0.5  # match from which a facet is met
FULLY: Final = 0.9  # match from which a facet is met beyond doubt
SPEAKS: Final = 0.5  # share of the question's words that a new chunk must hold in one place, to be evidence,
LEAD: Final = 0.2  # and how much more than the best candidate
FIRST_SPEAKS: Final = 0.3  # the same for a chunk that an exact search ranks above every candidate: as much as these,
FIRST_LEAD: Final = 0.0  # and however little that is where the answer declines
FILTERED_SPEAKS: Final = 0.4  # and of one that a filter removes, which may have been meant to do so
FILTERED_LEAD: Final = 0.1
ALSO_LEAD: Final = 0.1  # of a chunk, by the rewritten query, where there is one
WORDS: Final = 3  # content words of a question, from which shares of them tell that much
AS_MUCH: Final = 0.8  # of the best candidate's share, that a chunk which meets an unmet facet must hold


@runtime_checkable
class Probe(Protocol):
    """What can be asked of an application's index. Methods may take `request` (a `RequestRecord`) as well, by name.

    Further attributes are read where they are there: `version`, the version of the index (a text, or a function that
    returns one); `services`, the names of those whose requests it may be asked about; `passes(chunk_id) -> bool`,
    whether the application's filters let a chunk through; without it nothing is taken to be filtered.
    """

    def probe(self, query: str, depth: int, exact: bool) -> Any:
        """The best `depth` chunks for a query, best first, in any form that `@ragtrace.retrieve` reads, with texts.

        Not exact: the application's own search, with its filters and its approximations. Exact: all that is stored, by
        exact scores and without filters; None where that cannot be done.
        """
        ...

    def has(self, chunk: str) -> bool | None:
        """Whether a chunk of this id, or of this text, is in the index; None where that is not known."""
        ...


@dataclass(frozen=True, slots=True)
class CallableProbe:
    """A probe of functions.

    search: `(query, depth)`, the application's own search; exact: the same over all that is stored, without filters and
    approximations; has: `(id or text) -> bool`; passes: `(id) -> bool`; version: of the index.
    """

    search: Callable[..., Any]
    exact: Callable[..., Any] | None = None
    contains: Callable[[str], bool | None] | None = None
    passes: Callable[..., bool | None] | None = None
    version: str | Callable[[], str | None] | None = None

    def probe(self, query: str, depth: int, exact: bool, request: RequestRecord | None = None) -> Any:
        """See `Probe`."""
        function = self.exact if exact else self.search
        return None if function is None else _called(function, query, depth, request=request)

    def has(self, chunk: str) -> bool | None:
        """See `Probe`."""
        return None if self.contains is None else self.contains(chunk)


def load_probe(name: str) -> Probe:
    """The probe that `module:attribute` names; with `()` behind it, what that function returns.

    Raises: ConfigurationError where there is none, or it has no method `probe` or `has`.
    """
    found = load_object(name, "probe", "module:probe, as in app.search:probe, or module:factory() for what makes it")
    try:
        return read_probe("probe", found)  # type: ignore[no-any-return]
    except ConfigurationError as error:
        raise ConfigurationError(f"probe {name!r}: {error}") from None


def index_version(probe: Probe) -> str | None:
    """The version of the index that a probe says it asks."""
    version = getattr(probe, "version", None)
    found = version() if callable(version) else version
    return None if found is None else str(found)


@dataclass(frozen=True, slots=True)
class Answers:
    """What a probe returned for one query, each chunk by its id, best first.

    depth: as the application asked; same: its own search at this depth; deep: the same search, deeper; exact: all that
    is stored, filters left out, None where the probe cannot search so.
    """

    query: str
    depth: int
    asked: int
    same: Mapping[str, Candidate]
    deep: Mapping[str, Candidate]
    exact: Mapping[str, Candidate] | None = None
    run: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_exact(self) -> bool:
        """Whether the exact search is the application's own made exact: it returns at least half of the candidates, and
        ranks what both return in much the same order."""
        ranks = [self.exact[name].rank for name in self.same if name in self.exact] if self.exact else []
        pairs = [first < second for place, first in enumerate(ranks) for second in ranks[place + 1 :]]
        return len(ranks) >= ALIKE * max(len(self.same), 1) and sum(pairs) >= IN_ORDER * len(pairs)

    @property
    def is_alike(self) -> bool:
        """Whether the probe searches as the application did: it returns at least half of its candidates."""
        return not self.run or len(self.run & self.same.keys()) >= ALIKE * len(self.run)


def ask(probe: Probe, record: RequestRecord, *, deeper: int = DEEPER) -> list[Answers]:
    """Ask the queries of a request once more: as deep as the application did, `deeper` times so, and exactly.

    Raises: ProbeError for what the probe raises or what cannot be read.
    """
    runs: dict[str, RetrieveRun] = {}
    for run in record.stages:
        if isinstance(run, RetrieveRun) and run.is_known:
            runs[run.query or record.query.rewritten or record.query.original] = run
    return [_answers(probe, query, run, record, deeper) for query, run in list(runs.items())[-QUERIES:] if query]


def _answers(probe: Probe, query: str, run: RetrieveRun, record: RequestRecord, deeper: int) -> Answers:
    depth = max(run.top_k or 0, len(run.candidates), 1)
    asked = max(depth, min(MOST, depth * deeper))
    exact = _search(probe, query, asked, record, exact=True)
    return Answers(
        query=query,
        depth=depth,
        asked=asked,
        same=_search(probe, query, depth, record, exact=False) or {},
        deep=_search(probe, query, asked, record, exact=False) or {},
        exact=exact,
        run=frozenset(candidate.chunk_id for candidate in run.candidates),
    )


def _search(
    probe: Probe, query: str, depth: int, record: RequestRecord | None, *, exact: bool
) -> dict[str, Candidate] | None:
    """What a probe returns, ranked anew from 1; None where it cannot search so."""
    try:
        returned = _called(probe.probe, query, depth, exact, request=record)
        if returned is None:
            return None
        chunks = [chunk for _, chunk in read_chunks(returned).ranked][:depth]
    except Exception as error:
        raise ProbeError(f"{type(error).__name__}: {error}") from error
    found: dict[str, Candidate] = {}
    for rank, chunk in enumerate(chunks, 1):
        found.setdefault(chunk.identity, chunk.candidate(rank))
    return found


def _called(function: Callable[..., Any], *arguments: Any, request: RequestRecord | None) -> Any:
    """The function's answer; it gets the request, too, where it has a parameter of this name."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some of C tell nothing
        parameters = {}  # type: ignore[assignment]
    return function(*arguments, request=request) if "request" in parameters else function(*arguments)


def cause_of(
    probe: Probe, chunk_id: str, answers: Sequence[Answers], request: RequestRecord | None = None
) -> ProbedChunk:
    """Why a chunk is not among the candidates, by the query for which it ranks best.

    Raises: ProbeError for what the probe raises.
    """
    best = min(
        answers, key=lambda one: (_rank(one.exact, chunk_id) or _rank(one.deep, chunk_id) or MOST + 1, one.query)
    )
    found = ProbedChunk(chunk_id=chunk_id, rank=_rank(best.deep, chunk_id), exact_rank=_rank(best.exact, chunk_id))
    cause: ProbeCause | None
    try:
        if _rank(best.same, chunk_id) is not None:
            cause = "filtered" if _passes(probe, chunk_id, request) is False else None
        elif found.rank is None and found.exact_rank is None and probe.has(chunk_id) is False:
            cause = "not_indexed"
        elif _passes(probe, chunk_id, request) is False:
            cause = "filtered"
        else:
            cause = _by_rank(probe, best, found, request)
    except Exception as error:
        raise ProbeError(f"{type(error).__name__}: {error}") from error
    return replace(found, cause=cause)


def _by_rank(probe: Probe, answers: Answers, found: ProbedChunk, request: RequestRecord | None) -> ProbeCause | None:
    """Missed, where an exact search behind the same filters would have returned it at the depth asked for."""
    if found.exact_rank is None:
        is_known = answers.exact is not None or found.rank is not None
        return "below_depth" if is_known and (found.rank is not None or probe.has(found.chunk_id)) else None
    before = [name for name, each in (answers.exact or {}).items() if each.rank < found.exact_rank]
    removed = sum(_passes(probe, name, request) is False for name in before)
    return "below_depth" if found.exact_rank - removed > answers.depth else "missed_by_search"


def _rank(found: Mapping[str, Candidate] | None, chunk_id: str) -> int | None:
    candidate = (found or {}).get(chunk_id)
    return None if candidate is None else candidate.rank


def _passes(probe: Probe, chunk_id: str, request: RequestRecord | None) -> bool | None:
    passes = getattr(probe, "passes", None)
    return None if passes is None else _called(passes, chunk_id, request=request)


@dataclass(frozen=True, slots=True)
class BetterChunk:
    """A chunk beside the candidates. match: the share of the question's words that it holds in one place; lead: how
    much more than any candidate that is; facet: a certain one that it meets and no candidate does."""

    candidate: Candidate
    match: float
    lead: float
    facet: Facet | None = None


def better_evidence(
    query: str,
    candidates: Sequence[Candidate],
    found: Sequence[Candidate],
    *,
    facets: Sequence[Facet] = (),
    certain: Sequence[Facet] = (),
    background: Background | None = None,
) -> list[BetterChunk]:
    """Chunks that may be better evidence for a question than any candidate, by words and facets, best first.

    facets: of the question; certain: those of them that the evidence must meet. A chunk that meets fewer facets than
    the best candidate, or states another value of one, is no better one, whatever its words, nor is one that repeats a
    candidate.
    """
    pool = [*candidates, *found]
    evidence = [Evidence.read(each.chunk_id, each.text or "") for each in pool]
    match = question_match(query, evidence, Rarity(evidence, background))
    if not match.size or not candidates or not found or len(set(content_words(query))) < WORDS:
        return []
    split = len(candidates)
    best = match[:, :split].max(axis=1)
    leads = (match[:, split:] - best[:, None]).max(axis=0)
    held = match[:, split:].max(axis=0)
    table = np.nan_to_num(facet_matrix([*facets, *certain], pool), nan=0.0).reshape(
        len(facets) + len(certain), len(pool)
    )
    joint = table[: len(facets)].sum(axis=0)
    stated = np.logical_or.reduce(contradictions(facets, pool), axis=0)
    better = []
    for place, candidate in enumerate(found):
        column = split + place
        met = next(
            (
                facet
                for facet, row in zip(certain, table[len(facets) :], strict=True)
                if row[:split].max(initial=0.0) < FACET_MET and row[column] >= FULLY
            ),
            None,
        )
        if any(are_duplicates(evidence[column].reading, each.reading) for each in evidence[:split]):
            continue
        if stated[column] or (joint[column] + 1e-9 < joint[:split].max(initial=0.0) and met is None):
            continue
        better.append(BetterChunk(candidate, float(held[place]), float(leads[place]), met))
    return sorted(better, key=lambda one: (one.facet is None, -one.lead, one.candidate.rank))


def compare(
    probe: Probe,
    record: RequestRecord,
    answers: Sequence[Answers],
    *,
    lost: Iterable[str] = (),
    by_gold: bool = False,
    facets: Sequence[Facet] = (),
    certain: Sequence[Facet] = (),
    background: Background | None = None,
    proven: Callable[[Sequence[Candidate]], Sequence[Candidate] | None] = lambda found: None,
) -> IndexProbe:
    """What the answers of a probe say of a request.

    lost: with gold evidence (`by_gold`), the needed chunks that the candidates lack. Without it a chunk counts that is
    clearly better evidence than any candidate (`better_evidence`), and for which a cause is found. proven: of what the
    index holds beside the candidates, what a model proves to be evidence; None where it does not judge, and words do.

    Raises: ProbeError for what the probe raises.
    """
    asked = max((one.asked for one in answers), default=0)
    finding = IndexProbe(
        outcome="nothing_better",
        depth=max((one.depth for one in answers), default=0),
        asked=asked,
        exact=any(one.exact is not None for one in answers),
        by_gold=by_gold,
        index_version=index_version(probe),
        sources=_sources(record.candidates),
    )
    then = record.versions.get("index")
    if then is not None and finding.index_version is not None and then != finding.index_version:
        return replace(finding, outcome="another_version", why=f"the request was answered by index {then}")
    if not answers or not any(one.is_alike for one in answers):
        return replace(finding, outcome="other_search")
    alike = [one for one in answers if one.is_alike]
    if by_gold:
        chunks = [cause_of(probe, chunk_id, alike, record) for chunk_id in lost]
    elif (judged := proven(_beside(record, alike))) is not None:
        chunks = [cause_of(probe, each.chunk_id, alike, record) for each in judged[:SHOWN]]
    else:
        chunks = _better_chunks(probe, record, alike, facets, certain, background)
    cause = next((chunk.cause for chunk in chunks if chunk.cause is not None), None)
    outcome = "found" if chunks else "nothing_better"
    return replace(finding, outcome=outcome, cause=cause, chunks=tuple(chunks[:SHOWN]))


def _better_chunks(
    probe: Probe,
    record: RequestRecord,
    answers: Sequence[Answers],
    facets: Sequence[Facet],
    certain: Sequence[Facet],
    background: Background | None,
) -> list[ProbedChunk]:
    candidates = record.candidates
    known = {candidate.chunk_id for candidate in candidates}
    new = _beside(record, answers)
    given = {"facets": facets, "certain": certain, "background": background}
    better = better_evidence(record.query.original, candidates, new, **given)  # type: ignore[arg-type]
    first = {each.chunk_id for each in new if _is_first(each.chunk_id, known, answers)}
    own = [one for one in answers if one.is_exact]
    missed = {one.candidate.chunk_id for one in better if _is_missed(probe, one, own, record)}
    if record.query.rewritten:  # a follow-up is a fragment of what is asked, and a rewrite may add what is not
        also = better_evidence(record.query.rewritten, candidates, new, **given)  # type: ignore[arg-type]
        leads = {one.candidate.chunk_id: math.inf if one.facet else one.lead for one in also}
        least = {name: -math.inf if name in missed else FIRST_LEAD if name in first else ALSO_LEAD for name in leads}
        better = [one for one in better if leads.get(key := one.candidate.chunk_id, -math.inf) >= least.get(key, 0.0)]
    chunks: list[ProbedChunk] = []
    best = max((one.match - one.lead for one in better), default=0.0)
    answer = record.generation.answer if record.generation else None
    declines = is_abstention(answer or "")
    for one in sorted(better, key=lambda one: (one.facet is None, one.candidate.chunk_id not in first)):
        if len(chunks) == SHOWN:
            break
        chunk_id = one.candidate.chunk_id
        speaks, lead = (0.0 if declines else FIRST_SPEAKS, FIRST_LEAD) if chunk_id in first else (SPEAKS, LEAD)
        meets = one.facet is not None and one.match >= AS_MUCH * best
        if chunk_id in missed or meets or (one.match >= speaks and one.lead >= lead):
            chunk = cause_of(probe, chunk_id, answers, record)
            if chunk.cause == "filtered" and not meets and (one.match < FILTERED_SPEAKS or one.lead < FILTERED_LEAD):
                continue
            facet = None if one.facet is None else f"{one.facet.kind} “{one.facet.value}”"
            chunks.append(replace(chunk, match=round(one.match, 4), facet=facet))
    return chunks


def _beside(record: RequestRecord, answers: Sequence[Answers]) -> list[Candidate]:
    """What a probe returned when it was asked deeper, and exactly, and the request did not get."""
    found: dict[str, Candidate] = {}
    for answer in answers:
        found |= {**answer.deep, **(answer.exact or {})}
    known = {candidate.chunk_id for candidate in record.candidates}
    return [each for name, each in found.items() if name not in known]


def _is_first(chunk_id: str, candidates: Iterable[str], answers: Sequence[Answers]) -> bool:
    """Whether an exact search ranks a chunk above all candidates."""
    ranks = ((_rank(one.exact, chunk_id), [_rank(one.exact, each) for each in candidates]) for one in answers)
    return any(rank is not None and all(rank < (each or MOST + 1) for each in others) for rank, others in ranks)


def _is_missed(probe: Probe, better: BetterChunk, own: Sequence[Answers], record: RequestRecord) -> bool:
    """Whether the application's search, made exact, ranks a chunk above all candidates and did not return it: a fault
    of the search, however little words say for the chunk. own: the answers whose exact search is the application's."""
    name = better.candidate.chunk_id
    is_first = better.match > 0.0 and any(_is_first(name, one.run, [one]) for one in own)
    return is_first and cause_of(probe, name, own, record).cause == "missed_by_search"


def _sources(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The sources of the first candidates that name one, each once."""
    return tuple(dict.fromkeys(each.source for each in candidates[:SHOWN] if each.source))
