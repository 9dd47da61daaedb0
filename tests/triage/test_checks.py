"""How often a rise of suspicion is found where there is none, and where there is one."""

from __future__ import annotations

import random

import pytest

from ragtrace.store import Sampled
from ragtrace.triage.checks import check
from ragtrace.triage.evidence import Sample, Window
from ragtrace.triage.statistics import has_risen
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


def traffic(seed: int, count: int, late: float) -> Sample:
    """Two days of requests; in the last quarter retrieval is suspected in the share `late`."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        is_late = number / count > 0.75
        states = {
            stage: state_of(chance.random(), late if is_late and stage == "retrieval" else USUAL) for stage in STAGES
        }
        rows.append(
            Sampled(
                request_id=str(number), segment="a", started_at=int(number / count * 48 * HOUR), head_probability=1.0,
                analyzer_version="8", verdict="no_break_found", reference="proxy", stage=None, cause=None,
                suspected_rollout=None, states=states, reasons={}, scores={}, judge="j-1",
            )
        )  # fmt: skip
    return Sample("shop", None, Window(24 * HOUR, 48 * HOUR, 0), tuple(rows), count, count)


def rises(sample: Sample) -> list[Stage]:
    """The stages that are suspected or not known more often than before."""
    (evidence,) = sample.by_judge()
    return [stage for stage in STAGES for one in check(evidence, stage).unjudged if one.has_risen]


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
