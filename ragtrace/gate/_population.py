"""The populations of a comparison: the requests of both sides, read from stores and files, gathered in columns, paired.

What cannot be judged is counted, and scores by different kinds of reference are never mixed.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.errors import InputError
from ragtrace.gate._metrics import (
    METRICS,
    REFUSALS,
    SCORES,
    Metric,
    is_state,
    refusals,
    with_pairs,
)
from ragtrace.gate._sameness import MOST, Trace, trace_of, unchanged
from ragtrace.gate.selection import Selection, measured_in_file, refuse_two_rollouts, service_views
from ragtrace.gate.types import NOWHERE, STATES, Comparison, Population
from ragtrace.plausible_values import is_weighable, sampling_weight
from ragtrace.registry.instruments import STAGES
from ragtrace.store import Judge, MeasuredRequest, RequestFilter, Store, check
from ragtrace.store.address import Address
from ragtrace.store.rows import UNANSWERED
from ragtrace.types import Stage, StageState

if TYPE_CHECKING:
    from ragtrace.analyze.analysis import ServiceView

__all__ = ["Columns", "ReferenceKind", "Sides", "compared", "load"]


ReferenceKind: TypeAlias = Literal["oracle", "proxy"]
"""The judge of whether evidence was found: a gold set, or the candidates that match best."""

_SIDES: Final = ("baseline", "candidate")
_NAMED: Final = 5
_READ: Final = 200  # records at once
_NOTHING: Final = Trace()
_LOOKED_AT: Final = 50  # requests of each judge whose analyses are read whole
_SECOND: Final = 1_000_000_000
_ENOUGH: Final = 0.5  # of the requests of each side, from which two sides are taken to have asked the same questions
_STAGES: Final[tuple[Stage, ...]] = tuple(stage.name for stage in STAGES)  # type: ignore[misc]  # they are its stages
_CODES: Final[dict[StageState | None, int]] = {state: code for code, state in enumerate(STATES)}


class Sides:
    """The sides that were loaded, and the service that they are of; None where they are of several, or of none."""

    def __init__(self, populations: tuple[Population, ...], service: str | None) -> None:
        self.populations = populations
        self.service = service


def load(
    selections: Sequence[Selection],
    *,
    store: str | None,
    service: str | None,
    metrics: Sequence[str],
    reference: Literal["auto", "oracle", "proxy"] = "auto",
) -> Sides:
    """Load one side or both. store: the URL of what a selection without a source is read from, and of the gold sets
    for files. service: of the selections that name none.

    Raises: InputError when a side is empty, holds a request twice or impossible values; StoreError.
    """
    with ExitStack() as opened:
        sides = [
            _SelectedSide(side, selection, store, service, opened)
            for side, selection in zip(_SIDES, selections, strict=False)
        ]
        _refuse_the_same(sides)
        views = service_views([(side.name, side.selection, side.service) for side in sides])
        with ThreadPoolExecutor(len(sides)) as pool:  # the databases work meanwhile, outside of Python's lock
            columns = list(pool.map(lambda side: side.gathered(metrics, views), sides))
        judges = [side.judges(found) for side, found in zip(sides, columns, strict=True)]
        kind = _reference(columns, reference)
        populations = tuple(column.population(kind, judge) for column, judge in zip(columns, judges, strict=True))
        if len(sides) == 2 and all(len(population) <= MOST for population in populations):
            populations = tuple(
                replace(population, traces=side.traces(population.request_ids))
                for side, population in zip(sides, populations, strict=True)
            )
    for side, population in zip(_SIDES, populations, strict=False):
        if not len(population):
            raise InputError(
                f"no request of the {side} {population.name!r} can be judged: {_excluded_text(population.excluded)}"
            )
    _refuse_shared(sides, populations)
    services = {side.service for side in sides}
    return Sides(populations, next(iter(services)) if len(services) == 1 else None)


class _SelectedSide:
    """One side: where its requests come from."""

    def __init__(
        self, name: str, selection: Selection, store: str | None, service: str | None, opened: ExitStack
    ) -> None:
        self.name = name
        self.selection = selection
        self.service = selection.service or service
        self.url = selection.url or store
        self._store: Store | None = None
        self._traces: dict[str, Trace] = {}
        if self.url is not None and check(self.url).current is None:  # opening it would make one
            url = Address.parse(self.url).shown
            raise InputError(f"the {name}'s store {url} is no store of ragtrace yet; look for a slip in its URL")
        if self.url is not None:
            self._store = opened.enter_context(Store.open(self.url))
        if selection.file is None:
            self.service = self.service or self._only_service()

    @property
    def origin(self) -> tuple[str, object]:
        """The file or the database, however it was written."""
        if self.selection.file is not None:
            return "file", Path(self.selection.file).resolve()
        address = Address.parse(self._opened.url)
        return "store", address.file.resolve() if address.is_sqlite else address.url

    def _only_service(self) -> str:
        names = self._opened.services()
        if len(names) == 1:
            return names[0]
        if not names:
            raise InputError(
                f"the {self.name}'s store {self._opened.url} holds no request; record some, or name another"
            )
        raise InputError(
            f"the {self.name}'s store {self._opened.url} holds requests of {', '.join(names)}; choose one by --service"
        )

    @property
    def _opened(self) -> Store:
        if self._store is None:
            raise InputError(f"the {self.name} {self.selection.text!r} names no store; give one by --store")
        return self._store

    def gathered(self, metrics: Sequence[str], views: Mapping[str, ServiceView]) -> Columns:
        """The columns of this side. views: by service, for the records of a file that are analyzed here.

        Raises: InputError where nothing is selected.
        """
        columns = Columns(self.name, self.selection.text, metrics)
        for found in self._measured(columns.scores, views):
            columns.add(found)
        if not len(columns):
            raise InputError(self._empty(columns))
        if self.selection.file is None:
            refuse_two_rollouts(self.name, self.selection, self._opened, self.service or "", columns.times)
        return columns

    def judges(self, columns: Columns) -> set[Judge]:
        """What judged the requests whose answers have claims; of a store by some requests of each judge."""
        if self.selection.file is not None:
            return columns.judges
        return self._opened.judges([request_id for ids in columns.judged.values() for request_id in ids])

    def traces(self, request_ids: Sequence[str]) -> tuple[Trace, ...]:
        """What these requests did."""
        known = self._traces
        if self.selection.file is None:
            known = {}
            for start in range(0, len(request_ids), _READ):
                records = self._opened.get_records(request_ids[start : start + _READ])
                known.update((request_id, trace_of(record)) for request_id, record in records.items())
        return tuple(known.get(request_id, _NOTHING) for request_id in request_ids)

    def _measured(self, scores: Sequence[str], views: Mapping[str, ServiceView]) -> Iterable[MeasuredRequest]:
        chosen = self.selection
        if chosen.file is not None:
            return measured_in_file(self.name, chosen, self._store, scores, self.service, views, self._traces)
        wanted = RequestFilter(
            self.service or "", chosen.since, chosen.until, chosen.replay, chosen.versions, chosen.others
        )
        return self._opened.measured(wanted, scores)

    def _empty(self, columns: Columns) -> str:
        source = self.selection.file or self._opened.url
        of = f" of service {self.service}" if self.service else ""
        if not columns.excluded:
            return f"the {self.name} {self.selection.text!r} selects no request{of} in {source}; {self._hint()}"
        remedy = "; run ragtrace analyze" if set(columns.excluded) == {"not analyzed"} else ""
        told = _excluded_text(columns.excluded)
        return f"no request of the {self.name} {self.selection.text!r}{of} can be judged: {told}{remedy}"

    def _hint(self) -> str:
        """What may have been meant."""
        names = [] if self.selection.file is not None else self._opened.replays()
        if not names:
            return "look for a slip in it"
        shown = ", ".join(f"replay:{name}" for name in names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        return f"the store's replays are {shown}"


def _refuse_the_same(sides: Sequence[_SelectedSide]) -> None:
    """A comparison of something with itself proves nothing."""
    chosen = [(side.origin, side.service, _criteria(side)) for side in sides]
    if len(chosen) == 2 and chosen[0] == chosen[1]:
        raise InputError(
            f"baseline and candidate are both {sides[0].selection.text!r}; give two different selections, or use "
            "ragtrace gate selfcheck"
        )


def _refuse_shared(sides: Sequence[_SelectedSide], populations: Sequence[Population]) -> None:
    """A request of a store stands on one side only; files of two runs may number theirs alike."""
    if len({side.origin for side in sides}) == len(sides):
        return
    shared = set(populations[0].request_ids).intersection(*(each.request_ids for each in populations[1:]))
    if shared and len(populations) == 2:
        raise InputError(
            f"{len(shared)} requests stand in the baseline and in the candidate, as {min(shared)!r} does; give "
            "selections that do not overlap"
        )


def _criteria(side: _SelectedSide) -> tuple[object, ...]:
    chosen = side.selection
    return chosen.replay, frozenset(chosen.versions), frozenset(chosen.others), chosen.since, chosen.until


def _reference(columns: Sequence[Columns], wanted: Literal["auto", "oracle", "proxy"]) -> ReferenceKind:
    """Scores by different references are never mixed: the more frequent one counts, unless the policy names one."""
    if wanted != "auto":
        return wanted
    oracle, proxy = (sum(each.references[kind] for each in columns) for kind in ("oracle", "proxy"))
    return "oracle" if oracle >= proxy else "proxy"


def _excluded_text(excluded: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in excluded.items()) or "none is left"


class Columns:
    """One side, request by request; what cannot be judged is counted instead. `side` is named in errors."""

    def __init__(self, side: str, name: str, metrics: Sequence[str]) -> None:
        self.side = side
        self.name = name
        self.metrics = tuple(metrics)
        self._has_refusals = not set(REFUSALS).isdisjoint(self.metrics)
        own = [metric for metric in self.metrics if not (is_state(metric) or metric in REFUSALS)]
        read = [*own, UNANSWERED] if self._has_refusals else own
        self.scores = tuple(metric for metric in read if metric in SCORES or metric == UNANSWERED)
        self.excluded: Counter[str] = Counter()
        self.references: Counter[ReferenceKind] = Counter()
        self.analyzers: Counter[str] = Counter()
        self.judges: set[Judge] = set()
        self.judged: dict[str | None, list[str]] = {}
        self._ids: dict[str, int] = {}
        self._replayed: dict[tuple[str, str], tuple[int, int]] = {}
        self._outdated: list[int] = []
        self._words: dict[str, list[str]] = {name: [] for name in ("question", "segment", "cluster", "cause")}
        self._states = {stage: array("b") for stage in _STAGES}
        self._is_stateless = array("b")
        self._versions: list[dict[str, str]] = []
        self._weights = array("d")
        self._times = array("q")
        self._is_oracle = array("b")
        self._values = {metric: array("d") for metric in read}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def times(self) -> Sequence[int]:
        """When they began, in nanoseconds."""
        return self._times

    def add(self, request: MeasuredRequest) -> None:
        """Take one request. Raises: InputError for one that stands there twice, or has impossible values."""
        if request.request_id in self._ids:
            raise InputError(
                f"the {self.side} {self.name!r} holds request {request.request_id!r} twice; give each request once"
            )
        reason = _unusable(request)
        if reason is not None:
            self.excluded[reason] += 1
            return
        place = self._ids[request.request_id] = len(self._ids)
        self._note_replay(request, place)
        self._note_words(request)
        self._weights.append(sampling_weight(request.head_probability))
        self._times.append(request.started_at)
        is_oracle = request.reference == "oracle"
        self._is_oracle.append(is_oracle)
        self.references["oracle" if is_oracle else "proxy"] += 1
        self.analyzers[request.analyzer_version or ""] += 1
        self._note_judge(request)
        values = dict(zip(self.scores, request.values, strict=True)) | _own_values(request)
        for metric, column in self._values.items():
            value = values[metric]
            column.append(nan if value is None else value)
            if value is not None and not isfinite(value):  # in the columns NaN stands for undefined
                raise self._impossible(request.request_id, metric, value)

    def _note_judge(self, request: MeasuredRequest) -> None:
        """What judged the claims, where that was looked up, and some requests of each judge where not."""
        if request.verifier is not None:
            self.judges.add(Judge(request.judge or "", request.verifier))
        of_judge = self.judged.setdefault(request.judge, [])
        if len(of_judge) < _LOOKED_AT:
            of_judge.append(request.request_id)

    def _note_replay(self, request: MeasuredRequest, place: int) -> None:
        """Of several attempts at one question of a replay only the last one counts."""
        traits = request.traits
        if traits.replay is None:
            return
        key = (traits.replay, traits.question)
        known = self._replayed.get(key)
        if known is not None and known[0] == traits.attempt:
            raise InputError(
                f"the {self.side} {self.name!r} asked question {traits.question!r} twice; give another name to each "
                "replay"
            )
        if known is not None:
            self._outdated.append(min(known[1], place) if traits.attempt > known[0] else place)
        if known is None or traits.attempt > known[0]:
            self._replayed[key] = (traits.attempt, place)

    def _note_words(self, request: MeasuredRequest) -> None:
        cluster = request.traits.cluster
        words = {
            "question": request.traits.question,
            "segment": sys.intern(request.segment),
            "cluster": request.request_id if cluster is None else sys.intern(cluster),
            "cause": sys.intern(request.cause or ""),
        }
        for name, column in self._words.items():
            column.append(words[name])
        self._versions.append(request.traits.versions)
        for stage, codes in self._states.items():
            codes.append(_CODES.get(request.states.get(stage), NOWHERE))
        self._is_stateless.append(not request.states and request.verdict not in ("no_retrieval_needed", "error"))

    def _impossible(self, request_id: str, metric: str, value: float) -> InputError:
        allowed = "from 0 to 1" if METRICS[metric].largest == 1 else "0 or more"
        return InputError(
            f"{metric} of request {request_id!r} of the {self.side} is {value}, and must be {allowed}; analyze that "
            "request again, or leave it out"
        )

    def _scored(self, metric: str) -> NDArray[np.float64]:
        """The values of a metric. Raises: InputError for one that it cannot have."""
        if is_state(metric):
            return self._of_state(METRICS[metric])
        values = np.frombuffer(self._values[metric], dtype=np.float64)
        wrong = np.flatnonzero((values < 0) | (values > METRICS[metric].largest))
        if len(wrong):
            raise self._impossible(list(self._ids)[wrong[0]], metric, float(values[wrong[0]]))
        return values

    def _all_scores(self) -> dict[str, NDArray[np.float64]]:
        """The values of all metrics; of refusals all three, since one tells of the others."""
        found = {metric: self._scored(metric) for metric in self.metrics if metric not in REFUSALS}
        if self._has_refusals:
            found |= refusals(np.frombuffer(self._values[UNANSWERED], dtype=np.float64), self._codes())
        return found

    def _codes(self) -> dict[Stage, NDArray[np.int8]]:
        """The states of the stages."""
        return {stage: np.frombuffer(codes, dtype=np.int8) for stage, codes in self._states.items()}

    def _of_state(self, metric: Metric) -> NDArray[np.float64]:
        """1 where a stage is in the metric's state, else 0; undefined where the stage does not apply, and whether it is
        broken also where it is neither broken nor sound."""
        codes = np.frombuffer(self._states[metric.stage or "retrieval"], dtype=np.int8)
        known = np.isin(codes, (_CODES["sound"], _CODES["broken"])) if metric.state == "broken" else codes != NOWHERE
        return np.where(known, (codes == _CODES[metric.state]).astype(np.float64), nan)

    def population(self, reference: ReferenceKind | None, judges: Iterable[Judge] = ()) -> Population:
        """What is judged: the requests whose reference is of this kind (None: of any), in their last attempts.

        judges: what judged them, as far as it was looked up.

        Raises: InputError for impossible values.
        """
        keep = np.ones(len(self), dtype=bool)
        keep[self._outdated] = False
        excluded = Counter(self.excluded)
        excluded["an earlier attempt"] += len(self._outdated)
        if reference is not None:
            other = np.frombuffer(self._is_oracle, dtype=np.int8).astype(bool) != (reference == "oracle")
            excluded[f"judged without {'an oracle' if reference == 'oracle' else 'a proxy'} reference"] += int(
                (keep & other).sum()
            )
            keep &= ~other
        rows: NDArray[np.int64] = np.flatnonzero(keep)
        ids, times = list(self._ids), np.frombuffer(self._times, dtype=np.int64)[rows]
        versions: dict[str, Counter[str]] = {}
        for carried, number in _tallied(self._versions[row] for row in rows):
            for component, version in carried.items():
                versions.setdefault(component, Counter())[version] += number
        return Population(
            name=self.name,
            request_ids=_picked(ids, rows),
            questions=_picked(self._words["question"], rows),
            segments=_picked(self._words["segment"], rows),
            clusters=_picked(self._words["cluster"], rows),
            weights=np.frombuffer(self._weights, dtype=np.float64)[rows],
            scores={metric: values[rows] for metric, values in self._all_scores().items()},
            states={stage: codes[rows] for stage, codes in self._codes().items()},
            causes=_picked(self._words["cause"], rows),
            versions={component: dict(counts) for component, counts in sorted(versions.items())},
            analyzer_versions=dict(self.analyzers),
            judges=frozenset(judges),
            stateless=int(np.frombuffer(self._is_stateless, dtype=np.int8)[rows].sum()),
            excluded={reason: number for reason, number in excluded.items() if number},
            reference=reference,
            since=int(times.min()) if len(times) else None,
            until=int(times.max()) if len(times) else None,
        )


def _picked(values: Sequence[str], rows: NDArray[np.int64]) -> list[str]:
    return list(values) if len(rows) == len(values) else [values[row] for row in rows]


def _tallied(versions: Iterable[dict[str, str]]) -> Iterable[tuple[dict[str, str], int]]:
    """Each object once: the requests of a release share one."""
    objects: dict[int, dict[str, str]] = {}
    numbers: Counter[int] = Counter()
    for carried in versions:
        objects[id(carried)] = carried
        numbers[id(carried)] += 1
    return [(objects[key], number) for key, number in numbers.items()]


def _unusable(request: MeasuredRequest) -> str | None:
    """Why a request cannot be judged."""
    if request.analyzer_version is None:
        return "not analyzed" if request.head_sampled else "outside the random sample"
    if not request.head_sampled:
        return "outside the random sample"
    return None if is_weighable(request.head_probability) else "without a usable sampling probability"


def _own_values(request: MeasuredRequest) -> dict[str, float | None]:
    """What the gate reads of a request beside its scores."""
    failed = request.status == "error"
    span = request.ended_at - request.started_at
    values: dict[str, float | None] = {"errors": float(failed)}
    values["latency"] = span / _SECOND if request.ended_at and span >= 0 and not failed else None  # errors are quick
    for name in ("input_tokens", "output_tokens"):
        tokens = getattr(request.traits, name)
        values[name] = None if tokens is None else float(tokens)
    return values


def compared(
    baseline: Population,
    candidate: Population,
    pairing: Literal["auto", "paired", "unpaired"] = "auto",
    *,
    expected: bool = False,
) -> Comparison:
    """Put two sides side by side: paired by question where at least half of both sides' requests have a partner.

    A question that several requests of a side asked is paired in their order: the first with the first, the second with
    the second. expected: both sides were given their questions, so that they are paired whatever their number.

    Raises: InputError for disjoint questions where pairs are expected.
    """
    if pairing == "unpaired":
        return Comparison(baseline, candidate, None)
    pairs = _pairs(baseline.questions, candidate.questions)
    traced = bool(baseline.traces and candidate.traces)
    forced = expected or pairing == "paired"
    if forced and not len(pairs):
        raise InputError(
            f"no question of the baseline {baseline.name!r} ({_number(baseline)}) stands in the candidate "
            f"{candidate.name!r} ({_number(candidate)}), so that they cannot be paired; give both the same questions, "
            "or set pairing: unpaired in the policy"
        )
    if not forced and len(pairs) < _ENOUGH * max(len(baseline), len(candidate)):
        return Comparison(baseline, candidate, None)
    same = unchanged(baseline.traces, candidate.traces, pairs) if traced else {}
    baseline, candidate = with_pairs(baseline, candidate, pairs)
    return Comparison(baseline, candidate, pairs, (len(baseline) - len(pairs), len(candidate) - len(pairs)), same)


def _pairs(baseline: Sequence[str], candidate: Sequence[str]) -> NDArray[np.int64]:
    waiting: dict[str, list[int]] = {}
    for row in range(len(candidate) - 1, -1, -1):
        if candidate[row]:
            waiting.setdefault(candidate[row], []).append(row)
    found = [(row, rows.pop()) for row, question in enumerate(baseline) if (rows := waiting.get(question))]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _number(population: Population) -> str:
    known = len({question for question in population.questions if question})
    return f"{known} question{'' if known == 1 else 's'}"
