"""One request's evidence path: the verdict in words, each stage's state, facets, candidates, ranks, prompt, claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragtrace.analyze.claim_attribution import ABLATION
from ragtrace.analyze.diagnosis import not_known_before
from ragtrace.analyze.services import remedy
from ragtrace.bounds import sentences
from ragtrace.coverage import SUPPORTED, Rationale, rationales, united
from ragtrace.coverage.verifier import ENTAILMENT
from ragtrace.registry.instruments import ANSWER_RELEVANCE, STAGES
from ragtrace.registry.wording import FIXES, STATES, VERDICTS, cause_words, probe_lines, reason_words
from ragtrace.types import (
    Analysis,
    Claim,
    Diagnosis,
    FacetMatch,
    IndexProbe,
    LostChunk,
    PackedChunk,
    Reference,
    RequestRecord,
    Stage,
    StageFinding,
    StageState,
)

__all__ = [
    "NOT_JUDGED",
    "ClaimView",
    "claim_rationales",
    "claim_summary",
    "claim_views",
    "heading",
    "is_outdated",
    "labeled",
    "plain_table",
    "render",
    "shown_rank",
    "verdict_brief",
    "verdict_words",
]

_ClaimState: TypeAlias = Literal["contradicted", "not supported", "weak words", "not known", "supported"]
"""What a claim is called, the worst first. Below the line of support it has weak words where words decided, and is not
supported where a model of entailment did: people call a third of the claims with weak words unsupported."""

_STATES: Final[tuple[_ClaimState, ...]] = get_args(_ClaimState)
_LISTED: Final = 4  # chunks of one claim that are named beside the one that decides
_SEVERAL: Final = "the words of several chunks together, and by none alone"
NOT_JUDGED: Final = "not judged by these rules (ragtrace analyze --redo judges anew)"
"""Of a request that a version of the analyzer without states has judged."""
_GOOD, _BAD, _DOUBT, _FAINT, _HEAD = "green", "bold red", "yellow", "dim", "bold"
_STYLES: Final[dict[StageState, str]] = {"sound": _GOOD, "broken": _BAD, "suspected": _DOUBT, "not_known": _DOUBT}
_VERDICT_STYLES: Final = {"healthy": _GOOD, "no_break_found": _DOUBT, "no_retrieval_needed": _FAINT}
_STATELESS: Final = ("no_retrieval_needed", "error")  # verdicts that may stand without the state of any stage
_MATCHED: Final = 0.999
_EVIDENCE: Final[dict[Reference, str]] = {
    "oracle": "evidence (* needed, says the gold set)",
    "proxy": "evidence (* looks needed)",
    "none": "chunks of the prompt",
}


def is_outdated(found: Diagnosis) -> bool:
    """Whether a version of the analyzer without states has made the diagnosis."""
    return not found.stages and found.judge is None


def verdict_words(diagnosis: Diagnosis) -> str:
    """The verdict and how much of it is known: `no break found: 2 of 3 stages judged sound; retrieval is not known (no
    proof either way)`, `grounding failure: generation broke; whether retrieval broke before is not known (...)`."""
    if is_outdated(diagnosis):
        return NOT_JUDGED
    said = VERDICTS.get(diagnosis.verdict, diagnosis.verdict.replace("_", " "))
    unknown = not_known_before(diagnosis)
    if diagnosis.stage is not None:
        before = [one.stage for one in _before(diagnosis)]
        sound = f"; {_all(before)} sound" if before and not unknown else ""
        return f"{said}: {diagnosis.stage} broke{sound}{''.join(map(_whether_before, unknown))}"
    if diagnosis.verdict == "error":
        return f"{said}: {diagnosis.evidence[0]}" if diagnosis.evidence else said
    sound_stages = [one for one in diagnosis.stages if one.state == "sound"]
    if diagnosis.verdict == "healthy":
        return f"{said}: {_all([one.stage for one in sound_stages])} sound"
    if not diagnosis.stages:
        return said
    return f"{said}: {len(sound_stages)} of {len(diagnosis.stages)} stages judged sound; {_unknown(unknown)}"


def _before(found: Diagnosis) -> list[StageFinding]:
    names = [one.stage for one in found.stages]
    return list(found.stages[: names.index(found.stage)]) if found.stage in names else []


def _all(stages: Sequence[str]) -> str:
    if len(stages) == 1:
        return f"{stages[0]} is"
    return f"{', '.join(stages[:-1])} and {stages[-1]} are"


def _whether_before(one: StageFinding) -> str:
    words = reason_words(one.reason, one.stage)
    if one.state == "suspected":
        return f"; {one.stage} before it is suspected ({words})"
    return f"; whether {one.stage} broke before is not known ({words})"


def _unknown(findings: Sequence[StageFinding]) -> str:
    """The stages that are suspected or not known; of a single one the reason, too."""
    by_state: dict[StageState, list[str]] = {}
    for one in findings:
        by_state.setdefault(one.state, []).append(one.stage)
    told = "; ".join(f"{_all(stages)} {STATES[state]}" for state, stages in by_state.items())
    return told if len(findings) > 1 else f"{told} ({reason_words(findings[0].reason, findings[0].stage)})"


def verdict_brief(verdict: str | None, states: Mapping[Stage, StageState]) -> str:
    """The verdict in a table of requests."""
    if verdict is None:
        return "not analyzed"
    if not states and verdict not in _STATELESS:
        return "not judged by these rules"
    return VERDICTS.get(verdict, verdict.replace("_", " "))


def render(record: RequestRecord, analysis: Analysis | None) -> RenderableType:
    """The path of `record`, readable from 100 columns on; without an analysis it ends at what was recorded."""
    parts: list[RenderableType] = [heading(record)]
    if analysis is None:
        parts.append(Text("not analyzed yet: run `ragtrace analyze`", style=_FAINT))
    else:
        parts.append(_verdict(analysis))
        if analysis.facets:
            parts += [Text(), _facets(analysis, record)]
    parts += [Text(), _evidence(record, analysis)]
    parts += [Text(), *_answer(record, analysis)]
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
        lines.add_row("suspect", Text(f"rollout of {diagnosis.suspected_rollout}", style=_DOUBT))
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
    lines = [] if is_judged else [reason_words(finding.reason, finding.stage)]
    return Text("\n".join([*lines, *finding.evidence]), style=_FAINT if finding.state == "sound" else "")


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


def _evidence(record: RequestRecord, analysis: Analysis | None) -> Table:
    reference = analysis.reference_chunks if analysis else ()
    lost = {loss.chunk_id: loss for loss in (analysis.lost if analysis else ())}
    title = _EVIDENCE[analysis.reference if analysis and reference else "none"]
    table = plain_table(title, "retrieved", "reranked", "prompt")
    path = _Path(record)
    is_broken = analysis is not None and analysis.diagnosis.stage in ("retrieval", "ranking")
    style = _BAD if is_broken else _DOUBT
    for chunk_id in dict.fromkeys([*reference, *path.packed]):
        needed = chunk_id in reference
        name = Text(f"* {chunk_id}", style=_HEAD) if needed else Text(f"  {chunk_id}", style=_FAINT)
        table.add_row(name, *path.ranks(chunk_id), path.standing(chunk_id, lost.get(chunk_id), style))
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
        earlier = Text(shown_rank(before), style="" if before else _BAD)
        return earlier, Text(shown_rank(after), style=_DOUBT if sunk else "")

    def standing(self, chunk_id: str, loss: LostChunk | None, style: str) -> Text:
        """Where a chunk stands in the prompt, or why it does not. style: of a loss."""
        chunk = self.packed.get(chunk_id)
        if chunk is not None:
            place = Text(f"[{chunk.position}] {chunk.tokens} tokens" if chunk.tokens else f"[{chunk.position}]")
            if chunk.truncated:
                place.append(_cut(chunk), style=style if loss else _DOUBT)
            return place
        reason = self._dropped.get(chunk_id)
        lost = f"lost in {loss.where}" if loss else "not packed"
        return Text(f"{lost} ({reason})" if reason and reason != lost else lost, style=style if loss else _FAINT)


def _cut(chunk: PackedChunk) -> str:
    if chunk.tokens_full is None and chunk.given_end is not None:
        return f", cut to characters {chunk.given_start} to {chunk.given_end}"
    return ", cut" if chunk.tokens_full is None else f", cut from {chunk.tokens_full}"


def _answer(record: RequestRecord, analysis: Analysis | None) -> Iterator[RenderableType]:
    generation = record.generation
    if generation is None or generation.answer is None:
        yield Text("no answer was recorded", style=_FAINT)
    elif analysis is None or not analysis.claims:
        yield labeled(("answer", Text(generation.answer)))
    else:
        is_broken = analysis.diagnosis.state("generation") == "broken"
        yield _claims(record, analysis.claims, _BAD if is_broken else _DOUBT)
    if (relevance := analysis.score(ANSWER_RELEVANCE.id) if analysis else None) is not None:
        yield labeled(("relevance", Text(f"{relevance:.2f} that the answer is one to this question", style=_FAINT)))


def _claims(record: RequestRecord, claims: Sequence[Claim], doubted: str) -> Table:
    """A line with the states of the claims, then a block for each. doubted: the style of all but what is supported."""
    views = claim_views(record, claims)
    styles = {state: _GOOD if state == "supported" else doubted for state, _ in claim_summary(views)}
    counts = Text(", ").join(Text(said, style=styles[state]) for state, said in claim_summary(views))
    number = sum(view.number is not None for view in views)
    table = labeled(("claims", Text(f"{number}: ").append_text(counts) if number else Text("none")))
    table.columns[0].no_wrap = True
    for view in views:
        table.add_row()
        if view.state is None:
            table.add_row("no claim", Text(view.text, style=_FAINT))
            continue
        table.add_row(f"claim {view.number}", Text(view.text, style=_HEAD))
        kinds = {"state": ("not dim " + styles[view.state], ""), "quotation": ("", "italic"), "note": (_FAINT, _FAINT)}
        for line in view.lines:
            label, body = kinds[line.kind]
            table.add_row(Text(line.label, style=label), Text(line.text, style=body))
    return table


def shown_rank(rank: int | None) -> str:
    """A rank, or a dash for none."""
    return str(rank) if rank else "-"


def plain_table(*columns: str) -> Table:
    """A table without lines, its first column the widest."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_HEAD, width=None)
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=False, justify="left", max_width=48 if number == 0 else 36)
    return table


