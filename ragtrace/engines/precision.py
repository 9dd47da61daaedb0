"""Precision of log-probabilities: of a model in less than float32, a sample of prompts is scored in float32, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.models import OutOfMemoryError
from ragtrace.errors import ModelError
from ragtrace.explanations import Precision

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SAMPLE", "TOLERANCE", "CheckedScoring"]

TOLERANCE: Final = 0.5
"""Nats by which the log-probability of a token may differ from that in float32."""
SAMPLE: Final = 2
"""Prompts that are compared: those behind which the answer is least and most probable."""


class Scoring(Protocol):
    """A model that scores a given answer."""

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """Log-probabilities of each token of the answer behind each prompt: `(prompts, answer tokens)`."""
        ...


class CheckedScoring:
    """The scores of one game; a local model in bfloat16 or float16 is compared with float32 at the first call.

    Where they differ by more than `TOLERANCE`, that call and all further ones are done in float32. Where float32 finds
    no memory, nothing is compared, and `precision` says so.

    Args:
        model: any; only a `CausalLM` can be compared.
        known: the precision of an earlier run that goes on here.
        like: the prompt whose tokens of the answer count behind all prompts; see `CausalLM.score`.
    """

    def __init__(self, model: Scoring, known: Precision | None = None, like: str | None = None) -> None:
        self._model = model
        self._known = known
        self._like = like
        self.precision: Precision | None = None

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """As `CausalLM.score`. Raises: what the model raises."""
        if self.precision is None and isinstance(self._model, CausalLM) and _is_reduced(self._model):
            return self._first(self._model, prompts, answer)
        return self._scored(prompts, answer)

    def _first(self, model: CausalLM, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        if self._known is not None and self._known.repeated:
            self.precision, self._model = self._known, model.in_float32()
            return self._scored(prompts, answer)
        scores = self._scored(prompts, answer)
        self.precision = _united(self._compared(model, prompts, answer, scores), self._known)
        if self.precision.repeated:
            self._model = model.in_float32()
            return self._scored(prompts, answer)
        return scores

    def _scored(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        if isinstance(self._model, CausalLM):
            return self._model.score(prompts, answer, like=self._like)
        return self._model.score(prompts, answer)

    def _compared(self, model: CausalLM, prompts: Sequence[str], answer: str, scores: NDArray[np.float64]) -> Precision:
        """The largest difference on the sample, or why there is none."""
        import numpy as np

        order = np.argsort(scores.mean(axis=1), kind="stable").tolist()
        sample = list(dict.fromkeys([*order[: SAMPLE - 1], *order[-1:]]))
        try:
            precise = model.in_float32()
        except ModelError as error:
            return Precision(dtype=model.dtype, skipped=str(error))
        try:
            expected = precise.score([prompts[at] for at in sample], answer, like=self._like, method="batched", batch=1)
        except OutOfMemoryError as error:
            return Precision(dtype=model.dtype, skipped=str(error))
        difference = float(np.abs(expected - scores[sample]).max(initial=0.0))
        return Precision(dtype=model.dtype, prompts=len(sample), difference=difference, repeated=difference > TOLERANCE)


def _is_reduced(model: CausalLM) -> bool:
    return model.dtype in ("bfloat16", "float16")


def _united(measured: Precision, known: Precision | None) -> Precision:
    """What is worse of both: the earlier run's values are used as well."""
    if (
        known is None
        or measured.repeated
        or measured.difference is None
        or (known.difference or 0.0) <= measured.difference
    ):
        return measured
    return known
