"""Exposure by provider over a window of a service's requests: whose documents reach prompts, and whose are used.

The requests are those of the random stratum, each weighed by its chance to be kept; what one adds to each provider is
`ragtrace.analyze._exposures`.

Source: Kim and Diaz, "Towards Fair RAG", section 3, with the requests of a window in place of sampled rankings.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import erfc, sqrt
from operator import attrgetter
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze._exposures import (
    NO_PROVIDER,
    UNNAMED,
    ProviderSums,
    UsedBy,
    UsefulBy,
    request_exposures,
    used_documents,
    useful_documents,
    valued_documents,
)
from ragtrace.bounds import sampling_weight
from ragtrace.errors import ConfigurationError
from ragtrace.exposure import (
    Measure,
    Reweighted,
    check_alpha,
    disparity,
    log_probability,
    propensity_weight,
    relevance,
    reweighted_mean,
)
from ragtrace.multiplicity import holm
from ragtrace.numeric import check_seed
from ragtrace.store import ATTRIBUTION, Store
from ragtrace.types import Analysis, RequestRecord

__all__ = [
    "FEWEST_REQUESTS",
    "NO_PROVIDER",
    "OTHERS",
    "UNNAMED",
    "Change",
    "ExposureReport",
    "Interval",
    "OtherAlpha",
    "ProviderExposure",
    "UsedBy",
    "UsefulBy",
    "compared_exposures",
    "exposure_report",
]

OTHERS: Final = "(others)"
"""The providers that are not listed by name, joined."""
FEWEST_REQUESTS: Final = 50
"""Below so many requests no provider is called above or below what it deserves."""

_PROVIDERS: Final = 20  # that are listed by name; the rest is joined
_DRAWS: Final = 1_000
_LEVEL: Final = 0.05
_NOT_DRAWN: Final = (
    "no request of the window says that its ranking was drawn at random, for as many places as its prompt holds and "
    "from the scores that are recorded"
)
_ROUNDED: Final = 1e-3  # of a log-probability that a host wrote down
_WHOLE: Final = frozenset(each for each in ProviderSums.__dataclass_fields__ if each not in ("deserved", "worth"))
_SAME: Final = 1e-12  # shares that differ by rounding alone
_GROUPS: Final = 4_000  # that are resampled at most
_PAGE: Final = 50  # records at a time: they come with their texts

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A share with its 95 % bootstrap interval; all None where no request tells of it."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ProviderExposure:
    """One provider. `requests`: those with a candidate of it.

    candidates: its share of the candidates. useful: of its own candidates, the share that is useful; worth: what they
    are worth alone, in the mean, where `useful_by` is one measure of that. exposed: of the prompts' places. deserved:
    of these places, where the useful documents are known. excess: exposed less deserved, over these requests alone;
    `standing` says above or below where that is sure, however many providers there are. used: of its documents in
    prompts, the share that the answer rests on. contradicted: the share that the answer contradicts. misused: of those
    used, the share that another part of the answer contradicts. attributed: its share of all that were used.
    """

    provider: str
    requests: int
    candidates: Interval
    useful: Interval
    worth: Interval
    exposed: Interval
    deserved: Interval
    excess: Interval
    used: Interval
    contradicted: Interval
    misused: Interval
    attributed: Interval
    standing: Literal["above", "below"] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one provider since the window before: shares now less shares then.

    starved: its documents lost places that they deserve: exposure fell, and further than what they deserve.
    """

    provider: str
    exposed: Interval
    deserved: Interval
    excess: Interval
    attributed: Interval
    starved: bool = False


@dataclass(frozen=True, slots=True)
class OtherAlpha:
    """What another alpha would have put in prompts: each provider's share of the places, where enough requests tell.

    requests: those whose ranking was drawn. effective: how many they are worth under this alpha.
    """

    alpha: float
    requests: int
    effective: float | None
    reason: str | None = None
    exposed: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExposureReport:
    """Exposure of a window, by provider.

    useful_by: of how many requests it is known which documents are useful, by what says so; used_by: what says that a
    document was used, and `used_requests` how many requests it speaks of. disparity, relevance: of the providers' mean
    exposures, between their bounds; attributed_disparity: of the exposure that was used. left_out: requests that count
    nowhere, by reason. releases: what was replaced between the two windows, as "component=version".
    """

    service: str
    by: str
    since: int
    until: int
    requests: int
    left_out: dict[str, int]
    useful_by: dict[str, int]
    used_by: UsedBy
    used_requests: int
    seed: int
    disparity: Measure | None = None
    relevance: Measure | None = None
    attributed_disparity: Measure | None = None
    providers: tuple[ProviderExposure, ...] = ()
    before_requests: int | None = None
    changes: tuple[Change, ...] = ()
    releases: tuple[str, ...] = ()
    other_alpha: OtherAlpha | None = None


