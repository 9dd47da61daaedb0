"""The overview's arithmetic: shares and expenses that are weighted to be of the traffic."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from ragtrace.registry.instruments import STAGES
from ragtrace.store import DiagnosisSummary, Release
from ragtrace.web._drawings import _apart
from ragtrace.web._overview import (
    _DRAWN,
    End,
    _breaks,
    _conclusion,
    _marks,
    _releases,
    _service_cell,
    _stage_lines,
    _trend,
    _worst_segments,
)
from ragtrace.web._tallies import expense_lines, tallied, tallied_slices, united

SOUND, BROKEN = ("sound", None, "sound", None), ("sound", None, "broken", None)


def glance(states: tuple[str | None, ...], probability: float, expenses: str | None = None) -> DiagnosisSummary:
    """A request that was kept with this probability."""
    found = ("r", "s", 1, probability, "no_break_found", None, None, None, expenses, states, (None,) * 4)
    return DiagnosisSummary._make(found)


def test_requests_that_are_alike_are_counted_as_each_for_itself() -> None:
    """A broken one in ten of a rate of 1, and one of a rate of 0.1, which stands for ten."""
    ones = [*[glance(SOUND, 1.0)] * 9, glance(BROKEN, 1.0), glance(BROKEN, 0.1)]
    tallies = tallied(("all", one) for one in ones)
    assert sorted(tallies) == [("all", 0), ("all", 2)]
    share = tallies["all", 2].indicator()
    assert share is not None
    assert share.value == pytest.approx(11 / 20)
    assert (share.count, share.of) == (2, 11)
    assert tallies["all", 2].squares == pytest.approx(110)
    whole = tallies["all", 0].indicator()
    assert whole is not None
    assert whole.value == 0.0


def test_the_worst_segments_are_those_with_the_highest_share() -> None:
    """A small one where nearly all break comes before a large one with more breaks; too small ones are left out."""

    def of(segment: str, count: int, broken: int) -> list[DiagnosisSummary]:
        ids = (f"{segment}-{'broken' if place < broken else 'sound'}-{place}" for place in range(count))
        return [glance(SOUND, 1.0)._replace(request_id=one, segment=segment) for one in ids]

    during = [*of("large", 100, 30), *of("small", 12, 11), *of("tiny", 7, 7), *of("sound", 50, 0)]
    worst = _worst_segments(during, {one.request_id for one in during if "broken" in one.request_id})
    assert [(name, share.count, share.of) for name, share in worst] == [("small", 11, 12), ("large", 30, 100)]


def test_a_service_among_others_has_states_budget_and_trend() -> None:
    """The states in their shares, whether the interval is beyond what is allowed, and a bar for each slice that has
    broken requests; a stage that does not apply has nothing."""
    slices = [[*[glance(SOUND, 1.0)] * 8, *[glance(BROKEN, 1.0)] * 4], [glance(SOUND, 1.0)] * 12, []]
    by_slice = tallied_slices(slices)
    whole = united(by_slice)
    generation, ranking = _service_cell(2, whole[2], by_slice), _service_cell(1, whole[1], by_slice)
    assert (generation.stage, generation.verdict, ranking.broken) == ("generation", "over", None)
    assert {state: share for state, _, share in generation.states if share} == pytest.approx(
        {"sound": 20 / 24, "broken": 4 / 24}
    )
    assert generation.spent == pytest.approx(4 / 24 / (1 - STAGES[2].target))
    assert generation.trend is not None
    assert generation.trend.count('class="broken"') == 1
    assert _service_cell(0, whole[0], by_slice).verdict == "unclear"


def test_a_stage_counts_as_alerts_count_it() -> None:
    """Broken among the judged requests in which no earlier stage is broken or suspected; nothing of a stage that no
    request tells of."""
    ones = [
        *[glance(("sound", "sound", "sound", None), 1.0)] * 6,
        *[glance(("sound", "sound", "broken", None), 1.0)] * 2,
        *[glance(("sound", "sound", "not_known", None), 1.0)] * 20,
        *[glance(("sound", "suspected", "broken", None), 1.0)] * 5,
        *[glance(("broken", "not_known", "sound", None), 1.0)] * 3,
    ]
    by_slice = tallied_slices([ones])
    whole = united(by_slice)
    shares = [whole[place].indicator() for place in range(3)]
    assert [(share.count, share.of) for share in shares if share is not None] == [(3, 36), (0, 28), (2, 8)]
    assert _service_cell(2, whole[2], by_slice).verdict == "over"
    unjudged = tallied_slices([[glance(("not_known", None, "suspected", None), 1.0)] * 30])
    cell = _service_cell(0, united(unjudged)[0], unjudged)
    assert (cell.broken, cell.verdict, cell.spent) == (None, "unjudged", 0.0)
    assert cell.bar is not None
    assert _service_cell(1, united(unjudged)[1], unjudged).bar is None


def test_the_conclusion_calls_no_stage_within_its_objective_that_is_not() -> None:
    """What is within, what too few judged requests tell, and what none does are told apart."""
    ones = [glance(("sound", "not_known", "sound", None), 1.0)] * 900 + [
        glance(("sound", "not_known", None, None), 1.0)
    ]
    known = [*ones, *[glance((None, None, None, "sound"), 1.0)] * 3]
    lines = tuple(_stage_lines(known, united(tallied_slices([known])), lambda **_: ""))
    assert _conclusion(lines, (), len(known)) == (
        "No stage is certainly over its objective. Citation: too few judged requests to say; ranking: none is judged; "
        "retrieval and generation: within the objective.",
    )


def break_of(sound_behind: int) -> list[DiagnosisSummary]:
    """Forty sound requests, forty of which every second one breaks at generation with a release, and sound ones."""
    bad = glance(("sound", "sound", "broken", None), 1.0)._replace(stage="generation", suspected_rollout="model=m-2")
    good = glance(("sound", "sound", "sound", None), 1.0)
    ones = [good] * 40 + [good, bad] * 20 + [good] * sound_behind
    return [
        one._replace(request_id=f"r{place}", started_at=place, segment="late" if place >= 60 else "early")
        for place, one in enumerate(ones)
    ]


def test_a_stage_that_has_recovered_is_told_from_one_that_burns() -> None:
    """By the requests behind the break: enough sound ones end it, few leave it open; what burns is said first."""
    for behind, verdict in ((60, "recovered"), (4, "over")):
        known = break_of(behind)
        lines = tuple(_stage_lines(known, united(tallied_slices([known])), lambda **_: ""))
        (one,) = _breaks(known, (), lambda **_: "")
        line = next(line for line in lines if line.name == "generation")
        assert line.verdict == verdict
        assert (one.ended is None) == (line.ended is None) == (verdict == "over")
        assert one.course == ("over" if verdict == "recovered" else "goes on")
        (said,) = _conclusion(lines, (one,), len(known))
        assert said.startswith("Generation broke" if one.ended else "Generation breaks")
        assert ("; recovered since" in said) == (verdict == "recovered")
        if line.ended is not None:
            assert (line.ended.since, line.ended.count, line.ended.of) == (80, 0, 60)
        else:
            assert one.judged_since == 4
    (few,) = _breaks([*break_of(0)[:40], break_of(0)[41]], (), lambda **_: "")
    (unclear,) = _breaks([*break_of(0)[40:70], *break_of(9)[-9:]], (), lambda **_: "")
    assert (few.course, unclear.course) == ("few", "unclear")
    burning = lines[2]
    assert [
        said.split()[0]
        for said in _conclusion(
            (replace(burning, name="retrieval", verdict="recovered", ended=End(1, 0, 20), spent=99.0), burning), (), 9
        )
    ] == ["Generation", "Retrieval"]


def test_a_group_s_example_is_of_its_worst_segment() -> None:
    """Though most of the group, and the one in its middle, are of another."""
    sound, bad = (one for one in break_of(0)[40:42])
    ones = [bad] * 10 + [sound, sound, bad] * 15
    known = [
        one._replace(request_id=f"r{place}", started_at=place, segment="rare" if place < 10 else "large")
        for place, one in enumerate(ones)
    ]
    (found,) = _breaks(known, (), lambda **_: "")
    assert [name for name, _ in found.segments] == ["rare", "large"]
    assert (found.example_segment, found.example) == ("rare", "r5")


def test_a_bar_leads_to_requests_that_the_list_shows() -> None:
    """To those that broke at the stage first; where none did, to all of its slice."""
    doubtful = glance(("sound", None, "suspected", None), 1.0)
    after = glance(("broken", None, "broken", None), 1.0)
    slices = [[glance(SOUND, 1.0), glance(BROKEN, 1.0)], [glance(SOUND, 1.0), doubtful], [after]]
    by_slice = tallied_slices(slices)
    links: list[dict[str, object]] = []

    def link(**filters: object) -> str:
        links.append(filters)
        return "/requests"

    lines = [
        line
        for line in _stage_lines([*slices[0], *slices[1], *slices[2]], united(by_slice), link)
        if line.name == "generation"
    ]
    links.clear()
    _trend(by_slice, [0, 10, 20, 30], (), lines, link)
    assert [found.get("stage") for found in links] == ["generation", None, None]


@pytest.mark.parametrize(
    ("seconds", "labels"), [(0.2, ["12:00:00"]), (1.8, ["12:00:00", "12:00:01"]), (40, None)], ids=str
)
def test_the_axis_has_each_time_once(seconds: float, labels: list[str] | None) -> None:
    """A burst of a fifth of a second has one label; what is long enough has five."""
    noon, second = 1_700_049_600 * 1_000_000_000, 1_000_000_000
    ones = [glance(SOUND, 1.0)] * 3
    by_slice = tallied_slices([ones])
    lines = tuple(_stage_lines(ones, united(by_slice), lambda **_: ""))
    picture = _trend(by_slice, [noon, noon + int(seconds * second)], (), lines, lambda **_: "")
    found = re.findall(r">(\d\d:\d\d:\d\d)<", str(picture))
    assert len(found) == len(set(found))
    assert found == labels if labels else len(found) == 5


def test_releases_of_one_moment_have_numbers_of_their_own() -> None:
    """Side by side on the axis, none behind its end; of many those that are suspected are drawn, then the newest."""
    assert _marks([(5, "index=i-2"), (5, "rewriter=r-2")], set()) == [(1, 5, "index=i-2"), (2, 5, "rewriter=r-2")]
    places = _apart([100.0, 100.0, 101.0, 990.0, 1000.0], 1000.0)
    assert all(after - before >= 22 for before, after in pairwise(places))
    assert places[0] == 100.0
    assert places[-1] == 1000.0
    many = [(at, f"prompt={at}") for at in range(_DRAWN + 10)]
    chosen = [version for _, _, version in _marks(many, {"prompt=0"})]
    assert len(chosen) == _DRAWN
    assert chosen[:2] == ["prompt=0", "prompt=11"]
    assert chosen[-1] == many[-1][1]


def test_only_what_changed_the_service_is_a_release() -> None:
    """The first hash of a prompt is inferred by and by, and an index that the third request names was there before."""
    day = 86_400_000_000_000
    known = [
        Release("shop", "model", "m-1", 0),
        Release("shop", "index", "i-1", 3),
        Release("shop", "prompt_hash", "a", 9),
        Release("shop", "prompt_hash", "b", day),
        Release("shop", "reranker", "r-1", day + 1),
    ]
    assert _releases(known, 0, 2 * day) == [(day, "prompt_hash=b"), (day + 1, "reranker=r-1")]
    assert _releases(known, 0, day) == []


def test_expenses_are_means_of_the_traffic_and_say_who_counted() -> None:
    """A request at a rate of 0.5 counts twice; one that is not priced is no zero."""
    first = glance(SOUND, 1.0, '{"generate":[1000,10,null,"reported",0.5]}')
    second = glance(SOUND, 0.5, '{"generate":[4000,40,null,"estimate",null],"pack":[7,null,9,"estimate",null]}')
    pack, made = expense_lines([first, second, glance(SOUND, 1.0)])
    assert (pack.stage, pack.written, pack.cost, pack.counted) == ("pack", 9.0, None, "estimated")
    assert (made.requests, made.median_ms, made.slow_ms) == (2, 4.0, 4.0)
    assert made.read == pytest.approx(30)
    assert made.written is None
    assert (made.cost, made.priced) == (0.5, 1)
    assert made.counted == "as reported 50%, estimated 50%"
