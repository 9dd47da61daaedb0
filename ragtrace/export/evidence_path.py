"""Renders one request's evidence path: facets, candidates, ranks, prompt, claims, and where it broke first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragtrace.coverage.thresholds import SUPPORTED
from ragtrace.types import Analysis, Claim, Diagnosis, FacetMatch, LostChunk, PackedChunk, RequestRecord

__all__ = ["heading", "labeled", "plain_table", "render"]

_GOOD, _BAD, _FAINT, _HEAD = "green", "bold red", "dim", "bold"
_MATCHED: Final = 0.999


def render(record: RequestRecord, analysis: Analysis | None) -> RenderableType:
    """The path of `record`, readable from 100 columns on; without an analysis it ends at what was recorded."""
    parts: list[RenderableType] = [heading(record)]
    if analysis is None:
        parts.append(Text("not analyzed yet: run `ragtrace analyze`", style=_FAINT))
    else:
        parts.append(_verdict(analysis.diagnosis))
        if analysis.facets:
            parts += [Text(), _facets(analysis.facets, record)]
    parts += [Text(), _evidence(record, analysis)]
    parts += [Text(), *_answer(record, analysis.claims if analysis else ())]
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
    if record.error is not None:
        lines.add_row("error", Text(f"{record.error.type}: {record.error.message}", style=_BAD))
    return lines


def _verdict(found: Diagnosis) -> Table:
    verdict = Text(found.verdict.replace("_", " "), style=_GOOD if found.verdict == "healthy" else _BAD)
    lines = labeled(("verdict", verdict))
    if found.stage is not None:
        verdict.append(f"   first broken stage: {found.stage}   owner: {found.owner}", style="bold default")
    for proof in found.evidence:
        lines.add_row("because", Text(proof))
    if found.suspected_rollout is not None:
        lines.add_row("suspected", Text(f"rollout of {found.suspected_rollout}", style="yellow"))
    if found.versions:
        running = "  ".join(f"{name}={version}" for name, version in found.versions.items())
        lines.add_row("running", Text(running, style=_FAINT))
    if found.missing:
        lines.add_row("missing", Text(", ".join(found.missing)))
    return lines


def labeled(*lines: tuple[str, RenderableType]) -> Table:
    """Lines with a faint label in front."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=_FAINT, min_width=9)
    table.add_column(overflow="fold")
    for label, text in lines:
        table.add_row(label, text)
    return table


def _facets(matches: Sequence[FacetMatch], record: RequestRecord) -> Table:
    table = plain_table("facet", "value", "met by", "rank", "match")
    rewritten = record.query.rewritten is not None
    if rewritten:
        table.add_column("in rewrite")
    for match in matches:
        met = match.match >= _MATCHED
        row = [
            Text(match.facet.kind),
            Text(match.facet.value),
            Text(match.chunk_id or _unmet(match), style="" if match.chunk_id else _BAD),
            Text(_rank(match.rank)),
            Text(f"{match.match:.2f}", style=_GOOD if met else _BAD),
        ]
        if rewritten:
            row.append(Text("dropped", style=_BAD) if match.in_rewrite is False else Text("kept"))
        table.add_row(*row)
    return table


def _unmet(match: FacetMatch) -> str:
    if match.reason:
        return "unknown"
    return f"no candidate; {match.contradicted_by}: {match.given}" if match.contradicted_by else "no candidate"


def _evidence(record: RequestRecord, analysis: Analysis | None) -> Table:
    reference = analysis.reference_chunks if analysis else ()
    lost = {loss.chunk_id: loss for loss in (analysis.lost if analysis else ())}
    source = analysis.reference if analysis and reference else "no"
    table = plain_table(f"evidence ({source} reference *)", "retrieved", "reranked", "prompt")
    path = _Path(record)
    for chunk_id in dict.fromkeys([*reference, *path.packed]):
        needed = chunk_id in reference
        name = Text(f"* {chunk_id}", style=_HEAD) if needed else Text(f"  {chunk_id}", style=_FAINT)
        table.add_row(name, *path.ranks(chunk_id), path.standing(chunk_id, lost.get(chunk_id)))
    return table


class _Path:
    """Looks up one record's chunks by id."""

    def __init__(self, record: RequestRecord) -> None:
        packing = record.packing
        self._retrieved = {candidate.chunk_id: candidate.rank for candidate in record.candidates}
        self._moves = {move.chunk_id: move for move in record.moves}
        self.packed = {chunk.chunk_id: chunk for chunk in packing.chunks} if packing else {}
        self._dropped = {chunk.chunk_id: chunk.why for chunk in packing.dropped} if packing else {}

    def ranks(self, chunk_id: str) -> tuple[Text, Text]:
        before = self._retrieved.get(chunk_id)
        move = self._moves.get(chunk_id)
        after = move.rank_after if move else None
        sunk = before is not None and after is not None and after > before
        return Text(_rank(before), style="" if before else _BAD), Text(_rank(after), style="yellow" if sunk else "")

    def standing(self, chunk_id: str, loss: LostChunk | None) -> Text:
        chunk = self.packed.get(chunk_id)
        if chunk is not None:
            place = Text(f"[{chunk.position}] {chunk.tokens} tokens" if chunk.tokens else f"[{chunk.position}]")
            if chunk.truncated:
                place.append(_cut(chunk), style=_BAD if loss else "yellow")
            return place
        reason = self._dropped.get(chunk_id)
        lost = f"lost in {loss.where}" if loss else "not packed"
        return Text(f"{lost} ({reason})" if reason and reason != lost else lost, style=_BAD if loss else _FAINT)


def _cut(chunk: PackedChunk) -> str:
    if chunk.tokens_full is None and chunk.given_end is not None:
        return f", cut to characters {chunk.given_start} to {chunk.given_end}"
    return ", cut" if chunk.tokens_full is None else f", cut from {chunk.tokens_full}"


def _answer(record: RequestRecord, claims: Sequence[Claim]) -> Iterator[RenderableType]:
    generation = record.generation
    if generation is None or generation.answer is None:
        yield Text("no answer was recorded", style=_FAINT)
    elif not claims:
        yield labeled(("answer", Text(generation.answer)))
    else:
        yield _claims(claims)


def _claims(claims: Iterable[Claim]) -> Table:
    table = plain_table("claim", "cites", "support", "rests on")
    table.columns[0].ratio = 1
    table.expand = True
    for claim in claims:
        cites = " ".join(mark.chunk_id or f"{mark.marker}: nothing" for mark in claim.citations) or "nothing"
        table.add_row(Text(claim.text), Text(cites, style=_FAINT), _support(claim), Text(_basis(claim)))
    return table


def _support(claim: Claim) -> Text:
    if not claim.factual:
        return Text("no claim", style=_FAINT)
    if claim.contradiction:
        return Text(f"contradicted\n{claim.reason or ''}".strip(), style=_BAD)
    support = claim.support or 0.0
    return Text(f"{support:.2f}", style=_GOOD if support >= SUPPORTED else _BAD)


def _basis(claim: Claim) -> str:
    if claim.best_chunk is None and claim.unselected_chunk is not None:
        return f"{claim.unselected_chunk} (not in the prompt)"
    return claim.best_chunk or ""


def _rank(rank: int | None) -> str:
    return str(rank) if rank else "-"


def plain_table(*columns: str) -> Table:
    """A table without lines, its first column the widest."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_HEAD, width=None)
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=False, justify="left", max_width=48 if number == 0 else 36)
    return table