class _ClaimLine(NamedTuple):
    """What is known of a claim. label: "" for a quotation and for what belongs to the line above."""

    label: str
    text: str
    kind: Literal["state", "quotation", "note"]


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A claim with its number in the answer; one that states nothing has neither number nor state. rationale: the
    sentences that the last of its lines but notes quotes."""

    text: str
    number: int | None = None
    state: _ClaimState | None = None
    lines: tuple[_ClaimLine, ...] = ()
    rationale: Rationale | None = None


def claim_rationales(record: RequestRecord, claims: Sequence[Claim]) -> tuple[Rationale | None, ...]:
    """What each claim of the record's answer rests on, with the sentence; see `ragtrace.coverage.rationales`."""
    packing = united(record).packing
    return rationales(claims, packing.chunks if packing else (), record.candidates)


def claim_views(record: RequestRecord, claims: Sequence[Claim]) -> list[ClaimView]:
    """The claims of the record's answer in their order."""
    packing = united(record).packing
    places = {chunk.chunk_id: chunk.position for chunk in packing.chunks} if packing else {}
    cites = any(claim.citations for claim in claims)
    found: list[ClaimView] = []
    number = 0
    for claim, rationale in zip(claims, claim_rationales(record, claims), strict=True):
        number += claim.factual
        lines = tuple(_Lines(claim, rationale, places).all(cites=cites)) if claim.factual else ()
        known = ClaimView(claim.text, number, _state(claim), lines, rationale) if claim.factual else None
        found.append(known or ClaimView(claim.text))
    return found


