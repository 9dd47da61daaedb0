"""Synthetic games whose exact Shapley values are known: documents that add up, stand in for one another, or distract.

A game is its complete table, `(2^k, m)`, the row being the coalition's integer; a family and a seed give one game.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import Coalitions, Game, all_coalitions, encode, exact_values

Array = NDArray[np.float64]

TOKENS = 8


@dataclass(frozen=True)
class KnownGame:
    """A game, its complete table and its exact Shapley values `(k, m)`."""

    family: str
    n_players: int
    table: Array
    truth: Array

    @property
    def game(self) -> Game:
        """The function that an estimator evaluates."""
        return lambda coalitions: self.table[encode(coalitions)]


def known(family: str, table: Array) -> KnownGame:
    """The game of this table."""
    n_players = len(table).bit_length() - 1
    return KnownGame(family, n_players, table, exact_values(all_coalitions(n_players), table))


def synthetic_games(n_players: int, per_family: int, first_seed: int) -> list[KnownGame]:
    """Games of every family, `per_family` of each; disjoint seeds give other games."""
    games = []
    for number, (family, table) in enumerate(FAMILIES.items()):
        for seed in range(first_seed, first_seed + per_family):
            random = np.random.default_rng([n_players, number, seed])
            games.append(known(family, table(all_coalitions(n_players), random)))
    return games


def polynomial(coalitions: Coalitions, random: np.random.Generator) -> Array:
    """Documents that contribute alone, in pairs and in threes, the larger groups less."""
    k = coalitions.shape[1]
    table = np.full((len(coalitions), TOKENS), -3.0)
    for order, count, scale in ((1, k, 1.0), (2, 2 * k, 0.6), (3, k, 0.4)):
        groups = list(combinations(range(k), order))
        for group in random.permutation(len(groups))[:count]:
            weights = scale * random.normal() + 0.5 * scale * random.normal(size=TOKENS)
            table += np.outer(coalitions[:, groups[group]].all(axis=1), weights)
    return table


def duplicates(coalitions: Coalitions, random: np.random.Generator) -> Array:
    """Facts that each stand in several documents: one of them suffices."""
    return _facts(coalitions, random, lambda held: np.logical_or.reduce(held, axis=1))


def complements(coalitions: Coalitions, random: np.random.Generator) -> Array:
    """Facts that are spread over several documents: all of them are needed."""
    return _facts(coalitions, random, lambda held: np.logical_and.reduce(held, axis=1))


def _facts(
    coalitions: Coalitions, random: np.random.Generator, known: Callable[[Coalitions], NDArray[np.bool_]]
) -> Array:
    """The log-probability of tokens that each need one of three facts; every document beside it dilutes it a little."""
    k = coalitions.shape[1]
    facts = [random.choice(k, random.integers(2, min(4, k) + 1), replace=False) for _ in range(3)]
    table = np.zeros((len(coalitions), TOKENS))
    for token in range(TOKENS):
        fact = facts[random.integers(3)]
        diluted = np.exp(np.delete(coalitions, fact, axis=1) @ -random.uniform(0, 0.2, k - len(fact)))
        low, high = random.uniform(0.005, 0.2), random.uniform(0.5, 0.98)
        table[:, token] = np.log(low + (high - low) * known(coalitions[:, fact]) * diluted)
    return table


def attention(coalitions: Coalitions, random: np.random.Generator) -> Array:
    """A reader that divides its attention over the documents by relevance and position, distractors included."""
    k = coalitions.shape[1]
    relevance = random.normal(0, 1, k) + 2.5 * (np.arange(k) == random.integers(k))
    relevance += 0.8 * np.exp(-np.arange(k) / 2)
    table = np.zeros((len(coalitions), TOKENS))
    for token in range(TOKENS):
        mass = coalitions * np.exp(relevance + random.normal(0, 0.5, k))
        support = np.where(random.random(k) < 0.3, random.uniform(0.3, 0.95, k), random.uniform(0.001, 0.1, k))
        own = np.exp(random.normal(0.5, 0.5))
        table[:, token] = np.log((mass @ support + own * random.uniform(0.02, 0.3)) / (mass.sum(axis=1) + own))
    return table


def noisy(coalitions: Coalitions, random: np.random.Generator) -> Array:
    """The attentive reader with a tenth of its spread as independent noise."""
    table = attention(coalitions, random)
    spread: Array = 0.1 * table.std(axis=0)
    return table + spread * random.normal(size=table.shape)


def dense(coalitions: Coalitions, random: np.random.Generator) -> Array:
    """Interactions of every order, each order with a quarter of the energy of the one before.

    So do value tables of language models: 80, 14, 3, 1, 0.5 % of the energy in orders 1 to 5, at 8 and 10 documents.
    """
    k = coalitions.shape[1]
    order = coalitions.sum(axis=1)
    deviation = np.array([0.5**size / comb(k, size) ** 0.5 for size in range(k + 1)])
    coefficients = random.normal(size=(len(coalitions), 1)) + 0.5 * random.normal(size=(len(coalitions), TOKENS))
    table: Array = coefficients * deviation[order][:, None]
    for player in range(k):
        table = _transformed(table, player)
    return table


def _transformed(table: Array, player: int) -> Array:
    """One step of the Walsh-Hadamard transform."""
    parts = table.reshape(-1, 2, 1 << player, table.shape[1])
    return np.stack([parts[:, 0] - parts[:, 1], parts[:, 0] + parts[:, 1]], axis=1).reshape(table.shape)


FAMILIES: dict[str, Callable[[Coalitions, np.random.Generator], Array]] = {
    "polynomial": polynomial,
    "duplicates": duplicates,
    "complements": complements,
    "attention": attention,
    "noisy": noisy,
    "dense": dense,
}
