"""Games for `bench/shapley.py`: synthetic ones, and complete tables read from files."""

from bench.games.synthetic import FAMILIES, KnownGame, known, synthetic_games
from bench.games.tables import tabled_games

__all__ = ["FAMILIES", "KnownGame", "known", "synthetic_games", "tabled_games"]
