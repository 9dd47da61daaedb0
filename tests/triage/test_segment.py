"""The walk over a segment: the first confirmed break, its release, its recovery, and honesty about little data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from bench.traffic import MINUTE, SERVICE, Break, Traffic, store_traffic
from ragtrace.formats import written_time
from ragtrace.registry.wording import release_words
from ragtrace.sample_statistics import wilson
from ragtrace.store import Listing
from ragtrace.triage import Report, Window, markdown, triage_segment
from ragtrace.triage.postmortem import postmortem
from ragtrace.triage.rendering import looked_at
from ragtrace.types import RequestRecord, StageFinding, replace
from tests.triage.conftest import END, START, WINDOW
from tests.triage.test_rendering import text

if TYPE_CHECKING:
    from ragtrace.store import Store
    from ragtrace.types import Stage
    from tests.triage.conftest import Fill

UNKNOWN: Any = {"retrieval": ("not_known", "undecided")}
OWNERS = {
    "retrieval": ("retrieval-indexing", "index"),
    "ranking": ("ranking-context", "reranker"),
    "generation": ("generation-governance", "model"),
    "citation": ("release-guard", "model"),
}


class ByScores(Traffic):
    """Traffic whose scores miss every objective, and whose stages are sound."""

    def scores(self, broken: Break | None) -> dict[str, float | None]:
        """What no state rests on."""
        worst: dict[str, float | None] = dict.fromkeys(super().scores(broken), 0.0)
        return worst | {"contradiction_rate": 1.0}


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
    assert (report.stage, report.owner, report.suspected_release, report.exemplars) == (None, None, None, ())
    assert report.conclusion == "no stage is broken: all that apply are within their objectives."


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
    assert len(report.exemplars) == 3
    assert {each.suspected_release for each in report.exemplars} == {report.suspected_release}
    assert report.exemplars[0].command == f"ragtrace show {report.exemplars[0].request_id}"
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
    assert report.recovery.after.count == 0
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
    stages = "retrieval, ranking, generation and citation"
    assert report.conclusion == f"no break is confirmed; too few requests tell of {stages}."


def test_why_there_are_no_requests_is_said(fill: Fill) -> None:
    """A slip in the name, flagged ones alone, fewer than are needed: each asks for another step."""
    store = fill(count=7)
    assert "7 requests without gold evidence" in walk(store).conclusion
    assert "an earlier --since" in walk(store).conclusion
    fill(count=20, flagged=1.0, segments=("vip",), start=START + 1)
    assert "there are flagged ones" in walk(store, "vip").conclusion
    slip = triage_segment(store, "assistent", None, WINDOW, now=END).conclusion
    assert slip.endswith("of service 'assistent' is stored in the time looked at; the store has 'assistant'.")


def test_chance_is_not_taken_for_a_break(fill: Fill) -> None:
    """Two of twenty bad is over the budget of one in twenty, but may be chance."""
    store = fill(Break("retrieval", 1.0, 0.55, 0.57), Break("retrieval", 1.0, 0.9, 0.92), count=40)
    report = walk(store)
    check = report.checks[0]
    assert check.now.share is not None
    assert check.now.share > 0.05
    assert check.state == "unclear"
    assert report.stage is None
    assert "not enough data to tell about retrieval: so few broken requests may be chance" in report.conclusion


def test_worse_within_the_objective_is_told_and_no_break(fill: Fill) -> None:
    """From none to one in thirty of very many."""
    report = walk(
        fill(*(Break("ranking", 1.0, 0.5 + step / 60, 0.5 + step / 60 + 0.0005) for step in range(30)), count=6000)
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
        "That is what the 400 requests without gold evidence show; of the 100 requests with gold evidence, ranking is "
        "broken."
    )
    asked = walk(store, reference="oracle")
    assert asked.stage == "ranking"
    assert "without gold" not in asked.conclusion


def test_requests_without_any_reference_count_with_those_of_a_proxy(fill: Fill) -> None:
    """What cannot be judged often has no proxy either: apart, neither group would show that more cannot be."""
    fill(count=300, end=END - 60 * MINUTE)
    fill(count=100, start=END - 60 * MINUTE)
    store = fill(count=100, start=END - 60 * MINUTE + 7, reference="none", unjudged=UNKNOWN, segments=("silent",))
    (rise,) = walk(store).rises
    assert (rise.stage, rise.state) == ("retrieval", "not_known")


def test_a_break_that_only_the_rarer_reference_shows_is_found(fill: Fill) -> None:
    """Known questions are fine, those of users are not: nothing says that no stage is broken."""
    fill(count=400, reference="oracle")
    store = fill(Break("retrieval", 0.8, 0.5), count=100, start=START + 1, segments=("users",))
    report = walk(store)
    assert report.range is not None
    assert (report.range.reference, report.stage) == ("proxy", "retrieval")
    assert report.conclusion.endswith("of the 400 requests with gold evidence, no stage is broken.")
    draft = postmortem(store, SERVICE, None, WINDOW, now=END)
    assert re.search(r"\| retrieval \| first failed \| 0 of 5\d \(0 %\) \| \d\d of [45]\d \([6-9]\d %\) \|", draft)


def test_what_is_not_analyzed_is_not_called_good(fill: Fill) -> None:
    """The newest quarter waits for its analysis; nothing is said to be thinned out."""
    store = fill(count=600)
    later = Traffic(200, END - 30 * MINUTE + 1, END, (), segments=("waiting",))
    store.write([record for record, _ in later.requests()])
    report = walk(store)
    assert report.range is not None
    assert (report.range.requests, report.range.read, report.range.unanalyzed) == (800, 600, 200)
    assert report.conclusion.endswith(
        "but 200 of 800 requests in the time looked at are not analyzed (ragtrace analyze)."
    )
    assert looked_at(report).endswith(
        "800 requests in both, 200 of them not analyzed; 600 judged without gold evidence"
    )


def test_shares_are_those_of_the_traffic(fill: Fill) -> None:
    """A rare segment, kept whole, fails beside a busy one of which a tenth is kept: 100 of 1,100, not 100 of 200."""
    store = fill(Break("retrieval", 1.0, 0.0), count=100, segments=("rare",))
    store_traffic(store, TenthKept(100, START + MINUTE, END, segments=("busy",)))
    report = walk(store)
    told = next(check for check in report.checks if check.stage == "retrieval")
    assert told.now.share == pytest.approx(50 / 550)
    assert told.now.low < 50 / 550 < told.now.high
    assert next(value for value in told.values if value.metric == "query_coverage").now == pytest.approx(1 - 25 / 550)
    assert "50 of 100 broken (9.1 % of the traffic)" in markdown(report)
    assert "kept at rates from 10 % to 100 %" in looked_at(report)
    assert "kept at rates" not in looked_at(walk(store, "busy"))


def test_bounds_know_of_the_weights(fill: Fill) -> None:
    """What hangs on ten requests of great weight is less sure than a hundred that were drawn alike."""
    store = fill(count=180, segments=("rare",))
    store_traffic(store, TenthKept(40, START + MINUTE, END, (Break("retrieval", 0.2, 0.0),), segments=("busy",)))
    now = walk(store).checks[0].now
    assert now.count
    share = 10 * now.count / 290
    assert now.share == pytest.approx(share)
    plainly = wilson(share * now.of, now.of)
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
    assert "1 of 5 with requests in the break have a broken one" in markdown(report)


def test_requests_without_a_tenant_say_nothing_of_tenants(fill: Fill) -> None:
    """Neither none nor all."""
    report = walk(fill(Break("retrieval", 0.8, 0.5), tenants=0))
    assert (report.stage, report.tenants) == ("retrieval", None)


def test_the_states_judge_and_no_score_does(store: Store) -> None:
    """Whatever the scores are, a stage that is sound is not broken."""
    store_traffic(store, ByScores(200, START, END))
    assert set(states(walk(store)).values()) == {"good"}


def test_a_stage_that_is_not_known_is_no_data_and_the_next_is_judged(fill: Fill) -> None:
    """Whether retrieval broke before ranking is not known, and that is said, with the reason and what would help."""
    store = fill(Break("ranking", 0.6, 0.7, component="reranker"), unjudged=UNKNOWN)
    report = walk(store)
    assert states(report)["retrieval"] == "unjudged"
    assert report.stage == "ranking"
    assert report.conclusion.endswith("Whether retrieval broke before is not known.")
    assert "judged in 0 of the 300 requests that reach it, 10 are needed; to judge more: " in report.checks[0].finding
    assert "not known: 300 of 300 (100 %), before 100 %: no proof either way (300)" in markdown(report)


def test_a_rise_of_doubt_names_stage_owner_and_release_and_is_no_break(fill: Fill) -> None:
    """From none to half: no single request proves it, many together do; what came when it began is suspected."""
    doubt = Break("retrieval", 0.5, 0.75, component="index", state="suspected", reason="low_match")
    report = walk(fill(doubt, noise=0.005))
    assert (report.stage, report.owner, report.suspected_release) == (None, None, None)
    assert states(report)["retrieval"] == "doubted"
    (rise,) = report.rises
    assert (rise.stage, rise.owner, rise.state) == ("retrieval", "retrieval-indexing", "doubted")
    assert rise.suspected_release == "index=index-bad"
    assert rise.finding.startswith("in doubt: rises from 1.1 % to ")
    assert rise.finding.endswith(" %: words that do not match the question")
    assert len(rise.exemplars) == 3
    assert "Retrieval (retrieval-indexing) is not proven to be broken, but in doubt: rises" in report.conclusion
    for page in (report.conclusion, markdown(report)):
        assert "retrieval is broken" not in page
        assert "BROKEN" not in page


def test_what_is_always_in_doubt_is_no_finding(fill: Fill) -> None:
    """A fifth of the requests at all times: the share is shown, and nothing is said to rise."""
    report = walk(fill(Break("retrieval", 0.2, 0.0, state="suspected", reason="low_match")))
    assert report.rises == ()
    assert states(report)["retrieval"] == "good"
    (doubted,) = (one for one in report.checks[0].unjudged if one.state == "doubted")
    assert 0.1 < (doubted.now.share or 0.0) < 0.3
    assert [(each.reason, each.words) for each in doubted.reasons] == [
        ("low_match", "words that do not match the question")
    ]
    assert "in doubt: " in markdown(report)


def test_a_hash_of_the_prompt_is_told_in_words(fill: Fill) -> None:
    """Its template changed, and which version of the prompt was in use; in JSON the release is as it was recorded."""
    store = fill(Break("generation", 0.5, 0.75, component="prompt_hash"), noise=0.005)
    store.record_release(SERVICE, "prompt_hash", "prompt_hash-good", START)
    store.record_release(SERVICE, "prompt", "support-v7", START)
    report = walk(store)
    assert report.suspected_release == "prompt_hash=prompt_hash-bad"
    told = "suspect prompt_hash=prompt_hash-bad (the prompt template changed)"
    assert told in report.conclusion
    assert "(the prompt template changed; prompt=support-v7 was in use) came at " in report.release_note
    for page in (markdown(report), text(report, 120)):
        assert "prompt_hash=prompt_hash-bad (the prompt template changed)" in " ".join(page.replace("\\", "").split())
    assert release_words("index=v2", "support-v7") == "index=v2"


def test_each_count_of_doubt_leads_to_its_requests(fill: Fill) -> None:
    """Some newest ones by id, and a command that lists just those that were counted."""
    store = fill(Break("retrieval", 0.2, 0.0, state="suspected", reason="low_match"))
    report = walk(store)
    (doubted,) = (one for one in report.checks[0].unjudged if one.state == "doubted")
    listing = Listing(service=SERVICE, in_doubt="retrieval", since=WINDOW.since, until=WINDOW.until)
    listed = [row.request_id for row in store.list_requests(listing, limit=1_000).rows]
    assert len(listed) == doubted.now.count > 3
    assert doubted.request_ids == tuple(listed[:3])
    times = f"--since={written_time(WINDOW.since)} --until={written_time(WINDOW.until)}"
    assert doubted.command == f"ragtrace show --service={SERVICE} --in-doubt=retrieval {times}"
    for page in (markdown(report), text(report, 80)):
        words = " ".join(page.replace("`", "").split())
        assert f"for instance {', '.join(listed[:3])}" in words
        assert f"o list them: {doubted.command}" in words


def test_a_small_or_scarce_rise_is_no_finding(fill: Fill) -> None:
    """Three points more of very many, and ten requests of which half are in doubt."""
    slight = Break("retrieval", 0.03, 0.5, state="suspected", reason="low_match")
    assert walk(fill(slight, count=6000)).rises == ()
    few = Break("generation", 0.5, 0.5, state="suspected", reason="unsupported", segment="few")
    store = fill(few, count=20, segments=("few",), start=START + 1)
    assert walk(store, "few").rises == ()


def test_the_reason_that_grew_explains_a_rise(fill: Fill) -> None:
    """One that was as frequent before explains nothing."""
    usual = Break("generation", 0.3, 0.0, state="suspected", reason="unsupported")
    new = Break("generation", 0.35, 0.6, state="suspected", reason="contradicted")
    (rise,) = walk(fill(usual, new, count=1200)).rises
    assert rise.reasons[0].reason == "contradicted"
    assert rise.reasons[1].reason == "unsupported"


def test_a_doubt_before_a_break_is_said_beside_it(fill: Fill) -> None:
    """Ranking is broken for certain; that retrieval is in doubt more often than before stands beside it."""
    doubt = Break("retrieval", 0.4, 0.7, state="suspected", reason="facet_not_found", component="index")
    report = walk(fill(doubt, Break("ranking", 0.6, 0.7, component="reranker")))
    assert report.stage == "ranking"
    assert [rise.stage for rise in report.rises] == ["retrieval"]
    assert "ranking is the first broken stage" in report.conclusion
    assert "a required fact that no candidate holds" in report.conclusion


def test_what_follows_from_an_earlier_stage_is_said_to(store: Store) -> None:
    """Retrieval is doubtful from a release on, and all behind it with it: one owner, one release, and no rivals."""

    class Dragging(Traffic):
        def findings(self, broken: Break | None) -> tuple[StageFinding, ...]:
            return tuple(replace(one, doubted=broken is not None) for one in super().findings(broken))

    doubt = Break("retrieval", 0.5, 0.75, component="index", state="suspected", reason="low_match")
    store_traffic(store, Dragging(600, START, END, (doubt,)))
    report = walk(store)
    assert {rise.stage: rise.follows for rise in report.rises} == {
        "retrieval": None,
        **dict.fromkeys(("ranking", "generation", "citation"), "retrieval"),
    }
    assert {rise.suspected_release for rise in report.rises} == {"index=index-bad", None}
    assert set(states(report).values()) == {"doubted"}
    assert "That generation is in doubt more often, too (from 0 % to " in report.conclusion
    assert ", follows from retrieval." in report.conclusion
    assert "which follows from retrieval" in report.checks[2].finding
    assert "it follows from retrieval: look there" in markdown(report)


def test_a_small_rise_that_a_clear_one_follows_from_has_its_beginning_and_release(store: Store) -> None:
    """Too little of retrieval to be seen by itself, and surely a quarter of the rise of generation."""

    class Dragging(Traffic):
        def findings(self, broken: Break | None) -> tuple[StageFinding, ...]:
            doubted = {broken.stage, "generation"} if broken else set()
            return tuple(replace(one, doubted=one.stage in doubted) for one in super().findings(broken))

    breaks = (
        Break("retrieval", 0.02, 0.0, state="suspected", reason="low_match"),
        Break("retrieval", 0.04, 0.75, component="index", state="suspected", reason="low_match"),
        Break("generation", 0.04, 0.75, state="suspected", reason="unsupported"),
    )
    store_traffic(store, Dragging(2_400, START, END, breaks))
    report = walk(store)
    retrieval, generation = report.rises
    assert (retrieval.stage, retrieval.suspected_release) == ("retrieval", "index=index-bad")
    assert (generation.stage, generation.follows, generation.suspected_release) == ("generation", "retrieval", None)
    assert retrieval.onset is not None
    assert retrieval.onset.latest == (generation.onset and generation.onset.latest)


def test_where_it_may_have_begun_is_said_not_to_be_sure(fill: Fill) -> None:
    """Retrieval is in doubt as often as ever, and chance might hide a quarter of the rise of generation."""
    breaks = (
        Break("retrieval", 0.1, 0.0, state="suspected", reason="low_match"),
        Break("generation", 0.2, 0.75, state="suspected", reason="unsupported"),
    )
    report = walk(fill(*breaks, count=400))
    (rise,) = report.rises
    assert (rise.stage, rise.follows, rise.unsure) == ("generation", None, ("retrieval",))
    for page in (report.conclusion, markdown(report)):
        assert "hether it began at retrieval is not sure" in page


def test_a_broken_stage_is_not_said_to_be_in_doubt(fill: Fill) -> None:
    """That each of its broken requests is goes without saying."""
    report = walk(fill(Break("retrieval", 0.5, 0.75)))
    (doubted,) = (one for one in report.checks[0].unjudged if one.state == "doubted")
    assert (report.stage, doubted.has_risen, report.rises) == ("retrieval", True, ())


def test_answers_that_decline_are_a_doubt_of_generation(fill: Fill) -> None:
    """Not known, and told once; that retrieval is not known either, since they decline, is no finding of retrieval."""
    refusing = Break("generation", 0.6, 0.7, state="not_known", reason="refused", component="model")
    (rise,) = walk(fill(refusing)).rises
    assert (rise.stage, rise.state, rise.suspected_release) == ("generation", "doubted", "model=model-bad")
    assert rise.finding.endswith("an answer that declines")
    fill(count=300, end=END - 60 * MINUTE, segments=("mute",), start=START + 1)
    refused: Any = {"retrieval": ("not_known", "refused")}
    store = fill(count=100, start=END - 60 * MINUTE + 1, unjudged=refused, segments=("mute",))
    assert walk(store, "mute").rises == ()


def test_what_is_no_longer_known_is_a_finding_too(fill: Fill) -> None:
    """Texts that are no longer recorded: since when, with what release, and whose it is."""
    silent = Break("generation", 0.9, 0.7, state="not_known", reason="not_recorded", component="model")
    report = walk(fill(silent))
    (rise,) = report.rises
    assert (rise.stage, rise.state, rise.suspected_release) == ("generation", "not_known", "model=model-bad")
    assert rise.finding.startswith(("not known: rises from 0 % to 8", "not known: rises from 0 % to 9"))
    assert rise.finding.endswith("texts that were not recorded")
    assert report.stage is None


def test_suspected_requests_tell_nothing_of_later_stages(fill: Fill) -> None:
    """Behind a suspected retrieval a broken ranking counts for nothing: it may be the consequence."""

    class Behind(Traffic):
        def findings(self, broken: Break | None) -> tuple[StageFinding, ...]:
            changed = {"retrieval": "suspected", "ranking": "broken"}
            return tuple(replace(one, state=changed.get(one.stage, one.state)) for one in super().findings(broken))

    store = fill(count=0)
    store_traffic(store, Behind(200, START, END))
    report = walk(store)
    assert report.stage is None
    assert report.checks[1].now.of == 0


def test_a_service_of_which_nothing_can_be_judged_is_said_first(fill: Fill) -> None:
    """Why, and what would help; that ranking is sound, where nothing was left out, does not hide it."""
    unknown: Any = {**UNKNOWN, "generation": ("suspected", "unsupported")}
    report = walk(fill(unjudged=unknown, inapplicable=("citation",)))
    assert report.conclusion.startswith(
        "Next to nothing can be judged: retrieval in 0 of 300 requests (mostly no proof either way); generation in 0 "
        "of 300 requests (mostly claims weakly supported by the prompt). What would help: "
    )
    for remedy in ("facets=", "ragtrace gold import", "--judge entails=MODEL"):
        assert remedy in report.conclusion
    assert {each.stage: each.judged.count for each in report.judgeable} == {
        "retrieval": 0,
        "ranking": 300,
        "generation": 0,
    }
    assert "Next to nothing" not in walk(fill(count=400, start=START + 1)).conclusion


def test_a_stage_that_does_not_apply_is_not_asked(fill: Fill) -> None:
    """A service that does not cite has three stages, and all of them are fine."""
    report = walk(fill(inapplicable=("citation",)))
    assert states(report)["citation"] == "not_checked"
    assert "does not apply" in report.checks[-1].finding
    assert report.conclusion == "no stage is broken: all that apply are within their objectives."


def test_requests_that_an_earlier_version_judged_do_not_count(fill: Fill) -> None:
    """Half of them say nothing by these rules, whatever their verdict was; all of them say what to do."""
    store = fill(Break("retrieval", 1.0, 0.0), count=100, outdated=True)
    report = walk(store)
    assert report.stage is None
    assert report.conclusion == (
        "no stage can be judged: 100 of 100 requests are not judged by these rules "
        "(ragtrace analyze --redo judges anew)."
    )
    report = walk(fill(start=START + 1))
    assert report.range is not None
    assert (report.range.outdated, report.range.analyzed) == (100, 600)
    assert report.conclusion.startswith("no stage is broken")
    assert "100 of 700 requests are not judged by these rules" in report.conclusion


def test_what_two_judges_say_is_not_mixed(fill: Fill) -> None:
    """New rules call more broken than the old ones: that is no break that began with them, and both are told."""
    fill(count=300, end=END - 60 * MINUTE)
    store = fill(Break("generation", 0.04, 0.0), count=100, start=END - 60 * MINUTE, judge="j-2")
    report = walk(store)
    assert report.range is not None
    assert (report.range.judge, report.stage) == ("j-1", None)
    assert "300 requests without gold evidence by judge j-1 show" in report.conclusion
    assert "100 requests without gold evidence by judge j-2, no stage is broken" in report.conclusion


def test_a_break_under_either_judge_is_a_break(fill: Fill) -> None:
    """The rarer judge alone sees it."""
    fill(count=400)
    store = fill(Break("ranking", 0.8, 0.5), count=100, start=START + 1, judge="j-2")
    report = walk(store)
    assert report.range is not None
    assert (report.range.judge, report.stage) == ("j-2", "ranking")


def test_kinds_of_requests_are_counted_and_are_no_break(fill: Fill) -> None:
    """Greetings need no retrieval, and an answer that declines breaks nothing by its form."""
    fill(count=200, unjudged={"generation": ("not_known", "refused")}, segments=("declined",))
    fill(count=40, inapplicable=tuple(OWNERS), start=START + 1, segments=("hello",))
    report = walk(fill(count=400, start=START + 2))
    assert report.range is not None
    assert (report.range.refused, report.range.no_retrieval, report.range.errors) == (200, 40, 0)
    assert report.stage is None
    assert "40 needed no retrieval, 200 declined" in looked_at(report)
    assert "40 of 40 requests needed no retrieval" in walk(fill(count=0), "hello").conclusion


def test_a_greeting_is_not_why_few_requests_tell_nothing(fill: Fill) -> None:
    """What is missing is named: requests that can be judged, and what to do."""
    fill(count=5, segments=("asked",))
    store = fill(count=1, inapplicable=tuple(OWNERS), start=START + 1, segments=("hello",))
    conclusion = walk(store).conclusion
    assert conclusion.startswith("not enough data: 5 requests ")
    assert "(1 more needed no retrieval); at least 10 are needed: look further back" in conclusion


def test_a_component_that_is_new_to_the_service_is_suspected(fill: Fill) -> None:
    """It replaced nothing; it came when the break began, and the service had requests before it."""
    versions = {"index": "i-1", "model": "m-1"}
    report = walk(fill(Break("ranking", 0.6, 0.75, component="reranker"), versions=versions))
    assert (report.stage, report.suspected_release) == ("ranking", "reranker=reranker-bad")
    assert "reranker=reranker-bad came at" in report.release_note
    assert "new to this service" in report.release_note
    assert [each.is_new for each in report.suspects] == [True]


def test_a_component_that_came_long_before_the_break_is_not_suspected(fill: Fill) -> None:
    """New or not, it is matched to the break by time."""
    versions = {"index": "i-1", "model": "m-1"}
    store = fill(Break("ranking", 0.0, 0.3, component="reranker"), Break("ranking", 0.6, 0.8), versions=versions)
    report = walk(store)
    assert (report.stage, report.suspected_release) == ("ranking", None)
    assert "no release fits" in report.release_note


def test_requests_are_thinned_out_evenly(fill: Fill) -> None:
    """A limit reads a part, names how large it is, and finds the same."""
    report = walk(fill(Break("retrieval", 0.5, 0.75, component="index"), count=3000), limit=300)
    assert report.range is not None
    assert (report.range.requests, report.range.read) == (3000, 300)
    assert report.suspected_release == "index=index-bad"
