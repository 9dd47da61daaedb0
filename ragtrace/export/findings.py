"""The findings of an analysis, in words: the verdict with what is not known beside it, and each claim with the sentence
that decides on it. The terminal, the pages and exported files say the same by it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from ragtrace.analyze.alignment import ABLATION
from ragtrace.analyze.diagnosis import doubt_reason, not_known_before
from ragtrace.coverage import SUPPORTED, Rationale, rationales, united
from ragtrace.coverage.verifier import ENTAILMENT
from ragtrace.registry.wording import STATES, VERDICTS, reason_words
from ragtrace.types import Analysis, Claim, Diagnosis, RequestRecord, Stage, StageFinding, StageState

__all__ = [
    "NOT_JUDGED",
    "ClaimSentence",
    "ClaimView",
    "RequestDocument",
    "claim_rationales",
    "claim_summary",
    "claim_views",
    "doubt_note",
    "is_outdated",
    "request_document",
    "verdict_brief",
    "verdict_words",
]

_ClaimState: TypeAlias = Literal["contradicted", "not supported", "weakly supported", "not known", "supported"]
"""What a claim is called, the worst first. Below the line of support it is weakly supported where words decided, and
not supported where a model of entailment did: people call a third of the weakly supported claims unsupported."""

_STATES: Final[tuple[_ClaimState, ...]] = get_args(_ClaimState)
_LISTED: Final = 4  # chunks of one claim that are named beside the one that decides
_SEVERAL: Final = "the words of several chunks together, and by none alone"
NOT_JUDGED: Final = "not judged by these rules (ragtrace analyze --redo judges anew)"
"""Of a request that a version of the analyzer without states has judged."""
_STATELESS: Final = ("no_retrieval_needed", "error")  # verdicts that may stand without the state of any stage


def doubt_note(finding: StageFinding) -> str:
    """That a stage counts as in doubt, and why as triage tells it, or that its answer is far from the question, where
    its state does not say so; "" else."""
    if finding.state in ("broken", "suspected") or not (finding.doubted or finding.distant):
        return ""
    if not finding.doubted:
        return "triage counts the answer as far from its question, as some always are"
    reason = doubt_reason(finding.stage, finding.reason)
    why = f" ({reason_words(reason, finding.stage)})" if reason not in (finding.reason, "undecided") else ""
    return f"triage and alerts count it as in doubt{why}, which proves nothing of one request"


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


def verdict_brief(verdict: str | None, states: Mapping[Stage, StageState], reasons: Mapping[Stage, str]) -> str:
    """The verdict in a table of requests. Where no break was found, the first stage that is suspected, and why:
    `suspected: generation, unsupported`; the reason is the word that the list is filtered by."""
    if verdict is None:
        return "not analyzed"
    if not states and verdict not in _STATELESS:
        return "not judged by these rules"
    suspect = next((stage for stage, state in states.items() if state == "suspected"), None)
    if verdict == "no_break_found" and suspect is not None:
        why = f", {reasons[suspect].replace('_', ' ')}" if suspect in reasons else ""
        return f"suspected: {suspect}{why}"
    return VERDICTS.get(verdict, verdict.replace("_", " "))


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


class ClaimSentence(msgspec.Struct, frozen=True, kw_only=True):
    """The sentence that decides on a claim, and the chunk that it stands in."""

    chunk_id: str
    stance: Literal["supports", "contradicts", "nearest"]
    text: str


class RequestDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One request as JSON. analysis: null until a worker has been there; rationales: of each of its claims."""

    record: RequestRecord
    analysis: Analysis | None
    rationales: tuple[ClaimSentence | None, ...]


def request_document(record: RequestRecord, analysis: Analysis | None) -> RequestDocument:
    """A request with what was found of it."""
    found = claim_rationales(record, analysis.claims) if analysis else ()
    told = (
        one if one is None else ClaimSentence(chunk_id=one.chunk_id, stance=one.stance, text=one.text) for one in found
    )
    return RequestDocument(record=record, analysis=analysis, rationales=tuple(told))


def claim_views(record: RequestRecord, claims: Sequence[Claim]) -> list[ClaimView]:
    """The claims of the record's answer in their order."""
    packing = united(record).packing
    places = {chunk.chunk_id: chunk.position for chunk in packing.chunks} if packing else {}
    kept = {chunk.chunk_id for chunk in record.candidates if chunk.text}
    kept |= {chunk.chunk_id for chunk in packing.chunks if chunk.text} if packing else set()
    cites = any(claim.citations for claim in claims)
    found: list[ClaimView] = []
    number = 0
    for claim, rationale in zip(claims, claim_rationales(record, claims), strict=True):
        number += claim.factual
        lines = tuple(_Lines(claim, rationale, places, kept).all(cites=cites)) if claim.factual else ()
        known = ClaimView(claim.text, number, _state(claim), lines, rationale) if claim.factual else None
        found.append(known or ClaimView(claim.text))
    return found


def claim_summary(views: Sequence[ClaimView]) -> list[tuple[_ClaimState, str]]:
    """How many claims are in which state, the worst first: `1 contradicted (claim 2)`, `1 weakly supported
    (claim 3)`, `2 supported`."""
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
    return "not supported" if claim.layer == ENTAILMENT else "weakly supported"


@dataclass(frozen=True, slots=True)
class _Lines:
    """What is said of one claim. places: of the chunks in the prompt; kept: those whose text is there."""

    claim: Claim
    rationale: Rationale | None
    places: Mapping[str, int]
    kept: Container[str]

    def all(self, *, cites: bool) -> Iterator[_ClaimLine]:
        """cites: whether the answer cites at all."""
        claim, state = self.claim, _state(self.claim)
        deciding = self.rationale.chunk_id if self.rationale else claim.best_chunk
        yield _ClaimLine(state.upper() if state == "contradicted" else state, self._basis(state), "state")
        if self.rationale is not None:
            yield _ClaimLine("", f"“{self.rationale.text}”", "quotation")
        elif deciding is not None and deciding not in self.kept and state != "not known":
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
        return f"{said}{f'; nearest is {best}' if best else '; no chunk of the prompt supports it'}{reason}"

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
