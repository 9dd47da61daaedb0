"""One request as its page shows it: the chunks of its path, the claims with the sentences behind them, and what went
wrong, in plain data that the drawing and the template read.

Texts are cut before anything is computed on them: a page is for reading, and one line of five megabytes is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import Final, Literal, TypeAlias

from ragtrace.analyze.diagnosis import not_known_before
from ragtrace.analyze.services import remedy
from ragtrace.coverage import SUPPORTED, united
from ragtrace.export.findings import ClaimView, claim_views, doubt_note, is_outdated, verdict_words
from ragtrace.registry.instruments import STAGES
from ragtrace.registry.wording import FIXES, STATES, cause_words, reason_words
from ragtrace.types import (
    Analysis,
    Candidate,
    Claim,
    GenerateRun,
    LostChunk,
    PackedChunk,
    PackRun,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    Stage,
    StageFinding,
    StageRun,
    replace,
)

__all__ = [
    "LONGEST",
    "ChunkView",
    "ClaimLink",
    "FaultView",
    "Piece",
    "RequestView",
    "StageView",
    "Words",
    "bounded",
    "request_view",
    "stage_times",
]

LONGEST: Final = 12_000  # characters of one text that are shown
_ALL: Final = 2_000_000  # of all texts of a page
_SHOWN: Final = 14  # chunks of the picture; those that matter come first
_DECIDES: Final = {"rerank": "reranker", "packing": "packer", "truncation": "packer"}  # what loses a chunk there
_MOST_WORDS: Final = 400  # of two texts that are compared word by word
_VALUES: Final = re.compile(r"(?:^|: )([^:]{1,200}), the evidence says (.{1,200})\Z", re.DOTALL)
_MARK: Final = re.compile(r"(?:\[[^\]\s]{1,20}\])+[.,;:!?]?")  # of a citation
_SIGNS: Final = ".,;:!?\"'()[]„“”«»¿¡"  # around a word
_ALIKE: Final = 0.5  # of the words, from which on a difference is one
_KINDS: Final = {RetrieveRun: "retrieve", RerankRun: "rerank", PackRun: "pack", GenerateRun: "generate"}
_RUNS: Final = 60  # of a request, whose times are shown
_WHERE: Final = {
    "retrieval": "not retrieved",
    "rerank": "lost in reranking",
    "packing": "left out of the prompt",
    "truncation": "cut in the prompt",
}

_ABSENT: Final = ("absent_from_candidates", "absent_from_index")  # causes that say no more than where

Tone: TypeAlias = Literal["good", "bad", "doubt", "plain"]
_TONES: Final[Mapping[str, Tone]] = {
    "supported": "good",
    "contradicted": "bad",
    "not supported": "doubt",
    "weakly supported": "doubt",
    "not known": "plain",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text. claims: whose sentence it is, by number, each with its tone; is_cut: left out of the
    prompt; first_of: claims whose sentence begins here."""

    text: str
    claims: tuple[tuple[int, Tone], ...] = ()
    first_of: tuple[int, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class ChunkView:
    """A chunk and its way: ranks from 1 and the place in the prompt, None where it did not get there. number: of its
    element in the page. loss: where needed evidence was lost, in words."""

    number: int
    chunk_id: str
    retrieved: int | None
    reranked: int | None
    position: int | None
    is_needed: bool = False
    loss: str | None = None
    lost_at: str | None = None
    dropped: str | None = None
    tokens: int | None = None
    tokens_full: int | None = None
    is_truncated: bool = False
    score: float | None = None
    pieces: tuple[Piece, ...] = ()
    left_out: int = 0  # characters that are not shown


@dataclass(frozen=True, slots=True)
class ClaimLink:
    """A claim with the chunks that it rests on or that contradict it, by their numbers."""

    view: ClaimView
    tone: Tone
    supports: tuple[int, ...] = ()
    contradictions: tuple[int, ...] = ()
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class StageView:
    """A stage of the request: what is known of it, why, and what would let it be judged."""

    name: Stage
    owner: str
    state: str  # a StageState, or "not_applicable"
    words: str
    reason: str = ""
    evidence: tuple[str, ...] = ()
    helpful: str | None = None
    is_first_broken: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """A word of one of two texts that are set side by side, and whether the other one lacks it."""

    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class FaultView:
    """What went wrong, as somebody sees it who has never seen this page: a claim beside the sentence of its chunk, or
    a needed chunk and where it was lost."""

    title: str
    said: tuple[Words, ...] = ()
    given: tuple[Words, ...] = ()
    given_by: str = ""
    why: str = ""
    link: str = ""
    tone: Tone = "bad"


@dataclass(frozen=True, slots=True)
class RequestView:
    """All of one request. read: the chunks in the order of reading; others: candidates
    that the picture leaves out."""

    record: RequestRecord
    analysis: Analysis | None
    headline: str
    tone: Tone
    cause: str | None
    fix: str | None
    stages: tuple[StageView, ...]
    faults: tuple[FaultView, ...]
    chunks: tuple[ChunkView, ...]
    read: tuple[ChunkView, ...]
    claims: tuple[ClaimLink, ...]
    answer: tuple[Piece, ...]
    has_reranking: bool
    others: tuple[Candidate, ...]
    budget: int | None
    used: int | None
    is_shortened: bool = False
    by_id: dict[str, ChunkView] = field(default_factory=dict)

    @property
    def dropped_words(self) -> list[str]:
        """What stands in the question and not in the rewritten one, word behind word."""
        query = self.record.query
        return [] if query.rewritten is None else _dropped(query.original, query.rewritten)


def _dropped(question: str, rewritten: str) -> list[str]:
    """The runs of words that a rewriting left out, without the signs around them."""
    kept = {word.strip(_SIGNS).casefold() for word in rewritten.split()}
    runs = groupby(question.split(), key=lambda word: word.strip(_SIGNS).casefold() in kept)
    return [found for is_kept, words in runs if not is_kept and (found := " ".join(words).strip(_SIGNS))]


def request_view(
    record: RequestRecord, analysis: Analysis | None, known: Mapping[str, tuple[str, str]] | None = None
) -> RequestView:
    """Join a record with its analysis. known: of needed chunks that the record has no text of the version of the index
    that returned them to another request, and their text then."""
    record, is_shortened = bounded(record)
    packing = united(record).packing
    claims = claim_views(record, analysis.claims) if analysis else []
    chunks = _chunks(record, analysis, claims)
    by_id = {chunk.chunk_id: chunk for chunk in chunks}
    links = tuple(_links(analysis.claims if analysis else (), claims, by_id))
    diagnosis = analysis.diagnosis if analysis else None
    used = sum(chunk.tokens or 0 for chunk in packing.chunks) if packing else 0
    is_retrieval = diagnosis is not None and diagnosis.stage == "retrieval" and diagnosis.cause is not None
    return RequestView(
        record=record,
        analysis=analysis,
        headline=verdict_words(diagnosis) if diagnosis else "not analyzed yet (ragtrace analyze does that)",
        tone=_tone(analysis),
        cause=cause_words(diagnosis.cause) if diagnosis and is_retrieval else None,
        fix=FIXES.get(diagnosis.cause or "") if diagnosis and is_retrieval else None,
        stages=tuple(_stages(analysis)),
        faults=tuple(_faults(record, analysis, links, by_id, known or {})),
        chunks=chunks,
        read=tuple(sorted(chunks, key=_reading_place)),
        claims=links,
        answer=tuple(_answer(record, links)),
        has_reranking=bool(record.moves),
        others=tuple(one for one in record.candidates if one.chunk_id not in by_id),
        budget=packing.budget_tokens if packing else None,
        used=used or None,
        is_shortened=is_shortened,
        by_id=by_id,
    )


def bounded(record: RequestRecord) -> tuple[RequestRecord, bool]:
    """The record with its longest texts cut, and whether any was."""
    is_cut, left = False, _ALL

    def cut(text: str | None) -> str | None:
        nonlocal is_cut, left
        if text is None:
            return None
        shown = text[: min(LONGEST, left)]
        left -= len(shown)
        is_cut = is_cut or len(shown) < len(text)
        return shown

    query = replace(record.query, original=cut(record.query.original) or "", rewritten=cut(record.query.rewritten))
    stages: list[StageRun] = []
    for run in reversed(record.stages):  # the answer before the prompt, and that before the candidates
        if isinstance(run, RetrieveRun):
            run = replace(run, candidates=tuple(replace(one, text=cut(one.text)) for one in run.candidates))
        elif isinstance(run, PackRun):
            chunks = tuple(replace(one, text=cut(one.text)) for one in run.packing.chunks)
            run = replace(run, packing=replace(run.packing, chunks=chunks))
        elif isinstance(run, GenerateRun):
            run = replace(run, generation=replace(run.generation, answer=cut(run.generation.answer)))
        stages.append(run)
    return replace(record, stages=tuple(reversed(stages)), query=query), is_cut


@dataclass(frozen=True, slots=True)
class StageTime:
    """When a run of a stage, or the whole request, began and ended: nanoseconds. name: of the run, where it has one."""

    kind: str
    name: str
    began: int
    ended: int
    is_error: bool = False

    @property
    def milliseconds(self) -> float:
        """How long it took."""
        return max(0, self.ended - self.began) / 1e6


def stage_times(record: RequestRecord) -> list[StageTime]:
    """The request, then its first runs."""
    runs = [run for run in record.stages if run.ended_at]
    began = min([record.started_at or runs[0].started_at, *(run.started_at for run in runs)]) if runs else 0
    whole = max([record.ended_at - began, *(run.ended_at - began for run in runs), 1]) if runs else 1
    found = [StageTime("request", "", began, began + whole)]
    for run in runs[:_RUNS]:
        found.append(StageTime(_KINDS[type(run)], run.name, run.started_at, run.ended_at, bool(run.error)))
    return found


def _tone(analysis: Analysis | None) -> Tone:
    if analysis is None:
        return "plain"
    diagnosis = analysis.diagnosis
    if diagnosis.stage is not None or diagnosis.verdict == "error":
        return "bad"
    if is_outdated(diagnosis) or diagnosis.verdict == "no_break_found":
        return "doubt"
    return "good" if diagnosis.verdict == "healthy" else "plain"


def _stages(analysis: Analysis | None) -> Iterator[StageView]:
    if analysis is None:
        return
    diagnosis = analysis.diagnosis
    by_stage: dict[str, StageFinding] = {one.stage: one for one in diagnosis.stages}
    unknown = {one.stage for one in not_known_before(diagnosis)}
    for stage in STAGES:
        name: Stage = stage.name  # type: ignore[assignment]  # one of the four
        found = by_stage.get(name)
        if found is None:
            yield StageView(name, stage.owner, "not_applicable", "does not apply")
            continue
        is_judged = found.state in ("sound", "broken")
        helpful = None
        if name in unknown:
            helpful = remedy(name, found.reason or "undecided", is_verified=analysis.verified_by is not None)
        yield StageView(
            name,
            stage.owner,
            found.state,
            STATES[found.state],
            "" if is_judged else reason_words(found.reason, name),
            found.evidence,
            helpful,
            name == diagnosis.stage,
            doubt_note(found),
        )


def _chunks(record: RequestRecord, analysis: Analysis | None, claims: Sequence[ClaimView]) -> tuple[ChunkView, ...]:
    """The chunks that are shown, best rank first: all that was packed, needed or quoted, then the first candidates."""
    packing = united(record).packing
    candidates = {one.chunk_id: one for one in record.candidates}
    packed = {one.chunk_id: one for one in packing.chunks} if packing else {}
    moves = {one.chunk_id: one for one in record.moves}
    dropped = {one.chunk_id: one.why for one in packing.dropped} if packing else {}
    needed = analysis.reference_chunks if analysis else ()
    lost = {one.chunk_id: one for one in analysis.lost} if analysis else {}
    cause = analysis.diagnosis.cause if analysis and analysis.diagnosis.stage == "retrieval" else None
    quoted = [claim.rationale.chunk_id for claim in claims if claim.rationale]
    wanted = dict.fromkeys((*needed, *packed, *lost, *quoted))
    others = [one for one in candidates if one not in wanted]
    shown = [*wanted, *others[: max(0, _SHOWN - len(wanted))]]
    marks = _marks(claims)
    far = len(candidates) + len(shown) + 1
    order = sorted(shown, key=lambda one: candidates[one].rank if one in candidates else far)
    views = []
    for number, chunk_id in enumerate(order, 1):
        candidate, chunk, move = candidates.get(chunk_id), packed.get(chunk_id), moves.get(chunk_id)
        loss = lost.get(chunk_id)
        pieces, left_out = _text_of(candidate, chunk, marks.get(chunk_id, ()))
        views.append(
            ChunkView(
                number=number,
                chunk_id=chunk_id,
                retrieved=candidate.rank if candidate else None,
                reranked=move.rank_after if move else None,
                position=chunk.position if chunk else None,
                is_needed=chunk_id in needed,
                loss=_loss(loss, cause) if loss else None,
                lost_at=loss.where if loss else None,
                dropped=dropped.get(chunk_id),
                tokens=chunk.tokens if chunk else None,
                tokens_full=chunk.tokens_full if chunk else None,
                is_truncated=bool(chunk and chunk.truncated),
                score=candidate.score if candidate else None,
                pieces=pieces,
                left_out=left_out,
            )
        )
    return tuple(views)


def _reading_place(chunk: ChunkView) -> tuple[int, bool, int]:
    """What was needed and lost comes first, in the order of the path, then the prompt in its order, then the others by
    rank."""
    lost = list(_WHERE).index(chunk.lost_at) if chunk.is_needed and chunk.lost_at else len(_WHERE)
    return lost, chunk.position is None, chunk.position or chunk.retrieved or 0


def _loss(loss: LostChunk, cause: str | None) -> str:
    """Where and how: `lost in reranking: rank 1 before, 12 after (budget)`. cause: of a retrieval that broke first,
    which stands in the place of what the loss alone tells."""
    words = _WHERE[loss.where]
    if loss.where == "retrieval" and cause is not None:
        return words if cause in _ABSENT else f"{words}: {cause_words(cause)}"
    if loss.where == "rerank" and loss.rank_before:
        words += f": rank {loss.rank_before} before, {loss.rank_after or 'none'} after"
    return f"{words} ({loss.reason})" if loss.reason and loss.reason not in words else words


_Mark: TypeAlias = tuple[int, int, int, Tone]


def _marks(claims: Sequence[ClaimView]) -> dict[str, list[_Mark]]:
    """By chunk the sentences of claims: start, end, the claim's number, its tone."""
    found: dict[str, list[_Mark]] = {}
    for claim in claims:
        if claim.rationale is not None and claim.number is not None and claim.state is not None:
            places = found.setdefault(claim.rationale.chunk_id, [])
            tone = _TONES[claim.state]
            places += [(one.start, one.end, claim.number, tone) for one in claim.rationale.sentences]
    return found


def _text_of(
    candidate: Candidate | None, chunk: PackedChunk | None, marks: Sequence[_Mark]
) -> tuple[tuple[Piece, ...], int]:
    """The chunk's words: what stood in the prompt, and struck out what was cut from it."""
    whole = candidate.text if candidate else None
    given = chunk.text if chunk is not None and chunk.text is not None else None
    text = whole if given is None else given
    if not text:
        return (), 0
    pieces = list(_pieces(text, marks))
    if chunk is not None and chunk.truncated and whole and given is not None:
        at = whole.find(given) if given else 0
        if at > 0:
            pieces.insert(0, Piece(whole[:at], is_cut=True))
        if at >= 0 and whole[at + len(given) :]:
            pieces.append(Piece(whole[at + len(given) :], is_cut=True))
    return tuple(pieces), 0


def _pieces(text: str, marks: Sequence[_Mark]) -> Iterator[Piece]:
    """The text cut where sentences of claims begin and end."""
    edges = sorted({0, len(text), *(min(edge, len(text)) for start, end, *_ in marks for edge in (start, end))})
    named: set[int] = set()
    for start, end in pairwise(edges):
        claims = tuple((number, tone) for begin, stop, number, tone in marks if begin <= start and end <= stop)
        first = tuple(dict.fromkeys(number for number, _ in claims if number not in named))
        named.update(first)
        yield Piece(text[start:end], tuple(dict.fromkeys(claims)), first)


def _links(claims: Sequence[Claim], views: Sequence[ClaimView], by_id: Mapping[str, ChunkView]) -> Iterator[ClaimLink]:
    for claim, view in zip(claims, views, strict=True):
        if view.state is None:
            yield ClaimLink(view, "plain", start=claim.start, end=claim.end)
            continue
        tone = _TONES[view.state]
        supports = [key for key, value in claim.supports.items() if value >= SUPPORTED]
        against = [key for key, value in claim.contradictions.items() if value >= SUPPORTED]
        if view.state == "contradicted":
            against, supports = [claim.best_chunk or "", *against], []
        elif view.state == "supported" and claim.best_chunk:
            supports = [claim.best_chunk, *supports]
        numbers = {key: by_id[key].number for key in (*supports, *against) if key in by_id}
        yield ClaimLink(
            view,
            tone,
            tuple(dict.fromkeys(numbers[key] for key in supports if key in numbers)),
            tuple(dict.fromkeys(numbers[key] for key in against if key in numbers)) if tone == "bad" else (),
            claim.start,
            claim.end,
        )


def _answer(record: RequestRecord, links: Sequence[ClaimLink]) -> Iterator[Piece]:
    """The answer cut where its claims begin and end."""
    text = (record.generation.answer if record.generation else None) or ""
    at = 0
    for link in links:
        if link.view.number is None or link.start < at or link.end > len(text) or link.end <= link.start:
            continue
        if link.start > at:
            yield Piece(text[at : link.start])
        yield Piece(text[link.start : link.end], ((link.view.number, link.tone),))
        at = link.end
    if at < len(text):
        yield Piece(text[at:])


def _faults(
    record: RequestRecord,
    analysis: Analysis | None,
    links: Sequence[ClaimLink],
    by_id: Mapping[str, ChunkView],
    known: Mapping[str, tuple[str, str]],
) -> Iterator[FaultView]:
    """What to look at first, of the stage that broke first."""
    stage = analysis.diagnosis.stage if analysis else None
    if analysis is None or stage is None:
        return
    if stage in ("retrieval", "ranking"):
        yield from _losses(analysis, stage, by_id, known, record.versions)
    elif stage == "generation":
        for link in sorted(links, key=lambda one: one.tone != "bad"):
            if link.tone in ("bad", "doubt") and link.view.number is not None:
                yield _claim_fault(link, by_id)
    else:
        for link in links:
            cites = [line.text for line in link.view.lines if line.label == "cites"]
            if any("does not support" in text or "nothing" in text for text in cites):
                title = f"Claim {link.view.number} cites {cites[0]}"
                yield FaultView(title, (Words(link.view.text, False),), link=f"#claim-{link.view.number}")


def _losses(
    analysis: Analysis,
    stage: Stage,
    by_id: Mapping[str, ChunkView],
    known: Mapping[str, tuple[str, str]],
    versions: Mapping[str, str],
) -> Iterator[FaultView]:
    """The needed chunks that the stage lost, with their words and what decided it, and what no candidate holds."""
    places = (
        ("retrieval",) if stage == "retrieval" else ("rerank", "packing", "truncation")
    )  # what broke first is first
    for loss in sorted((one for one in analysis.lost if one.where in places), key=lambda one: places.index(one.where)):
        chunk = by_id.get(loss.chunk_id)
        if chunk is None:
            continue
        words, version = tuple(Words(piece.text, piece.is_cut) for piece in chunk.pieces), ""
        if not words and loss.chunk_id in known:
            version, text = known[loss.chunk_id]
            words = (Words(text[:LONGEST], False),)
        decided = _DECIDES.get(loss.where, "")
        why = f"as index {version} returned it to another request" if version else ""
        if decided in versions:
            why = f"{decided}={versions[decided]} decided this"
        yield FaultView(f"Needed, but {chunk.loss}", (), words, chunk.chunk_id, why, f"#chunk-{chunk.number}")
    if stage == "retrieval":
        for match in analysis.facets:
            if match.chunk_id is None and not match.reason and not match.facet.weak:
                other = f"; {match.contradicted_by} says {match.given}" if match.contradicted_by else ""
                yield FaultView(f"No candidate holds the {match.facet.kind} {match.facet.value} of the question{other}")


def _claim_fault(link: ClaimLink, by_id: Mapping[str, ChunkView]) -> FaultView:
    """A claim beside the sentence that decides on it, with the words in which they differ."""
    rationale, number = link.view.rationale, link.view.number
    state = next((line.text for line in link.view.lines if line.kind == "state"), "")
    title = f"Claim {number} is {link.view.state} by the prompt"
    if rationale is None:
        title += ": no chunk of it says the same"
        return FaultView(title, (Words(link.view.text, False),), link=f"#claim-{number}", tone=link.tone)
    said, given = _compared(link.view.text, rationale.text)
    if not any(word.differs for word in said) and (values := _VALUES.search(state)):
        said, given = _around(link.view.text, values[1]), _around(rationale.text, values[2])
    return FaultView(title, said, given, rationale.chunk_id, state, f"#evidence-{number}", link.tone)


def _compared(said: str, given: str) -> tuple[tuple[Words, ...], tuple[Words, ...]]:
    """Both texts word by word, and which words the other one lacks; nothing where they have little in common."""
    first, second = said.split(), given.split()
    if len(first) + len(second) <= _MOST_WORDS:
        matcher = SequenceMatcher(None, [_core(one) for one in first], [_core(one) for one in second], autojunk=False)
        marks = [bool(_MARK.fullmatch(one)) for one in first]
        if matcher.ratio() >= _ALIKE:
            ours, theirs = list[Words](), list[Words]()
            for what, one, two, three, four in matcher.get_opcodes():
                is_other = what != "equal" and not all(marks[one:two])  # a citation's mark is in no chunk
                ours += [Words(" ".join(first[one:two]), is_other)] if two > one else []
                theirs += [Words(" ".join(second[three:four]), what != "equal")] if four > three else []
            return tuple(ours), tuple(theirs)
    return (Words(said, False),), (Words(given, False),)


def _around(text: str, value: str) -> tuple[Words, ...]:
    """A text with its first mention of a value marked, where it has one."""
    before, found, after = text.partition(value)
    return (
        tuple(Words(part, part is found) for part in (before, found, after) if part) if found else (Words(text, False),)
    )


def _core(word: str) -> str:
    return word.strip(".,;:!?[]()“”\"'").casefold()
