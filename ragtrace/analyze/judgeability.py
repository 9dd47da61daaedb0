"""How much of a service can be judged: the states of each stage in its last requests, and what would tell more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ragtrace.registry.instruments import STAGES
from ragtrace.store import Citing, Sampled, Store
from ragtrace.types import Stage

__all__ = ["Judgeability", "StageStates", "judgeability", "remedy"]

MOST: Final = 1_000  # requests that are looked at, about
FEWEST: Final = 50  # requests for which a window is long enough
_DAY: Final = 86_400 * 10**9
_WINDOWS: Final = (_DAY, 7 * _DAY)
_STAGES: Final[tuple[Stage, ...]] = tuple(stage.name for stage in STAGES)  # type: ignore[misc]

_FACETS: Final = "ragtrace.request(facets=...) says what a chunk must hold"
_GOLD: Final = "ragtrace gold import FILE says which chunks answer a question"
_VERIFIER: Final = "ragtrace analyze --verifier MODEL judges claims by a model (pip install 'ragtrace[models]')"
_TEXTS: Final = 'ragtrace.configure(capture_content="full") keeps texts, @ragtrace.{} records the stage'
_GAP: Final = "ask the owner of the source whether the document is missing (ragtrace source list)"
_RECORDED_BY: Final = {"retrieval": "retrieve", "ranking": "pack", "generation": "generate", "citation": "generate"}


@dataclass(frozen=True, slots=True)
class StageStates:
    """One stage in some requests: how many have each state, and each reason why it is suspected or not known."""

    stage: Stage
    states: Counter[str]
    reasons: Counter[str]

    @property
    def requests(self) -> int:
        """To how many the stage applies."""
        return self.states.total()

    def share(self, state: str) -> float:
        """Of the requests to which the stage applies, in [0, 1]; 0 where there are none."""
        return self.states[state] / self.requests if self.requests else 0.0

    @property
    def reason(self) -> str | None:
        """The most frequent reason; None where every request is sound or broken."""
        return max(self.reasons, key=lambda reason: (self.reasons[reason], reason), default=None)


@dataclass(frozen=True, slots=True)
class Judgeability:
    """What can be judged of a service.

    requests: how many of its last analyzed ones were looked at; outdated: how many more were judged by a version that
    knew no states; stages: those that apply to any, in the order of the path; citing: whether answers cite, as far as
    that is known. is_verified: whether a model judged claims.
    """

    service: str
    requests: int
    outdated: int
    stages: tuple[StageStates, ...]
    citing: Citing
    is_verified: bool

    @property
    def judges_citations(self) -> bool:
        """Whether citation is a stage of any of the requests."""
        return any(found.stage == "citation" for found in self.stages)


def judgeability(store: Store, service: str) -> Judgeability:
    """Look at the last requests of the random stratum: those of the day before the newest one, or of more days where
    these are few.

    Raises: StoreError when the store cannot be read.
    """
    sampled = _last(store, service)
    known = [one for one in sampled if one.states]
    outdated = sum(not one.states and one.judge is None for one in sampled)
    stages = tuple(found for stage in _STAGES if (found := _states(stage, known)).requests)
    judges = store.judges([one.request_id for one in known[-FEWEST:]])
    citing = store.citing([service]).get(service, Citing())
    return Judgeability(service, len(known), outdated, stages, citing, any(judge.verifier for judge in judges))


def _last(store: Store, service: str) -> list[Sampled]:
    newest = store.find_requests(service=service, limit=1)
    if not newest:
        return []
    until = newest[0].started_at + 1
    sampled: list[Sampled] = []
    for window in (*_WINDOWS, until):
        sampled, _ = store.sample(service, None, max(0, until - window), until, (), MOST)
        if len(sampled) >= FEWEST:
            break
    return sampled


def _states(stage: Stage, requests: Iterable[Sampled]) -> StageStates:
    applies = [request for request in requests if stage in request.states]
    return StageStates(
        stage,
        Counter(request.states[stage] for request in applies),
        Counter(request.reasons[stage] for request in applies if stage in request.reasons),
    )


def remedy(stage: Stage, reason: str, *, is_verified: bool = False) -> str | None:
    """What would let a stage be judged that is suspected or not known for this reason; None where nothing would yet.

    is_verified: whether a model judges claims already.
    """
    if reason == "not_recorded":
        return _TEXTS.format(_RECORDED_BY[stage])
    if reason == "language" or (stage == "citation" and reason == "undecided"):
        return None  # words cannot follow it, or some claims are cited and some are not
    if reason == "corpus_gap":
        return _GAP
    if reason in ("facet_not_found", "refused"):
        return _GOLD
    if stage in ("retrieval", "ranking"):
        return f"{_FACETS}; {_GOLD}"
    return None if is_verified else _VERIFIER
