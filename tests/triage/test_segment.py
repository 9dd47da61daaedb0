"""The walk over a segment: the first confirmed break, its release, its recovery, and honesty about little data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from bench.traffic import MINUTE, SERVICE, Break, Traffic, store_traffic
from ragtrace.triage import Report, Window, markdown, triage_segment
from ragtrace.triage.postmortem import postmortem
from ragtrace.triage.text import looked_at
from ragtrace.types import RequestRecord, replace
from ragtrace.wilson import wilson
from tests.triage.conftest import END, START, WINDOW

if TYPE_CHECKING:
    from ragtrace.store import Store
    from ragtrace.types import Stage
    from tests.triage.conftest import Fill

OWNERS = {
    "retrieval": ("retrieval-indexing", "index"),
    "ranking": ("ranking-context", "reranker"),
    "generation": ("generation-governance", "model"),
    "citation": ("release-guard", "model"),
}


class Absent(Traffic):
    """Traffic whose candidates meet every facet and probably do not hold the answer."""

    def scores(self, broken: Stage | None) -> dict[str, float | None]:
        """Without a gold set, presence alone tells it."""
        return {**super().scores(broken), "evidence_presence": 0.1}


class TenthKept(Traffic):
    """Traffic of which every tenth request was drawn."""

    def _record(self, *place: Any) -> RequestRecord:
        return replace(super()._record(*place), head_probability=0.1)


def walk(store: Store, segment: str | None = None, window: Window = WINDOW, **options: Any) -> Report:
    """The report on the service."""
    return triage_segment(store, SERVICE, segment, window, now=END, **options)


def states(report: Report) -> dict[str, str]:
    """The state of each check."""
    return {check.stage: check.state for check in report.checks}


def test_healthy_traffic_blames_nobody(fill: Fill) -> None:
    """One in a hundred bad at each stage is within a budget of five."""
    report = walk(fill(noise=0.01))
    assert set(states(report).values()) == {"good"}
    assert (report.stage, report.owner, report.suspected_release, report.telling) == (None, None, None, ())
    assert report.conclusion == "no stage is broken: all are within their objectives"


@pytest.mark.parametrize("stage", list(OWNERS))
def test_each_stage_is_named_with_owner_and_release(fill: Fill, stage: Stage) -> None:
    """Half of the requests break from the release on; what stands before is good, what comes after is not checked."""
    owner, component = OWNERS[stage]
    report = walk(fill(Break(stage, 0.5, 0.75, component=component), noise=0.005))
    assert (report.stage, report.owner) == (stage, owner)
    assert report.suspected_release == f"{component}={component}-bad"
    found = states(report)
    assert [found[each] for each in list(OWNERS)[: list(OWNERS).index(stage)]] == ["good"] * list(OWNERS).index(stage)
    assert {found[each] for each in list(OWNERS)[list(OWNERS).index(stage) + 1 :]} <= {"not_checked"}
    assert report.onset is not None
    assert report.onset.before.share is not None
    assert report.onset.before.share < 0.05 < report.onset.since.low
    assert len(report.telling) == 3
    assert {each.suspected_release for each in report.telling} == {report.suspected_release}
    assert report.telling[0].command == f"ragtrace show {report.telling[0].request_id}"
    assert report.recovery is not None
    assert report.recovery.state == "not_recovered"


def test_upstream_comes_first(fill: Fill) -> None:
    """Where retrieval and generation break together, retrieval is named."""
    report = walk(fill(Break("retrieval", 0.4, 0.7), Break("generation", 0.9, 0.7, component="model")))
    assert report.stage == "retrieval"
    assert states(report)["generation"] == "not_checked"


def test_two_faults_in_two_segments_are_told_apart(fill: Fill) -> None:
    """Each segment names its own stage, and where else that stage is broken."""
    store = fill(
        Break("retrieval", 0.6, 0.7, component="index", segment="limit"),
        Break("generation", 0.6, 0.7, component="model", segment="deadline"),
    )
    limit, deadline, exception = (walk(store, name) for name in ("limit", "deadline", "exception"))
    assert (limit.stage, deadline.stage, exception.stage) == ("retrieval", "generation", None)
    assert {line.segment: line.state for line in limit.segments} == {
        "limit": "broken",
        "deadline": "good",
        "exception": "good",
    }


def test_a_change_without_a_release_names_none(fill: Fill) -> None:
    """The nearest release is told, and that it does not fit."""
    report = walk(fill(Break("ranking", 0.0, 0.1, 0.3, component="reranker"), Break("ranking", 0.5, 0.8)))
    assert report.stage == "ranking"
    assert report.suspected_release is None
    assert "no release fits" in report.release_note
    assert "reranker=reranker-bad" in report.release_note
    assert {each.fit for each in report.suspects} == {"early"}


def test_no_release_at_all_is_said(fill: Fill) -> None:
    """A component that only ever had one version was not rolled out."""
    report = walk(fill(Break("retrieval", 0.5, 0.75)))
    assert (report.stage, report.suspected_release, report.suspects) == ("retrieval", None, ())
    assert "is known to have replaced another" in report.release_note


def test_a_break_older_than_the_time_looked_at_names_no_release(fill: Fill) -> None:
    """It is confirmed, and where its beginning may be found is said."""
    store = fill(Break("retrieval", 0.5, 0.0), Break("retrieval", 0.0, 0.5, component="index"))
    report = walk(store)
    assert report.stage == "retrieval"
    assert (report.onset, report.suspected_release) == (None, None)
    assert "--since" in report.release_note


def test_a_rollback_does_not_hide_the_release(fill: Fill) -> None:
    """The old version came into use again, as somebody recorded; the bad one is still the one that replaced it."""
    store = fill(Break("ranking", 0.6, 0.6, 0.85, component="reranker"))
    store.record_release(SERVICE, "reranker", "r-1", END - 36 * MINUTE)
    report = walk(store)
    assert report.suspected_release == "reranker=reranker-bad"
    assert {each.release: each.fit for each in report.suspects}["reranker=r-1"] == "late"
    assert report.recovery is not None
    assert report.recovery.state == "recovered"


def test_two_releases_at_one_time_are_ranked_by_the_requests(fill: Fill) -> None:
    """Both fit; the diagnosis of the broken requests points at one, the other is mentioned."""
    store = fill(Break("ranking", 0.5, 0.75, component="reranker"), Break("ranking", 0.0, 0.75, component="packer"))
    report = walk(store)
    assert {each.fit for each in report.suspects} == {"fits"}
    assert report.suspected_release == report.suspects[0].release
    assert report.suspects[0].votes >= report.suspects[1].votes
    assert "came then, too" in report.release_note


def test_a_rare_break_late_in_a_long_window_is_found(fill: Fill) -> None:
    """Over the window the share is within the budget; since the break it is not."""
    report = walk(fill(Break("generation", 0.6, 0.97, component="model"), count=3000))
    check = next(each for each in report.checks if each.stage == "generation")
    assert check.now.low < 0.05
    assert report.stage == "generation"
    assert report.suspected_release == "model=model-bad"


def test_a_recovered_break_is_not_the_one_of_now(fill: Fill) -> None:
    """Retrieval broke and came back; ranking is broken now, so ranking is named."""
    report = walk(fill(Break("retrieval", 0.6, 0.5, 0.65), Break("ranking", 0.5, 0.8, component="reranker")))
    assert states(report)["retrieval"] == "recovered"
    assert (report.stage, report.suspected_release) == ("ranking", "reranker=reranker-bad")


def test_recovery_is_proven_by_counts(fill: Fill) -> None:
    """A break that ended is reported as such, with the requests since then."""
    report = walk(fill(Break("retrieval", 0.6, 0.55, 0.7, component="index")))
    assert report.stage == "retrieval"
    assert report.recovery is not None
    assert report.recovery.state == "recovered"
    assert report.recovery.after is not None
    assert report.recovery.after.bad == 0
    assert "recovered" in report.conclusion
    assert {line.state for line in report.segments} == {"recovered"}


def test_too_soon_to_call_it_recovered(fill: Fill) -> None:
    """A handful of good requests proves nothing."""
    report = walk(fill(Break("retrieval", 0.9, 0.6, 0.99), count=600))
    assert report.stage == "retrieval"
    assert report.recovery is not None
    assert report.recovery.state != "recovered"


def test_little_data_is_said_and_not_guessed(fill: Fill) -> None:
    """Nine requests, all bad: no stage is named."""
    report = walk(fill(Break("retrieval", 1.0, 0.0), count=18))
    assert report.stage is None
    assert states(report)["retrieval"] == "no_data"
    assert report.conclusion == "no break is confirmed, and there is not enough data to tell about " + ", ".join(OWNERS)


def test_why_there_are_no_requests_is_said(fill: Fill) -> None:
    """A slip in the name, flagged ones alone, fewer than are needed: each asks for another step."""
    store = fill(count=7)
    assert "7 requests with the proxy reference" in walk(store).conclusion
    assert "an earlier --since" in walk(store).conclusion
    fill(count=20, flagged=1.0, segments=("vip",), start=START + 1)
    assert "there are flagged ones" in walk(store, "vip").conclusion
    slip = triage_segment(store, "assistent", None, WINDOW, now=END).conclusion
    assert slip.endswith("of service 'assistent' is stored in the time looked at; the store has 'assistant'")


def test_chance_is_not_taken_for_a_break(fill: Fill) -> None:
    """Two of twenty bad is over the budget of one in twenty, but may be chance."""
    store = fill(Break("retrieval", 1.0, 0.55, 0.57), Break("retrieval", 1.0, 0.9, 0.92), count=40)
    report = walk(store)
    check = report.checks[0]
    assert check.now.share is not None
    assert check.now.share > 0.05
    assert check.state == "unclear"
    assert report.stage is None
    assert "not enough data to tell about retrieval" in report.conclusion


def test_worse_within_the_objective_is_told_and_no_break(fill: Fill) -> None:
    """From none to one in thirty of very many."""
    report = walk(
        fill(*(Break("ranking", 1.0, 0.5 + step / 60, 0.5 + step / 60 + 0.0006) for step in range(30)), count=6000)
    )
    assert states(report)["ranking"] == "worse"
    assert report.stage is None
    assert "got worse" in report.conclusion


def test_nothing_stored_and_nothing_analyzed(store: Store, fill: Fill) -> None:
    """Both are told apart."""
    assert "no request" in walk(store).conclusion
    before = Window.of(START - 20 * MINUTE, START - 10 * MINUTE)
    assert "no request" in walk(fill(), window=before).conclusion


def test_flagged_requests_do_not_bias_the_shares(fill: Fill) -> None:
    """A heavily bad flagged stratum beside a healthy random one is no break."""
    report = walk(fill(flagged=0.5, noise=0.0))
    assert report.range is not None
    assert report.range.requests < 400
    assert report.stage is None


def test_oracle_and_proxy_are_not_mixed(fill: Fill) -> None:
    """The most frequent reference counts, and what the other shows is told; each can be asked for."""
    fill(Break("generation", 0.8, 0.5), count=400)
    store = fill(Break("ranking", 0.8, 0.5), count=100, reference="oracle", start=START + 1, segments=("oracle",))
    report = walk(store)
    assert report.range is not None
    assert (report.range.reference, report.stage) == ("proxy", "generation")
    assert report.conclusion.endswith(
        "That is what the 400 requests with the proxy reference show; of the 100 requests with the oracle reference, "
        "ranking is broken."
    )
    asked = walk(store, reference="oracle")
    assert asked.stage == "ranking"
    assert "proxy" not in asked.conclusion


def test_a_break_that_only_the_rarer_reference_shows_is_found(fill: Fill) -> None:
    """Known questions are fine, those of users are not: nothing says that no stage is broken."""
    fill(count=400, reference="oracle")
    store = fill(Break("retrieval", 0.8, 0.5), count=100, start=START + 1, segments=("users",))
    report = walk(store)
    assert report.range is not None
    assert (report.range.reference, report.stage) == ("proxy", "retrieval")
    assert report.conclusion.endswith("of the 400 requests with the oracle reference, no stage is broken.")
    draft = postmortem(store, SERVICE, None, WINDOW, now=END)
    assert re.search(r"\| retrieval \| first failed \| 0 % of 5\d \| [6-9]\d % of [45]\d \|", draft)


def test_what_is_not_analyzed_is_not_called_good(fill: Fill) -> None:
    """The newest quarter waits for its analysis; nothing is said to be thinned out."""
    store = fill(count=600)
    later = Traffic(200, END - 30 * MINUTE + 1, END, (), segments=("waiting",))
    store.write([record for record, _ in later.requests()])
    report = walk(store)
    assert report.range is not None
    assert (report.range.requests, report.range.read, report.range.unanalyzed) == (800, 600, 200)
    assert report.conclusion.endswith(
        "but 200 of 800 requests in the time looked at are not analyzed (ragtrace analyze)"
    )
    assert looked_at(report).endswith("800 requests, 200 of them not analyzed; 600 with the proxy reference")


def test_shares_are_those_of_the_traffic(fill: Fill) -> None:
    """A rare segment, kept whole, fails beside a busy one of which a tenth is kept: 100 of 1,100, not 100 of 200."""
    store = fill(Break("retrieval", 1.0, 0.0), count=100, segments=("rare",))
    store_traffic(store, TenthKept(100, START + MINUTE, END, segments=("busy",)))
    report = walk(store)
    told = next(check for check in report.checks if check.stage == "retrieval")
    assert told.now.share == pytest.approx(50 / 550)
    assert told.now.low < 50 / 550 < told.now.high
    assert next(value for value in told.values if value.metric == "query_coverage").now == pytest.approx(1 - 25 / 550)
    assert "50 of 100 bad (9.1 % of the traffic)" in markdown(report)
    assert "kept at rates from 10 % to 100 %" in looked_at(report)
    assert "kept at rates" not in looked_at(walk(store, "busy"))


def test_bounds_know_of_the_weights(fill: Fill) -> None:
    """What hangs on ten requests of great weight is less sure than a hundred that were drawn alike."""
    store = fill(count=180, segments=("rare",))
    store_traffic(store, TenthKept(40, START + MINUTE, END, (Break("retrieval", 0.2, 0.0),), segments=("busy",)))
    now = walk(store).checks[0].now
    assert now.bad
    share = 10 * now.bad / 290
    assert now.share == pytest.approx(share)
    plainly = wilson(share * now.known, now.known)
    assert now.low < plainly[0] < plainly[1] < now.high


def test_a_broken_segment_that_is_rare_in_the_traffic_is_told(fill: Fill) -> None:
    """One of a thousandth of the traffic moves no share; it is named, with what walks it."""
    store = fill(Break("ranking", 0.8, 0.0), count=60, segments=("rare",))
    store_traffic(store, TenthKept(400, START + MINUTE, END, segments=("busy",)))
    report = walk(store)
    assert (report.stage, states(report)["ranking"]) == (None, "good")
    assert "Broken, by themselves: rare at ranking, " in report.conclusion
    store_traffic(store, TenthKept(400, START + 2 * MINUTE, END, (Break("generation", 0.9, 0.0),), segments=("late",)))
    report = walk(store)
    assert report.stage == "generation"
    assert "Broken before generation, by themselves: rare at ranking, " in report.conclusion


def test_the_beginning_of_a_break_is_the_traffics(fill: Fill) -> None:
    """A rare segment that begins to be kept, and is always worse, is no break of the service."""
    store = fill(Break("retrieval", 0.4, 0.0), count=60, start=END - 60 * MINUTE, segments=("rare",))
    store_traffic(store, TenthKept(400, START + MINUTE, END, segments=("busy",)))
    assert walk(store).onset is None
    assert walk(store).stage is None


def test_whether_one_tenant_is_hit_or_all_are(fill: Fill) -> None:
    """An index of one customer's own breaks his requests alone; without tenants nothing is said."""
    fill(Break("retrieval", 1.0, 0.5), count=90, tenants=1)
    report = walk(fill(count=400, start=START + 1))
    assert (report.tenants and (report.tenants.broken, report.tenants.known)) == (1, 5)
    assert "1 of 5 with requests in the break have a bad one" in markdown(report)


