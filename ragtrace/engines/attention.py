"""What an answer's tokens attend to, weighed by the gradient of their log-probability: a cheap score, to compare with.

One forward and one backward pass. The score does not add up to anything, and prompts without a document are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ragtrace.engines.memory import OutOfMemoryError, pass_on_unless_memory
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["attention_times_gradient"]


def attention_times_gradient(model: Any, sequence: Sequence[int], own: int) -> NDArray[np.float64]:
    """Of each token but the last `own`: (A * dL/dA)+ summed over layers, heads and all tokens that attend to it, with
    the attention weights A and the mean log-probability L of the last `own` tokens.

    What is negative counts nothing: near a probability of 1 the slopes nearly cancel, and their sum says little.

    Raises: ModelError for a model that shows no attention, OutOfMemoryError.
    Source: Chefer, Gur and Wolf (2021), whose positive part this is, without their product over layers.
    """
    import numpy as np

    with _shown_attention(model):
        try:
            found = _weighed(model, sequence, own)
        except RuntimeError as error:
            pass_on_unless_memory(error)
            raise OutOfMemoryError(
                f"the attention of {len(sequence)} tokens finds no memory; use a smaller model or another device"
            ) from error
    scores: NDArray[np.float64] = found[: len(sequence) - own].double().cpu().numpy()
    if np.isnan(scores).any():
        raise ModelError("the gradients of the model's attention are not numbers (NaN); load it in float32")
    return scores


def _weighed(model: Any, sequence: Sequence[int], own: int) -> Any:
    import torch

    ids = torch.tensor([sequence], device=model.device)
    with torch.enable_grad():
        vectors = model.get_input_embeddings()(ids).detach().requires_grad_()
        found = model(inputs_embeds=vectors, use_cache=False, output_attentions=True)
        weights = [each for each in found.attentions or () if each is not None]
        if not weights:
            raise ModelError(f"{type(model).__name__} shows no attention weights; give another model")
        rows = found.logits[0, -own - 1 : -1].float().log_softmax(-1)
        mean = rows.gather(-1, ids[0, -own:, None]).mean()
        slopes = torch.autograd.grad(mean, weights)
    pairs = zip(weights, slopes, strict=True)
    parts = [(weight.detach() * slope).float().clamp(min=0).sum(dim=(0, 1, 2)) for weight, slope in pairs]
    return torch.stack(parts).sum(dim=0)


@contextmanager
def _shown_attention(model: Any) -> Iterator[None]:
    """While it lasts, the model computes its attention in the way that shows the weights."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
