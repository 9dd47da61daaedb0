"""Claims: the statements of an answer, with offsets, told apart from what states nothing."""

from __future__ import annotations

from ragtrace.coverage.claims.splitting import abstains_somewhere, is_abstention, shared_citations, split_claims
from ragtrace.coverage.claims.weights import claim_weight

__all__ = ["abstains_somewhere", "claim_weight", "is_abstention", "shared_citations", "split_claims"]
