"""A question before and after: both answers, the sentence without support, the evidence that was lost, the prompt.

Texts are those that the sides' own stores or files keep, under their content policy and after their redaction; a report
in the store holds none of them, so that retention and erasure have nothing to do there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from ragtrace.coverage import united
from ragtrace.errors import RagtraceError
from ragtrace.export.findings import claim_views
from ragtrace.gate._sameness import text_key
from ragtrace.gate.selection import Selection, find_in_file, parse
from ragtrace.gate.types import (
    AnswerSide,
    ChangedPair,
    GateReport,
    LostEvidence,
    PromptChange,
    QuestionPair,
    SentenceState,
)
from ragtrace.prompts import parsed
from ragtrace.store import Store
from ragtrace.types import Analysis, Packing, RequestRecord

__all__ = ["Judged", "SideTexts", "Word", "question_pair", "side_texts", "with_questions", "word_changes"]

_LONGEST: Final = 2_000  # characters of a text
_RUN: Final = 3  # words
_WRONG: Final[tuple[SentenceState, ...]] = ("contradicted", "not supported", "weakly supported")

Judged: TypeAlias = tuple[RequestRecord, Analysis | None]
"""A record with its analysis."""


class SideTexts(NamedTuple):
    """Where the requests of one side are read from."""

    selection: Selection
    url: str | None
    service: str | None

    def read(self, request_ids: Sequence[str]) -> Mapping[str, Judged]:
        """The requests of these ids that are still there and of the service, with their analyses.

        Raises: InputError, StoreError.
        """
        if self.selection.file is not None:
            return find_in_file(self.selection, self.service, frozenset(request_ids))
        if self.url is None:
            return {}
        with Store.open(self.url) as store:
            found, analyses = store.get_records(request_ids), store.get_analyses(request_ids)
            return {
                id_: (record, analyses.get(id_))
                for id_, record in found.items()
                if self.service in (None, record.service)
            }


def side_texts(name: str, text: str, store: str | None, service: str | None, now: int | None = None) -> SideTexts:
    """The source of a selection. store: the URL of the one without a source. Raises: ConfigurationError."""
    selection = parse(f"--{name}", text, now)
    return SideTexts(selection, selection.url or store, selection.service or service)


def with_questions(report: GateReport, store: str | None) -> GateReport:
    """The report with the texts of the questions that it names, as far as they are still there. store: the URL of the
    store that its selections without a source were read from. Where a side cannot be read, a warning says so."""
    named = list(_named(report))
    if not named:
        return report
    sides: list[Mapping[str, Judged]] = []
    warnings = list(report.warnings)
    for name, text, ids in (
        ("baseline", report.baseline.name, [each.baseline for each in named if each.baseline]),
        ("candidate", report.candidate.name, [each.candidate for each in named]),
    ):
        try:
            sides.append(side_texts(name, text, store, report.service, report.created_at).read(ids))
        except RagtraceError as error:
            sides.append({})
            warnings.append(f"the texts of the {name} cannot be read: {error}")
    before, after = sides
    metrics = {each.metric for each in report.changes}
    questions = tuple(
        question_pair(before.get(pair.baseline), after[pair.candidate], metrics)
        for pair in named
        if pair.candidate in after
    )
    return msgspec.structs.replace(report, questions=questions, warnings=tuple(warnings))


def _named(report: GateReport) -> Iterator[ChangedPair]:
    """Each pair once."""
    seen = set()
    for cell in report.changes:
        for pair in cell.pairs:
            if pair.candidate not in seen:
                seen.add(pair.candidate)
                yield pair


def question_pair(before: Judged | None, after: Judged, metrics: set[str] | None = None) -> QuestionPair:
    """What one question's two requests have in common and what not. metrics: whose scores are told; None: of all."""
    record, analysis = after
    baseline = _answer_side(before) if before is not None else None
    candidate = _answer_side(after)
    lost, gained = _evidence(before, after) if before is not None else ((), ())
    return QuestionPair(
        question=_cut(record.query.original or None),
        segment=record.segment if before is None else before[0].segment,
        baseline=baseline,
        candidate=candidate,
        same_answer=None if before is None else _is_same_answer(before[0], record),
        prompt=PromptChange() if before is None else _prompt_change(before[0], record),
        lost=lost,
        gained=gained,
        scores=_scores(before[1] if before is not None else None, analysis, metrics),
    )


def _answer_side(judged: Judged) -> AnswerSide:
    record, analysis = judged
    sentence, state = _worst_sentence(record, analysis)
    return AnswerSide(
        request_id=record.request_id,
        answer=_cut(record.generation.answer if record.generation else None),
        states={each.stage: each.state for each in analysis.diagnosis.stages} if analysis else {},
        verdict=analysis.diagnosis.verdict if analysis else None,
        sentence=_cut(sentence),
        sentence_state=state,
    )


def _worst_sentence(record: RequestRecord, analysis: Analysis | None) -> tuple[str | None, SentenceState | None]:
    """The sentence of the answer that the evidence bears least; None where all are supported or not known."""
    views = claim_views(record, analysis.claims) if analysis else []
    for state in _WRONG:
        for view in views:
            if view.state == state:
                return view.text, state
    return None, None


def _is_same_answer(before: RequestRecord, after: RequestRecord) -> bool | None:
    one, two = before.generation, after.generation
    if one is None or two is None:
        return None if one is two else False
    if one.answer is not None and two.answer is not None:
        return one.answer == two.answer
    return one.answer_hash == two.answer_hash if one.answer_hash and two.answer_hash else None


