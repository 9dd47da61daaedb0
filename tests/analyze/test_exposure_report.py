"""Exposure by provider over a window of recorded requests."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ragtrace.analyze.exposure_report import OTHERS, UNNAMED, ExposureReport, exposure_report
from ragtrace.errors import ConfigurationError
from ragtrace.exposure import inclusion_probabilities, log_probability, sample_rankings
from ragtrace.store import Finished, Store
from ragtrace.types import (
    Analysis,
    Candidate,
    Citation,
    Claim,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    RequestRecord,
    RetrieveRun,
    SampledRanking,
    replace,
)

MINUTE = 60_000_000_000
START = 1_700_000_000_000_000_000
PROVIDERS = ("north", "south", "east")


def record(
    number: int, packed: tuple[int, ...], *, at: int = START, version: str = "i-1", **changes: object
) -> RequestRecord:
    """A request with two candidates of each provider, of which these stand in the prompt."""
    candidates = tuple(
        Candidate(chunk_id=f"c{place}", rank=place + 1, source=PROVIDERS[place % 3], text="words") for place in range(6)
    )
    chunks = tuple(PackedChunk(chunk_id=f"c{place}", position=at) for at, place in enumerate(packed, 1))
    stages = (
        RetrieveRun(candidates=candidates),
        PackRun(packing=Packing(chunks=chunks)),
        GenerateRun(generation=Generation(answer="It is so.")),
    )
    whole: dict[str, object] = {
        "request_id": f"r{number:05}",
        "service": "s",
        "stages": stages,
        "versions": {"index": version},
        "started_at": at + number,
        "ended_at": at + number + 1,
        **changes,
    }
    return RequestRecord(**whole)  # type: ignore[arg-type]


def analysis(record: RequestRecord, useful: tuple[int, ...], used: tuple[int, ...]) -> Analysis:
    """An analysis that names these chunks as the reference, and an answer that these support."""
    claim = Claim(
        start=0,
        end=9,
        text="It is so.",
        support=0.9,
        supports={f"c{place}": 0.9 for place in used},
        contradictions={"c1": 0.8},
        citations=(Citation(marker="[1]", chunk_id="c2"),),
    )
    return Analysis(
        request_id=record.request_id,
        analyzer_version="v",
        reference="proxy" if useful else "none",
        reference_chunks=tuple(f"c{place}" for place in useful),
        claims=(claim,),
    )


@pytest.fixture
def fill(store: Store) -> Callable[..., None]:
    """Store and analyze requests."""

    def write(records: list[RequestRecord], useful: tuple[int, ...], used: tuple[int, ...] = (0,)) -> None:
        store.write(records)
        jobs = store.claim("test", limit=len(records))
        by_id = {each.request_id: each for each in records}
        store.finish([Finished(job, analysis(by_id[job.request_id], useful, used)) for job in jobs])

    return write


def report(store: Store, **changes: object) -> ExposureReport:
    """Of the hour from START on."""
    return exposure_report(store, "s", **{"since": START, "until": START + 60 * MINUTE, **changes})  # type: ignore[arg-type]


def test_shares_by_hand(store: Store, fill: Callable[..., None]) -> None:
    """Prompts of c0, c1, c3 with c0 and c2 useful: north holds two places of three, and deserves one and a quarter."""
    fill([record(number, (0, 1, 3)) for number in range(60)], (0, 2), (0, 3))
    found = report(store)
    assert (found.requests, found.useful_by, found.used_requests) == (60, {"proxy": 60}, 60)
    by_name = {each.provider: each for each in found.providers}
    assert [by_name[name].exposed.value for name in PROVIDERS] == pytest.approx([2 / 3, 1 / 3, 0])
    deserved = [(1 + 0.25) / 3, 0.5 / 3, (1 + 0.25) / 3]
    assert [by_name[name].deserved.value for name in PROVIDERS] == pytest.approx(deserved)
    assert [by_name[name].used.value for name in PROVIDERS] == [1, 0, None]
    assert [by_name[name].attributed.value for name in PROVIDERS] == [1, 0, 0]
    assert by_name["south"].contradicted.value == 1
    assert [by_name[name].candidates.value for name in PROVIDERS] == pytest.approx([1 / 3] * 3)
    assert found.disparity is not None
    assert found.disparity.normalized == pytest.approx((5 / 9 - 1 / 3) / (5 / 9 - 1 / 3))


def test_above_and_below_what_is_deserved(store: Store, fill: Callable[..., None]) -> None:
    """Said where it is sure, and of nobody who gets what is deserved."""
    draw = random.Random(3)
    fill([record(number, (0, draw.choice((1, 3, 4)))) for number in range(120)], (1, 2, 4))
    standing = {each.provider: each.standing for each in report(store).providers}
    assert standing == {"north": "above", "south": "below", "east": "below"}


def test_fair_providers_are_not_called_anything(store: Store, fill: Callable[..., None]) -> None:
    """Where each holds what it deserves on average, hardly any service of 20 has a provider above or below."""
    draw, called = random.Random(9), 0
    for service in range(20):
        records = [
            record(number, tuple(draw.sample(range(6), 2)), request_id=f"{service}-{number}", service=f"s{service}")
            for number in range(60)
        ]
        fill(records, (0, 1, 2))
        found = exposure_report(store, f"s{service}", since=START, until=START + MINUTE)
        called += any(each.standing for each in found.providers)
    assert called <= 3


def test_a_request_counts_by_its_chance_to_be_kept(store: Store, fill: Callable[..., None]) -> None:
    """One of ten that was kept stands for ten."""
    fill([record(0, (0,), head_probability=0.1), record(1, (1,))], (0,))
    by_name = {each.provider: each.exposed.value for each in report(store).providers}
    assert by_name["north"] == pytest.approx(10 / 11)


def test_who_was_starved_by_a_release(store: Store, fill: Callable[..., None]) -> None:
    """South's documents leave the prompts while they stay useful; the release is named."""
    fill([record(number, (0, 1)) for number in range(80)], (1, 3))
    later = START + 30 * MINUTE
    fill([record(number + 100, (0, 2), at=later, version="i-2") for number in range(80)], (1, 3))
    found = report(store, since=later, before=(START, later))
    assert [each.provider for each in found.changes if each.starved] == ["south"]
    assert found.changes[0].provider == "south"
    assert found.releases == ("index=i-2",)


