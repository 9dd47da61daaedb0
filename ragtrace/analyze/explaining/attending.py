"""Attention times gradient of a prompt's documents: a score of one pass, to compare with their Shapley values."""

from __future__ import annotations

import numpy as np

from ragtrace.analyze.explaining.prompts import SubsetPrompts
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.model_agnostic import standing

__all__ = ["attention_of_documents"]


def attention_of_documents(prompts: SubsetPrompts, model: CausalLM) -> tuple[float, ...]:
    """The sum over each document's tokens, in the order of `prompts.documents`. A token belongs to where it ends.

    Raises: ModelError of the model.
    """
    weights, places = model.attention_gradients(prompts.of_documents(prompts.documents), prompts.answer)
    last = np.array([end - 1 for _, end in places], dtype=np.intp)
    sums = dict.fromkeys(prompts.documents, 0.0)
    for chunk_id, start, text in standing(prompts.template, prompts.chunks):
        sums[chunk_id] += float(weights[(last >= start) & (last < start + len(text))].sum())
    return tuple(sums.values())
