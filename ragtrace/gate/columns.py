"""Gathers the requests of one side in columns, with little memory, and makes a population of them."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from math import isfinite, nan
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.errors import InputError
from ragtrace.gate.metrics import ANALYZED, BROKEN, METRICS
from ragtrace.gate.model import Population
from ragtrace.store import Measured

__all__ = ["Columns", "ReferenceKind"]

ReferenceKind: TypeAlias = Literal["oracle", "proxy"]

_SECOND: Final = 1_000_000_000


class Columns:
    """One side, request by request; what cannot be judged is counted instead. `side` is named in errors."""

    def __init__(self, side: str, name: str, metrics: Sequence[str]) -> None:
        self.side = side
        self.name = name
        self.metrics = tuple(metrics)
        self.scores = tuple(metric for metric in self.metrics if metric in ANALYZED)
        self.excluded: Counter[str] = Counter()
        self.references: Counter[ReferenceKind] = Counter()
        self.analyzers: Counter[str] = Counter()
        self.verifiers: set[str] = set()
        self._ids: dict[str, int] = {}
        self._replayed: dict[tuple[str, str], tuple[int, int]] = {}
        self._outdated: list[int] = []
        self._words: dict[str, list[str]] = {name: [] for name in ("question", "segment", "cluster", "stage", "verdict",
                                                                   "cause")}  # fmt: skip
        self._versions: list[dict[str, str]] = []
        self._weights = array("d")
        self._times = array("q")
        self._is_oracle = array("b")
        self._values = {metric: array("d") for metric in self.metrics}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def request_ids(self) -> list[str]:
        """The requests that were taken, in their order."""
        return list(self._ids)

    @property
    def times(self) -> Sequence[int]:
        """When they began, in nanoseconds."""
        return self._times

    def add(self, found: Measured) -> None:
        """Take one request. Raises: InputError for one that stands there twice, or has impossible values."""
        if found.request_id in self._ids:
            raise InputError(
                f"the {self.side} {self.name!r} holds request {found.request_id!r} twice; give each request once"
            )
        reason = _unusable(found)
        if reason is not None:
            self.excluded[reason] += 1
            return
        place = self._ids[found.request_id] = len(self._ids)
        self._note_replay(found, place)
        self._note_words(found)
        self._weights.append(1.0 / found.head_probability)
        self._times.append(found.started_at)
        is_oracle = found.reference == "oracle"
        self._is_oracle.append(is_oracle)
        self.references["oracle" if is_oracle else "proxy"] += 1
        self.analyzers[found.analyzer_version or ""] += 1
        if found.verifier is not None:
            self.verifiers.add(found.verifier)
        values = dict(zip(self.scores, found.values, strict=True)) | _own_values(found)
        for metric, column in self._values.items():
            value = values[metric]
            column.append(nan if value is None else value)
            if value is not None and not isfinite(value):  # in the columns NaN stands for undefined
                raise self._impossible(found.request_id, metric, value)

    def _note_replay(self, found: Measured, place: int) -> None:
        """Of several attempts at one question of a replay only the last one counts."""
        traits = found.traits
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

    def _note_words(self, found: Measured) -> None:
        cluster = found.traits.cluster
        words = {
            "question": found.traits.question,
            "segment": sys.intern(found.segment),
            "cluster": found.request_id if cluster is None else sys.intern(cluster),
            "stage": found.stage or "",
            "verdict": sys.intern(found.verdict or ""),
            "cause": sys.intern(found.cause or ""),
        }
        for name, column in self._words.items():
            column.append(words[name])
        self._versions.append(found.traits.versions)

    def _impossible(self, request_id: str, metric: str, value: float) -> InputError:
        allowed = "from 0 to 1" if METRICS[metric].largest == 1 else "0 or more"
        return InputError(
            f"{metric} of request {request_id!r} of the {self.side} is {value}, and must be {allowed}; analyze that "
            "request again, or leave it out"
        )

    def _scored(self, metric: str) -> NDArray[np.float64]:
        """The values of a metric. Raises: InputError for one that it cannot have."""
        values = np.frombuffer(self._values[metric], dtype=np.float64)
        wrong = np.flatnonzero((values < 0) | (values > METRICS[metric].largest))
        if len(wrong):
            raise self._impossible(self.request_ids[wrong[0]], metric, float(values[wrong[0]]))
        return values

    def population(self, reference: ReferenceKind | None) -> Population:
        """What is judged: the requests whose reference is of this kind (None: of any), in their last attempts.

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
            scores={metric: self._scored(metric)[rows] for metric in self.metrics},
            stages=_picked(self._words["stage"], rows),
            verdicts=_picked(self._words["verdict"], rows),
            causes=_picked(self._words["cause"], rows),
            versions={component: dict(counts) for component, counts in sorted(versions.items())},
            analyzer_versions=dict(self.analyzers),
            excluded={reason: number for reason, number in excluded.items() if number},
            since=int(times.min()) if len(times) else None,
            until=int(times.max()) if len(times) else None,
        )


def _picked(values: Sequence[str], rows: NDArray[np.int64]) -> list[str]:
    return list(values) if len(rows) == len(values) else [values[row] for row in rows]


def _tallied(versions: Iterable[dict[str, str]]) -> Iterable[tuple[dict[str, str], int]]:
    """Each object once: the requests of a release share one."""
    objects: dict[int, dict[str, str]] = {}
    numbers: Counter[int] = Counter()
    for each in versions:
        objects[id(each)] = each
        numbers[id(each)] += 1
    return [(objects[key], number) for key, number in numbers.items()]


def _unusable(found: Measured) -> str | None:
    """Why a request cannot be judged."""
    if found.analyzer_version is None:
        return "not analyzed" if found.head_sampled else "outside the random sample"
    if not found.head_sampled:
        return "outside the random sample"
    return None if 0 < found.head_probability <= 1 else "without a usable sampling probability"


def _own_values(found: Measured) -> dict[str, float | None]:
    """What the gate reads of a request beside its scores."""
    failed = found.status == "error"
    known = found.verdict not in (None, "undetermined")
    span = found.ended_at - found.started_at
    values: dict[str, float | None] = {
        metric: float(found.stage == stage) if known else None for stage, metric in BROKEN.items()
    }
    values["errors"] = float(failed)
    values["latency"] = span / _SECOND if found.ended_at and span >= 0 and not failed else None  # errors are quick
    for name in ("input_tokens", "output_tokens"):
        tokens = getattr(found.traits, name)
        values[name] = None if tokens is None else float(tokens)
    return values
