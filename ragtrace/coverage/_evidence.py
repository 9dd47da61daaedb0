"""Evidence Overlap: did the reference evidence reach the prompt, as itself or in a chunk that is as good, and where was
the rest of it lost?

An agent, a tool or a follow-up searches again after a prompt was packed, and answers from all: a round of retrieval
begins with a retriever that runs after a packing. What an earlier round gave to the model counts as given, so that a
later round which mends an earlier one, or goes on from it, is no break.

Of equivalent chunks any one will do. Near duplicates say the same, unless a word stands exchanged in them, or turns
what one of them says. So does a chunk that holds, word for word, each sentence of another one that may answer the
question: the next chunk of a document, with which it overlaps, or another edition with the same sentence; the sentence
may be cut between two chunks of a document that stand both in the prompt. What a sentence takes from around it has to
be there too: the items of its list, the heads of its table's columns, and no other heading. Of chunks that match one
part of a question about as well (`ragtrace.coverage._reference`), words cannot tell which answers it. No score of a
component counts here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from difflib import SequenceMatcher
from functools import cached_property
from itertools import permutations
from typing import Final, Literal, TypeAlias

from ragtrace.coverage._query import asked_for, holds_asked, sub_questions
from ragtrace.coverage._refusals import is_abstention
from ragtrace.coverage.support import Evidence
from ragtrace.coverage.support.readings import Reading
from ragtrace.coverage.text import NEGATIONS, content_words, words
from ragtrace.coverage.values import values
from ragtrace.types import (
    Candidate,
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
    "PromptEvidence",
    "answering_sentences",
    "are_duplicates",
    "asked",
    "candidate_recall",
    "evidence_depth",
    "evidence_overlap",
    "evidence_precision",
    "evidence_recall",
    "evidence_token_share",
    "hold_the_same",
    "lost_evidence",
    "rank_shift",
    "repeat_each_other",
    "rounds_of",
    "spoken",
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


SAME: Final = 0.85  # share of all words of two chunks that both have, from which they say the same
ALIKE: Final = 0.5  # shared terms over all terms of two chunks from which they repeat each other
FEWEST: Final = 4  # words of a sentence, from which it says something
MARGIN: Final = 0.9  # sentences from this share of the best score on answer about as well: words tell them not apart
OTHER_KIND: Final = 0.5  # share of the score that a sentence without a value of the kind asked for keeps
LENGTH: Final = 0.02  # discount for each word, so that a sentence that names every subject does not win
MISTYPED: Final = 0.8  # likeness of two words from which one may be the other, mistyped or inflected
TURNING: Final = NEGATIONS | frozenset(
    "only if when until before after nicht kein keine nur pas seulement ni sin solo".split()
)
_CLOSED: Final = re.compile(r"[.?!:;,]\s*$")
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*•–]|\d+[.)]|\w[.)])[ \t]+(.+)$", re.MULTILINE)
_END: Final = "."  # of a sentence, which may go on elsewhere: "only in daylight"
_ROW: Final = "|"  # between the cells of a table's row


def are_duplicates(one: Reading, other: Reading) -> bool:
    """Whether two chunks say the same: all but a few of their words, and all of their figures; nothing stands exchanged
    in them, and none turns what the other one says."""
    mine, others = one.vocabulary, other.vocabulary
    if min(len(mine), len(others)) < SAME * max(len(mine), len(others)):  # cheap, and most are told apart by it
        return False
    if len(mine & others) < SAME * len(mine | others):
        return False
    if {value.raw for value in one.values} != {value.raw for value in other.values}:
        return False
    return one.text == other.text or not _says_otherwise(one, other)


def _says_otherwise(one: Reading, other: Reading) -> bool:
    """Whether the sentences that only one of two texts has say something else: another word stands in the place of one,
    or a word that turns a sentence stands in one of them alone. A sentence more says nothing else."""
    mine, others = ([window.text for window in reading.sentences] for reading in (one, other))
    rest = [
        [word.lower() for text in own if spoken(text) not in known for word in words(text)]
        for own, known in ((mine, set(map(spoken, others))), (others, set(map(spoken, mine))))
    ]
    if not all(rest):
        return False
    for what, *span in SequenceMatcher(None, rest[0], rest[1], autojunk=False).get_opcodes():
        left, right = rest[0][span[0] : span[1]], rest[1][span[2] : span[3]]
        if what == "replace" and SequenceMatcher(None, "".join(left), "".join(right)).ratio() < MISTYPED:
            return True
        if what in ("insert", "delete") and not TURNING.isdisjoint((*left, *right)):
            return True
    return False


def repeat_each_other(one: Evidence, other: Evidence) -> bool:
    """Whether two chunks share at least half of all their terms, as duplicates and editions of one text do."""
    mine, others = one.reading.vocabulary, other.reading.vocabulary
    shared, count = len(mine & others), len(mine) + len(others)
    return shared >= ALIKE * (count - shared) and count > 0


def answering_sentences(query: str, text: str) -> tuple[str, ...]:
    """The sentences of `text` that answer `query` about equally well, best first; none for an empty text.

    Each part of the question is compared with each sentence: the words that they share, those of the chunk's heading
    counted for all of its sentences alike, discounted for a long sentence and for one that lacks the kind of value
    asked for. A sentence counts by the part that it answers best.
    """
    heading, body = _parted(text)
    named = set(content_words(heading))
    parts = [(set(content_words(part)), asked_for(part)) for part in sub_questions(query)]
    found: list[tuple[float, str]] = []
    for sentence in Evidence.read("", body).reading.sentences:
        own, given = sentence.words, values(sentence.text)
        kinds = [1.0 if holds_asked(kind, given) else OTHER_KIND for _, kind in parts]
        shared = [len(asked & (own | named)) for asked, _ in parts]
        score = max(number * share for number, share in zip(shared, kinds, strict=True)) / (1 + LENGTH * len(own))
        found.append((score, sentence.text))
    found.sort(key=lambda each: -each[0])
    return tuple(sentence for score, sentence in found if score >= MARGIN * found[0][0])


def spoken(text: str) -> str:
    """The words of a text, however its lines are broken, quoted or marked, with a space at both ends."""
    return f" {' '.join(words(text))} "


def hold_the_same(said: str, one: Evidence, other: Evidence) -> bool:
    """Whether the first chunk holds, word for word, the sentences of the other one that speak most of what is said."""
    asked = frozenset(content_words(said))
    shares = [(len(asked & sentence.words), " ".join(sentence.terms)) for sentence in other.reading.sentences]
    best = max((share for share, _ in shares), default=0)
    text = f" {' '.join(one.reading.terms)} "
    return best > 0 and all(f" {sentence} " in text for share, sentence in shares if share >= MARGIN * best)


class PromptEvidence:
    """What stands in a prompt, asked which of its chunks stands in for one that does not stand whole in it.

    candidates: tell which chunks are of one document.
    """

    def __init__(self, query: str, packed: Sequence[PackedChunk], candidates: Sequence[Candidate] = ()) -> None:
        self._query = query
        self._packed = [chunk for chunk in packed if chunk.text]
        self._whole = {chunk.chunk_id: chunk.text or "" for chunk in self._packed if not chunk.truncated}
        self._whole_ids = {chunk.chunk_id for chunk in packed if not chunk.truncated}
        self._found: dict[str, str | None] = {}
        self._documents = {item.chunk_id: item.doc_id for item in candidates if item.doc_id is not None}

    def duplicates(self, candidates: Iterable[Candidate]) -> dict[str, str]:
        """Of candidates that do not stand whole in the prompt those that a chunk there repeats: id -> id of that."""
        found = ((item.chunk_id, self._duplicate(item)) for item in candidates if item.chunk_id not in self._whole_ids)
        return {chunk_id: other for chunk_id, other in found if other is not None}

    def stand_ins(self, classes: Iterable[Sequence[Candidate]]) -> dict[str, str]:
        """Of some classes the members that do not stand whole in the prompt, and that are needed nowhere: of each class
        that they are in another member does, or a chunk that stands in for one. Id -> id of that chunk."""
        found: dict[str, list[str | None]] = {}
        for members in classes:
            whole = next((one.chunk_id for one in members if one.chunk_id in self._whole_ids), None)
            given = whole or next((other for one in members if (other := self.stand_in(one)) is not None), None)
            for one in members:
                if one.chunk_id not in self._whole_ids:
                    found.setdefault(one.chunk_id, []).append(given)
        return {chunk_id: others[0] for chunk_id, others in found.items() if others[0] and all(others)}

    def leaves_out(self, candidate: Candidate) -> bool:
        """Whether a candidate does not stand whole in the prompt, nor another one in its stead."""
        return candidate.chunk_id not in self._whole_ids and self.stand_in(candidate) is None

    def stand_in(self, candidate: Candidate) -> str | None:
        """The chunk of the prompt that is as good as a candidate, if one is."""
        if candidate.chunk_id not in self._found:
            self._found[candidate.chunk_id] = self._stand_in(candidate)
        return self._found[candidate.chunk_id]

    def _stand_in(self, candidate: Candidate) -> str | None:
        if not candidate.text:
            return None
        if (duplicate := self._duplicate(candidate)) is not None:
            return duplicate
        found = answering_sentences(self._query, candidate.text)
        answers = [spoken(sentence) for sentence in found]
        if not answers or any(len(answer.split()) < FEWEST for answer in answers):
            return None
        needed = [*(f"{answer}{_END} " for answer in answers), *map(spoken, _taken_from_around(found, candidate.text))]
        about = set(content_words(self._query)) & set(content_words(_parted(candidate.text)[0]))
        for name, text, said in self._said:
            if name == candidate.chunk_id or not all(map(said.__contains__, needed)):
                continue
            heading = _parted(text)[0]
            if not heading or about <= set(content_words(text)):
                return name
        return None

    def _duplicate(self, candidate: Candidate) -> str | None:
        if not candidate.text:
            return None
        reading = Evidence.read("", candidate.text).reading
        for name, text in self._whole.items():
            if name != candidate.chunk_id and are_duplicates(reading, Evidence.read("", text).reading):
                return name
        return None

    @cached_property
    def _said(self) -> list[tuple[str, str, str]]:
        """What the chunks of the prompt say, as it is and in words with a mark behind each sentence: each chunk by
        itself, and every two of a document one behind the other."""
        known = self._documents
        joined = (
            (one.chunk_id, f"{one.text} {other.text}")
            for one, other in permutations(self._packed, 2)
            if one.chunk_id in known and known[one.chunk_id] == known.get(other.chunk_id)
        )
        alone = ((one.chunk_id, one.text or "") for one in self._packed)
        return [(name, text, _marked(text)) for name, text in (*alone, *joined)]


def _marked(text: str) -> str:
    """The words of a text with a mark behind each sentence; kept with its reading."""
    reading = Evidence.read("", text).reading
    found: str | None = reading.kept.get("marked")
    if found is None:
        found = reading.kept["marked"] = "".join(f"{spoken(each.text)}{_END}" for each in reading.sentences) + " "
    return found


def _taken_from_around(answers: Sequence[str], text: str) -> list[str]:
    """What sentences of a text say nothing without: the items that a list begins with, and the heads of a table."""
    taken = []
    if any(answer.rstrip().endswith(":") for answer in answers):
        taken += [match.group(1) for match in _ITEM.finditer(text)]
    if any(_ROW in answer for answer in answers):
        taken += [line for line in text.splitlines() if _ROW in line][:1]
    return taken


def _parted(text: str) -> tuple[str, str]:
    """The heading of a chunk and what follows it: a first line that no punctuation closes, before one that begins
    anew. A line that is merely broken goes on in lower case."""
    first, _, rest = text.strip().partition("\n")
    following = rest.lstrip()
    is_heading = following and not _CLOSED.search(first) and not following[0].islower()
    return (first, rest) if is_heading else ("", text)
