"""Evidence Overlap: did the reference evidence reach the prompt, and where was the rest of it lost?

An agent, a tool or a follow-up searches again after a prompt was packed, and answers from all: a round of retrieval
begins with a retriever that runs after a packing. What an earlier round gave to the model counts as given, so that a
later round which mends an earlier one, or goes on from it, is no break.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from typing import Final, Literal, TypeAlias

from ragtrace.coverage._equivalence import answering_sentences, spoken
from ragtrace.coverage._refusals import is_abstention
from ragtrace.types import (
    Claim,
    GenerateRun,
    LostChunk,
    PackedChunk,
    Packing,
    PackRun,
    RankMove,
    RequestRecord,
    RetrieveRun,
    StageRun,
    replace,
)

__all__ = [
    "asked",
    "candidate_recall",
    "evidence_depth",
    "evidence_overlap",
    "evidence_precision",
    "evidence_recall",
    "evidence_token_share",
    "lost_evidence",
    "rank_shift",
    "rounds_of",
    "superseded",
    "truncated_tokens",
    "united",
]

Where: TypeAlias = Literal["retrieval", "rerank", "packing", "truncation"]
HALF: Final = 0.5  # of a chunk: with less of it in the prompt, what it was needed for was more likely cut than not


def evidence_overlap(packed: Iterable[str], reference: Iterable[str]) -> float | None:
    """EO = |E ∩ E*| / |E ∪ E*| on chunk ids, in [0, 1]; None without a reference.

    Always reported, never judged: with 8 packed chunks and one needed it cannot exceed 0.125; see `evidence_recall`.
    Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §3.
    """
    given, wanted = set(packed), set(reference)
    return len(given & wanted) / len(given | wanted) if wanted else None


def evidence_recall(packed: Iterable[str], reference: Iterable[str]) -> float | None:
    """|E ∩ E*| / |E*| in [0, 1]: the share of the reference evidence that is in the prompt; None without one."""
    return _share(set(reference), set(packed))


def evidence_precision(packed: Iterable[str], reference: Iterable[str]) -> float | None:
    """|E ∩ E*| / |E| in [0, 1]: the share of the prompt that is reference evidence; None without either."""
    wanted = set(reference)
    return _share(set(packed), wanted) if wanted else None


def candidate_recall(candidates: Iterable[str], reference: Iterable[str]) -> float | None:
    """|C ∩ E*| / |E*| in [0, 1]: the share of the reference evidence among all candidates; None without one."""
    return _share(set(reference), set(candidates))


def evidence_depth(candidates: Iterable[str], reference: Iterable[str]) -> float | None:
    """How many candidates, best first, one must read to see all of the reference evidence, from 1 on.

    None without a reference, and where some of it is absent from the candidates: no depth is enough then.
    """
    places = {chunk_id: place for place, chunk_id in enumerate(dict.fromkeys(candidates), start=1)}
    wanted = set(reference)
    return float(max(places[chunk_id] for chunk_id in wanted)) if wanted and wanted <= places.keys() else None


def evidence_token_share(packed: Sequence[PackedChunk], reference: Iterable[str]) -> float | None:
    """Tokens of the packed reference chunks over those of all packed chunks, in [0, 1].

    None without a reference, without a chunk in the prompt, and where a chunk's token count is unknown.
    """
    wanted = set(reference)
    counts = [(chunk.chunk_id, chunk.tokens) for chunk in packed if chunk.tokens is not None]
    total = sum(tokens for _, tokens in counts)
    if not wanted or not total or len(counts) < len(packed):
        return None
    return sum(tokens for chunk_id, tokens in counts if chunk_id in wanted) / total


def rank_shift(moves: Sequence[RankMove], reference: Iterable[str]) -> float | None:
    """Mean |rank_before - rank_after| over the reference chunks that the reranker kept, in ranks.

    None when no reference chunk has both ranks. Source: "Diagnosing Hallucinations with Attribution Traces and
    Retrieval Coverage Metrics", §3.
    """
    wanted = set(reference)
    shifts = [
        abs(move.rank_after - move.rank_before)
        for move in moves
        if move.chunk_id in wanted and move.rank_before is not None and move.rank_after is not None
    ]
    return sum(shifts) / len(shifts) if shifts else None


def truncated_tokens(packed: Sequence[PackedChunk]) -> float | None:
    """Tokens that truncation cut off the packed chunks, summed; None where no chunk's token counts are known."""
    known = [chunk for chunk in packed if chunk.tokens is not None and chunk.tokens_full]
    cut = [max(0, (chunk.tokens_full or 0) - (chunk.tokens or 0)) for chunk in known]
    return float(sum(cut)) if cut else None