def _prompt_change(before: RequestRecord, after: RequestRecord) -> PromptChange:
    old, new = _packed(before), _packed(after)
    common = [chunk for chunk in old if chunk in new]
    same = list(old.items()) == list(new.items())
    one, two = (each.generation.prompt_template if each.generation else None for each in (before, after))
    return PromptChange(
        added=tuple(chunk for chunk in new if chunk not in old),
        removed=tuple(chunk for chunk in old if chunk not in new),
        rewritten=_rewritten(before, after),
        reordered=common != [chunk for chunk in new if chunk in old],
        template=None if one is None or two is None else _frame(one, same) != _frame(two, same),
    )


def _rewritten(before: RequestRecord, after: RequestRecord) -> tuple[str, ...]:
    """The chunks of both prompts that hold another text under the same id, as far as texts or hashes tell."""
    old, new = _contents(before), _contents(after)
    return tuple(chunk for chunk, parts in old.items() if chunk in new and parts and new[chunk] not in ((), parts))


def _contents(record: RequestRecord) -> dict[str, tuple[str, ...]]:
    """What stands for the text of each chunk of the prompt, part by part; () where that is not known of all of it."""
    packing, keys = united(record).packing or Packing(), {each.chunk_id: text_key(each) for each in record.candidates}
    parts: dict[str, list[str | None]] = {}
    for chunk in packing.chunks:
        parts.setdefault(chunk.chunk_id, []).append(text_key(chunk) or keys.get(chunk.chunk_id))
    return {chunk: tuple(key for key in found if key) if all(found) else () for chunk, found in parts.items()}


def _frame(template: str, same_chunks: bool) -> tuple[str, ...]:
    """What stands around the chunks of a prompt. Where the chunks are others, what stands between them and on their own
    lines (a number, a title) is no part of it."""
    if same_chunks:
        return (template,)
    texts, _ = parsed(template)
    return texts[0].rpartition("\n")[0], texts[-1].partition("\n")[2] if len(texts) > 1 else ""


def _packed(record: RequestRecord) -> dict[str, str | None]:
    """The chunks of the prompt in their order, with their texts."""
    packing = united(record).packing or Packing()
    texts = {each.chunk_id: each.text for each in record.candidates}
    return {each.chunk_id: texts.get(each.chunk_id) if each.text is None else each.text for each in packing.chunks}


def _evidence(before: Judged, after: Judged) -> tuple[tuple[LostEvidence, ...], tuple[str, ...]]:
    """The needed chunks that only the candidate lost: the baseline's prompt held them, by id or by words, or something
    as good. Then those that only the candidate's prompt holds."""
    old, new = _packed(before[0]), _packed(after[0])
    needed = dict.fromkeys(chunk for _, analysis in (before, after) if analysis for chunk in analysis.reference_chunks)
    texts = {each.chunk_id: each.text for each in (*before[0].candidates, *after[0].candidates)} | old
    lost_before, lost_after = (
        [each.chunk_id for each in analysis.lost] if analysis else [] for _, analysis in (before, after)
    )
    gone = [chunk for chunk in needed if chunk in old]
    gone += [chunk for chunk in lost_after if chunk not in lost_before and chunk not in gone]
    found = [_lost(chunk, texts.get(chunk), after) for chunk in gone]
    lost = tuple(
        each for each in found if each.where == "truncation" or not _holds(new, each.chunk_id, texts.get(each.chunk_id))
    )
    return lost, tuple(chunk for chunk in needed if chunk in new and not _holds(old, chunk, new[chunk]))


def _holds(prompt: Mapping[str, str | None], chunk: str, text: str | None) -> bool:
    """Whether a prompt holds a chunk, or its words in another one: another chunker gives others ids."""
    return chunk in prompt or bool(text and any(text in (other or "") for other in prompt.values()))


def _lost(chunk: str, text: str | None, after: Judged) -> LostEvidence:
    record, analysis = after
    told = next((each for each in analysis.lost if each.chunk_id == chunk), None) if analysis else None
    if told is not None:
        return LostEvidence(
            chunk_id=chunk,
            where=told.where,
            rank_before=told.rank_before,
            rank_after=told.rank_after,
            reason=told.reason,
            text=_cut(text),
        )
    found = next((each for each in record.candidates if each.chunk_id == chunk), None)
    rank = found.rank if found is not None else None
    where = "retrieval" if found is None else "packing"
    return LostEvidence(chunk_id=chunk, where=where, rank_before=rank, text=_cut(text))


def _scores(
    before: Analysis | None, after: Analysis | None, metrics: set[str] | None
) -> dict[str, tuple[float | None, float | None]]:
    old, new = ({score.metric: score.value for score in each.scores} if each else {} for each in (before, after))
    names = [name for name in {**old, **new} if metrics is None or name in metrics]
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


Word: TypeAlias = tuple[Literal["same", "removed", "added"], str]


def word_changes(before: str, after: str) -> list[Word]:
    """What became of a text, word by word: runs of words that stayed, went, and came, in the order of reading.

    One or two words that stayed between others that did not are taken for changed: they are usual ones, and say
    nothing.
    """
    old, new = before.split(), after.split()
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changes: list[Word] = []
    went: list[str] = []
    came: list[str] = []
    for at, (what, i, j, k, m) in enumerate(codes):
        if what == "equal" and (j - i >= _RUN or at in (0, len(codes) - 1)):
            changes += [*_changed(went, came), ("same", " ".join(old[i:j]))]
            went, came = [], []
        else:
            went += old[i:j]
            came += new[k:m]
    return [*changes, *_changed(went, came)]


def _changed(went: Sequence[str], came: Sequence[str]) -> Iterator[Word]:
    if went:
        yield "removed", " ".join(went)
    if came:
        yield "added", " ".join(came)
