"""Exposure by provider over a window of a service's requests: whose documents reach prompts, and whose are used.

The requests are those of the random stratum, each weighed by its chance to be kept; what one adds to each provider is
`ragtrace.analyze._exposures`.

Source: Kim and Diaz, "Towards Fair RAG", section 3, with the requests of a window in place of sampled rankings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import erfc, sqrt
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze._exposures import (
    COLUMNS,
    NO_PROVIDER,
    OTHERS,
    UNNAMED,
    ExposureWindow,
    UsedBy,
    UsefulBy,
    WindowReader,
)
from ragtrace.errors import ConfigurationError
from ragtrace.exposure import (
    Measure,
    Reweighted,
    check_alpha,
    disparity,
    relevance,
    reweighted_mean,
)
from ragtrace.numeric import check_seed
from ragtrace.sample_statistics import holm
from ragtrace.store import Release, Store

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
    "replacements",
]

FEWEST_REQUESTS: Final = 50
"""Below so many requests no provider is called above or below what it deserves."""

_PROVIDERS: Final = 20  # that are listed by name; the rest is joined
_DRAWS: Final = 1_000
_LEVEL: Final = 0.05
_NOT_DRAWN: Final = (
    "no request of the window says that its ranking was drawn at random, for as many places as its prompt holds and "
    "from the scores that are recorded"
)
_SAME: Final = 1e-12  # shares that differ by rounding alone
_GROUPS: Final = 4_000  # that are resampled at most

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
    reader = WindowReader(store, service, segment, by, useful_by, used_by, limit, on_progress)
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
            for each in (replacements(store, service, before[0], until) if before is not None else ())
        ),
    )


def replacements(store: Store, service: str, since: int, until: int) -> list[Release]:
    """The releases of a time, in nanoseconds; the first known version of a component replaced nothing."""
    known = store.releases(service)
    first: dict[str, int] = {}
    for each in known:
        first[each.component] = min(each.at, first.get(each.component, each.at))
    return [each for each in known if max(since, first[each.component]) < each.at < until]


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
        WindowReader(store, "", None, by, "reference", "claims", 1, None).requests(weights)
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


def _reweighted(window: ExposureWindow, names: Sequence[str], alpha: float) -> OtherAlpha:
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
    places = table[:, COLUMNS.index("exposed")]
    total = float(table[:, COLUMNS.index("exposed")].sum())
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


def _listed(windows: Sequence[ExposureWindow]) -> list[str]:
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
    def of(cls, window: ExposureWindow, providers: Sequence[str], chance: np.random.Generator) -> _Draws:
        """Resample requests with replacement; of very many, the random groups that they join (`_GROUPS`), whose sums
        vary as much."""
        table = window.table(providers, _GROUPS)
        size = len(table)
        counts = chance.multinomial(size, np.full(size, 1 / size), size=_DRAWS)
        flat = np.vstack([np.ones(size), counts]) @ table.reshape(size, -1)
        sums = flat.reshape(-1, *table.shape[1:])
        columns = {column: sums[:, place] for place, column in enumerate(COLUMNS)}
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


def _is_worth(window: ExposureWindow) -> bool:
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
