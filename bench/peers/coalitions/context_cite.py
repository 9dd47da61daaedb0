"""context-cite: a lasso fit to the answer's odds behind random subsets of the documents."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.prompts import Peer, Request

with contextlib.redirect_stderr(io.StringIO()):  # it tries to load data that only its split into sentences needs
    TOOL: Final[Any] = import_module("context_cite")


class Documents:
    """What it takes for its sources: whole documents, numbered again in each subset."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.context = self.get_context()
        self.num_sources = len(request.documents)

    def get_source(self, index: int) -> str:
        """One of them."""
        return self._request.documents[index]

    def get_context(self, mask: NDArray[np.bool_] | None = None) -> str:
        """Those of a subset."""
        documents = self._request.documents
        kept = documents if mask is None else [text for text, keep in zip(documents, mask, strict=True) if keep]
        return self._request.context(kept)


def attribute(request: Request, subsets: int) -> NDArray[np.float64]:
    """Weights of the documents."""
    sources = Documents(request)
    citer = TOOL.ContextCiter(
        request.model,
        request.tokenizer,
        sources.context,
        request.question,
        num_ablations=subsets,
        prompt_template="w1 {context} {query}",
        partitioner=sources,
    )
    citer._cache["output"] = f"{request.prompt(request.documents)} {request.answer}"  # in place of its own generation
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
        return np.asarray(citer.get_attributions(verbose=False))


def peers() -> list[Peer]:
    """Its one way."""
    computes = "lasso weights of the whole answer's log-odds; random subsets, some of them drawn again; no errors"
    return [Peer("context-cite", computes, attribute)]