_COLUMNS: Final = tuple(ProviderSums.__dataclass_fields__)
_columns_of: Final = attrgetter(*_COLUMNS)


@dataclass(slots=True)
class _Window:
    """The requests of one window: a weight each, and one row of sums for each provider of each request."""

    weights: list[float] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)  # of providers, each with its number
    requests: array[int] = field(default_factory=lambda: array("l"))  # of each row
    providers: array[int] = field(default_factory=lambda: array("l"))
    sums: list[array[float]] = field(
        default_factory=lambda: [array("f" if each in _WHOLE else "d") for each in _COLUMNS]
    )
    left_out: Counter[str] = field(default_factory=Counter)
    useful_by: Counter[str] = field(default_factory=Counter)
    used_requests: int = 0
    propensities: list[float | None] = field(default_factory=list)  # None: the ranking was not drawn

    def __len__(self) -> int:
        return len(self.weights)

    def add(self, weight: float, sums: dict[str, ProviderSums]) -> None:
        """Keep one request."""
        for name, one in sums.items():
            self.requests.append(len(self.weights))
            self.providers.append(self.names.setdefault(name, len(self.names)))
            for column, value in zip(self.sums, _columns_of(one), strict=True):
                column.append(value)
        self.weights.append(weight)

    def candidates(self) -> dict[str, float]:
        """How many candidates each provider has."""
        column = np.array(self.sums[_COLUMNS.index("candidates")])
        found = np.bincount(np.array(self.providers), weights=column, minlength=len(self.names))
        return dict(zip(self.names, found.tolist(), strict=True))

    def table(self, providers: Sequence[str], groups: int | None = None) -> _Floats:
        """`(requests, columns, providers)`, weighed. groups: requests join so many groups, whose sums are the rows."""
        size = len(self) if groups is None else min(groups, len(self))
        requests = np.array(self.requests)
        cells = requests % size * len(providers) + self._places(providers)
        weights = np.array(self.weights)[requests]
        found = np.empty((size, len(_COLUMNS), len(providers)))
        for column, values in enumerate(self.sums):
            sums = np.bincount(cells, weights=weights * np.array(values), minlength=size * len(providers))
            found[:, column] = sums.reshape(size, -1)
        return found

    def seen(self, providers: Sequence[str]) -> NDArray[np.intp]:
        """How many requests have a candidate of each provider."""
        pairs = np.unique(np.array(self.requests) * len(providers) + self._places(providers))
        return np.asarray(np.bincount(pairs % len(providers), minlength=len(providers)))

    def _places(self, providers: Sequence[str]) -> NDArray[np.intp]:
        """Where each row's provider stands among these."""
        listed = {provider: place for place, provider in enumerate(providers)}
        places = np.array([listed.get(name, listed.get(OTHERS, 0)) for name in self.names], dtype=np.intp)
        return np.asarray(places[np.array(self.providers)])


