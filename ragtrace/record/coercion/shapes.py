"""Where the parts of an item are: worked out once for each shape of a mapping or class, and kept, so that fifty
candidates cost fifty look-ups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from ragtrace.record.adapters import adapter_of

__all__ = ["SHAPES", "TEXTS", "UNREAD", "Shape", "key_of", "named_parts", "plain_parts", "shape_of"]

_IDS: Final = ("chunk_id", "id", "_id", "id_", "node_id")
TEXTS: Final = ("text", "content", "page_content", "body", "passage", "contents", "snippet")
_SCORES: Final = ("score", "_score", "similarity", "relevance_score", "similarity_score", "relevance", "rerank_score")
_DISTANCES: Final = ("distance", "_distance")
_DOCUMENTS: Final = ("doc_id", "document_id", "parent_id", "ref_doc_id", "source_id", "file_id")
_SOURCES: Final = ("source", "collection", "namespace", "_index", "file_name", "url")
_MODALITIES: Final = ("modality",)
_METADATA: Final = ("metadata", "meta", "payload", "_source", "fields")
_INDEXES: Final = ("index", "corpus_id")
_INNER: Final = ("node", "document", "chunk", "doc")
UNREAD: Final = frozenset({"embedding", "vector"})
_USED: Final = frozenset(
    {*_IDS, *TEXTS, *_SCORES, *_DISTANCES, *_DOCUMENTS, *_SOURCES, *_MODALITIES, *_METADATA, *_INNER, *_INDEXES}
    | UNREAD
)
_MOST: Final = 512


class Shape(NamedTuple):
    """The keys or attributes in which the parts of an item are."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    scores: tuple[str, ...]
    distances: tuple[str, ...]
    documents: tuple[str, ...]
    sources: tuple[str, ...]
    modalities: tuple[str, ...]
    metadata: tuple[str, ...]
    inner: tuple[str, ...]
    indexes: tuple[str, ...]
    others: tuple[str, ...]
    quick: Callable[[Any], tuple[Any, ...]] | None  # id, text and perhaps score at once, where nothing else is there


SHAPES: Final[dict[Any, Shape]] = {}  # those that were met


def key_of(item: Any, kind: type) -> Any:
    """The class where it fixes the attributes (dataclasses, slots), else the class with the object's own attributes."""
    own = getattr(item, "__dict__", None)
    return kind if own is None or hasattr(kind, "__dataclass_fields__") else (kind, *own)


def shape_of(item: Any, key: Any) -> Shape:
    """The shape of an item that is the first one with this key."""
    is_mapping = isinstance(item, Mapping)

    def there(wanted: tuple[str, ...]) -> tuple[str, ...]:
        if is_mapping:
            return tuple(name for name in wanted if name in item)
        return tuple(name for name in wanted if not callable(getattr(item, name, print)))

    others = tuple(name for name in item if isinstance(name, str) and name not in _USED) if is_mapping else ()
    ids, texts, scores = there(_IDS), there(TEXTS), there(_SCORES)
    more = any(map(there, (_DISTANCES, _DOCUMENTS, _SOURCES, _MODALITIES, _METADATA))) or others
    taken = (*ids[:1], *texts[:1], *scores[:1])
    is_plain = ids and texts and not (more or there(_INNER) or there(_INDEXES))
    quick = (itemgetter if is_mapping else attrgetter)(*taken) if is_plain else None
    shape = Shape(
        ids,
        texts,
        scores,
        there(_DISTANCES),
        there(_DOCUMENTS),
        there(_SOURCES),
        there(_MODALITIES),
        there(_METADATA),
        there(_INNER),
        there(_INDEXES),
        others,
        quick,
    )
    if len(SHAPES) < _MOST:
        SHAPES[key] = shape
    return shape


def named_parts(item: Any) -> tuple[str, ...] | None:
    """The attributes in which an object's parts are; None where they must be searched for in each object anew."""
    if isinstance(item, Mapping | str | list | set) or type(item) is tuple or adapter_of(type(item)).chunk is not None:
        return None
    key = key_of(item, type(item))
    shape = SHAPES.get(key) or shape_of(item, key)
    groups = shape[:8]
    if not shape.ids or not shape.texts or shape.inner or any(len(group) > 1 for group in groups):
        return None
    return tuple(name for group in groups for name in group)


def plain_parts(names: Sequence[str]) -> tuple[int, int, int] | None:
    """The places of id, text and score among `names`, when there is one of each and nothing else."""
    places = [[place for place, name in enumerate(names) if name in wanted] for wanted in (_IDS, TEXTS, _SCORES)]
    if len(names) != 3 or any(len(found) != 1 for found in places):
        return None
    return places[0][0], places[1][0], places[2][0]
