"""How many series a scrape shows, and what of more is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st
from prometheus_client.exposition import generate_latest

from ragtrace.export._series import MAX_SERIES, Key, SeriesValue, Table, series_count, within
from ragtrace.export.exposition import Snapshot, collector, families
from ragtrace.registry.instruments import QUERY_COVERAGE, REQUESTS, SLI_REQUESTS
from ragtrace.store import Total
from ragtrace.store.totals import histogram_deltas

BUILD = Key("build_info", "", ("1",))


def tables(services: Sequence[str], requests: int = 1, sli: int = 4, buckets: int = 8) -> dict[str, Table]:
    """So many series of each kind for each service, beside one without a service."""
    found: dict[str, Table] = {"build_info": {BUILD: SeriesValue(1.0)}, "requests": {}, "sli_requests": {}}
    found["query_coverage"] = {}
    for name in services:
        found["requests"] |= {
            Key("requests", "", (name, str(n), "ok", "random")): SeriesValue(1.0) for n in range(requests)
        }
        rest = ("retrieval", "all", "random", "none", "j")
        found["sli_requests"] |= {Key("sli_requests", "", (name, str(n), *rest)): SeriesValue(1.0) for n in range(sli)}
        found["query_coverage"] |= {
            Key("query_coverage", "_bucket", (name, "a", "random"), float(n)): SeriesValue(1.0) for n in range(buckets)
        }
    return found


def shown(found: dict[str, Table], instrument: str) -> set[str]:
    """The services of which a family has series."""
    return {key.labels[0] for key in found[instrument]}


def test_nothing_is_left_out_up_to_the_limit() -> None:
    """Whatever the services."""
    given = tables(["a", "b"])
    assert within(given, 27) == (given, 27)


def test_histograms_go_first_then_what_alerts_watch() -> None:
    """Of the services that got their place last; the numbers of requests and what has no service stay."""
    order = ["old", "older than new", "new"]
    given = tables(["new", "old", "older than new"])
    one, total = within(given, 39, order)
    assert (total, series_count(one["query_coverage"])) == (40, 16)
    assert shown(one, "query_coverage") == {"old", "older than new"}
    assert shown(one, "sli_requests") == set(order)
    two, _ = within(given, 12, order)
    assert (shown(two, "query_coverage"), shown(two, "sli_requests")) == (set(), {"old", "older than new"})
    assert (shown(two, "requests"), two["build_info"]) == (set(order), {BUILD: SeriesValue(1.0)})


def test_a_tenant_with_many_services_takes_nothing_from_another() -> None:
    """Small tenants are shown whole, though their services came last."""
    loud = [f"loud/s{number}" for number in range(20)]
    found, _ = within(tables([*loud, "quiet/one", "alone"]), 158, [*loud, "alone", "quiet/one"])
    assert {"quiet/one", "alone"} <= shown(found, "query_coverage")
    assert shown(found, "sli_requests") >= {*loud, "quiet/one", "alone"}
    assert shown(found, "query_coverage") - {"quiet/one", "alone"} == {"loud/s0", "loud/s1", "loud/s2"}


@given(
    st.lists(st.sampled_from([f"{t}{s}" for t in ("", "a/", "b/") for s in "xyz"]), unique=True), st.integers(1, 120)
)
def test_the_limit_holds(services: list[str], most: int) -> None:
    """Never more than so many; the order in which services stand makes no difference."""
    found, total = within(tables(services), most)
    assert sum(map(series_count, found.values())) <= min(most, total)
    assert within(tables(sorted(services)), most)[0] == found


def test_the_exposition_says_what_it_left_out() -> None:
    """As many lines as `ragtrace_exposition_series` says; both gauges are there whatever is left out."""
    labels = (("segment", "a"), ("stratum", "random"))
    totals: list[Total] = []
    for name in ("one", "two"):
        own = (*labels, ("service", name))
        totals.append(Total(REQUESTS.name, (*own, ("status", "ok")), 1.0))
        buckets = histogram_deltas(QUERY_COVERAGE.name, own, 0.5, QUERY_COVERAGE.buckets)
        totals += [Total(each.name, each.labels, each.value) for each in buckets]
    held = Snapshot(totals, exposed={("service", ""): ("two", "one")})

    def samples(most: int) -> tuple[list[str], float, float]:
        text = generate_latest(collector(families(held, max_series=most))).decode()
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        said = {line.split(" ")[0]: float(line.rsplit(" ", 1)[1]) for line in lines}
        return lines, said["ragtrace_exposition_series"], said["ragtrace_exposition_series_dropped"]

    every, all_, none = samples(MAX_SERIES)
    assert (len(every), none) == (all_, 0.0)
    fewer, number, left = samples(int(all_) - 3)
    assert (len(fewer), left) == (number, all_ - number)
    assert left > 0
    assert [
        line for line in fewer if line.startswith(f"{QUERY_COVERAGE.name}_bucket") and 'service="one"' in line
    ] == []
    assert [line for line in fewer if line.startswith(f"{QUERY_COVERAGE.name}_bucket") and 'service="two"' in line]
    assert all(
        [line for line in fewer if line.startswith(f"{SLI_REQUESTS.name}{{") and name in line]
        for name in ("one", "two")
    )


@pytest.mark.parametrize("most", [1, 10])
def test_no_limit_is_too_small(most: int) -> None:
    """What says that something is left out is always there."""
    text = generate_latest(collector(families(Snapshot(), max_series=most))).decode()
    assert "ragtrace_exposition_series_dropped" in text
