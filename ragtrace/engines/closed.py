"""A model of which nothing but its answers is known, such as a chat behind an API without log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ragtrace.engines.causal_lm import Generated
    from ragtrace.engines.http import HttpLM

__all__ = ["ClosedLM"]


class ClosedLM:
    """A server's model that is asked for answers alone."""

    kind: Final = "http"
    revision: Final = None
    device: Final = "remote"

    def __init__(self, model: HttpLM) -> None:
        self.name = model.name
        self._model = model

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> list[Generated]:
        """The answer to each prompt. Raises: ServerError."""
        return self._model.generate_many(prompts, max_new_tokens=max_new_tokens)
