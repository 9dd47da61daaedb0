"""Complete value tables of a language model, from `.npz` files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.games.synthetic import KnownGame, known


def tabled_games(folder: Path) -> list[KnownGame]:
    """The games of each file: arrays `t0`, `t1`, ... of shape (2^k, tokens), the row being the coalition's integer."""
    games = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as held:
            tables = [held[name] for name in held.files if name[0] == "t" and name[1:].isdecimal()]
        games += [known(path.stem, table.astype(np.float64)) for table in tables]
    return games
