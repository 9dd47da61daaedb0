"""What the outputs of a classifier mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragtrace.engines.text_pairs import Outputs, read_outputs
from ragtrace.errors import ModelError


def config(*labels: str, **more: Any) -> SimpleNamespace:
    """A model's configuration with these labels."""
    return SimpleNamespace(num_labels=len(labels), id2label=dict(enumerate(labels)), **more)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), Outputs(2, 0)),
        (("entailment", "neutral", "contradiction"), Outputs(0, 2)),
        (("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"), Outputs(0, 1)),
        (("entailment", "not_entailment"), Outputs(0)),
        (("hallucinated", "consistent"), Outputs(1)),
        (("unsupported", "supported"), Outputs(1)),
        (("Not Grounded", "Grounded"), Outputs(1)),
        (("inconsistent", "consistent"), Outputs(1)),
        (("Fully attributable", "Not fully attributable"), Outputs(0)),
        (("LABEL_0",), Outputs(None)),
    ],
)
def test_names_are_read(labels: tuple[str, ...], expected: Outputs) -> None:
    """Three-way, binary and single-score models are read from their own labels."""
    assert read_outputs("m", config(*labels)) == expected


@pytest.mark.parametrize(
    "labels",
    [("LABEL_0", "LABEL_1"), ("positive", "negative"), ("neutral", "contradiction"), ("supported", "entailed")],
)
def test_names_that_tell_nothing(labels: tuple[str, ...]) -> None:
    """Where it cannot be told which output supports, the error names the labels and the remedy."""
    with pytest.raises(ModelError, match=r"cannot be told from .*name them in id2label of its config\.json"):
        read_outputs("m", config(*labels))


def test_given_labels() -> None:
    """The caller's labels stand in for names that tell nothing; their number has to fit."""
    assert read_outputs("m", config("LABEL_0", "LABEL_1"), ["unsupported", "supported"]) == Outputs(1)
    with pytest.raises(ModelError, match="has 2 outputs, not 3"):
        read_outputs("m", config("LABEL_0", "LABEL_1"), ["a", "b", "c"])


def test_outputs_that_are_no_classes() -> None:
    """Several regression outputs are refused."""
    with pytest.raises(ModelError, match="no classes"):
        read_outputs("m", config("entailment", "contradiction", problem_type="regression"))