def exposure_report(
    store: Store,
    service: str,
    *,
    since: int,
    until: int,
    by: str = "source",
    segment: str | None = None,
    useful_by: str = "reference",
    used_by: str = "claims",
    before: tuple[int, int] | None = None,
    alpha: float | None = None,
    limit: int = 2_000,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> ExposureReport:
    """Exposure, use and deserved exposure by provider.

    Args:
        since, until: the window, in nanoseconds.
        by: what names the provider: `source`, `doc_id` or `modality` of a candidate, else a key of its metadata.
        useful_by: reference (gold evidence, else the proxy), or utility (what the answer is worth with a document
            alone, of the requests that were explained so).
        used_by: claims (one that the document supports or contradicts), citations, or shapley (a share above 0 beyond
            its error, of the requests that were explained).
        before: an earlier window to compare with.
        alpha: also what this alpha would have put in the prompts, of the requests whose ranking was drawn at random.
        limit: about the most requests of each window; more are thinned out evenly.

    Raises: ConfigurationError for arguments out of range, StoreError.
    """
    check_seed(seed)
    if alpha is not None:
        check_alpha(alpha)
    for name, value, known in (("used_by", used_by, UsedBy), ("useful_by", useful_by, UsefulBy)):
        if value not in get_args(known):
            raise ConfigurationError.of(name, value, " or ".join(get_args(known)))
    if limit < 1:
        raise ConfigurationError.of("limit", limit, "1 or more requests")
    reader = _Reader(store, service, segment, by, useful_by, used_by, limit, on_progress)
    now = reader.window(since, until, alpha)
    earlier = reader.window(*before) if before is not None else None
    providers = _listed([now, earlier] if earlier is not None else [now])
    report = ExposureReport(
        service=service,
        by=by,
        since=since,
        until=until,
        requests=len(now),
        left_out=dict(now.left_out.most_common()),
        useful_by=dict(now.useful_by),
        used_by=used_by,  # type: ignore[arg-type]
        used_requests=now.used_requests,
        seed=seed,
    )
    if not len(now):
        return report
    draws = _Draws.of(now, providers, np.random.default_rng(seed))
    found = replace(
        report,
        providers=_providers(draws, providers, is_worth=_is_worth(now)),
        disparity=disparity(*_mean_exposures(draws, "exposed")),
        relevance=_relevance(draws),
        attributed_disparity=disparity(*_mean_exposures(draws, "used", "capacity_judged"))
        if now.used_requests
        else None,
    )
    if alpha is not None:
        found = replace(found, other_alpha=_reweighted(now, providers, alpha))
    if earlier is None or not len(earlier):
        return replace(found, before_requests=0) if earlier is not None else found
    then = _Draws.of(earlier, providers, np.random.default_rng(seed + 1))
    return replace(
        found,
        before_requests=len(earlier),
        changes=_changes(draws, then, providers),
        releases=tuple(
            f"{each.component}={each.version}"
            for each in store.releases(service)
            if before is not None and before[0] < each.at < until
        ),
    )


def compared_exposures(
    before: tuple[Store, Mapping[str, float]],
    after: tuple[Store, Mapping[str, float]],
    *,
    by: str = "source",
    seed: int = 0,
) -> tuple[tuple[ProviderExposure, ...], tuple[ProviderExposure, ...], tuple[Change, ...]]:
    """Exposure by provider in two sets of requests, and what changed; empty where a set holds none that counts.

    before, after: a store, and the weight of each of its requests by id. The other arguments: as `exposure_report`.
    Raises: StoreError.
    """
    windows = [
        _Reader(store, "", None, by, "reference", "claims", 1, None).requests(weights)
        for store, weights in (before, after)
    ]
    if not all(map(len, windows)):
        return (), (), ()
    names = _listed(windows)
    then, now = (_Draws.of(one, names, np.random.default_rng(seed + at)) for at, one in enumerate(windows))
    return (
        _providers(then, names, is_worth=False),
        _providers(now, names, is_worth=False),
        _changes(now, then, names),
    )


class _Stored(NamedTuple):
    """A request with what was computed of it; explained: where Shapley values or utility are asked for."""

    record: RequestRecord
    analysis: Analysis | None
    explained: Analysis | None


@dataclass(slots=True)
class _Reader:
    """Reads windows of a service."""

    store: Store
    service: str
    segment: str | None
    by: str
    useful_by: str
    used_by: str
    limit: int
    on_progress: Callable[[int, int], None] | None

    def window(self, since: int, until: int, alpha: float | None = None) -> _Window:
        """The analyzed requests of [since, until). alpha: weigh rankings that were drawn by its chance under it."""
        rows, _ = self.store.sample(self.service, self.segment, since, until, (), self.limit)
        return self.requests({row.request_id: sampling_weight(row.head_probability) for row in rows}, alpha)

    def requests(self, weights: Mapping[str, float], alpha: float | None = None) -> _Window:
        """These requests, by id, each with its weight."""
        found = _Window()
        for done, stored in enumerate(self._stored(list(weights)), 1):
            self._add(found, stored, weights[stored.record.request_id], alpha)
            if self.on_progress is not None:
                self.on_progress(done, len(weights))
        return found

    def _stored(self, ids: Sequence[str]) -> Iterator[_Stored]:
        for start in range(0, len(ids), _PAGE):
            page = ids[start : start + _PAGE]
            records, analyses = self.store.get_records(page), self.store.get_analyses(page)
            asks = self.used_by == "shapley" or self.useful_by == "utility"
            explained = self.store.get_analyses(page, ATTRIBUTION) if asks else {}
            for request_id in page:
                if request_id in records:
                    yield _Stored(records[request_id], analyses.get(request_id), explained.get(request_id))

    def _add(self, window: _Window, stored: _Stored, weight: float, alpha: float | None) -> None:
        """Count one request, or why it counts nowhere."""
        record, analysis = stored.record, stored.analysis
        candidates = record.candidates
        if self.useful_by == "utility":
            useful = valued_documents(stored.explained, candidates)
        else:
            useful = useful_documents(analysis, candidates)
        used = used_documents(stored.explained if self.used_by == "shapley" else analysis, self.used_by)
        sums = request_exposures(record, candidates, self.by, useful, used)
        if isinstance(sums, str):
            window.left_out[sums] += 1
            return
        window.useful_by.update([useful.by] if useful is not None else [])
        window.used_requests += used is not None
        window.add(weight, sums)
        window.propensities.append(None if alpha is None else _propensity(record, alpha))


def _propensity(record: RequestRecord, alpha: float) -> float | None:
    """How much likelier the recorded order is under another alpha; None where it was not drawn or has no scores."""
    drawn = record.sampled_ranking
    if drawn is None or (record.packing is not None and len(record.packing.chunks) > drawn.places):
        return None
    moved = sorted((each.rank_after, place) for place, each in enumerate(record.moves) if each.rank_after is not None)
    scores = [record.moves[place].score for _, place in moved] or [each.score for each in record.candidates]
    known = [score for score in scores if score is not None]
    if len(known) < len(scores) or len(scores) < drawn.places:
        return None
    said = log_probability(range(drawn.places), known, drawn.alpha)
    if not abs(said - drawn.log_probability) <= _ROUNDED * max(1.0, abs(said)):
        return None  # it was drawn from other scores than these
    return propensity_weight(range(len(known)), known, alpha, drawn.log_probability, k=drawn.places)


def _reweighted(window: _Window, names: Sequence[str], alpha: float) -> OtherAlpha:
    """Each provider's mean number of places in a prompt under another alpha."""
    known = [place for place, factor in enumerate(window.propensities) if factor is not None]
    factors = np.array([window.propensities[place] for place in known], dtype=np.float64)
    if not known:
        return OtherAlpha(
            alpha,
            0,
            None,
            _NOT_DRAWN,
        )
    weights = np.array([window.weights[place] for place in known])
    table = window.table(names)[known]  # weighed
    scale = len(known) / weights.sum()
    places = table[:, _COLUMNS.index("exposed")]
    total = float(table[:, _COLUMNS.index("exposed")].sum())
    found: dict[str, Reweighted] = {}
    for place, name in enumerate(names):
        found[name] = reweighted_mean(places[:, place] * scale, factors)
    some = next(iter(found.values()))
    return OtherAlpha(
        alpha,
        len(known),
        some.effective,
        some.reason,
        {name: _shared(each, total * scale / len(known)) for name, each in found.items() if each.value is not None},
    )


def _shared(mean: Reweighted, places: float) -> Interval:
    """As a share of the places of a prompt."""
    assert mean.value is not None
    return Interval(mean.value / places, (mean.low or 0.0) / places, (mean.high or 0.0) / places)


def _listed(windows: Sequence[_Window]) -> list[str]:
    """The providers, those with the most candidates first; beyond the twentieth they are joined."""
    counts: Counter[str] = Counter()
    for window in windows:
        counts.update(window.candidates())
    names = [name for name, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]
    return names if len(names) <= _PROVIDERS else [*names[:_PROVIDERS], OTHERS]


@dataclass(frozen=True, slots=True)
class _Draws:
    """Sums over a window by provider, first over all its requests, then over each resampling: `(1 + draws, providers)`
    of each column. requests: `(providers,)`, how many have a candidate of each."""

    sums: dict[str, _Floats]
    requests: NDArray[np.intp]
    size: int

    @classmethod
    def of(cls, window: _Window, providers: Sequence[str], chance: np.random.Generator) -> _Draws:
        """Resample requests with replacement; of very many, the random groups that they join (`_GROUPS`), whose sums
        vary as much."""
        table = window.table(providers, _GROUPS)
        size = len(table)
        counts = chance.multinomial(size, np.full(size, 1 / size), size=_DRAWS)
        flat = np.vstack([np.ones(size), counts]) @ table.reshape(size, -1)
        sums = flat.reshape(-1, *table.shape[1:])
        columns = {column: sums[:, place] for place, column in enumerate(_COLUMNS)}
        return cls(columns, window.seen(providers), len(window))

    def part(self, column: str, of: str | None = None) -> _Floats:
        """A provider's part of what all providers have in a column."""
        return _divided(self.sums[column], self.sums[of or column].sum(axis=1, keepdims=True))

    def own(self, column: str, of: str) -> _Floats:
        """A column as a share of the provider's own in another."""
        return _divided(self.sums[column], self.sums[of])

    def excess(self) -> _Floats:
        """Exposed less deserved, where the useful documents are known."""
        return self.part("exposed_known") - self.part("deserved", "exposed_known")


def _divided(above: _Floats, below: _Floats) -> _Floats:
    """NaN where nothing is divided by."""
    blank = np.full(np.broadcast_shapes(above.shape, below.shape), np.nan)
    return np.asarray(np.divide(above, below, out=blank, where=below > 0))


def _interval(values: _Floats) -> Interval:
    """values: `(1 + draws,)`, the estimate first."""
    drawn = values[1:][np.isfinite(values[1:])]
    if not np.isfinite(values[0]) or not len(drawn):
        return Interval()
    low, high = np.quantile(drawn, [_LEVEL / 2, 1 - _LEVEL / 2])
    return Interval(float(values[0]), float(low), float(high))


def _p_values(values: _Floats) -> list[float]:
    """That a difference is 0, two-sided, by its bootstrap error; 1 where there is none. values: `(1 + draws, n)`.

    Of a difference that every draw has alike, the p-value is the least that so many draws can show.
    """
    found = []
    for value, *drawn in values.T.tolist():
        known = np.array(drawn)[np.isfinite(drawn)]
        error = float(known.std()) if len(known) > 1 else 0.0
        if not np.isfinite(value) or abs(value) < _SAME:
            found.append(1.0)
        else:
            found.append(erfc(abs(value) / error / sqrt(2)) if error > _SAME else 1 / (1 + len(known)))
    return found


def _is_worth(window: _Window) -> bool:
    """Whether worths are known, all by one measure: nats and likenesses have no mean."""
    return len(window.useful_by) == 1 and not set(window.useful_by) & {"oracle", "proxy"}


def _providers(draws: _Draws, names: Sequence[str], *, is_worth: bool) -> tuple[ProviderExposure, ...]:
    excess = draws.excess()
    adjusted = holm(_p_values(excess)) if draws.size >= FEWEST_REQUESTS else [1.0] * len(names)
    columns = {
        "candidates": draws.part("candidates"),
        "useful": draws.own("useful", "candidates_known"),
        "exposed": draws.part("exposed"),
        "deserved": draws.part("deserved", "exposed_known"),
        "excess": excess,
        "used": draws.own("used", "exposed_judged"),
        "contradicted": draws.own("contradicted", "exposed_judged"),
        "misused": draws.own("misused", "used"),
        "attributed": draws.part("used"),
    }
    found = []
    for place, name in enumerate(names):
        sign: Literal["above", "below"] = "above" if excess[0, place] > 0 else "below"
        found.append(
            ProviderExposure(
                name,
                int(draws.requests[place]),
                **{column: _interval(values[:, place]) for column, values in columns.items()},
                worth=_interval(draws.own("worth", "candidates_known")[:, place]) if is_worth else Interval(),
                standing=sign if adjusted[place] < _LEVEL else None,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.provider == OTHERS, -(each.exposed.value or 0.0), each.provider)))


