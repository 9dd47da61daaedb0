"""Rounds of retrieval: an agent, a tool or a follow-up searches again after a prompt was packed, and answers from all.

A round begins with a retriever that runs after a packing. What an earlier round gave to the model counts as given, so
that a later round which mends an earlier one, or goes on from it, is no break.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragtrace.types import GenerateRun, PackedChunk, Packing, PackRun, RequestRecord, RetrieveRun, StageRun, replace

__all__ = ["asked", "rounds_of", "united"]


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
    earlier = [run for run in _given(record.stages) if run is not last]
    if not earlier:
        return record
    packing = _joined([last.packing, *(run.packing for run in reversed(earlier))])
    whole = replace(last, packing=packing)
    return replace(record, stages=tuple(whole if run is last else run for run in record.stages))


def asked(record: RequestRecord) -> str | None:
    """What the retrievers were asked in place of the question; of several rounds or queries all together.

    None where nothing was rewritten. What one of several queries leaves out another one may ask.
    """
    rewritten = record.query.rewritten
    queries = [run.query for run in record.stages if isinstance(run, RetrieveRun) and run.query]
    if rewritten is None or len(queries) < 2:
        return rewritten
    return "\n".join(dict.fromkeys((rewritten, *queries)))


def _given(stages: Iterable[StageRun]) -> list[PackRun]:
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