def lost_evidence(
    record: RequestRecord, reference: Iterable[str], claims: Sequence[Claim] = ()
) -> tuple[LostChunk, ...]:
    """Where each reference chunk that is not whole in the prompt was lost, in the order of `reference`.

    `retrieval`: not among the candidates; `rerank`: dropped by the reranker, not given to it, or sunk by it from within
    the packed depth (their number, or the deepest rank packed) to below it; `packing`: left out of the prompt
    otherwise, with the recorded reason (one that was inferred is called probable); `truncation`: in the prompt, but cut
    by more than half, or without a sentence that answers the question as well as the chunk can, or the answer declines,
    or one of its `claims` is supported by nothing but what was cut away. With several rounds of retrieval the prompt is
    all that a model was given, and a chunk was lost in the last round that found it.
    """
    missed = {claim.unselected_chunk for claim in claims}
    whole = _Path(united(record), missed)
    rounds = [whole] if len(found := rounds_of(record)) == 1 else [_Path(each, missed) for each in reversed(found)]
    losses: list[LostChunk | None] = []
    for chunk_id in dict.fromkeys(reference):
        path = next((each for each in rounds if each.finds(chunk_id)), whole)
        is_seen = whole.gives(chunk_id) or path.gives(chunk_id)  # or stood in a prompt that no model saw
        losses.append((whole if is_seen else path).loss(chunk_id))
    return tuple(loss for loss in losses if loss is not None)


class _Path:
    """One record's chunks by id, on their way from the candidates into the prompt."""

    def __init__(self, record: RequestRecord, missed: Set[str | None] = frozenset()) -> None:
        packing = record.packing or Packing()
        self._missed = missed
        self._declined = is_abstention((record.generation.answer if record.generation else None) or "")
        self._is_packed = record.packing is not None
        self._is_retrieved = record.is_retrieved
        self._query = record.query.original
        self._candidates = {candidate.chunk_id: candidate for candidate in record.candidates}
        self._moves = {move.chunk_id: move for move in record.moves}
        self._packed: defaultdict[str, list[PackedChunk]] = defaultdict(list)  # a chunk may be given in several parts
        for chunk in packing.chunks:
            self._packed[chunk.chunk_id].append(chunk)
        self._dropped = {chunk.chunk_id: chunk.why for chunk in packing.dropped}

    def gives(self, chunk_id: str) -> bool:
        """Whether the prompt holds a chunk, at least in part."""
        return chunk_id in self._packed

    def finds(self, chunk_id: str) -> bool:
        """Whether a chunk is among the candidates, or the reranker knew it."""
        return chunk_id in self._candidates or chunk_id in self._moves

    def loss(self, chunk_id: str) -> LostChunk | None:
        where, reason = self._where(chunk_id)
        if where is None:
            return None
        candidate, move = self._candidates.get(chunk_id), self._moves.get(chunk_id)
        return LostChunk(
            chunk_id=chunk_id,
            where=where,
            rank_before=candidate.rank if candidate else move.rank_before if move else None,
            rank_after=move.rank_after if move else None,
            reason=reason,
        )

    def _where(self, chunk_id: str) -> tuple[Where | None, str]:
        if chunk_id in self._packed:
            return self._cut(self._packed[chunk_id])
        if not self.finds(chunk_id):
            return ("retrieval" if self._is_retrieved else None), "not among the candidates"
        move = self._moves.get(chunk_id)
        if move is not None:
            if move.rank_after is None:
                return "rerank", "dropped by the reranker"
            if move.rank_before is not None and self._is_sunk(move.rank_before, move.rank_after):
                return "rerank", f"sunk below the {len(self._packed)} packed"
        elif self._moves and chunk_id not in self._dropped:
            return "rerank", "not given to the reranker"
        return ("packing" if self._is_packed else None), self._dropped.get(chunk_id, "not packed")

    def _is_sunk(self, before: int, after: int) -> bool:
        """Whether a chunk fell from within to below the packed depth: their number, or the deepest rank packed where
        the packer passed others over."""
        ranks = (move.rank_after for chunk_id, move in self._moves.items() if chunk_id in self._packed)
        deepest = max((rank for rank in ranks if rank is not None), default=0)
        return before <= len(self._packed) < after or before <= deepest < after

    def _cut(self, parts: Sequence[PackedChunk]) -> tuple[Where | None, str]:
        if not all(part.truncated for part in parts):
            return None, ""
        candidate = self._candidates.get(parts[0].chunk_id)
        full = candidate.text if candidate else None
        lost = self._declined or parts[0].chunk_id in self._missed or _kept(parts, full) < HALF
        if not lost and full and all(part.text for part in parts):
            given = [spoken(part.text or "") for part in parts]
            answers = [spoken(sentence) for sentence in answering_sentences(self._query, full)]
            lost = bool(answers) and not any(answer in text for answer in answers for text in given)
        return ("truncation" if lost else None), "; ".join(_given(part, full) for part in parts)


def _kept(parts: Sequence[PackedChunk], full: str | None) -> float:
    """The share of a chunk that its parts hold: by tokens, else by characters; all of it where neither is known."""
    if parts[0].tokens_full:
        return sum(part.tokens or 0 for part in parts) / parts[0].tokens_full
    return sum(len(part.text or "") for part in parts) / len(full) if full and parts[0].text else 1.0


