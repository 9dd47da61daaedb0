"""Claims: the statements of an answer, with offsets, told apart from what states nothing."""

from __future__ import annotations

from ragtrace.coverage.claims.splitting import is_abstention, split_claims

__all__ = ["is_abstention", "split_claims"]
