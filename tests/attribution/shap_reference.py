"""Owen values as shap's PartitionExplainer computes them, for tests where shap is installed, and their record for those
where it is not: `python -m tests.attribution.shap_reference` writes it anew.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze.grade_attribution import token_tree
from ragtrace.attribution import Game, PartitionTree
from ragtrace.engines.pair_classifier import PairTokens, RelevanceClassifier

FILE: Final = Path(__file__).with_name("shap_reference.json")
SHAPES: Final = ("Bert", "DebertaV2", "Electra", "Roberta", "T5")
QUESTION, CHUNK = "what is the limit", "The limit is 30 days. It was may."


def read_pair(folder: Path, shape: str) -> PairTokens:
    """A pair as a tiny classifier of this shape with random weights reads it."""
    from tests.engines.test_pair_classifier import save_as

    return RelevanceClassifier.load(save_as(folder, shape, "LABEL_0")).tokens_of(QUESTION, CHUNK)


def tree_of(read: PairTokens) -> PartitionTree:
    """The tree by which its grade is shared."""
    return token_tree((read.question, read.document), [read.tokens[at] for at in read.players])


def partition_explainer(game: Game, tree: PartitionTree, players: int) -> NDArray[np.float64]:
    """The values of shap's PartitionExplainer, `(players,)`, with the same tree and the same masker."""
    shap: Any = import_module("shap")

    class Shown(shap.maskers.Masker):  # type: ignore[misc]
        """Shows the model which players are there."""

        shape = (1, players)
        clustering = np.array(_linkage(tree, players), dtype=float)

        def __call__(self, mask: NDArray[np.bool_], x: NDArray[np.float64]) -> tuple[NDArray[np.float64]]:
            """One row, of the mask itself."""
            return (np.asarray(mask, dtype=float)[None, :] * x,)

    explainer = shap.explainers.Partition(lambda rows: game(np.asarray(rows) > 0.5)[:, 0], Shown())
    found = explainer(np.ones((1, players)), max_evals=2**20, silent=True)
    values: NDArray[np.float64] = np.asarray(found.values, dtype=float).reshape(players)
    return values


def _linkage(tree: PartitionTree, players: int) -> list[list[float]]:
    """The tree as scipy writes clusterings: which two parts each further one joins, its height and its size."""
    rows: list[list[float]] = []

    def place(part: PartitionTree) -> tuple[int, int]:
        if isinstance(part, int):
            return part, 1
        (one, first), (other, second) = place(part[0]), place(part[1])
        rows.append([one, other, len(rows) + 1.0, first + second])
        return players + len(rows) - 1, first + second

    place(tree)
    return rows


def _recorded() -> Iterator[dict[str, Any]]:
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            read = read_pair(Path(folder) / "model", shape)
        known: dict[str, float] = {}

        def game(coalitions: NDArray[np.bool_], read: PairTokens = read, known: Any = known) -> NDArray[np.float64]:
            said = read.grades(coalitions)
            known.update(zip(("".join(map(str, row.astype(int))) for row in coalitions), said.tolist(), strict=True))
            return said[:, None]

        tree, players = tree_of(read), len(read.players)
        values = partition_explainer(game, tree, players)
        yield {"shape": shape, "tree": tree, "values": values.tolist(), "grades": known}


if __name__ == "__main__":
    FILE.write_text(
        json.dumps(list(_recorded()), indent=None, separators=(",", ":")).replace('{"shape', '\n{"shape') + "\n"
    )
