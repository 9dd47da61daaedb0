"""Rises of doubt: how often one is found where there is none, and where there is one; and where it began."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping

import pytest

from ragtrace.store import Sampled
from ragtrace.triage._checks import check, doubts
from ragtrace.triage._evidence import TrafficSample, Window
from ragtrace.triage._statistics import has_risen
from ragtrace.types import Stage, StageState

HOUR = 3_600_000_000_000
STAGES: tuple[Stage, ...] = ("retrieval", "ranking", "generation")
USUAL = 0.15
WALKS = 100


def state_of(draw: float, suspected: float) -> StageState:
    """One in a hundred broken, so many suspected, a quarter not known."""
    bounds: tuple[tuple[float, StageState], ...] = ((0.01, "broken"), (suspected, "suspected"), (0.25, "not_known"))
    for share, state in bounds:
        if draw < share:
            return state
        draw -= share
    return "sound"


def sample(rows: Iterable[tuple[dict[Stage, StageState], Collection[str]]]) -> TrafficSample:
    """Two days of requests: the states of each, and the stages that are in doubt, or `distant`."""
    given = list(rows)
    drawn = tuple(
        Sampled(
            request_id=str(number), segment="a", started_at=int(number / len(given) * 48 * HOUR), head_probability=1.0,
            analyzer_version="8", verdict="no_break_found", reference="proxy", stage=None, cause=None,
            suspected_rollout=None, states=states, reasons={}, scores={}, judge="j-1",
            doubted=frozenset(STAGES).intersection(doubted), is_distant="distant" in doubted,
        )
        for number, (states, doubted) in enumerate(given)
    )  # fmt: skip
    return TrafficSample("shop", None, Window(24 * HOUR, 48 * HOUR, 0), drawn, len(drawn), len(drawn))


def traffic(seed: int, count: int, late: float) -> TrafficSample:
    """Requests whose stages are in doubt where they are broken or suspected; in the last quarter retrieval `late`."""
    chance = random.Random(seed)

    def one(number: int) -> tuple[dict[Stage, StageState], Collection[Stage]]:
        shares = dict.fromkeys(STAGES, USUAL) | ({"retrieval": late} if number / count > 0.75 else {})
        states: dict[Stage, StageState] = {stage: state_of(chance.random(), shares[stage]) for stage in STAGES}
        return states, [stage for stage in STAGES if states[stage] in ("broken", "suspected")]

    return sample(map(one, range(count)))


def rises(sample: TrafficSample) -> list[Stage]:
    """The stages that are in doubt or not known more often than before."""
    (evidence,) = sample.by_judge()
    found = doubts(evidence)
    return [
        stage for stage in STAGES for one in check(evidence, stage, found[stage].unjudged).unjudged if one.has_risen
    ]


def test_steady_shares_do_not_rise() -> None:
    """Of a hundred walks over three stages, chance may make two find something."""
    assert sum(bool(rises(traffic(seed, 400, USUAL))) for seed in range(WALKS)) <= 2


@pytest.mark.parametrize(("count", "least"), [(400, 40), (2_000, 100)])
def test_a_rise_is_found_where_requests_suffice(count: int, least: int) -> None:
    """From 15 to 35 %: in about half of the walks over 400 requests, in all over 2,000."""
    walks = WALKS if count < 1_000 else 10
    hits = sum("retrieval" in rises(traffic(seed, count, 0.35)) for seed in range(walks))
    assert hits * WALKS / walks >= least


def test_shares_on_both_sides_need_requests() -> None:
    """Nineteen of nineteen against none of a thousand prove nothing; twenty do, and weights count."""
    none = [(False, 1.0)] * 1_000
    assert not has_risen([(True, 1.0)] * 19, none)
    assert has_risen([(True, 1.0)] * 20, none)
    assert not has_risen([(True, 1.0)] * 20, none[:19])
    one_of_great_weight = [(True, 1_000.0), *[(False, 1.0)] * 99]
    assert not has_risen(one_of_great_weight, none)


def test_a_share_that_fell_or_grew_a_little_has_not_risen() -> None:
    """Four points of very many are certain, and not worth a word."""
    before = [(number % 100 < 10, 1.0) for number in range(10_000)]
    assert not has_risen([(number % 100 < 14, 1.0) for number in range(10_000)], before)
    assert has_risen([(number % 100 < 16, 1.0) for number in range(10_000)], before)
    assert not has_risen([(number % 100 < 4, 1.0) for number in range(10_000)], before)


def of_shares(count: int = 2_000, states: Mapping[Stage, StageState] | None = None, **late: float) -> TrafficSample:
    """Requests of which a tenth is in doubt at each stage, in the last quarter this share, evenly and apart."""

    def one(number: int) -> tuple[dict[Stage, StageState], Collection[str]]:
        shares = dict.fromkeys((*STAGES, "distant"), 0.1) | (late if number / count >= 0.75 else {})
        steps = dict(zip(shares, (37, 61, 83, 71), strict=True))  # each goes through all hundredths
        doubted = [name for name, step in steps.items() if number * step % 100 < shares[name] * 100]
        return {stage: (states or {}).get(stage, "sound") for stage in STAGES}, doubted

    return sample(map(one, range(count)))


def located(drawn: TrafficSample) -> dict[Stage, tuple[Stage | None, tuple[Stage, ...]]]:
    """The stages whose doubt has risen: where that began, and where it is not sure whether it did."""
    (evidence,) = drawn.by_judge()
    found = {stage: doubt.unjudged for stage, doubt in doubts(evidence).items()}
    return {stage: (one.follows, one.unsure) for stage, one in found.items() if one.has_risen}


def test_a_rise_begins_at_the_first_stage_that_rose_with_it() -> None:
    """A break of retrieval makes all behind it doubtful, one of generation nothing before it."""
    follows = {"ranking": ("retrieval", ()), "generation": ("retrieval", ())}
    assert located(of_shares(retrieval=0.3, ranking=0.4, generation=0.5)) == {"retrieval": (None, ()), **follows}
    assert located(of_shares(ranking=0.3, generation=0.5)) == {
        "ranking": (None, ()),
        "generation": ("ranking", ()),
    }
    assert located(of_shares(generation=0.5)) == {"generation": (None, ())}


def test_more_answers_far_from_their_questions_are_a_rise_of_generation() -> None:
    """Where no more of them are in doubt; it follows from an earlier stage as any other does."""
    drawn = of_shares(distant=0.3)
    assert located(drawn) == {"generation": (None, ())}
    (evidence,) = drawn.by_judge()
    told = doubts(evidence)["generation"]
    assert (told.what, told.unjudged.reasons[0].words) == ("distant", "answers far from their questions")
    assert check(evidence, "generation", told.unjudged).finding.startswith("no break is proven, but more is in doubt")
    assert located(of_shares(retrieval=0.3, distant=0.4)) == {
        "retrieval": (None, ()),
        "generation": ("retrieval", ()),
    }
    small = of_shares(8_000, retrieval=0.135, distant=0.17)
    assert located(small) == {"retrieval": (None, ()), "generation": ("retrieval", ())}
    (evidence,) = small.by_judge()
    assert doubts(evidence)["retrieval"].what == "doubted"


def test_a_rise_too_small_to_be_clear_is_told_where_a_clear_one_follows_from_it() -> None:
    """Four points are certain of so many requests, and by themselves not worth a word."""
    assert located(of_shares(8_000, retrieval=0.135)) == {}
    drawn = of_shares(8_000, retrieval=0.135, generation=0.17)
    assert located(drawn) == {"retrieval": (None, ()), "generation": ("retrieval", ())}
    (evidence,) = drawn.by_judge()
    told = doubts(evidence)["retrieval"].unjudged
    assert told.before.share == pytest.approx(0.1, abs=0.01)
    assert told.now.share == pytest.approx(0.14, abs=0.01)


def test_a_small_rise_is_not_the_cause_of_a_large_one() -> None:
    """A quarter of it decides, surely above or surely below; between the two nobody is sure, and that is said."""
    assert located(of_shares(4_000, retrieval=0.12, generation=0.7)) == {"generation": (None, ())}
    assert located(of_shares(2_000, retrieval=0.14, generation=0.3)) == {"generation": (None, ("retrieval",))}


def test_an_earlier_stage_that_is_suspected_hides_no_doubt() -> None:
    """Doubt is counted among all requests: whatever the answer makes of an earlier stage, its share stays the same."""
    assert list(located(of_shares(states={"retrieval": "suspected"}, ranking=0.5))) == ["ranking"]


def test_what_answers_make_of_retrieval_is_no_rise_of_it() -> None:
    """Answers that decline cast suspicion on retrieval; it is generation that is in doubt more often."""

    def one(number: int) -> tuple[dict[Stage, StageState], Collection[Stage]]:
        declines = number >= 750 and number % 2
        states: dict[Stage, StageState] = {
            "retrieval": "suspected" if declines else "sound",
            "ranking": "sound",
            "generation": "not_known" if declines else "sound",
        }
        return states, ["generation"] if declines else []

    assert located(sample(map(one, range(1_000)))) == {"generation": (None, ())}