def test_whose_documents_are_no_longer_useful_is_not_starved(store: Store, fill: Callable[..., None]) -> None:
    """South leaves the prompts as its documents answer the questions no more."""
    fill([record(number, (0, 1)) for number in range(80)], (0, 1))
    later = START + 30 * MINUTE
    fill([record(number + 100, (0, 2), at=later, version="i-2") for number in range(80)], (0, 2))
    assert not any(each.starved for each in report(store, since=later, before=(START, later)).changes)


def test_citations_instead_of_claims(store: Store, fill: Callable[..., None]) -> None:
    """Another source of what was used gives other figures, and is named."""
    fill([record(number, (0, 2)) for number in range(3)], (0,))
    found = report(store, used_by="citations")
    assert found.used_by == "citations"
    assert {each.provider: each.used.value for each in found.providers if each.used.value is not None} == {
        "north": 0,
        "east": 1,
    }


def test_without_explanations_nothing_is_used_by_shapley(store: Store, fill: Callable[..., None]) -> None:
    """None, not nothing."""
    fill([record(0, (0,))], (0,))
    found = report(store, used_by="shapley")
    assert found.used_requests == 0
    assert {each.used.value for each in found.providers} == {None}
    assert found.attributed_disparity is None


def test_what_counts_nowhere_is_counted_by_reason(store: Store, fill: Callable[..., None]) -> None:
    """A prompt that is not known, and one without a candidate."""
    silent = record(0, (0,))
    fill([record(1, (0,)), record(2, ()), record(3, (0,), stages=silent.stages[:1])], (0,))
    found = report(store)
    assert found.requests == 1
    assert found.left_out == {"what stood in the prompt is not known": 1, "no candidate is in the prompt": 1}


def test_without_a_reference_nothing_is_deserved(store: Store, fill: Callable[..., None]) -> None:
    """Not known, and no provider is above or below."""
    fill([record(number, (0,)) for number in range(60)], ())
    found = report(store)
    assert found.useful_by == {}
    assert found.relevance is None
    assert {(each.deserved.value, each.standing) for each in found.providers} == {(None, None)}


def test_providers_by_a_key_of_the_metadata(store: Store, fill: Callable[..., None]) -> None:
    """What has none is one of its own; beyond twenty they are joined."""
    candidates = tuple(
        Candidate(chunk_id=f"c{place}", rank=place + 1, metadata={"owner": f"o{place}"} if place else {}, text="words")
        for place in range(30)
    )
    chunks = tuple(PackedChunk(chunk_id=f"c{place}", position=place + 1) for place in range(3))
    stages = (RetrieveRun(candidates=candidates), PackRun(packing=Packing(chunks=chunks)))
    fill([record(0, (), stages=stages)], ())
    names = [each.provider for each in report(store, by="owner").providers]
    assert UNNAMED in names
    assert names[-1] == OTHERS
    assert len(names) == 21


