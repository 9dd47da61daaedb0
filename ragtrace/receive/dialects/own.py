"""ragtrace's own spans: all ids, ranks and scores, and texts where the host puts content on spans.

Only where no record comes with them: the record of ragtrace's own channel holds more, and goes before.
"""

from __future__ import annotations

import sys
from itertools import islice
from typing import Any, Final

from ragtrace.receive._spans import (
    Attributes,
    Packed,
    ReceivedSpan,
    Reranked,
    Retrieved,
    SpanGeneration,
    SpanReading,
    Step,
    grouped,
    jsonish,
    number,
    text,
    usage,
    whole,
)
from ragtrace.receive.dialects import genai, openinference
from ragtrace.record import conventions as names
from ragtrace.types import DroppedChunk

__all__ = ["name", "read", "recognizes"]

name: Final = "ragtrace"

_INFERRED: Final = "probably "


def recognizes(span: ReceivedSpan) -> bool:
    """By the tracer that made it."""
    return span.scope == names.TRACER


def read(span: ReceivedSpan) -> SpanReading:
    """By the attributes of its stage, else of its request."""
    step = _step(span)
    # its record comes by ragtrace's own channel, under an id that the request's span alone tells
    return _request(span) if step is None else SpanReading(step=step, is_second_hand=True)


def _step(span: ReceivedSpan) -> Step | None:
    attributes = span.attributes
    if names.RETRIEVAL_IDS in attributes:
        query = text(attributes, names.RETRIEVAL_QUERY, names.INPUT_VALUE)
        top_k = whole(attributes, names.RETRIEVAL_TOP_K)
        return Retrieved(query=query, found=_candidates(attributes), top_k=top_k)
    if names.RERANK_IDS in attributes:
        return _reranked(attributes)
    if names.PACK_IDS in attributes:
        return _packed(attributes)
    return _generated(attributes) if attributes.get(names.OPERATION_NAME) == "chat" else None


def _request(span: ReceivedSpan) -> SpanReading:
    attributes = span.attributes
    sampled, flags = attributes.get(names.REQUEST_HEAD_SAMPLED), attributes.get(names.REQUEST_FLAGS)
    start = f"{names.VERSION}."
    return SpanReading(
        question=text(attributes, names.INPUT_VALUE),
        answer=text(attributes, names.OUTPUT_VALUE),
        request_id=text(attributes, names.REQUEST_ID),
        is_second_hand=True,
        service=text(attributes, names.REQUEST_SERVICE),
        session_id=text(attributes, names.SESSION_ID),
        segment=text(attributes, names.REQUEST_SEGMENT),
        query_class=text(attributes, names.REQUEST_QUERY_CLASS),
        flags=tuple(flag for flag in flags if isinstance(flag, str)) if isinstance(flags, list) else (),
        head_sampled=sampled if isinstance(sampled, bool) else None,
        head_probability=_probability(attributes.get(names.REQUEST_HEAD_PROBABILITY)),
        versions={key[len(start) :]: str(value) for key, value in attributes.items() if key.startswith(start)},
    )


def _probability(value: Any) -> float | None:
    """One that cannot be weighed stays as it is said: the record is settled before it is stored."""
    return number(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> list[str]:
    return [str(each) for each in _list(value)]


def _candidates(given: Attributes) -> list[dict[str, Any]]:
    """Ids and scores; texts from OpenInference's attributes, which stand beside them on request."""
    ids, scores = _strings(given.get(names.RETRIEVAL_IDS)), given.get(names.RETRIEVAL_SCORES)
    scores = scores if isinstance(scores, list) and len(scores) == len(ids) else [None] * len(ids)
    said = {each.get("id"): each for each in openinference.documents(grouped(given, names.DOCUMENTS), given)}
    return [
        said.get(chunk_id, {}) | {"id": chunk_id} | ({} if score is None else {"score": score})
        for chunk_id, score in zip(ids, scores, strict=True)
    ]


def _reranked(attributes: Attributes) -> Reranked:
    """The inputs in their order: each that was kept at its rank before, those that fell out in between."""
    kept, before = _strings(attributes.get(names.RERANK_IDS)), attributes.get(names.RERANK_RANKS_BEFORE)
    scores = attributes.get(names.RERANK_SCORES)
    scores = scores if isinstance(scores, list) and len(scores) == len(kept) else [None] * len(kept)
    ranks = {rank: chunk_id for chunk_id, rank in zip(kept, _ranks(before), strict=False) if rank > 0}
    dropped = iter(_strings(attributes.get(names.RERANK_DROPPED_IDS)))
    inputs: list[str] = []
    last = 0
    for rank in sorted(ranks):
        inputs += [*islice(dropped, min(rank - last - 1, sys.maxsize)), ranks[rank]]
        last = rank
    inputs += dropped
    return Reranked(
        given=[{"id": chunk_id} for chunk_id in inputs],
        kept=[{"id": chunk_id, "score": score} for chunk_id, score in zip(kept, scores, strict=True)],
    )


def _ranks(value: Any) -> list[int]:
    return [each if isinstance(each, int) else 0 for each in _list(value)]


def _packed(attributes: Attributes) -> Packed:
    texts = {
        str(item.get("id")): text(item, "content")
        for item in _list(jsonish(attributes.get(names.OUTPUT_VALUE)))
        if isinstance(item, dict)
    }
    ids, tokens = _strings(attributes.get(names.PACK_IDS)), attributes.get(names.PACK_TOKENS)
    tokens = tokens if isinstance(tokens, list) and len(tokens) == len(ids) else [None] * len(ids)
    cut = set(_strings(attributes.get(names.PACK_TRUNCATED_IDS)))
    chunks = [
        {"id": chunk_id, "text": texts.get(chunk_id), "tokens": count, "truncated": chunk_id in cut}
        for chunk_id, count in zip(ids, tokens, strict=True)
    ]
    reasons = _strings(attributes.get(names.PACK_DROPPED_REASONS))
    dropped = zip(_strings(attributes.get(names.PACK_DROPPED_IDS)), reasons, strict=False)
    return Packed(
        chunks=[{key: value for key, value in chunk.items() if value is not None} for chunk in chunks],
        dropped=tuple(_dropped(chunk_id, reason) for chunk_id, reason in dropped),
        budget=whole(attributes, names.PACK_BUDGET),
    )


def _dropped(chunk_id: str, reason: str) -> DroppedChunk:
    """The reverse of `DroppedChunk.why`."""
    stated = reason.removeprefix(_INFERRED)
    return DroppedChunk(chunk_id=chunk_id, reason=stated, inferred=stated != reason)


def _generated(given: Attributes) -> SpanGeneration:
    asked, said = genai.messages(given.get(names.INPUT_MESSAGES)), genai.messages(given.get(names.OUTPUT_MESSAGES))
    finish = given.get(names.FINISH_REASONS)
    return SpanGeneration(
        prompt=asked or text(given, names.INPUT_VALUE),
        answer=said[0]["content"] if said else text(given, names.OUTPUT_VALUE),
        model=text(given, names.REQUEST_MODEL, names.LLM_MODEL),
        usage=usage(whole(given, names.INPUT_TOKENS), whole(given, names.OUTPUT_TOKENS)),
        finish_reason=str(finish[0]) if isinstance(finish, list) and finish else None,
    )
