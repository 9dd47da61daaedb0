"""Which content each chunk of a request held, under which version of the index: what drift between builds is read from.

A chunk's id is the host's, else the hash of its content. One whose content is unknown (not captured, and no hash given)
says nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ragtrace.store import ChunkSeen
from ragtrace.store.drift import INDEX
from ragtrace.types import RequestRecord, content_hash

__all__ = ["seen_chunks"]


def seen_chunks(record: RequestRecord) -> Iterator[ChunkSeen]:
    """The candidates of a request that names its index version."""
    version = record.versions.get(INDEX)
    if version is None:
        return
    for candidate in record.candidates:
        held = candidate.content_hash or (None if candidate.text is None else content_hash(candidate.text))
        if held is not None:
            yield ChunkSeen(record.service, version, candidate.chunk_id, held)
