"""What keeps a failure from coming back, by the stage that broke first: the tasks of a postmortem."""

from __future__ import annotations

from typing import Final

from ragtrace.types import Stage

__all__ = ["TASKS"]

TASKS: Final[dict[Stage, tuple[str, ...]]] = {
    "retrieval": (
        "Compare an index build with the one in use before it is switched to: documents and chunks by source "
        "(ragtrace source report, ragtrace drift), and candidate recall on the gold set.",
        "Gate releases of rewriter, embedding and chunker on query coverage by segment, facets lost in the rewrite "
        "included.",
        "Put the questions of the broken requests into the gold set, with the evidence that they need.",
    ),
    "ranking": (
        "Gate releases of reranker and packer on evidence recall and rank shift by segment.",
        "Give exceptions, exclusions and limits a place in the packed prompt, or a test that they reach it.",
        "Watch truncated tokens and the budget that each kind of chunk takes.",
    ),
    "generation": (
        "Gate releases of model, prompt and decoding on answer coverage and contradictions, with the evidence given.",
        "Put the contradicted claims into the regression set: the same prompts, and what the evidence says.",
        "Check answers with figures, dates and negations against the cited chunk before they are shown.",
    ),
    "citation": (
        "Gate releases of model and prompt on citation coverage and citation precision.",
        "Check the format of citations in the prompt's test, dangling ones included.",
        "Refuse or mark an answer whose claims carry no citation.",
    ),
}
