"""One request's evidence path: the verdict in words, each stage's state, facets, candidates, ranks, prompt, claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragtrace.analyze.diagnosis import not_known_before
from ragtrace.analyze.services import remedy
from ragtrace.coverage import united
from ragtrace.export.findings import claim_summary, doubt_note, is_outdated, verdict_words
from ragtrace.export.request_view import ChunkView, FaultView, RequestView, Words, request_view, stage_times
from ragtrace.plausible_values import sentences
from ragtrace.registry.instruments import ANSWER_RELEVANCE, STAGES
from ragtrace.registry.wording import FIXES, STATES, cause_words, probe_lines, reason_words, release_words
from ragtrace.store import RequestLabel
from ragtrace.types import (
    Analysis,
    FacetMatch,
    IndexProbe,
    PackedChunk,
    Reference,
    RequestRecord,
    StageFinding,
    StageState,
)

__all__ = [
    "heading",
    "labeled",
    "plain_table",
    "render",
    "shown_rank",
]

_GOOD, _BAD, _DOUBT, _FAINT, _HEAD = "green", "bold red", "yellow", "dim", "bold"
_STYLES: Final[dict[StageState, str]] = {"sound": _GOOD, "broken": _BAD, "suspected": _DOUBT, "not_known": _DOUBT}
_VERDICT_STYLES: Final = {"healthy": _GOOD, "no_break_found": _DOUBT, "no_retrieval_needed": _FAINT}
_MATCHED: Final = 0.999
_NEEDED: Final[dict[Reference, str]] = {
    "oracle": "chunk (* needed, says the gold set)",
    "proxy": "chunk (* looks needed)",
    "none": "chunk",
}
_FAULTS: Final = 4  # that are shown
_QUOTED: Final = 600  # characters of one text of a fault
_TOLD: Final = 20  # of feedback, and of labels


def render(
    record: RequestRecord,
    analysis: Analysis | None,
    known: Mapping[str, tuple[str, str]] | None = None,
    labels: Sequence[RequestLabel] = (),
    *,
    is_explained: bool = False,
) -> RenderableType:
    """The path of `record`, readable from 100 columns on; without an analysis it ends at what was recorded. It
    says what the request's page says.

    known: as in `request_view`; labels: what people said of the request; is_explained: an explanation is stored.
    """
    view = request_view(record, analysis, known)
    record = view.record
    parts: list[RenderableType] = [heading(record)]
    if analysis is None:
        parts.append(Text("not analyzed yet: run `ragtrace analyze`", style=_FAINT))
    else:
        parts.append(_verdict(analysis))
        if view.faults:
            parts += [Text(), *_faults(view.faults)]
        if analysis.facets:
            parts += [Text(), _facets(analysis, record)]
    parts += [Text(), *_chunks(view)]
    parts += [Text(), *_answer(view)]
    parts += [Text(), _beside(view, labels, is_explained=is_explained)]
    return Group(*parts)


def heading(record: RequestRecord) -> Table:
    """Which request it is, and what was asked."""
    at = datetime.fromtimestamp(record.started_at / 1e9, UTC)
    origin = Text(f"{record.request_id}", style=_HEAD)
    origin.append(f"  {record.service}/{record.segment}  {at:%Y-%m-%d %H:%M:%S}Z  ", style="dim not bold")
    origin.append(record.status, style=_GOOD if record.status == "ok" else _BAD)
    lines = labeled(("request", origin), ("asked", Text(record.query.original, style=_HEAD)))
    if record.query.rewritten is not None:
        lines.add_row("rewritten", Text(record.query.rewritten))
    for sentence in sentences(record.stated).values():
        lines.add_row("stated", Text(sentence, style=_BAD))
    if record.error is not None:
        lines.add_row("error", Text(f"{record.error.type}: {record.error.message}", style=_BAD))
    return lines


def _verdict(analysis: Analysis) -> Table:
    diagnosis = analysis.diagnosis
    style = _DOUBT if is_outdated(diagnosis) else _VERDICT_STYLES.get(diagnosis.verdict, _BAD)
    lines = labeled(("verdict", Text(verdict_words(diagnosis), style=style)))
    if diagnosis.owner is not None:
        lines.add_row("owner", Text(diagnosis.owner, style=_HEAD))
    if diagnosis.stage == "retrieval" and diagnosis.cause is not None:
        lines.add_row("cause", Text(cause_words(diagnosis.cause), style=_HEAD))
        if diagnosis.cause in FIXES:
            lines.add_row("to do", Text(FIXES[diagnosis.cause]))
    if diagnosis.stages:
        lines.add_row("stages", _stages(diagnosis.stages))
    if analysis.probe is not None:
        lines.add_row("probe", _probe(analysis.probe))
    if diagnosis.suspected_rollout is not None:
        suspect = release_words(diagnosis.suspected_rollout, diagnosis.versions.get("prompt"))
        lines.add_row("suspect", Text(f"rollout of {suspect}", style=_DOUBT))
    if diagnosis.versions:
        running = "  ".join(f"{name}={version}" for name, version in diagnosis.versions.items())
        lines.add_row("running", Text(running, style=_FAINT))
    for number, helpful in enumerate(_helpful(analysis)):
        lines.add_row("" if number else "help", Text(helpful, style=_FAINT))
    return lines


def _probe(probe: IndexProbe) -> Text:
    """What the index was asked; what it said stands beside the retrieval, but where it told nothing."""
    if probe.outcome in ("found", "nothing_better"):
        how = "also exactly" if probe.exact else "not exactly"
        version = f", index {probe.index_version}" if probe.index_version else ""
        return Text(f"asked for {probe.asked} candidates in place of {probe.depth}, {how}{version}", style=_FAINT)
    return Text("\n".join(probe_lines(probe)), style=_FAINT)


def _stages(findings: Sequence[StageFinding]) -> Table:
    """A line for each stage, with its state, why it is not known, and what that rests on."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    by_stage = {one.stage: one for one in findings}
    for stage in STAGES:
        finding = by_stage.get(stage.name)  # type: ignore[call-overload]  # a stage's name
        if finding is None:
            table.add_row(Text(stage.name), Text("-", style=_FAINT), Text("does not apply", style=_FAINT))
            continue
        state = STATES[finding.state]
        table.add_row(
            Text(stage.name),
            Text(state.upper() if finding.state == "broken" else state, style=_STYLES[finding.state]),
            _why(finding),
        )
    return table


