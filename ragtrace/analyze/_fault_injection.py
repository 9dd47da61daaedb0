"""Faults of a service, made on purpose: copies of recorded requests, each broken at one stage in a known way.

What is lost is the chunk that the answer's claims rest on, where no other text at hand says the same. What a model
would have answered then is not known: the copy declines, or repeats the nearest sentence of what is left, as real
models do either. All else of the request stays as it was recorded.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragtrace.coverage import SUPPORTED
from ragtrace.coverage.text import sentences
from ragtrace.coverage.verifier import containment, terms
from ragtrace.types import (
    Candidate,
    Citation,
    Claim,
    DroppedChunk,
    GenerateRun,
    Generation,
    PackedChunk,
    PackRun,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    Stage,
    StageRun,
    replace,
)

__all__ = ["FAULTS", "Subject", "inject"]

FAULTS: Final[Mapping[str, Stage]] = {
    "removed": "retrieval",  # the evidence was never found
    "sunk": "ranking",  # it was, and ended below the cut
    "cut": "ranking",  # it was cut where the evidence begins
    "altered": "generation",  # one thing of a claim is another one
    "exchanged": "generation",  # the answer is that to another question
    "moved": "citation",  # a mark names another chunk of the prompt
}
"""The faults by name, and the stage that each one breaks."""

_SAME: Final = 0.75  # share of a claim's terms in another text, from which it may say the same
_OTHER: Final = 0.5  # share of an answer's terms in the prompt, up to which it is one to another question
_NUMBER: Final = re.compile(r"(?<![\w.,\[(【^#-])\d+(?:[.,]\d+)?(?![\w-]|[.,]\d)")
_MARK: Final = re.compile(r"\d+")
_REFUSALS: Final = (
    "I could not find an answer to this in the documents.",
    "The provided documents do not contain this information.",
    "I'm sorry, but I don't have information about that.",
)
_OPPOSITES: Final = {
    "before": "after", "after": "before", "more": "fewer", "fewer": "more", "less": "more", "minimum": "maximum",
    "maximum": "minimum", "all": "none of the", "always": "never", "never": "always", "required": "optional",
    "optional": "required", "allowed": "forbidden", "first": "last", "last": "first", "increase": "decrease",
    "increases": "decreases", "higher": "lower", "lower": "higher", "with": "without", "without": "with",
    "above": "below", "below": "above", "every": "no", "only": "not only", "include": "exclude",
}  # fmt: skip
_NEGATED: Final = re.compile(r"\b(is|are|was|were|must|can|may|should|will|does|do|has|have)\b(?! not\b)")
_WORD: Final = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """A request that is broken: its record, and the claims of its answer as they were judged."""

    record: RequestRecord
    claims: Sequence[Claim]

    @property
    def supported(self) -> list[Claim]:
        """The claims that a chunk of the prompt supports."""
        return [
            claim
            for claim in self.claims
            if claim.factual and claim.best_chunk is not None and (claim.support or 0.0) >= SUPPORTED
        ]


def inject(
    subject: Subject, fault: str, others: Sequence[RequestRecord], chance: random.Random
) -> RequestRecord | None:
    """A copy of a request that is broken so, under an id of its own; None where that cannot be done.

    others: requests of the same service, whose answers can be taken for this one's.
    """
    made = _MAKERS[fault](subject, others, chance)
    return None if made is None else replace(made, request_id=f"{made.request_id}:{fault}")


def _removed(subject: Subject, others: Sequence[RequestRecord], chance: random.Random) -> RequestRecord | None:
    lost = _evidence(subject)
    if not lost or len(lost) == len(subject.record.candidates):
        return None
    stages = [_without(run, lost) for run in subject.record.stages]
    return _answered(replace(subject.record, stages=tuple(stages)), subject, lost, chance)


def _sunk(subject: Subject, others: Sequence[RequestRecord], chance: random.Random) -> RequestRecord | None:
    lost = _evidence(subject)
    packing = subject.record.packing
    if not lost or packing is None or len(lost) == len(packing.chunks):
        return None
    if not lost <= {candidate.chunk_id for candidate in subject.record.candidates}:
        return None  # what no candidate names was not lost behind the retriever
    stages = [_with_sunk(run, lost, subject.record) for run in subject.record.stages]
    return _answered(replace(subject.record, stages=tuple(stages)), subject, lost, chance)


def _cut(subject: Subject, others: Sequence[RequestRecord], chance: random.Random) -> RequestRecord | None:
    lost = _evidence(subject)
    packing = subject.record.packing
    texts = {candidate.chunk_id for candidate in subject.record.candidates if candidate.text}
    if not lost or packing is None or not lost <= texts:
        return None
    claims = [claim for claim in subject.supported if claim.best_chunk in lost]
    chunks = [
        _shortened(chunk, claims) if chunk.chunk_id in lost and not chunk.truncated else chunk
        for chunk in packing.chunks
    ]
    if not any(chunk.truncated and chunk.chunk_id in lost for chunk in chunks):
        return None
    left = [chunk for chunk in chunks if chunk.text != ""]
    gone = [DroppedChunk(chunk_id=chunk.chunk_id, reason="budget") for chunk in chunks if chunk.text == ""]
    packed = replace(packing, chunks=_placed(left), dropped=(*packing.dropped, *gone))
    stages = [
        replace(run, packing=packed) if isinstance(run, PackRun) and run.packing == packing else run
        for run in subject.record.stages
    ]
    return _answered(replace(subject.record, stages=tuple(stages)), subject, lost, chance)


def _altered(subject: Subject, others: Sequence[RequestRecord], chance: random.Random) -> RequestRecord | None:
    answer = _answer(subject.record)
    prompt = " ".join(chunk.text or "" for chunk in _packed(subject.record))
    for claim in chance.sample(subject.supported, len(subject.supported)):
        for way in chance.sample(_WAYS, len(_WAYS)):
            changed = way(claim.text, prompt, chance)
            if changed is not None and changed != claim.text:
                return _said(subject.record, answer[: claim.start] + changed + answer[claim.end :])
    return None


def _exchanged(subject: Subject, others: Sequence[RequestRecord], chance: random.Random) -> RequestRecord | None:
    if subject.record.generation is None:
        return None
    prompt = " ".join(chunk.text or "" for chunk in _packed(subject.record))
    asked = terms(subject.record.query.original)
    for other in chance.sample(others, len(others)):
        answer = _answer(other)
        is_same = terms(other.query.original) == asked or other.request_id == subject.record.request_id
        if answer and not is_same and containment(answer, prompt) <= _OTHER:
            return _said(subject.record, answer)
    return None


def _moved(subject: Subject, others: Sequence[RequestRecord], chance: random.Random) -> RequestRecord | None:
    answer, packed = _answer(subject.record), _packed(subject.record)
    for claim in chance.sample(subject.supported, len(subject.supported)):
        marks = [mark for mark in claim.citations if mark.chunk_id is not None and mark.start is not None]
        if len(marks) != 1 or len({chunk.chunk_id for chunk in packed}) < 2:
            continue
        mark = marks[0]
        wrong = [
            chunk.chunk_id
            for chunk in packed
            if chunk.chunk_id != mark.chunk_id and not _says_the_same([claim], chunk.text)
        ]
        if not wrong:
            continue
        marker = _marker(mark, chance.choice(wrong), packed)
        start, end = mark.start, mark.end
        if marker is not None and start is not None and end is not None and answer[start:end] == mark.marker:
            return _said(subject.record, answer[:start] + marker + answer[end:])
    return None


_Maker = Callable[[Subject, Sequence[RequestRecord], random.Random], RequestRecord | None]
_MAKERS: Final[Mapping[str, _Maker]] = {
    "removed": _removed,
    "sunk": _sunk,
    "cut": _cut,
    "altered": _altered,
    "exchanged": _exchanged,
    "moved": _moved,
}


def _evidence(subject: Subject) -> frozenset[str]:
    """The chunks that the supported claims rest on, where no other text at hand says what one of them says."""
    claims = subject.supported
    resting: dict[str, list[Claim]] = {}
    for claim in claims:
        resting.setdefault(claim.best_chunk or "", []).append(claim)
    lost = frozenset(resting)
    texts = {chunk.chunk_id: chunk.text for chunk in _packed(subject.record) if chunk.text}
    texts |= {candidate.chunk_id: candidate.text for candidate in subject.record.candidates if candidate.text}
    others = [text for chunk_id, text in texts.items() if chunk_id not in lost]
    alone = [claim for claim in claims if not any(_says_the_same([claim], text) for text in others)]
    return lost if alone else frozenset()


def _says_the_same(claims: Iterable[Claim], text: str | None) -> bool:
    return any(containment(claim.text, text or "") >= _SAME for claim in claims)


def _packed(record: RequestRecord) -> tuple[PackedChunk, ...]:
    return record.packing.chunks if record.packing else ()


def _answer(record: RequestRecord) -> str:
    return (record.generation.answer if record.generation else None) or ""


def _without(run: StageRun, lost: Collection[str]) -> StageRun:
    """A run as it is where the retriever never found these chunks."""
    if isinstance(run, RetrieveRun):
        kept = [candidate for candidate in run.candidates if candidate.chunk_id not in lost]
        ranked = [replace(candidate, rank=rank) for rank, candidate in enumerate(kept, 1)]
        return replace(run, candidates=tuple(ranked))
    if isinstance(run, RerankRun):
        moves = [move for move in run.moves if move.chunk_id not in lost]
        return replace(run, moves=_closed(moves))
    if isinstance(run, PackRun):
        chunks = [chunk for chunk in run.packing.chunks if chunk.chunk_id not in lost]
        dropped = [chunk for chunk in run.packing.dropped if chunk.chunk_id not in lost]
        return replace(run, packing=replace(run.packing, chunks=_placed(chunks), dropped=tuple(dropped)))
    return run


def _with_sunk(run: StageRun, lost: Collection[str], record: RequestRecord) -> StageRun:
    """A run as it is where these chunks end below the cut; the best candidates outside of the prompt move up."""
    if isinstance(run, RerankRun):
        last = len(run.moves)
        order = sorted(run.moves, key=lambda move: (move.chunk_id in lost, move.rank_after or last))
        scores = sorted((move.score for move in run.moves if move.score is not None), reverse=True)
        is_scored = len(scores) == last
        return replace(
            run,
            moves=tuple(
                replace(move, rank_after=rank, score=scores[rank - 1] if is_scored else move.score)
                for rank, move in enumerate(order, 1)
            ),
        )
    if not isinstance(run, PackRun):
        return run
    kept = [chunk for chunk in run.packing.chunks if chunk.chunk_id not in lost]
    held = {chunk.chunk_id for chunk in run.packing.chunks}
    following = [candidate for candidate in record.candidates if candidate.chunk_id not in held and candidate.text]
    room = len(run.packing.chunks) - len(kept)
    chunks = _placed([*kept, *map(_as_packed, following[:room])])
    named = {chunk.chunk_id for chunk in chunks}
    dropped = [chunk for chunk in run.packing.dropped if chunk.chunk_id not in named]
    dropped += [DroppedChunk(chunk_id=chunk_id, reason="rank") for chunk_id in sorted(held.intersection(lost))]
    return replace(run, packing=replace(run.packing, chunks=chunks, dropped=tuple(dropped)))


def _as_packed(candidate: Candidate) -> PackedChunk:
    return PackedChunk(chunk_id=candidate.chunk_id, position=1, text=candidate.text)


def _closed(moves: Iterable[RankMove]) -> tuple[RankMove, ...]:
    """The moves with ranks from 1 on, without gaps."""
    kept = list(moves)
    before = {each: rank for rank, each in enumerate(sorted({m.rank_before for m in kept if m.rank_before}), 1)}
    after = {each: rank for rank, each in enumerate(sorted({m.rank_after for m in kept if m.rank_after}), 1)}
    return tuple(
        replace(
            move,
            rank_before=before.get(move.rank_before or 0),
            rank_after=after.get(move.rank_after or 0),
        )
        for move in kept
    )


def _placed(chunks: Iterable[PackedChunk]) -> tuple[PackedChunk, ...]:
    return tuple(replace(chunk, position=position) for position, chunk in enumerate(chunks, 1))


def _shortened(chunk: PackedChunk, claims: Sequence[Claim]) -> PackedChunk:
    """The chunk up to the first sentence that one of the claims rests on; without text where that is its first one."""
    text = chunk.text or ""
    for sentence in sentences(text):
        if any(containment(claim.text, sentence.text) >= _OTHER for claim in claims):
            kept = text[: sentence.start].rstrip()
            return replace(chunk, text=kept, truncated=True, content_hash=None, tokens=None)
    return chunk


def _answered(record: RequestRecord, subject: Subject, lost: Collection[str], chance: random.Random) -> RequestRecord:
    """The request as a model may have answered it without its evidence: it declines, or repeats what is nearest."""
    nearest = _nearest(record)
    if nearest is None or chance.random() < 0.5:
        return _said(record, chance.choice(_REFUSALS))
    chunk, text = nearest
    known = [mark for claim in subject.claims for mark in claim.citations if mark.chunk_id is not None]
    mark = _marker(known[0], chunk.chunk_id, _packed(record), _packed(subject.record)) if known else None
    return _said(record, text if mark is None else f"{text} {mark}")


def _nearest(record: RequestRecord) -> tuple[PackedChunk, str] | None:
    """The sentence of the prompt that shares most with the question, and its chunk."""
    asked = terms(record.query.original)
    found = [
        (len(asked & terms(sentence.text)), chunk, sentence.text)
        for chunk in _packed(record)
        for sentence in sentences(chunk.text or "")
        if len(sentence.text.split()) > 3
    ]
    best = max(found, key=lambda each: each[0], default=None)
    return None if best is None else (best[1], best[2])


def _marker(
    mark: Citation, chunk_id: str, packed: Sequence[PackedChunk], before: Sequence[PackedChunk] | None = None
) -> str | None:
    """The mark that names another chunk of the prompt, written as this one is; None where its form is not known.

    before: the prompt that the mark was written for, where it is another one.
    """
    if mark.chunk_id and mark.chunk_id in mark.marker:
        return mark.marker.replace(mark.chunk_id, chunk_id)
    numbers = _MARK.findall(mark.marker)
    places = {chunk.chunk_id: place for place, chunk in enumerate(packed)}
    origin = {chunk.chunk_id: place for place, chunk in enumerate(packed if before is None else before)}
    if len(numbers) != 1 or chunk_id not in places or mark.chunk_id not in origin:
        return None
    first = int(numbers[0]) - origin[mark.chunk_id]
    return _MARK.sub(str(first + places[chunk_id]), mark.marker, count=1)


def _said(record: RequestRecord, answer: str) -> RequestRecord:
    """The request with another answer, whose marks are those that stand in it."""
    last = next(run for run in reversed(record.stages) if isinstance(run, GenerateRun) and run.is_known)
    generation: Generation = replace(last.generation, answer=answer, answer_hash=None, citations=())
    new = replace(last, generation=generation)
    return replace(record, stages=tuple(new if run is last else run for run in record.stages))


def _other_number(text: str, prompt: str, chance: random.Random) -> str | None:
    """A number that the prompt does not state, in the place of one that it does."""
    found = [match for match in _NUMBER.finditer(text) if match[0] in prompt]
    if not found:
        return None
    match = chance.choice(found)
    whole = _MARK.match(match[0])
    begin = whole[0] if whole else match[0]
    for more in chance.sample(range(1, 10), 9):
        value = f"{int(begin) + more}{match[0][len(begin) :]}"
        if value not in prompt:
            return text[: match.start()] + value + text[match.end() :]
    return None


def _negated(text: str, prompt: str, chance: random.Random) -> str | None:
    match = _NEGATED.search(text)
    return None if match is None else f"{text[: match.end()]} not{text[match.end() :]}"


def _opposite(text: str, prompt: str, chance: random.Random) -> str | None:
    found = [match for match in _WORD.finditer(text) if match[0].casefold() in _OPPOSITES]
    if not found:
        return None
    match = chance.choice(found)
    return text[: match.start()] + _OPPOSITES[match[0].casefold()] + text[match.end() :]


_WAYS: Final = (_other_number, _negated, _opposite)