def test_nothing_to_count(store: Store) -> None:
    """An empty window has no figures."""
    found = report(store, before=(START - MINUTE, START))
    assert (found.requests, found.providers, found.disparity) == (0, (), None)


@pytest.mark.parametrize("changes", [{"used_by": "guess"}, {"limit": 0}, {"seed": -1}])
def test_arguments_out_of_range_are_refused(store: Store, changes: dict[str, object]) -> None:
    """With what is allowed."""
    with pytest.raises(ConfigurationError):
        report(store, **changes)


def drawn(number: int, alpha: float, places: int = 2) -> RequestRecord:
    """A request whose host drew the order of its candidates, and says so."""
    scores = [0.9, 0.8, 0.5, 0.4, 0.2, 0.1]
    order = sample_rankings(scores, alpha, seed=number)[0].tolist()
    candidates = tuple(
        Candidate(chunk_id=f"c{item}", rank=rank, score=scores[item], source=PROVIDERS[item % 3], text="words")
        for rank, item in enumerate(order, 1)
    )
    chunks = tuple(PackedChunk(chunk_id=f"c{item}", position=at) for at, item in enumerate(order[:places], 1))
    said = SampledRanking(alpha=alpha, log_probability=log_probability(order[:places], scores, alpha), places=places)
    stages = (RetrieveRun(candidates=candidates), PackRun(packing=Packing(chunks=chunks)))
    return record(number, (), stages=stages, sampled_ranking=said)


def test_what_another_alpha_would_have_put_in_prompts(store: Store, fill: Callable[..., None]) -> None:
    """From rankings drawn at alpha 1, the shares at alpha 2 are those of its own probabilities."""
    fill([drawn(number, 1.0) for number in range(800)], ())
    found = report(store, alpha=2.0).other_alpha
    assert found is not None
    assert found.requests == 800
    assert found.effective is not None
    assert 50 < found.effective < 800
    truth = inclusion_probabilities([0.9, 0.8, 0.5, 0.4, 0.2, 0.1], 2.0, 2).reshape(2, 3).sum(axis=0) / 2
    for name, share in zip(PROVIDERS, truth, strict=True):
        interval = found.exposed[name]
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low - 0.02 <= share <= interval.high + 0.02


def test_another_alpha_needs_rankings_that_were_drawn(store: Store, fill: Callable[..., None]) -> None:
    """Where the host draws none, or too few that are likely under it, the reason stands there and no share."""
    fill([record(number, (0, 1)) for number in range(60)], ())
    none = report(store, alpha=2.0).other_alpha
    assert none is not None
    assert (none.requests, none.exposed) == (0, {})
    assert "drawn at random" in str(none.reason)
    fill([drawn(number + 100, 0.0) for number in range(60)], ())
    few = report(store, alpha=50.0).other_alpha
    assert few is not None
    assert (few.requests, few.exposed) == (60, {})
    assert "requests are worth" in str(few.reason)


def test_a_ranking_that_does_not_fit_its_scores_tells_nothing(store: Store, fill: Callable[..., None]) -> None:
    """Drawn for fewer places than the prompt holds, with an impossible probability, or from other scores: left out, and
    the others are counted."""
    good = [drawn(number, 1.0) for number in range(60)]
    said = good[0].sampled_ranking
    assert said is not None
    odd = [
        replace(drawn(100, 1.0, places=3), sampled_ranking=replace(said, places=2)),
        replace(drawn(101, 1.0), sampled_ranking=replace(said, log_probability=-800.0)),
        replace(drawn(102, 1.0), sampled_ranking=replace(said, alpha=4.0)),
    ]
    fill([*good, *odd], ())
    found = report(store, alpha=1.0).other_alpha
    assert found is not None
    assert found.requests == 60
    assert found.effective == pytest.approx(60)


def test_requests_without_a_reference_move_no_measure_of_it(store: Store, fill: Callable[..., None]) -> None:
    """What is deserved is compared with what could have been had in the same requests."""
    fill([record(number, (0, 3)) for number in range(10)], (0, 3))
    alone = report(store).relevance
    fill([record(100 + number, (0, 1)) for number in range(90)], ())
    among = report(store).relevance
    assert alone is not None
    assert among is not None
    assert alone.normalized == among.normalized == pytest.approx(1)
