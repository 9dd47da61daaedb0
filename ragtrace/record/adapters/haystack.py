"""Reads Haystack's `Document`: its text is `content`; one that holds a blob instead has that blob's modality."""

from __future__ import annotations

from typing import Any, Final

from ragtrace.record.coercion.chunks import read_document
from ragtrace.record.coercion.dispatch import Adapter
from ragtrace.record.coercion.values import Chunk

__all__ = ["DOCUMENT"]

_MODALITIES: Final = ("image", "audio", "video")


def _document(document: Any) -> Chunk:
    return read_document(
        document,
        id=document.id,
        body=document.content,
        metadata=document.meta,
        score=document.score,
        modality=_modality(document),
    )


def _modality(document: Any) -> str:
    blob = None if document.content is not None else getattr(document, "blob", None)
    kind = str(getattr(blob, "mime_type", None) or "").partition("/")[0]
    return kind if kind in _MODALITIES else "text"


DOCUMENT: Final = Adapter(chunk=_document)
