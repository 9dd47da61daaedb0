"""The worth of each candidate of one request: the answer with this document alone against the answer with none.

Where a reference answer is known, the model answers anew and its answers are compared with it; else it says how likely
the recorded answer is. A document of a positive worth is useful, whether or not it was packed: what exposure holds
against the exposure that there was.

Source: Kim and Diaz, "Towards Fair RAG", section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze._generator_attribution import ClosedEngine, GeneratorEngine
from ragtrace.analyze.prompts import SubsetPrompts, Unexplained
from ragtrace.engines.causal_lm import CheckedScoring, Generated
from ragtrace.engines.model_names import is_silent
from ragtrace.explanations import ItemUtilities
from ragtrace.exposure import rouge_l
from ragtrace.types import Candidate, RequestRecord

__all__ = ["item_utilities"]

_MOST: Final = 100  # candidates of a request, each of which is a prompt
_LOG_PROBABILITY: Final = "log_probability"
_LIKENESS: Final = "rouge-l"


@runtime_checkable
class _Generating(Protocol):
    """A language model that answers."""

    def generate(self, prompt: str, *, max_new_tokens: int = 96) -> Generated:
        """The answer to a prompt."""
        ...


def item_utilities(
    record: RequestRecord,
    prompts: SubsetPrompts,
    engine: GeneratorEngine | ClosedEngine,
    *,
    reference: str = "",
    on_progress: Callable[[int], None] | None = None,
) -> ItemUtilities:
    """The worth of each candidate.

    reference: a reference answer, with which the model's own answers are compared; "": the recorded answer's
    log-probability counts. on_progress: told how many prompts are done.
    Raises: Unexplained for no document in the prompt, a candidate without text, more than 100, or a model that says
    neither; ModelError of the model.
    """
    candidates = record.candidates
    given = [(each.chunk_id, _text_of(each)) for each in candidates]
    if not given or not prompts.chunks:
        raise Unexplained("there are no candidates" if not given else "no document stood in the prompt")
    if len(given) > _MOST:
        raise Unexplained(f"{len(given)} candidates; at most {_MOST} can be looked at alone")
    texts = [prompts.of_documents(()), *(prompts.of_one(chunk_id, text) for chunk_id, text in given)]
    if reference.strip() and isinstance(engine, ClosedEngine | _Generating):
        measure, worths = _LIKENESS, _likenesses(engine, texts, reference, on_progress)
    elif isinstance(engine, GeneratorEngine) and not is_silent(engine):
        measure, worths = _LOG_PROBABILITY, _log_probabilities(engine, prompts, texts, on_progress)
    else:
        raise Unexplained("the model gives no log-probabilities, and no reference answer is known")
    return ItemUtilities(
        chunk_ids=tuple(chunk_id for chunk_id, _ in given),
        values=tuple((worths[1:] - worths[0]).tolist()),
        empty=float(worths[0]),
        measure=measure,
        engine=engine.kind,
        model=engine.name,
        revision=engine.revision,
        evaluations=len(texts),
    )


def _text_of(candidate: Candidate) -> str:
    if candidate.text is None:
        raise Unexplained(f"the text of candidate {candidate.chunk_id!r} was not kept; capture_content='full' keeps it")
    return candidate.text


def _likenesses(
    engine: ClosedEngine | _Generating,
    texts: Sequence[str],
    reference: str,
    on_progress: Callable[[int], None] | None,
) -> NDArray[np.float64]:
    """`(prompts,)`, in [0, 1]."""
    if isinstance(engine, ClosedEngine):
        answers = [each.text for each in engine.generate_many(texts)]
    else:
        answers = [engine.generate(each).text for each in texts]
    if on_progress is not None:
        on_progress(len(texts))
    return np.array([rouge_l(answer, reference) for answer in answers])


def _log_probabilities(
    engine: GeneratorEngine, prompts: SubsetPrompts, texts: Sequence[str], on_progress: Callable[[int], None] | None
) -> NDArray[np.float64]:
    """`(prompts,)`, the mean over the recorded answer's tokens, in nats."""
    scoring = CheckedScoring(engine, None, like=prompts.of_documents(prompts.documents))
    values = np.asarray(scoring.score(texts, prompts.answer), dtype=np.float64)
    if not values.shape[1]:
        raise Unexplained("the model reads no token in the answer")
    if on_progress is not None:
        on_progress(len(texts))
    return np.asarray(values.mean(axis=1))
