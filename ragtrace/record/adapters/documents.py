"""Builds a chunk out of what all frameworks' documents have: an id, a text, a score, metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragtrace.record.adapters import Adapter
from ragtrace.record.coercion.chunks import Chunk
from ragtrace.record.coercion.values import Unreadable, number, plain, text

__all__ = ["CHUNK", "read_document"]

_IDS: Final = ("chunk_id", "id", "_id")
_DOCUMENTS: Final = ("doc_id", "document_id", "ref_doc_id", "parent_id", "source_id", "file_id")
_SOURCES: Final = ("source", "file_name", "file_path", "url")

_NAMES: Final = frozenset((*_IDS, *_DOCUMENTS, *_SOURCES))

CHUNK: Final = Adapter(chunk=lambda chunk: chunk)  # an adapter of a result gives chunks that are read already


def read_document(
    item: Any,
    *,
    id: Any,
    body: Any,
    metadata: Any,
    score: Any = None,
    doc_id: Any = None,
    modality: str = "text",
) -> Chunk:
    """The chunk; an id, a document and a source that are missing are looked for in the metadata.

    Raises: Unreadable when `item` has neither an id nor a text.
    """
    is_mapping = type(metadata) is dict or isinstance(metadata, Mapping)
    found: dict[str, Any] = plain(metadata) if is_mapping and metadata else {}
    chunk_id = None if id is None or id == "" else str(id)
    origin = None if doc_id is None else str(doc_id)
    source = None
    if not _NAMES.isdisjoint(found):
        chunk_id = _named(found, _IDS) if chunk_id is None else chunk_id
        origin = _named(found, _DOCUMENTS) if origin is None else origin
        source = _named(found, _SOURCES)
    words = text(body)
    if chunk_id is None and not words:
        raise Unreadable(item)
    return Chunk(chunk_id, words, number(score), origin, source, modality, found)


def _named(found: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    """The first of these entries that can serve as a name."""
    for key in keys:
        value = found.get(key)
        if value is not None and type(value) is not dict and type(value) is not list:
            return str(value)
    return None