def _why(finding: StageFinding) -> Text:
    is_judged = finding.state in ("sound", "broken")
    why = "" if is_judged else reason_words(finding.reason, finding.stage)
    return Text(
        "\n".join(filter(None, [why, doubt_note(finding), *finding.evidence])),
        style=_FAINT if finding.state == "sound" else "",
    )


def _helpful(analysis: Analysis) -> Iterator[str]:
    """What would let the stages be judged that are suspected or not known before the first broken one."""
    by_remedy: dict[str, list[str]] = {}
    for one in not_known_before(analysis.diagnosis):
        helpful = remedy(one.stage, one.reason or "undecided", is_verified=analysis.verified_by is not None)
        if helpful is not None:
            by_remedy.setdefault(helpful, []).append(one.stage)
    return (f"{helpful} ({', '.join(stages)})" for helpful, stages in by_remedy.items())


def labeled(*lines: tuple[RenderableType, RenderableType]) -> Table:
    """Lines with a faint label in front."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=_FAINT, min_width=9)
    table.add_column(overflow="fold")
    for label, text in lines:
        table.add_row(label, text)
    return table


def _facets(analysis: Analysis, record: RequestRecord) -> Table:
    table = plain_table("facet", "value", "met by", "retrieved", "match")
    rewritten = record.query.rewritten is not None
    unmet = _BAD if analysis.diagnosis.state("retrieval") == "broken" else _DOUBT
    if rewritten:
        table.add_column("in rewrite")
    for match in analysis.facets:
        row = [
            Text("term" if match.facet.weak else match.facet.kind),
            Text(match.facet.value),
            Text(match.chunk_id or _unmet(match), style="" if match.chunk_id else unmet),
            Text(shown_rank(match.rank)),
            _match(match, unmet),
        ]
        if rewritten:
            row.append(Text("dropped", style=unmet) if match.in_rewrite is False else Text("kept"))
        table.add_row(*row)
    return table


def _match(match: FacetMatch, unmet: str) -> Text:
    if match.reason:  # not computed is not 0
        return Text("not known", style=_FAINT)
    return Text(f"{match.match:.2f}", style=_GOOD if match.match >= _MATCHED else unmet)


def _unmet(match: FacetMatch) -> str:
    if match.reason:
        return match.reason.replace("_", " ")
    return f"no candidate; {match.contradicted_by}: {match.given}" if match.contradicted_by else "no candidate"


def _faults(faults: Sequence[FaultView]) -> Iterator[RenderableType]:
    """What went wrong: the first proofs, with the words in which two texts differ underlined."""
    yield Text("what went wrong", style=_HEAD)
    for fault in faults[:_FAULTS]:
        yield Text(f"- {fault.title}", style=_BAD if fault.tone == "bad" else _DOUBT)
        lines: list[tuple[RenderableType, RenderableType]] = [("", Text(fault.why, style=_FAINT))] if fault.why else []
        if fault.said:
            lines.append(("  answer", _worded(fault.said)))
        if fault.given:
            lines.append((f"  {fault.given_by}", _worded(fault.given)))
        elif fault.given_by:
            lines.append((f"  {fault.given_by}", Text("its text is not stored with this request", style=_FAINT)))
        if lines:
            yield labeled(*lines)
    if len(faults) > _FAULTS:
        yield Text(f"  and {len(faults) - _FAULTS} more, below", style=_FAINT)


def _worded(words: Sequence[Words]) -> Text:
    """The words of a text, those that differ underlined; of a long one the beginning."""
    text = Text(" ").join(Text(" ".join(one.text.split()), style="bold underline" * one.differs) for one in words)
    if len(text) > _QUOTED:
        text.truncate(_QUOTED)
        text.append("…")
    return text


def _chunks(view: RequestView) -> Iterator[RenderableType]:
    """A line for each chunk that matters and the first other candidates, in the order of reading, and how many more
    candidates there are."""
    analysis = view.analysis
    ranks = ("retrieved", "reranked") if view.has_reranking else ("retrieved",)
    table = plain_table(
        _NEEDED[analysis.reference if analysis and analysis.reference_chunks else "none"], *ranks, "prompt"
    )
    is_broken = analysis is not None and analysis.diagnosis.stage in ("retrieval", "ranking")
    packing = united(view.record).packing
    packed = {one.chunk_id: one for one in packing.chunks} if packing else {}
    for chunk in view.read:
        name = (
            Text(f"* {chunk.chunk_id}", style=_HEAD) if chunk.is_needed else Text(f"  {chunk.chunk_id}", style=_FAINT)
        )
        standing = _standing(chunk, packed.get(chunk.chunk_id), _BAD if is_broken else _DOUBT)
        table.add_row(name, *_ranks(chunk)[: len(ranks)], standing)
    yield table
    if view.others:
        yield Text(f"  and {len(view.others):,} more candidates", style=_FAINT)
    if view.is_shortened:
        yield Text("  long texts are read to their first 12,000 characters", style=_FAINT)


def _ranks(chunk: ChunkView) -> tuple[Text, Text]:
    before, after = chunk.retrieved, chunk.reranked
    sunk = before is not None and after is not None and after > before
    earlier = Text(shown_rank(before), style="" if before else _BAD)
    return earlier, Text(shown_rank(after), style=_DOUBT if sunk else "")


def _standing(chunk: ChunkView, packed: PackedChunk | None, style: str) -> Text:
    """Where a chunk stands in the prompt, or why it does not. style: of a loss."""
    if packed is not None:
        place = Text(f"[{packed.position}] {packed.tokens} tokens" if packed.tokens else f"[{packed.position}]")
        if packed.truncated:
            place.append(_cut(packed), style=style if chunk.loss else _DOUBT)
        return place
    if chunk.loss:
        return Text(chunk.loss, style=style)
    return Text(f"not packed ({chunk.dropped})" if chunk.dropped else "not packed", style=_FAINT)


def _cut(chunk: PackedChunk) -> str:
    if chunk.tokens_full is None and chunk.given_end is not None:
        return f", cut to characters {chunk.given_start} to {chunk.given_end}"
    return ", cut" if chunk.tokens_full is None else f", cut from {chunk.tokens_full}"


def _answer(view: RequestView) -> Iterator[RenderableType]:
    record, analysis = view.record, view.analysis
    generation = record.generation
    if generation is None or generation.answer is None:
        yield Text("no answer was recorded", style=_FAINT)
    else:
        yield labeled(("answer", Text(generation.answer)))
    if analysis is not None and view.claims:
        yield _claims(view, _BAD if analysis.diagnosis.state("generation") == "broken" else _DOUBT)
    if (relevance := analysis.score(ANSWER_RELEVANCE.id) if analysis else None) is not None:
        yield labeled(
            (
                "relevance",
                Text(
                    f"{relevance:.2f}, by words, that the answer speaks of the question; alone it proves nothing",
                    style=_FAINT,
                ),
            )
        )


def _claims(view: RequestView, doubted: str) -> Table:
    """A line with the states of the claims, then a block for each. doubted: the style of all but what is supported."""
    views = [link.view for link in view.claims]
    styles = {state: _GOOD if state == "supported" else doubted for state, _ in claim_summary(views)}
    counts = Text(", ").join(Text(said, style=styles[state]) for state, said in claim_summary(views))
    number = sum(one.number is not None for one in views)
    table = labeled(("claims", Text(f"{number}: ").append_text(counts) if number else Text("none")))
    table.columns[0].no_wrap = True
    for one in views:
        table.add_row()
        if one.state is None:
            table.add_row("no claim", Text(one.text, style=_FAINT))
            continue
        table.add_row(f"claim {one.number}", Text(one.text, style=_HEAD))
        kinds = {"state": ("not dim " + styles[one.state], ""), "quotation": ("", "italic"), "note": (_FAINT, _FAINT)}
        for line in one.lines:
            label, body = kinds[line.kind]
            table.add_row(Text(line.label, style=label), Text(line.text, style=body))
    return table


def _beside(view: RequestView, labels: Sequence[RequestLabel], *, is_explained: bool) -> Table:
    """Times, trace, session and flags, and what people and other tools said of the request."""
    record = view.record
    times = [f"{one.kind} {one.milliseconds:,.1f} ms{' (error)' * one.is_error}" for one in stage_times(record)]
    lines: list[tuple[RenderableType, RenderableType]] = [("times", Text("; ".join(times), style=_FAINT))]
    known = (("trace", record.trace_id), ("session", record.session_id), ("flags", ", ".join(record.flags)))
    lines += [(name, Text(value)) for name, value in known if value]
    for given in record.feedback[:_TOLD]:
        parts = (given.label, "" if given.score is None else f"{given.score:g}", given.comment)
        lines.append((f"feedback of {given.source}", Text(" ".join(filter(None, parts)))))
    for label in labels[:_TOLD]:
        said = ", ".join(f"{stage}: {answer.replace('_', ' ')}" for stage, answer in label.stages.items())
        lines.append((f"label of {label.labeler}", Text(" ".join(filter(None, (said, label.note))))))
    if is_explained:
        lines.append(("explained", Text(f"ragtrace explain {record.request_id} shows what the answer rests on")))
    return labeled(*lines)


def shown_rank(rank: int | None) -> str:
    """A rank, or a dash for none."""
    return str(rank) if rank else "-"


def plain_table(*columns: str) -> Table:
    """A table without lines, its first column the widest."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_HEAD, width=None)
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=False, justify="left", max_width=48 if number == 0 else 36)
    return table
