"""Engines without a model, whose games and scores are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtrace.engines.tokens import Baseline, Token

WORD = re.compile(r"\S+")


def spans_of(text: str) -> list[tuple[int, int]]:
    """Where the words of a text stand."""
    return [found.span() for found in WORD.finditer(text)]


@dataclass
class AdditiveGenerator:
    """Each text that stands in the prompt adds its worth to every token's log-probability; tokens are words."""

    worth: Mapping[str, float]
    kind: str = "causal_lm"
    name: str = "additive"
    revision: str | None = "7"
    device: str = "cpu"
    prompts: list[str] = field(default_factory=list)
    before: Callable[[], None] | None = None

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """-10 and the worth of what stands in the prompt."""
        if self.before is not None:
            self.before()
        self.prompts += prompts
        tokens = len(spans_of(answer))
        sums = [-10 + sum(worth for text, worth in self.worth.items() if text in prompt) for prompt in prompts]
        return np.array([[each] * tokens for each in sums])

    def answer_places(self, prompt: str, answer: str) -> Sequence[tuple[int, int]]:
        """The words of the answer."""
        return spans_of(answer)


@dataclass
class LinearGradients:
    """Each token is a vector (its length, 1); the score is the dot product with (1, 0)."""

    texts: Sequence[str]
    part: Any
    inputs: list[NDArray[np.float32]] = field(init=False)
    baselines: list[NDArray[np.float32]] = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = [
            np.array([[0, 0], *([end - start, 1] for start, end in spans_of(text))], dtype=np.float32)
            for text in self.texts
        ]
        self.baselines = [np.zeros_like(each) for each in self.inputs]

    @property
    def tokens(self) -> Sequence[tuple[Token, ...]]:
        """A special token, then the words."""
        first = Token("<s>", 0, 0, "special")
        return [(first, *(Token(text[a:b], a, b, self.part) for a, b in spans_of(text))) for text in self.texts]

    def value_and_grad(self, points: Any, owners: NDArray[np.intp]) -> tuple[Any, Any]:
        """Sum of the first dimension, and its gradient."""
        gradients = np.zeros_like(points)
        gradients[:, :, 0] = 1
        return self.value(points, owners), gradients

    def value(self, points: Any, owners: NDArray[np.intp]) -> Any:
        """Sum of the first dimension."""
        return points[:, :, 0].sum(axis=1)


@dataclass
class LinearRetriever:
    """A document's score is the number of letters in its words; so is the query's side."""

    kind: str = "encoder"
    name: str = "linear"
    revision: str | None = None
    device: str = "cpu"

    def gradients(self, query: str, documents: Sequence[str], *, of: Any, baseline: Baseline) -> LinearGradients:
        """Tokens are words."""
        return LinearGradients([query] * len(documents) if of == "query" else documents, of)
