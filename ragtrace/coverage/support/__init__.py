"""Support of claims by evidence, layer 1: words, values and negations, without a model."""

from __future__ import annotations

from ragtrace.coverage.support._contradiction import NEGATED, opposition
from ragtrace.coverage.support.lexical import Lexical, Rationale, Support, rationales
from ragtrace.coverage.support.readings import Evidence, Statement, Vocabulary

__all__ = [
    "NEGATED",
    "Evidence",
    "Lexical",
    "Rationale",
    "Statement",
    "Support",
    "Vocabulary",
    "opposition",
    "rationales",
]
