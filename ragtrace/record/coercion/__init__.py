"""Reads candidates, packed chunks and answers out of whatever a host's stage takes and returns."""

from ragtrace.record.coercion._answers import StreamedAnswer, read_answer, read_prompt
from ragtrace.record.coercion._packing import (
    PackerResult,
    StreamedPacking,
    TakenPacking,
    placed,
    read_packing,
    take_known_packing,
    take_packing,
)
from ragtrace.record.coercion._snapshots import (
    Frozen,
    SnapshotColumns,
    StreamedChunks,
    StreamedValues,
    freeze,
    freeze_known,
)
from ragtrace.record.coercion.chunks import Chunks, read_chunks, told_apart
from ragtrace.record.coercion.recognition import Known
from ragtrace.record.coercion.values import (
    Chunk,
    PlainChunks,
    Unreadable,
    read_facets,
    read_grades,
    read_sampled_ranking,
)

__all__ = [
    "Chunk",
    "Chunks",
    "Frozen",
    "Known",
    "PackerResult",
    "PlainChunks",
    "SnapshotColumns",
    "StreamedAnswer",
    "StreamedChunks",
    "StreamedPacking",
    "StreamedValues",
    "TakenPacking",
    "Unreadable",
    "freeze",
    "freeze_known",
    "placed",
    "read_answer",
    "read_chunks",
    "read_facets",
    "read_grades",
    "read_packing",
    "read_prompt",
    "read_sampled_ranking",
    "take_known_packing",
    "take_packing",
    "told_apart",
]
