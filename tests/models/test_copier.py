"""Attributions of a model whose answers are copied from a known document: what is found must be that document."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.attribution import Game, aipc_difference, perturbation_curves, shapley_values
from ragtrace.engines.causal_lm import CausalLM
from tests.models.copying import Example, make, prompt_of

pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")

FOLDER = Path(__file__).parent / "copier"
DOCUMENTS = 6
BUDGET = 24  # of 64 coalitions


@pytest.fixture(scope="module")
def copier() -> CausalLM:
    """The trained model."""
    return CausalLM.load(FOLDER)


@pytest.fixture(scope="module")
def game_of(copier: CausalLM) -> Callable[[Example], Game]:
    """The game of a request: the answer's log-probabilities behind subsets of its documents."""

    def of(example: Example) -> Game:
        def game(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
            chosen = [[text for text, keep in zip(example.documents, row, strict=True) if keep] for row in coalitions]
            return copier.score([prompt_of(some, example.question) for some in chosen], example.answer)

        return game

    return of


def _examples(count: int, *, duplicates: int = 1, mentions: int = 0) -> list[Example]:
    draw = random.Random(17)
    return [make(draw, DOCUMENTS, duplicates=duplicates, mentions=mentions) for _ in range(count)]


def _shares(game: Game, method: Literal["auto", "pmcshap"] = "auto", seed: int = 0) -> NDArray[np.float64]:
    values = shapley_values(game, DOCUMENTS, method=method, budget=BUDGET, seed=seed).values
    return np.asarray(values.mean(axis=1))


def test_it_answers_by_copying(copier: CausalLM) -> None:
    """The model writes the code that its document states, and says so when none does."""
    draw = random.Random(3)
    known = [make(draw, DOCUMENTS, mentions=1) for _ in range(20)]
    missing = [make(draw, DOCUMENTS, is_known=False) for _ in range(5)]
    for example in known + missing:
        written = copier.generate(prompt_of(example.documents, example.question), max_new_tokens=10).text
        assert written.startswith(example.answer.removesuffix(" ."))


def test_the_copied_document_comes_first(game_of: Callable[[Example], Game]) -> None:
    """In at least 95 of 100 requests, others that mention what is asked among its documents."""
    examples = _examples(100, mentions=1)
    right = sum(int(np.argmax(_shares(game_of(example)))) == example.sources[0] for example in examples)
    assert right >= 95


def test_duplicates_share_the_credit(game_of: Callable[[Example], Game]) -> None:
    """Two documents that state the answer come first and second, and neither has more than two thirds of their sum."""
    for example in _examples(10, duplicates=2):
        shares = _shares(game_of(example))
        assert set(np.argsort(-shares)[:2].tolist()) == set(example.sources)
        assert shares[list(example.sources)].max() <= 2 / 3 * shares[list(example.sources)].sum()


def test_the_order_does_not_matter(game_of: Callable[[Example], Game]) -> None:
    """What is copied stays first when the documents are shuffled."""
    draw = random.Random(5)
    for example in _examples(10, mentions=1):
        order = list(range(DOCUMENTS))
        draw.shuffle(order)
        shuffled = Example(
            tuple(example.documents[place] for place in order),
            example.question,
            example.answer,
            (order.index(example.sources[0]),),
        )
        assert int(np.argmax(_shares(game_of(shuffled)))) == shuffled.sources[0]


def test_it_is_as_faithful_as_pmcshap_and_far_above_chance(game_of: Callable[[Example], Game]) -> None:
    """Area inside the perturbation curves at the same budget, within the paired bootstrap interval."""
    games = [game_of(example) for example in _examples(30, mentions=1)]
    draw = np.random.default_rng(0)
    methods: Final[tuple[Literal["auto", "pmcshap"], ...]] = ("auto", "pmcshap")
    curves = {
        method: [perturbation_curves(game, _shares(game, method, seed)) for seed, game in enumerate(games)]
        for method in methods
    }
    chance = [perturbation_curves(game, draw.random(DOCUMENTS)) for game in games]
    assert aipc_difference(curves["auto"], curves["pmcshap"]).high >= 0
    assert aipc_difference(curves["auto"], chance).low > 0.2


def test_all_ways_to_score_agree(copier: CausalLM) -> None:
    """Shared beginnings and padded batches give the same log-probabilities on a trained model."""
    (example,) = _examples(1)
    prompts = [prompt_of(example.documents[:count], example.question) for count in range(DOCUMENTS + 1)]
    shared = copier.score(prompts, example.answer)
    np.testing.assert_allclose(shared, copier.score(prompts, example.answer, method="batched"), atol=1e-4)