def claim_summary(views: Sequence[ClaimView]) -> list[tuple[_ClaimState, str]]:
    """How many claims are in which state, the worst first: `1 contradicted (claim 2)`, `2 supported`."""
    found = []
    for state in _STATES:
        numbers = [str(view.number) for view in views if view.state == state]
        if numbers:
            which = "" if state == "supported" else f" (claim{'s' * (len(numbers) > 1)} {', '.join(numbers)})"
            found.append((state, f"{len(numbers)} {state}{which}"))
    return found


def _state(claim: Claim) -> _ClaimState:
    if (claim.contradiction or 0.0) >= SUPPORTED:
        return "contradicted"
    if claim.support is None:
        return "not known"
    if claim.support >= SUPPORTED:
        return "supported"
    return "not supported" if claim.layer == ENTAILMENT else "weak words"


@dataclass(frozen=True, slots=True)
class _Lines:
    """What is said of one claim. places: of the chunks in the prompt."""

    claim: Claim
    rationale: Rationale | None
    places: Mapping[str, int]

    def all(self, *, cites: bool) -> Iterator[_ClaimLine]:
        """cites: whether the answer cites at all."""
        claim, state = self.claim, _state(self.claim)
        deciding = self.rationale.chunk_id if self.rationale else claim.best_chunk
        yield _ClaimLine(state.upper() if state == "contradicted" else state, self._basis(state), "state")
        if self.rationale is not None:
            yield _ClaimLine("", f"“{self.rationale.text}”", "quotation")
        elif deciding is not None and state != "not known":
            yield _ClaimLine("", "the text of this chunk was not kept", "note")
        supporting = {key: value for key, value in claim.supports.items() if value >= SUPPORTED and key != deciding}
        if supporting:
            said = [f"{self._named(key)} {supporting[key]:.2f}" for key in _largest(supporting)]
            yield _ClaimLine("also by" if state == "supported" else "supported", _listed_chunks(said), "note")
        differing = {key: value for key, value in claim.contradictions.items() if key != deciding}
        if differing:  # often of another edition or place: no proof against the claim
            yield _ClaimLine("differs in", _listed_chunks([self._named(key) for key in _largest(differing)]), "note")
        if cites:
            yield _ClaimLine("cites", self._citations(state), "note")

    def _basis(self, state: _ClaimState) -> str:
        """What the state rests on."""
        claim = self.claim
        reason = f": {claim.reason}" if claim.reason else ""
        best = self._named(claim.best_chunk) if claim.best_chunk else ""
        if state == "contradicted":
            return f"by {best}{reason}" if best else reason[2:]
        if state == "not known":
            return "whether the prompt supports it was not computed"
        said = f"{claim.support:.2f}"
        if claim.layer == ABLATION:
            return f"{said}; rests on {best}{reason}"
        if state == "supported":
            alone = claim.supports.get(claim.best_chunk or "", SUPPORTED) >= SUPPORTED
            by = best if alone else f"several chunks together, most by {best}"
            return f"{said} by {by or _SEVERAL}{reason}"
        if self.rationale is not None and self.rationale.stance == "supports":
            return f"{said}{reason}; supported outside of the prompt, by {self.rationale.chunk_id}:"
        return f"{said}{f'; nearest is {best}' if best else '; no chunk of the prompt speaks of it'}{reason}"

    def _citations(self, state: _ClaimState) -> str:
        """The chunks that the claim cites; which of them do not support it where others do."""
        is_known = state == "supported" and bool(self.claim.supports)
        said = []
        for mark in self.claim.citations:
            if mark.chunk_id is None:
                said.append(f"{mark.marker}: nothing")
            elif is_known and self.claim.supports.get(mark.chunk_id, 0.0) < SUPPORTED:
                said.append(f"{self._named(mark.chunk_id)}, which does not support it")
            else:
                said.append(self._named(mark.chunk_id))
        return "; ".join(dict.fromkeys(said)) or "nothing"

    def _named(self, chunk_id: str) -> str:
        """A chunk with its place in the prompt."""
        return f"{chunk_id} [{self.places[chunk_id]}]" if chunk_id in self.places else chunk_id


def _largest(chunks: Mapping[str, float]) -> list[str]:
    return sorted(chunks, key=lambda key: -chunks[key])


def _listed_chunks(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
