"""What the stages of a request took: time, tokens by who counted them, and cost by the host's prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.analyze import worker
from ragtrace.analyze._totals import stage_expenses
from ragtrace.analyze.worker import WorkerSettings
from ragtrace.config import load
from ragtrace.errors import ConfigurationError
from ragtrace.store import Listing, Store
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    TokenUsage,
    replace,
)

TEXT = "The most we pay is EUR 900." + "x" * 13  # 40 characters
PRICES = {"llm": {"input": 2.0, "output": 10.0}, "ranker": {"call": 0.5}, "embed": {"input": 1.0}}


def record(usage: TokenUsage | None = None, text: str | None = TEXT) -> RequestRecord:
    """A request of all four stages, a second each."""
    stages = (
        RetrieveRun(ended_at=10**9, candidates=(Candidate(chunk_id="a", rank=1, text=text),)),
        RerankRun(ended_at=10**9, moves=(RankMove(chunk_id="a", rank_before=1, rank_after=1),)),
        PackRun(ended_at=10**9, packing=Packing(chunks=(PackedChunk(chunk_id="a", position=1, text=text),))),
        GenerateRun(
            ended_at=10**9,
            generation=Generation(answer="EUR 900.", model="llm", prompt_template="Say: {chunk:a}", usage=usage),
        ),
    )
    versions = {"embedding": "embed", "reranker": "ranker"}
    return RequestRecord(
        request_id="r", service="s", ended_at=10**9, query=Query(original="How much?"), stages=stages, versions=versions
    )


def test_reported_counts_win_and_cost_is_by_the_prices() -> None:
    """1,000 tokens at 2 a million and 100 at 10 a million are 0.003; a call of the reranker has its own price."""
    found = {
        one.stage: one for one in stage_expenses(record(TokenUsage(input_tokens=1_000, output_tokens=100)), PRICES)
    }
    made = found["generate"]
    assert (made.input_tokens, made.output_tokens, made.counted) == (1_000, 100, "reported")
    assert made.cost == pytest.approx(0.003)
    assert found["rerank"].cost == 0.5
    assert found["retrieve"].cost == pytest.approx(3e-6)  # three tokens of nine characters
    assert found["pack"].cost is None
    assert {one.duration_ns for one in found.values()} == {10**9}


def test_without_counts_a_tokenizer_counts_and_without_one_it_is_an_estimate() -> None:
    """An estimate is a token for each four characters; what a tokenizer was asked for is the model's own name."""
    estimated = {one.stage: one for one in stage_expenses(record())}
    assert (estimated["generate"].input_tokens, estimated["generate"].counted) == (12, "estimate")  # 45 characters
    assert (estimated["pack"].output_tokens, estimated["pack"].counted) == (10, "estimate")
    exact = stage_expenses(record(), tokenizers=lambda model: (lambda text: 7) if model == "llm" else None)
    made = exact[-1]
    assert (made.input_tokens, made.output_tokens, made.counted) == (7, 7, "tokenizer")
    assert exact[0].counted == "estimate"


def test_each_run_is_paid_at_the_price_of_its_own_model() -> None:
    """A cheap model that rewrites and a dear one that answers; the whole has no cost where one has no price."""
    usage = TokenUsage(input_tokens=1_000_000, output_tokens=0)
    both = replace(
        record(),
        stages=tuple(
            GenerateRun(generation=Generation(model=model, answer="", usage=usage)) for model in ("small", "big")
        ),
    )
    prices = {"small": {"input": 0.1}, "big": {"input": 10.0}}
    (made,) = stage_expenses(both, prices)
    assert made.cost == pytest.approx(10.1)
    assert made.model == "big"
    assert stage_expenses(both, {"big": prices["big"]})[0].cost is None


def test_a_retriever_without_an_embedding_reads_no_tokens() -> None:
    """Nor does one whose question was not kept."""
    assert stage_expenses(replace(record(), versions={}))[0].input_tokens is None
    assert stage_expenses(replace(record(), query=Query(original="")))[0].input_tokens is None


def test_one_reported_count_beside_an_estimate_is_called_an_estimate() -> None:
    """The whole is as sure as its least sure part."""
    made = stage_expenses(record(TokenUsage(output_tokens=100)))[-1]
    assert (made.output_tokens, made.counted) == (100, "estimate")


def test_what_was_not_kept_is_not_known_and_costs_nothing_that_is_told() -> None:
    """No zero stands in for a count without its text, nor for a model without a price."""
    found = {one.stage: one for one in stage_expenses(record(text=None), PRICES)}
    assert found["generate"].input_tokens is None
    assert found["generate"].cost is None
    assert found["pack"].output_tokens is None
    assert stage_expenses(record())[-1].cost is None


def test_a_worker_counts_and_keeps_them(tmp_path: Path) -> None:
    """As totals by stage and model, beside the analysis, and in the slices of the overview."""
    given = record(TokenUsage(input_tokens=1_000, output_tokens=100))
    with Store.open(f"sqlite:///{tmp_path / 's.db'}") as store:
        store.write([given, replace(given, request_id="q")])
        worker.run(store, WorkerSettings(prices=PRICES))
        totals = {(one.name, *sorted(dict(one.labels).items())): one.value for one in store.totals()}
        known = ("model", "llm"), ("service", "s"), ("stage", "generate")
        tokens = ("ragtrace_stage_tokens_total", ("counted", "reported"), ("direction", "input"), *known)
        assert totals[tokens] == 2_000
        assert totals["ragtrace_stage_cost_total", *known] == pytest.approx(0.006)
        analysis = store.get_analysis("r")
        assert analysis is not None
        assert analysis.expenses[-1].input_tokens == 1_000
        (glance, _) = store.slices(Listing(service="s"), [0, 1], 5)[0]
        assert glance.expenses is not None
        assert '"generate":[1000000,1000,100,"reported",0.003]' in glance.expenses


def test_names_of_models_beyond_their_budget_count_as_other(tmp_path: Path) -> None:
    """A host that names a model by its date does not make a series of each."""
    with Store.open(f"sqlite:///{tmp_path / 's.db'}") as store:
        for number in range(30):
            given = record(TokenUsage(input_tokens=1, output_tokens=1))
            assert given.generation is not None
            made = GenerateRun(generation=replace(given.generation, model=f"m{number}"))
            store.write([replace(given, request_id=f"r{number}", stages=(made,))])
        worker.run(store)
        models = {dict(one.labels)["model"] for one in store.totals() if one.name == "ragtrace_stage_tokens_total"}
        assert len(models) == 21
        assert "other" in models


@pytest.mark.parametrize("given", ["{", "[]", {"m": 3}, {"m": {"input": -1}}, {"m": {"per_word": 1}}])
def test_prices_that_mean_nothing_are_refused(given: object) -> None:
    """With what is allowed."""
    with pytest.raises(ConfigurationError, match="prices"):
        load(prices=given)
    assert load(prices='{"m": {"input": 2}}').prices == {"m": {"input": 2.0}}
