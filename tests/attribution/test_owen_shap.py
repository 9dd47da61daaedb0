"""Owen values beside those of shap's PartitionExplainer, recorded on classifiers of five shapes with random weights."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.attribution import PartitionTree, owen_values
from tests.attribution.shap_reference import FILE, SHAPES

RECORDED: dict[str, dict[str, Any]] = {each["shape"]: each for each in json.loads(FILE.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_values_are_those_of_shap(shape: str) -> None:
    """To a millionth, and by no other pairs than shap had graded: the record holds no others."""
    recorded = RECORDED[shape]
    grades: dict[str, float] = recorded["grades"]

    def game(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.array([[grades["".join(map(str, row.astype(int)))]] for row in coalitions])

    found = owen_values(game, _tuples(recorded["tree"]))
    assert np.abs(found.values[:, 0] - np.array(recorded["values"])).max() < 1e-6
    assert np.ptp(recorded["values"]) > 1e-3  # there is something to agree about
    assert found.is_exact


def _tuples(part: Any) -> PartitionTree:
    return int(part) if isinstance(part, int) else (_tuples(part[0]), _tuples(part[1]))
