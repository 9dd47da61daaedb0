"""Which alerts a healthy week of a service raises, and which a single broken stage raises first: simulated traffic.

Requests are drawn from results of `bench/verdict.py --json`, by domain: sound ones for healthy traffic; for an incident
the requests that one kind of fault was injected into, as they were before and as they are with it. The alerting rules
stand here in arrays; that Prometheus computes the same is tested in tests/live/test_rules.py.

Usage: python bench/verdict.py --json ... > results.jsonl; python bench/alerting.py results.jsonl [--weeks N] [--detail]
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.verdicts.measurement import STAGES
from bench.verdicts.pipeline import SERVICES
from ragtrace.alerts._policy import AlertPolicy, known_registry, policy
from ragtrace.alerts._traffic import minutes
from ragtrace.alerts.settings import read_settings
from ragtrace.analyze.diagnosis import stages_in_scope
from ragtrace.types import Stage

__all__ = ["Alert", "Counts", "Flags", "Traffic", "burning", "clear_rises", "counted", "fired", "firing", "raised"]

Counts: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Requests: TypeAlias = NDArray[np.int8]  # (requests, columns): four states, four doubts, whether the answer is distant

EVERY: Final = 2  # minutes between two looks, as the slow interval has it
DAY: Final = 24 * 60
WEEK: Final = 7 * DAY
SEGMENTS: Final = 5
RATES: Final = (1.0, 20.0)  # requests of the service in a minute
SHARES: Final = (0.2, 0.4, 0.6)
AFTER: Final = 3 * DAY  # how long an incident is watched

OUT_OF_SCOPE, SOUND, BROKEN, UNJUDGED = range(4)
ABSENT: Final = -1  # in place of a doubt, where a stage does not apply


class Alert(NamedTuple):
    """The first alert: its stage, whether it pages, and how many minutes after the start of the watch."""

    stage: str
    is_page: bool
    after: int


class Traffic(NamedTuple):
    """Cumulated counters by stage and minute, (stages, minutes + 1): `judged` and `broken` of the requests with no
    earlier stage broken or suspected, `every` one to which the stage applies, and those in which it is `doubted`, or
    the answer `distant` from its question, which is generation's (None: no model reads answers)."""

    judged: Counts
    broken: Counts
    every: Counts
    doubted: Counts
    distant: Counts | None = None


def read_request(findings: Mapping[Stage, Mapping[str, Any]]) -> list[int]:
    """What one request adds to the counters."""
    in_scope = stages_in_scope({stage: found["state"] for stage, found in findings.items()})
    codes = {"sound": SOUND, "broken": BROKEN}
    states = [codes.get(findings[one]["state"], UNJUDGED) if one in in_scope else OUT_OF_SCOPE for one in STAGES]
    doubts = [int(findings[one]["doubted"]) if one in findings else ABSENT for one in STAGES]
    return [*states, *doubts, int(any(found.get("distant", False) for found in findings.values()))]


def counted(requests: Requests, at: NDArray[np.intp], length: int) -> Traffic:
    """The counters of requests. at: the minute of each, below `length`."""

    def cumulated(hits: Flags) -> Counts:
        counts = np.zeros((len(STAGES), length + 1))
        for stage, column in enumerate(hits.T):
            counts[stage, 1:] = np.cumsum(np.bincount(at[column], minlength=length))
        return counts

    states, doubts, is_distant = np.split(requests, [len(STAGES), 2 * len(STAGES)], axis=1)
    is_generation = np.array([stage == "generation" for stage in STAGES])
    return Traffic(
        cumulated((states == SOUND) | (states == BROKEN)),
        cumulated(states == BROKEN),
        cumulated(doubts != ABSENT),
        cumulated(doubts == 1),
        cumulated((is_distant == 1) & is_generation),
    )


def _looks(counts: Counts) -> NDArray[np.intp]:
    return np.arange(EVERY, counts.shape[-1], EVERY)


class Rises(NamedTuple):
    """Of a window, by stage and look: how much the share rose, 0 where that is not known, its standard error, and
    whether the rise is clear."""

    rise: Counts
    error: Counts
    clear: Flags


