"""inseq: gradients of each answer token behind the full prompt. It evaluates no subsets.

Its perturbation methods leave out single tokens, once per token of the answer; documents are no unit of it. So what
comes nearest is a gradient method whose values are added up over each document.
"""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.prompts import Peer, Request

TOOL: Final[Any] = import_module("inseq")


def attribute(request: Request, subsets: int) -> NDArray[np.float64]:
    """Gradient times input, added up over each document and the answer; how many subsets means nothing to it."""
    prompt = request.prompt(request.documents)
    with contextlib.redirect_stderr(io.StringIO()):
        explained = TOOL.load_model(request.model, "input_x_gradient", tokenizer=request.tokenizer)
        found = explained.attribute(prompt, f"{prompt} {request.answer}", show_progress=False)
    by_token = found.sequence_attributions[0].target_attributions.sum(dim=-1).nansum(dim=1).numpy()
    lengths = [1 + len(text.split()) for text in request.documents]  # with their numbers
    starts = 1 + np.cumsum([0, *lengths])  # behind the first token of the prompt
    return np.array([by_token[start:end].sum() for start, end in pairwise(starts)])


def peers() -> list[Peer]:
    """The one way that comes near."""
    computes = "gradient times input for each answer token, behind the full prompt: no subsets, no errors"
    return [Peer("inseq, input_x_gradient", computes, attribute, whole=False)]