def _mean_exposures(draws: _Draws, column: str, most: str = "capacity") -> tuple[_Floats, _Floats]:
    """The providers' parts of all places in prompts, in `column`, and the most that each could have had (`most`)."""
    total = float(draws.sums["exposed"][0].sum())
    return draws.sums[column][0] / total, np.maximum(draws.sums[most][0], 1e-12) / total


def _relevance(draws: _Draws) -> Measure | None:
    """None where no request tells what is useful."""
    if not draws.sums["exposed_known"][0].any():
        return None
    values, sizes = _mean_exposures(draws, "exposed_known", "capacity_known")
    return relevance(values, _mean_exposures(draws, "deserved")[0], sizes)


def _changes(now: _Draws, then: _Draws, names: Sequence[str]) -> tuple[Change, ...]:
    """By provider, those that lost the most exposure first."""
    exposed = now.part("exposed") - then.part("exposed")
    deserved = now.part("deserved", "exposed_known") - then.part("deserved", "exposed_known")
    excess, attributed = now.excess() - then.excess(), now.part("used") - then.part("used")
    enough = min(now.size, then.size) >= FEWEST_REQUESTS
    of_exposed, of_excess = holm(_p_values(exposed)), holm(_p_values(excess))
    found = [
        Change(
            name,
            exposed=_interval(exposed[:, place]),
            deserved=_interval(deserved[:, place]),
            excess=_interval(excess[:, place]),
            attributed=_interval(attributed[:, place]),
            starved=enough
            and bool(exposed[0, place] < 0 and excess[0, place] < 0)
            and max(of_exposed[place], of_excess[place]) < _LEVEL,
        )
        for place, name in enumerate(names)
    ]
    return tuple(sorted(found, key=lambda each: (not each.starved, each.exposed.value or 0.0, each.provider)))
