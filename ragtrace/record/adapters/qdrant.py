"""Reads Qdrant's points and results. The order of the points tells a score from a distance (Euclidean, Manhattan)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ragtrace.record.coercion.chunks import read_document
from ragtrace.record.coercion.dispatch import Adapter
from ragtrace.record.coercion.rows import merge, negative, rises
from ragtrace.record.coercion.values import Chunk

__all__ = ["GROUPS", "POINT", "RESPONSE", "is_page"]

_TEXTS: Final = ("text", "page_content", "content", "document", "body", "chunk", "passage")


def _point(point: Any) -> Chunk:
    """A `ScoredPoint` or a `Record`, which has no score. LangChain's payload is a text and nested metadata."""
    payload = dict(point.payload or {})
    key = next((key for key in _TEXTS if isinstance(payload.get(key), str)), None)
    body = payload.pop(key) if key else None
    if isinstance(nested := payload.get("metadata"), Mapping):
        del payload["metadata"]
        payload = {**nested, **payload}
    return read_document(point, id=point.id, body=body, metadata=payload, score=getattr(point, "score", None))


def _listed(points: list[Any]) -> Iterable[Any] | None:
    return _nearness(points, points)


def _nearness(points: list[Any], best_first: list[Any]) -> list[Any] | None:
    """Chunks with negative scores, when the scores of `best_first` are distances."""
    if not rises(getattr(point, "score", None) for point in best_first):
        return None
    chunks = [_point(point) for point in points]
    for chunk in chunks:
        chunk.score = negative(chunk.score)
    return chunks


def _points(response: Any) -> Iterable[Any]:
    points: list[Any] = response.points
    return _nearness(points, points) or points


def _groups(result: Any) -> Iterable[Any]:
    """The points of all groups, the best group first."""
    groups = [list(group.hits) for group in result.groups]
    points = [point for group in groups for point in group]
    return _nearness(points, [group[0] for group in groups if group]) or points


def is_page(value: tuple[Any, ...]) -> bool:
    """Whether this is what `scroll` returns: records, and where the next page begins."""
    return len(value) == 2 and type(value[0]) is list and bool(value[0]) and _is_record(value[0][0])


def _is_record(item: Any) -> bool:
    return type(item).__name__ == "Record" and type(item).__module__.startswith("qdrant_client.")


POINT: Final = Adapter(chunk=_point, listed=_listed)
RESPONSE: Final = Adapter(items=_points, listed=lambda responses: merge([_points(one) for one in responses]))
GROUPS: Final = Adapter(items=_groups)
