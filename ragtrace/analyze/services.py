"""Services as a worker knows them: whether they cite, what is usual in their requests, and how much can be judged.

How much: the states of each stage in the last requests, and what would tell more.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ragtrace.analyze.analysis import ServiceView
from ragtrace.coverage import Background
from ragtrace.grading import GradeThresholds
from ragtrace.registry.instruments import STAGES
from ragtrace.store import CalibrationState, Citing, Sampled, ServiceCalibration, ServiceTraffic, Store
from ragtrace.store.populations import REPLAY
from ragtrace.types import Analysis, Claim, RequestRecord, Stage

__all__ = ["Judgeability", "Services", "StageStates", "is_replayed", "judgeability", "remedy"]

ENOUGH: Final = 1_000  # chunks of a service, from which on its background stays as it is
KEPT: Final = 500  # doubts that are kept of each stage
JUDGES: Final = 2  # whose doubts are kept, the last ones
THINNED: Final = (
    20  # once these are full, every so many-th request replaces the oldest: an incident is not the usual soon
)
GROWTH: Final = 1.2  # by which what is known must have grown to be kept anew


class Services:
    """The views of services, as of the store; what new requests tell is kept with them, batch by batch."""

    def __init__(self, store: Store, judge: str) -> None:
        self._store = store
        self._judge = judge  # doubts of two judges are not compared
        self._traffic: dict[str, ServiceTraffic] = {}
        self._kept: dict[str, int] = {}  # requests behind what the store has of each service
        self._citing: dict[str, Citing] = {}
        self._calibrations: dict[str, list[ServiceCalibration]] = {}
        self._grade_lines: dict[str, dict[str, GradeThresholds]] = {}

    def load(self, services: Iterable[str]) -> None:
        """Read what the store knows by now of these services."""
        names = sorted(set(services))
        self._citing.update(self._store.citing(names))
        calibrations = self._store.calibrations(names)
        self._calibrations |= {name: [each for each in calibrations if each.service == name] for name in names}
        self._grade_lines |= {name: {} for name in names}
        for line in self._store.grade_lines(names):
            self._grade_lines[line.service][line.judge] = GradeThresholds(line.upper, line.lower)
        made = self._store.traffic_made(names)
        for name in names:
            if name in self._kept and name not in made:
                self._forget(name)
            known = self._traffic.get(name, ServiceTraffic(made_at=-1))
            newer = self._store.traffic(name) if made.get(name, -1) > known.made_at else None
            if newer is not None and newer.requests > known.requests:
                self._traffic[name] = newer
                self._kept[name] = newer.requests

    def _forget(self, service: str) -> None:
        """Begin anew with a service: somebody's data were erased, and what was kept of its traffic with them."""
        self._traffic.pop(service, None)
        self._kept.pop(service, None)

    def view(self, record: RequestRecord) -> ServiceView:
        """What is known of a record's service."""
        cites, traffic = self._citing.get(record.service, Citing()).cites, self._traffic.get(record.service)
        calibrations = self._in_state(record.service, "active")
        lines = self._grade_lines.get(record.service, {})
        if traffic is None:
            return ServiceView(cites=cites, calibrations=calibrations, grade_lines=lines)
        return ServiceView(
            cites=cites,
            calibrations=calibrations,
            grade_lines=lines,
            background=Background(len(traffic.seen), traffic.counts),
            usual={} if is_replayed(record) else traffic.doubts.get(self._judge, {}),
        )

    def in_shadow(self, record: RequestRecord, judge: str) -> ServiceCalibration | None:
        """The calibration that runs beside a judge on a record's service, and changes nothing yet.

        judge: the digest of rules and models, without a calibration.
        """
        return next((each for each in self._in_state(record.service, "shadow") if each.judge == judge), None)

    def _in_state(self, service: str, state: CalibrationState) -> tuple[ServiceCalibration, ...]:
        return tuple(each for each in self._calibrations.get(service, ()) if each.state == state)

    def note(
        self, results: Iterable[tuple[RequestRecord, Analysis, Mapping[str, float]]], again: Container[str] = ()
    ) -> None:
        """Take up what analyzed requests tell of their services, and keep it where it has grown enough.

        results: with each analysis the log odds of the doubts (`doubts.log_odds_of`). again: the ids of requests whose
        answers were counted before, as they were analyzed then.
        """
        answers: dict[str, tuple[int, int]] = {}
        for record, analysis, odds in results:
            known = self._traffic.get(record.service, ServiceTraffic())
            self._traffic[record.service] = _with(known, record, self._judge, odds)
            claims = [claim for claim in analysis.claims if claim.factual]
            is_new = record.request_id not in again
            if is_new and claims and record.started_at >= self._citing.get(record.service, Citing()).counted_from:
                count, cited = answers.get(record.service, (0, 0))
                answers[record.service] = (count + 1, cited + _cites(claims))
        self._store.note_answers(answers)
        for service, traffic in list(self._traffic.items()):
            kept = self._kept.get(service, 0)
            if traffic.requests < max(1.0, GROWTH * kept):
                continue
            if self._store.save_traffic(service, traffic, is_new=not kept):
                self._kept[service] = traffic.requests
            else:
                self._forget(service)