def test_requests_without_a_tenant_say_nothing_of_tenants(fill: Fill) -> None:
    """Neither none nor all."""
    report = walk(fill(Break("retrieval", 0.8, 0.5), tenants=0))
    assert (report.stage, report.tenants) == ("retrieval", None)


def test_all_that_the_diagnosis_judges_by_is_read(store: Store) -> None:
    """Evidence that is probably absent breaks retrieval in triage as in each request's own diagnosis."""
    store_traffic(store, Absent(60, START, END))
    assert store.find_requests(service=SERVICE, stage="retrieval", limit=1)
    assert walk(store).stage == "retrieval"


def test_undefined_metrics_are_no_data(fill: Fill) -> None:
    """Without facets retrieval cannot be told; ranking can."""
    store = fill(Break("ranking", 0.6, 0.7, component="reranker"), undefined=("query_coverage", "joint_query_coverage"))
    report = walk(store)
    assert states(report)["retrieval"] == "no_data"
    assert report.stage == "ranking"
    assert "retrieval" in report.conclusion


def test_requests_are_thinned_out_evenly(fill: Fill) -> None:
    """A limit reads a part, names how large it is, and finds the same."""
    report = walk(fill(Break("retrieval", 0.5, 0.75, component="index"), count=3000), limit=300)
    assert report.range is not None
    assert (report.range.requests, report.range.read) == (3000, 300)
    assert report.suspected_release == "index=index-bad"