def clear_rises(made: AlertPolicy, total: Counts, part: Counts) -> list[Rises]:
    """How the share of `part` has risen, for each window of suspicion; series by minutes."""
    suspicion, at = made.settings.growth.suspected, _looks(total)
    found = []
    for comparison in suspicion.windows:
        window, baseline = minutes(comparison.window), minutes(comparison.baseline)
        n, k = (counts[..., at] - counts[..., np.maximum(at - window, 0)] for counts in (total, part))
        end = np.maximum((at - window) // window * window, 0)
        past_n, past_k = (counts[..., end] - counts[..., np.maximum(end - baseline, 0)] for counts in (total, part))
        enough = (n >= suspicion.minimum) & (past_n >= suspicion.minimum)
        with np.errstate(divide="ignore", invalid="ignore"):
            share, usual, sizes = k / n, past_k / past_n, 1 / n + 1 / past_n
            effect = 2 * (np.arcsin(np.sqrt(share)) - np.arcsin(np.sqrt(usual)))
            z = effect / np.sqrt(sizes)
            is_large = (effect >= comparison.effect) & (share - usual >= comparison.points)
            pooled = (k + past_k + 0.5) / (n + past_n + 1)
            error = np.where(enough, np.sqrt(pooled * (1 - pooled) * sizes), 0.0)
            rise = np.where(enough, share - usual, 0.0)
            found.append(Rises(rise, error, enough & (z > suspicion.z) & is_large))
    return found


def _began(made: AlertPolicy, rises: Rises, other: Rises) -> Flags:
    """At which stage the clear rises of a window began, of doubt and of an `other` share, by stage and look."""
    suspicion = made.settings.growth.suspected
    found = np.zeros_like(rises.clear)
    low, high = (rises.rise + sign * suspicion.sure * rises.error for sign in (-1, 1))
    clear = [
        (later, *one) for each in (rises, other) for later, one in enumerate(zip(each.clear, each.rise, strict=True))
    ]
    for later, open_, rise in clear:
        limit = suspicion.part * rise
        for stage in range(later + 1):
            found[stage] |= open_ if stage == later else open_ & (low[stage] > limit)
            open_ = open_ & (high[stage] <= limit)
    return found


def burning(made: AlertPolicy, total: Counts, bad: Counts, severity: str, budget: float) -> list[Flags]:
    """Whether the budget burns fast enough, for each pair of windows; by look along the last axis."""
    rates, at = made.settings.burn_rates, _looks(total)
    found = []
    for pair in rates.page if severity == "page" else rates.ticket:
        (n, k), (short_n, short_k) = (
            [counts[..., at] - counts[..., np.maximum(at - minutes(window), 0)] for counts in (total, bad)]
            for window in (pair.long, pair.short)
        )
        limit, z = pair.factor * budget, rates.z
        with np.errstate(divide="ignore", invalid="ignore"):
            p = k / n
            low = (p + z * z / 2 / n - z * np.sqrt(p * (1 - p) / n + z * z / 4 / n**2)) / (1 + z * z / n)
            burns = (low > limit) & (short_k / short_n > limit)
        found.append(burns & (short_n >= pair.minimum) & (n >= pair.least_long))
    return found


def firing(condition: Flags, hold: int) -> Flags:
    """Whether an alert fires whose condition must hold for so many minutes."""
    looks = hold // EVERY + 1
    return np.asarray(_held(condition, looks) == looks)


def _held(condition: Flags, looks: int) -> Counts:
    """In how many of the last looks it held."""
    pad = [(0, 0)] * (condition.ndim - 1) + [(looks, 0)]
    sums = np.cumsum(np.pad(condition, pad), axis=-1, dtype=np.float64)
    return sums[..., looks:] - sums[..., :-looks]


def _lately(condition: Flags, window: int) -> Flags:
    """Whether it held at any look of a window."""
    return _held(condition, window // EVERY) > 0


def raised(made: AlertPolicy, traffic: Traffic) -> dict[tuple[str, str], Flags]:
    """What fires for one segment, by stage and sort: `page`, `ticket`, `suspected`. No release is known."""
    settings = made.settings
    silent = np.zeros(len(_looks(traffic.every)), dtype=bool)  # where an earlier stage burns
    burned: list[Flags] = []  # budgets of pages or tickets, by stage
    risen: list[Flags] = []  # doubt that began at an earlier stage
    found: dict[tuple[str, str], Flags] = {}
    distant = np.zeros_like(traffic.every) if traffic.distant is None else traffic.distant
    rises = (clear_rises(made, traffic.every, part) for part in (traffic.doubted, distant))
    began = [_began(made, *both) for both in zip(*rises, strict=True)]
    for place, indicator in enumerate(made.indicators):
        stage = indicator.name
        page, ticket = (
            burning(made, traffic.judged[place], traffic.broken[place], severity, indicator.budget)
            for severity in ("page", "ticket")
        )
        paging = np.logical_or.reduce(page)
        burned.append(np.logical_or.reduce([paging, *ticket]))
        is_gated = stage in settings.releases.required
        if not is_gated:
            found[stage, "page"] = firing(paging & ~silent, minutes(settings.hold.page[stage]))
        own = [
            burns & ~silent & (~_lately(paging, minutes(pair.short)) | is_gated)
            for burns, pair in zip(ticket, settings.burn_rates.ticket, strict=True)
        ]
        found[stage, "ticket"] = firing(np.logical_or.reduce(own), minutes(settings.hold.ticket))
        parts = [
            here[place] & ~np.logical_or.reduce([_lately(one, minutes(comparison.window)) for one in (*burned, *risen)])
            for here, comparison in zip(began, settings.growth.suspected.windows, strict=True)
        ]
        found[stage, "suspected"] = firing(np.logical_or.reduce(parts), minutes(settings.hold.ticket))
        silent = silent | paging
        risen.append(np.logical_or.reduce([here[place] for here in began]))
    return found


def fired(found: Mapping[tuple[str, str], Flags], since: int = 0) -> Iterator[Alert]:
    """The alerts that begin to fire from a minute on, the first one first."""
    starts = []
    for (stage, sort), fires in found.items():
        begins = np.flatnonzero(fires[1:] & ~fires[:-1]) + 1
        starts += [Alert(stage, sort == "page", (int(look) + 1) * EVERY - since) for look in begins]
    yield from sorted((alert for alert in starts if alert.after >= 0), key=lambda alert: alert.after)


class Pool(NamedTuple):
    """The requests of one domain by what the host passes: sound ones, and by stage and fault, for each request that it
    was injected into, that request without and with it: (requests, 2, columns)."""

    sound: Requests
    broken: dict[tuple[str, str], Requests]


def read_pools(lines: Iterable[str], least: int) -> dict[tuple[str, bool], Pool]:
    """By domain and whether facets are given. least: sound requests that it needs, and four times those of a fault."""
    has_facets = {service.name: service.setup.facets for service in SERVICES}
    sound: dict[tuple[str, str, str], list[int]] = {}
    found: dict[tuple[str, bool], dict[tuple[str, str], list[list[list[int]]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:  # a request comes before what is injected into it
        result = json.loads(line)
        key = (result["domain"], result["setup"], result["question_id"])
        if result["injector"] == "sound":
            sound[key] = read_request(result["findings"])
        elif result["injector"] != "natural":
            fault = result["fault"].partition("+")[0]  # after one fault of the evidence models answer in several ways
            sort = (result["truth"], f"{result['injector']}: {fault}")
            found[result["domain"], has_facets[result["setup"]]][sort].append(
                [sound[key], read_request(result["findings"])]
            )
    pools = {}
    for domain, facets in sorted({(domain, has_facets[setup]) for domain, setup, _ in sound}):
        rows = [row for (name, setup, _), row in sound.items() if (name, has_facets[setup]) == (domain, facets)]
        by_fault = found[domain, facets].items()
        pairs = {sort: np.array(both, dtype=np.int8) for sort, both in by_fault if 4 * len(both) >= least}
        if len(rows) >= least:
            pools[domain, facets] = Pool(np.array(rows, dtype=np.int8), pairs)
    return pools


def _arrivals(random: np.random.Generator, rate: float, length: int) -> NDArray[np.intp]:
    return np.repeat(np.arange(length), random.poisson(rate, length))


class Week(NamedTuple):
    """A healthy week of a domain: bad/(good + bad) by stage over all segments, NaN where none was judged; alerts."""

    bad: NDArray[np.float64]
    alerts: list[Alert]


def healthy_weeks(made: AlertPolicy, pool: Pool, rate: float, weeks: int, seed: int) -> Iterator[Week]:
    """Weeks of `SEGMENTS` segments that share the rate."""
    for week in range(weeks):
        judged, broken = np.zeros(len(STAGES)), np.zeros(len(STAGES))
        alerts: list[Alert] = []
        for segment in range(SEGMENTS):
            random = np.random.default_rng([seed, week, segment])
            at = _arrivals(random, rate / SEGMENTS, WEEK)
            traffic = counted(pool.sound[random.integers(len(pool.sound), size=len(at))], at, WEEK)
            judged, broken = judged + traffic.judged[:, -1], broken + traffic.broken[:, -1]
            alerts += fired(raised(made, traffic))
        with np.errstate(invalid="ignore"):
            yield Week(broken / judged, alerts)


class Incident(NamedTuple):
    """One fault in a share of one segment's requests, after a healthy week, and the first alert of it."""

    domain: str
    has_facets: bool
    rate: float
    share: float
    stage: str
    fault: str
    first: Alert | None

    @property
    def is_right(self) -> bool:
        """Whether the owner of the broken stage heard of it first."""
        return self.first is not None and self.first.stage == self.stage


def incidents(made: AlertPolicy, pools: Mapping[tuple[str, bool], Pool], seed: int) -> Iterator[Incident]:
    """Each fault of each domain, at each rate and share."""
    for (domain, has_facets), pool in pools.items():
        for (stage, fault), pairs in pool.broken.items():
            for rate in RATES:
                for share in SHARES:
                    key = zlib.crc32(f"{domain} {has_facets} {fault} {rate} {share}".encode())
                    random = np.random.default_rng([seed, key])
                    at = _arrivals(random, rate / SEGMENTS, WEEK + AFTER)
                    is_hit = (at >= WEEK) & (random.random(len(at)) < share)
                    requests = pairs[random.integers(len(pairs), size=len(at)), is_hit.astype(int)]
                    first = next(fired(raised(made, counted(requests, at, WEEK + AFTER)), WEEK), None)
                    yield Incident(domain, has_facets, rate, share, stage, fault, first)


def main() -> None:
    """Print both tables."""
    options = _options()
    made = policy(known_registry(), read_settings(None))
    with options.results.open(encoding="utf-8") as lines:
        pools = read_pools(lines, options.least)
    if not pools:
        sys.exit(f"{options.results}: no domain has {options.least} sound requests; give more results or --least")
    print(f"{options.weeks} healthy weeks of {SEGMENTS} segments for each domain, sound requests only")
    print("worst bad/(good+bad) of a week, % by stage, and of the different requests that are drawn, broken/judged")
    print(f"{'domain':22} facets  sound  /min  {'':68}  pages  tickets (most a week)")
    for (domain, has_facets), pool in pools.items():
        for rate in RATES:
            weeks = list(healthy_weeks(made, pool, rate, options.weeks, options.seed))
            bad = np.array([week.bad for week in weeks])
            behind = _behind(pool.sound)
            worst = " ".join(
                f"{name[:4]} {_worst(column)} {of:>7}" for name, column, of in zip(STAGES, bad.T, behind, strict=True)
            )
            pages = sum(alert.is_page for week in weeks for alert in week.alerts)
            tickets = [sum(not alert.is_page for alert in week.alerts) for week in weeks]
            head = f"{domain:22} {'yes' if has_facets else 'no':6} {len(pool.sound):6} {rate:5g}"
            print(f"{head}  {worst}  {pages:5}  {sum(tickets):4} ({max(tickets)})")
    found = list(incidents(made, pools, options.seed))
    print("\none fault in a share of one segment's requests, after a healthy week; watched for 3 days")
    print("stage      facets /min share  incidents  right %  wrong %  none %  page %  hours to the first alert (90 %)")
    for stage in STAGES:
        for has_facets in (False, True):
            for rate in RATES:
                for share in SHARES:
                    key = (stage, has_facets, rate, share)
                    these = [one for one in found if (one.stage, one.has_facets, one.rate, one.share) == key]
                    if these:
                        print(f"{stage:10} {'yes' if has_facets else 'no':6} {rate:4g} {share:5g} {_summary(these)}")
    for name in ("domain", *(["fault"] if options.detail else [])):
        print(f"\nby {name}, all rates and shares")
        for value in sorted({getattr(one, name) for one in found}):
            print(f"{value:45} {_summary([one for one in found if getattr(one, name) == value])}")
    print(f"\nall {'':41} {_summary(found)}")


def _behind(requests: Requests) -> list[str]:
    """Of different requests by stage those that are broken, and those that are judged: a week draws the same again."""
    states = requests[:, : len(STAGES)]
    broken, sound = ((states == state).sum(axis=0) for state in (BROKEN, SOUND))
    return [f"{bad}/{bad + good}" for bad, good in zip(broken, sound, strict=True)]


def _worst(column: NDArray[np.float64]) -> str:
    return f"{100 * np.nanmax(column):4.1f}" if np.isfinite(column).any() else "   -"


def _summary(these: Collection[Incident]) -> str:
    n = len(these)
    right = [one for one in these if one.is_right]
    told = [one for one in these if one.first is not None]
    paged = sum(one.first is not None and one.first.is_page for one in right)
    hours = sorted(one.first.after / 60 for one in right if one.first is not None)
    delay = f"{np.median(hours):6.1f} ({np.quantile(hours, 0.9):.1f})" if hours else "     -"
    shares = (len(right), len(told) - len(right), n - len(told), paged)
    return f"{n:9}  " + "  ".join(f"{100 * part / n:7.0f}" for part in shares) + f"  {delay}"


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="what bench/verdict.py --json printed")
    parser.add_argument("--weeks", type=int, default=10, help="healthy weeks of each domain (default %(default)s)")
    parser.add_argument("--least", type=int, default=20, help="of sound requests in a domain (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--detail", action="store_true", help="show each kind of fault")
    return parser.parse_args()


if __name__ == "__main__":
    main()