def _cites(claims: Iterable[Claim]) -> bool:
    """Whether a claim cites a chunk of the prompt: a mark that names none may be anything."""
    return any(mark.chunk_id is not None for claim in claims for mark in claim.citations)


def is_replayed(record: RequestRecord) -> bool:
    """Whether a request is one of a replay: whichever is analyzed first, two of them are judged by the same lines."""
    return f"{REPLAY}run" in record.attributes


def _with(traffic: ServiceTraffic, record: RequestRecord, judge: str, odds: Mapping[str, float]) -> ServiceTraffic:
    seen, counts, doubts = traffic.seen, traffic.counts, traffic.doubts
    texts = [candidate.text for candidate in record.candidates if candidate.text]
    new = {key: text for text in texts if (key := zlib.crc32(text.encode())) not in seen}
    if new and len(seen) < ENOUGH:
        seen, counts = seen | new.keys(), _added(counts, Background.of(new.values()).counts)
    is_thinned = traffic.requests % THINNED == 0
    if odds and record.head_sampled and not is_replayed(record):  # what was flagged is not usual
        ours = doubts.get(judge, {})
        grown = ours | {
            name: (*values, odd)[-KEPT:]
            for name, odd in odds.items()
            if len(values := ours.get(name, ())) < KEPT or is_thinned
        }
        doubts = dict([*((name, one) for name, one in doubts.items() if name != judge), (judge, grown)][-JUDGES:])
    return ServiceTraffic(seen, counts, doubts, traffic.requests + 1, time.time_ns())


def _added(counts: Mapping[int, int], more: Mapping[int, int]) -> dict[int, int]:
    grown = dict(counts)
    for key, count in more.items():
        grown[key] = grown.get(key, 0) + count
    return grown


MOST: Final = 1_000  # requests that are looked at, about
FEWEST: Final = 50  # requests for which a window is long enough
_DAY: Final = 86_400 * 10**9
_WINDOWS: Final = (_DAY, 7 * _DAY)
_STAGES: Final[tuple[Stage, ...]] = tuple(stage.name for stage in STAGES)  # type: ignore[misc]

_FACETS: Final = "ragtrace.request(facets=...) says what a chunk must hold"
_GOLD: Final = "ragtrace gold import FILE says which chunks answer a question"
_VERIFIER: Final = "ragtrace analyze --judge entails=MODEL judges claims by a model (docs/how-to/judges.md names some)"
_TEXTS: Final = (
    'ragtrace.configure(capture_content="full") keeps texts, @ragtrace.{} records the stage; ragtrace doctor says '
    "what was returned that it cannot read"
)
_ANEW: Final = "--again judges those that were analyzed"
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
        sampled = list(store.sample(service, None, max(0, until - window), until, (), MOST).rows)
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
    return None if is_verified else f"{_VERIFIER}; {_ANEW}"
