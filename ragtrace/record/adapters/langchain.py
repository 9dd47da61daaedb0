"""Reads LangChain's `Document`. A score stands beside it in a pair, or where compressors leave it, in its metadata."""

from __future__ import annotations

from typing import Any, Final

from ragtrace.record.coercion.chunks import read_document
from ragtrace.record.coercion.dispatch import Adapter
from ragtrace.record.coercion.values import Chunk, first

__all__ = ["DOCUMENT"]

_SCORES: Final = ("relevance_score", "similarity_score", "score", "_score")
_NAMES: Final = frozenset(_SCORES)


def _document(document: Any) -> Chunk:
    metadata = document.metadata
    return read_document(
        document,
        id=getattr(document, "id", None),  # older versions have none
        body=document.page_content,
        metadata=metadata,
        score=first(metadata, *_SCORES) if not _NAMES.isdisjoint(metadata or ()) else None,
    )


DOCUMENT: Final = Adapter(chunk=_document)
