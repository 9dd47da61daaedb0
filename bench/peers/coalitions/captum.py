"""captum: `LLMAttribution` over documents as text features, each subset read in one pass.

That is `forward_in_tokens=False`, its fastest way; by default it reads the answer token by token.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from importlib import import_module
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from bench.prompts import Peer, Request

TOOL: Final[Any] = import_module("captum.attr")


def _attribute(request: Request, method: str, **options: int) -> NDArray[np.float64]:
    """Values of the documents for the whole answer."""
    explained = TOOL.LLMAttribution(getattr(TOOL, method)(request.model), request.tokenizer)
    given = TOOL.TextTemplateInput(
        template=lambda *texts: request.prompt(text for text in texts if text), values=list(request.documents)
    )
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        found = explained.attribute(given, target=request.answer, forward_in_tokens=False, **options)
    return np.asarray(found.seq_attr.cpu().numpy(), dtype=np.float64)


def sampled(request: Request, subsets: int) -> NDArray[np.float64]:
    """ShapleyValueSampling: as many random orders as the subsets allow; each evaluates one subset per document."""
    orders = max(1, round(subsets / len(request.documents)))
    return _attribute(request, "ShapleyValueSampling", n_samples=orders)


def kernel(request: Request, subsets: int) -> NDArray[np.float64]:
    """KernelShap."""
    return _attribute(request, "KernelShap", n_samples=subsets)


def peers() -> list[Peer]:
    """Two of its methods."""
    return [
        Peer(
            "captum, ShapleyValueSampling",
            "Shapley values per answer token from random orders; the ends of each order are read again; no errors",
            sampled,
        ),
        Peer(
            "captum, KernelShap",
            "Shapley values of the whole answer by regression; subsets are drawn again; no errors",
            kernel,
        ),
    ]
