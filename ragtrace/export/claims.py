"""The claims of an answer as they are shown: state, the sentence that decides, and further chunks of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from ragtrace.analyze.generator import ABLATION
from ragtrace.coverage import SUPPORTED, Rationale, rationales, united
from ragtrace.coverage.verifier import ENTAILMENT
from ragtrace.types import Claim, RequestRecord

__all__ = ["ClaimLine", "ClaimState", "ClaimView", "claim_rationales", "claim_views", "summary"]

ClaimState: TypeAlias = Literal["contradicted", "not supported", "weak words", "not known", "supported"]
"""What a claim is called, the worst first. Below the line of support it has weak words where words decided, and is not
supported where a model of entailment did: people call a third of the claims with weak words unsupported."""

_STATES: Final[tuple[ClaimState, ...]] = get_args(ClaimState)
_LISTED: Final = 4  # chunks of one claim that are named beside the one that decides
_SEVERAL: Final = "the words of several chunks together, and by none alone"


class ClaimLine(NamedTuple):
    """What is known of a claim. label: "" for a quotation and for what belongs to the line above."""

    label: str
    text: str
    kind: Literal["state", "quotation", "note"]


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A claim with its number in the answer; one that states nothing has neither number nor state."""

    text: str
    number: int | None = None
    state: ClaimState | None = None
    lines: tuple[ClaimLine, ...] = ()


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
        found.append(ClaimView(claim.text, number, _state(claim), lines) if claim.factual else ClaimView(claim.text))
    return found


def summary(views: Sequence[ClaimView]) -> list[tuple[ClaimState, str]]:
    """How many claims are in which state, the worst first: `1 contradicted (claim 2)`, `2 supported`."""
    found = []
    for state in _STATES:
        numbers = [str(view.number) for view in views if view.state == state]
        if numbers:
            which = "" if state == "supported" else f" (claim{'s' * (len(numbers) > 1)} {', '.join(numbers)})"
            found.append((state, f"{len(numbers)} {state}{which}"))
    return found


def _state(claim: Claim) -> ClaimState:
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

    def all(self, *, cites: bool) -> Iterator[ClaimLine]:
        """cites: whether the answer cites at all."""
        claim, state = self.claim, _state(self.claim)
        deciding = self.rationale.chunk_id if self.rationale else claim.best_chunk
        yield ClaimLine(state.upper() if state == "contradicted" else state, self._basis(state), "state")
        if self.rationale is not None:
            yield ClaimLine("", f"“{self.rationale.text}”", "quotation")
        elif deciding is not None and state != "not known":
            yield ClaimLine("", "the text of this chunk was not kept", "note")
        supporting = {key: value for key, value in claim.supports.items() if value >= SUPPORTED and key != deciding}
        if supporting:
            said = [f"{self._named(key)} {supporting[key]:.2f}" for key in _largest(supporting)]
            yield ClaimLine("also by" if state == "supported" else "supported", _listed(said), "note")
        differing = {key: value for key, value in claim.contradictions.items() if key != deciding}
        if differing:  # often of another edition or place: no proof against the claim
            yield ClaimLine("differs in", _listed([self._named(key) for key in _largest(differing)]), "note")
        if cites:
            yield ClaimLine("cites", self._citations(state), "note")

    def _basis(self, state: ClaimState) -> str:
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

    def _citations(self, state: ClaimState) -> str:
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


def _listed(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