def _given(part: PackedChunk, full: str | None) -> str:
    if part.tokens is None and part.given_end is not None:
        of = f" of {len(full)}" if full else ""
        return f"characters {part.given_start} to {part.given_end}{of} given"
    if part.tokens is None:
        return "cut"
    return f"{part.tokens} of {part.tokens_full} tokens given"


def _share(of: set[str], among: set[str]) -> float | None:
    return len(of & among) / len(of) if of else None


def rounds_of(record: RequestRecord) -> list[RequestRecord]:
    """The record round by round, each with the stages of one; a record of one round is given as it is."""
    rounds: list[list[StageRun]] = [[]]
    is_packed = False
    for run in record.stages:
        if is_packed and isinstance(run, RetrieveRun):
            rounds.append([])
            is_packed = False
        is_packed = is_packed or isinstance(run, PackRun)
        rounds[-1].append(run)
    return [record] if len(rounds) == 1 else [replace(record, stages=tuple(runs)) for runs in rounds]


def united(record: RequestRecord) -> RequestRecord:
    """The record with one packing that holds all that models of the request were given.

    These are the chunks of the last packing, in prompt order, and behind them those of earlier ones from which a model
    generated something: of earlier rounds, of drafts that a later call refined, of parts of the question that were
    answered apart. A packing that another one replaced before any model saw it is not among them.
    """
    last = next((run for run in reversed(record.stages) if isinstance(run, PackRun) and run.is_known), None)
    if last is None:
        return record
    earlier = [run for run in _packings(record.stages) if run is not last]
    if not earlier:
        return record
    packing = _joined([last.packing, *(run.packing for run in reversed(earlier))])
    whole = replace(last, packing=packing)
    return replace(record, stages=tuple(whole if run is last else run for run in record.stages))


def superseded(record: RequestRecord) -> frozenset[str]:
    """Candidates of earlier rounds of retrieval alone, where the prompt was made of what the last one returned.

    A round is earlier if it ended before the last one began; what the reranker was given is in the last round as well.
    """
    runs = [run for run in record.stages if isinstance(run, RetrieveRun)]
    if len(runs) < 2 or record.packing is None:
        return frozenset()
    earlier = [run for run in runs[:-1] if 0 < run.ended_at <= runs[-1].started_at]
    kept = {candidate.chunk_id for run in runs if run not in earlier for candidate in run.candidates}
    kept |= {move.chunk_id for move in record.moves}
    if not all(chunk.chunk_id in kept for chunk in record.packing.chunks):
        return frozenset()
    return frozenset(candidate.chunk_id for run in earlier for candidate in run.candidates) - kept


def asked(record: RequestRecord) -> str | None:
    """What the retrievers were asked in place of the question; of several rounds or queries all together.

    None where nothing was rewritten. What one of several queries leaves out another one may ask.
    """
    rewritten = record.query.rewritten
    queries = [run.query for run in record.stages if isinstance(run, RetrieveRun) and run.query]
    if rewritten is None or len(queries) < 2:
        return rewritten
    return "\n".join(dict.fromkeys((rewritten, *queries)))


def _packings(stages: Iterable[StageRun]) -> list[PackRun]:
    """The packings from which something was generated: each of the generations that follow packings on each other takes
    one of these, the last ones first."""
    given: list[PackRun] = []
    waiting: list[PackRun] = []
    taken = 0
    for run in stages:
        if not run.is_known:
            continue
        if isinstance(run, PackRun):
            if taken:
                given += waiting[-taken:]
                waiting, taken = [], 0
            waiting.append(run)
        elif isinstance(run, GenerateRun) and waiting:
            taken += 1
    return given + (waiting[-taken:] if taken else [])


def _joined(packings: Sequence[Packing]) -> Packing:
    """One packing of several, the first one's chunks first, as citations count them; others follow where they are new,
    or whole where they were cut before."""
    chunks: list[PackedChunk] = []
    is_cut: dict[str, bool] = {}
    for packing in packings:
        for chunk in packing.chunks:
            if chunk.chunk_id not in is_cut or (is_cut[chunk.chunk_id] and not chunk.truncated):
                chunks.append(chunk)
        for chunk in packing.chunks:
            is_cut[chunk.chunk_id] = is_cut.get(chunk.chunk_id, True) and chunk.truncated
    dropped = {chunk.chunk_id: chunk for packing in reversed(packings) for chunk in packing.dropped}
    return replace(
        packings[0],
        chunks=tuple(replace(chunk, position=place) for place, chunk in enumerate(chunks, _first(packings[0]))),
        dropped=tuple(chunk for chunk_id, chunk in dropped.items() if chunk_id not in is_cut),
    )


def _first(packing: Packing) -> int:
    """The position of the first chunk: hosts count from 0 or from 1."""
    return packing.chunks[0].position if packing.chunks else 1
