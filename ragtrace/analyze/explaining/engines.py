"""What an explanation needs of models; `ragtrace.engines` has them, a test may bring its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragtrace.engines.causal_lm import Generated
from ragtrace.engines.tokens import Baseline, Token

__all__ = ["ClosedEngine", "Engine", "GeneratorEngine", "Gradients", "RetrieverEngine", "Side"]

Side: TypeAlias = Literal["query", "document"]


class Engine(Protocol):
    """A model with what is stored beside its results."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def kind(self) -> str:
        """`causal_lm`, `http`, `encoder` or `cross_encoder`."""
        ...

    @property
    def revision(self) -> str | None:
        """The revision of the model's files, where it is known."""
        ...

    @property
    def device(self) -> str:
        """`cpu`, `cuda` and the like, or `remote`."""
        ...


@runtime_checkable
class GeneratorEngine(Engine, Protocol):
    """A language model that scores a given answer."""

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """Log-probabilities of each token of the answer behind each prompt: `(prompts, answer tokens)`."""
        ...

    def answer_places(self, prompt: str, answer: str) -> Sequence[tuple[int, int]]:
        """Where each of these tokens stands in the answer: (start, end) offsets."""
        ...


@runtime_checkable
class ClosedEngine(Engine, Protocol):
    """A language model of which nothing but its answers is known."""

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> Sequence[Generated]:
        """An answer to each prompt."""
        ...


class Gradients(Protocol):
    """Scores of pairs as a function of token embeddings, as `ragtrace.engines.gradients.TokenGradients` has them."""

    inputs: list[NDArray[np.float32]]
    baselines: list[NDArray[np.float32]]

    @property
    def tokens(self) -> Sequence[tuple[Token, ...]]:
        """The tokens of each pair's side."""
        ...

    def value_and_grad(self, points: Any, owners: NDArray[np.intp]) -> tuple[Any, Any]:
        """Scores and gradients of points; owners: whose they are."""
        ...

    def value(self, points: Any, owners: NDArray[np.intp]) -> Any:
        """Scores of points, without gradients."""
        ...


class RetrieverEngine(Engine, Protocol):
    """A model that scores documents for a query."""

    def gradients(self, query: str, documents: Sequence[str], *, of: Side, baseline: Baseline) -> Gradients:
        """The scores as a function of the token embeddings of one side."""
        ...
