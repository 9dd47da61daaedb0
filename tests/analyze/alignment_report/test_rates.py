"""Failure rates and WARG by group, beside floor and chance."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest

from ragtrace.alignment import warg, warg_chance, warg_floor, wasted_retrieval
from ragtrace.analyze.alignment import align
from ragtrace.analyze.alignment_report._rates import (
    ExplainedRequest,
    GroupRates,
    Observation,
    observed,
    place_shares,
    rates,
)
from ragtrace.explanations import Explanation, GeneratorAttribution
from tests.analyze.alignment_report.explained import request


def _observation(
    order: Sequence[str],
    request_id: str = "r",
    scorer: str = "m-1",
    unit: Literal["log_probability", "similarity"] = "log_probability",
    **fields: Any,
) -> Observation:
    """A request whose retriever ranks a, b, c ... and whose answer uses documents in this order."""
    documents = sorted(order)
    shares = tuple(-float(order.index(each)) for each in documents)
    generator = GeneratorAttribution(chunk_ids=tuple(documents), shares=shares, model=scorer, unit=unit)
    explanation = Explanation(generator=generator, alignment=align(documents, generator))
    found = observed(ExplainedRequest(request(request_id, "".join(documents), **fields), explanation, drawn=True))
    assert found is not None
    return found


def _heads(rows: Sequence[GroupRates]) -> list[tuple[str | int | None, ...]]:
    return [(row.group.condition, row.group.segment, row.group.k, row.requests) for row in rows]


def test_all_orders_meet_floor_and_chance() -> None:
    """Over all orders the rates are at chance; over equal rankings WARG is at its floor."""
    orders = list(itertools.permutations("abcde"))
    [row] = rates([_observation(order, f"r{at}") for at, order in enumerate(orders)])
    [equal] = rates([_observation("abcde")])

    for rate in (row.wasted_retrieval, row.noise_distraction):
        assert rate.estimate is not None
        assert rate.estimate.mean == pytest.approx(0.4)
        assert rate.chance == pytest.approx(0.4)
        assert rate.floor == 0.0
    for each, same in zip(row.sweep, equal.sweep, strict=True):
        assert each.warg.estimate is not None
        assert each.adjusted.estimate is not None
        assert same.warg.estimate is not None
        assert each.warg.estimate.mean == pytest.approx(warg_chance(5, each.p)) == pytest.approx(each.warg.chance)
        assert each.adjusted.estimate.mean == pytest.approx(1)
        assert same.warg.estimate.mean == pytest.approx(warg_floor(5, each.p)) == pytest.approx(same.warg.floor)


def test_rows_for_the_whole_then_by_documents_then_by_segment() -> None:
    """Numbers of documents and segments have rows of their own only where there are several."""
    one = [_observation("abcd", "r1", segment="x"), _observation("dcba", "r2", segment="x")]
    many = [*one, _observation("abcde", "r3", segment="y")]

    assert _heads(rates(one)) == [("original", None, 4, 2)]
    assert _heads(rates(many)) == [
        ("original", None, None, 3),
        ("original", None, 4, 2),
        ("original", None, 5, 1),
        ("original", "x", 4, 2),
        ("original", "y", 5, 1),
    ]


def test_models_scorers_and_conditions_are_never_mixed() -> None:
    """What answered, what measured it, and the condition make groups; the original one comes first."""
    found = rates(
        [
            _observation("abcd"),
            _observation("abcd", scorer="m-2"),
            _observation("abcd", unit="similarity"),
            _observation("abcd", attributes={"condition": "shuffled"}),
            _observation("abcd", versions={"condition": "deduplicated"}),
        ]
    )

    assert [(row.group.model, row.group.attributed_by, row.group.condition) for row in found] == [
        ("m-1", "m-1", "original"),
        ("m-1", "m-1", "deduplicated"),
        ("m-1", "m-1", "shuffled"),
        ("m-1", "m-1, likeness of answers", "original"),
        ("m-1", "m-2", "original"),
    ]


def test_a_mixture_stands_beside_its_own_floor_and_chance() -> None:
    """Weighted as the values are: a request kept with probability 1/3 counts three times."""
    few, many = _observation("dcba", "r1"), _observation("abcdefgh", "r2", head_probability=1 / 3)
    mixture = rates([few, many])[0]

    assert mixture.group.ks == (4, 8)
    assert mixture.wasted_retrieval.chance == pytest.approx((1 / 4 + 3 * 5 / 8) / 4)
    assert mixture.wasted_retrieval.estimate is not None
    assert mixture.wasted_retrieval.estimate.mean == pytest.approx(1 / 4)
    last = mixture.sweep[-1]
    assert last.p == 0.9
    assert last.warg.chance == pytest.approx((warg_chance(4, 0.9) + 3 * warg_chance(8, 0.9)) / 4)
    assert last.warg.floor == pytest.approx((0.9**4 + 3 * 0.9**8) / 4)
    assert last.warg.estimate is not None
    assert last.warg.estimate.mean == pytest.approx((warg(list("abcd"), list("dcba"), 0.9) + 3 * 0.9**8) / 4)


def test_three_documents_have_a_warg_and_no_flags() -> None:
    """A rate is over the requests in which it is defined; without any it is undefined, and so is its chance."""
    short = _observation("cab", "r1")
    [row] = rates([short])
    mixed = rates([short, _observation("dcba", "r2")])[0]

    assert wasted_retrieval(list("abc"), list("cab")) is None
    assert (row.wasted_retrieval.estimate, row.wasted_retrieval.chance) == (None, None)
    assert row.sweep[0].warg.estimate is not None
    assert (mixed.requests, mixed.noise_distraction.estimate and mixed.noise_distraction.estimate.requests) == (2, 1)


def test_the_same_seed_gives_the_same_intervals() -> None:
    """And another one others."""
    draw = np.random.default_rng(0)
    found = [_observation([str(each) for each in draw.permutation(list("abcdef"))], f"r{at}") for at in range(30)]

    assert rates(found, seed=4) == rates(found, seed=4) != rates(found, seed=5)


def test_nothing_gives_no_rows() -> None:
    """No observation, no group."""
    assert rates([]) == []


def test_spearman_beside_warg() -> None:
    """Equal rankings have 1, and the mean over all orders is 0."""
    orders = list(itertools.permutations("abcd"))
    [row] = rates([_observation(order, f"r{at}") for at, order in enumerate(orders)])
    [equal] = rates([_observation("abcd")])
    assert row.spearman.estimate is not None
    assert equal.spearman.estimate is not None
    assert row.spearman.estimate.mean == pytest.approx(row.spearman.chance, abs=1e-12) == pytest.approx(0, abs=1e-12)
    assert equal.spearman.estimate.mean == pytest.approx(equal.spearman.floor) == pytest.approx(1)


def test_shares_by_place_in_the_prompt() -> None:
    """A mean for each place and number of documents, weighted as the rates are; conditions stand apart."""
    many = [_observation("abc"), _observation("bac", "r1", head_probability=0.5), _observation("ba", "r2")]
    shuffled = _observation("cab", "r3", attributes={"condition": "shuffled"})
    found = place_shares([*many, shuffled])
    assert [(each.group.condition, each.group.k, each.places[0].requests) for each in found] == [
        ("original", 2, 1),
        ("original", 3, 2),
        ("shuffled", 3, 1),
    ]
    assert [each.mean for each in found[1].places] == pytest.approx([-2 / 3, -1 / 3, -2])
    assert [each.mean for each in found[2].places] == pytest.approx([-1, -2, 0])
