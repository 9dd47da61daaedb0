"""Adapters: how the results of each library are read, a section for each. No library is imported for it: the name of a
value's type leads to its adapter, by the table in `coercion/dispatch.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from numbers import Integral
from typing import Any, Final, TypeAlias

from ragtrace.record.coercion.chunks import (
    distances,
    is_array,
    is_distance_name,
    listed_in,
    merge,
    negative,
    nested,
    read_chunk,
    read_document,
    rises,
    rows_in,
)
from ragtrace.record.coercion.dispatch import GROUP, Adapter
from ragtrace.record.coercion.values import Chunk, Unreadable, first, number, text, whole, within

__all__ = [
    "CHROMA_RESULT",
    "CHUNK",
    "DICT",
    "GROUP",
    "HAYSTACK_DOCUMENT",
    "LANGCHAIN_DOCUMENT",
    "LIST",
    "LLAMA_INDEX_NODE",
    "LLAMA_INDEX_RESULT",
    "LLAMA_INDEX_SCORED",
    "QDRANT_GROUPS",
    "QDRANT_POINT",
    "QDRANT_RESPONSE",
    "SQLALCHEMY_ENTITY",
    "SQLALCHEMY_MAPPING",
    "SQLALCHEMY_ROW",
    "TUPLE",
    "Adapter",
]

# Chroma: columns instead of rows, and in a query's result one list per query. `query` gives distances, `get` neither;
# `search` calls its numbers scores, of which the lower one is the better.

_CHROMA_COLUMNS: Final = frozenset({"documents", "metadatas", "distances", "embeddings", "uris", "data"})


def _columns(result: Mapping[str, Any]) -> Iterable[Any] | None:
    """The chunks of a result; None for a mapping that is none. Raises: Unreadable."""
    ids = result.get("ids")
    if not isinstance(ids, Sequence) or isinstance(ids, str) or _CHROMA_COLUMNS.isdisjoint(result):
        return None
    if not ids or not isinstance(ids[0], list | tuple):
        return _of_query(ids, result.get("documents"), result.get("metadatas"), None)
    distances = result.get("distances") or result.get("scores")
    parts = zip_longest(ids, *(part or () for part in (result.get("documents"), result.get("metadatas"), distances)))
    return merge([_of_query(*part) for part in parts if part[0] is not None])


def _of_query(ids: Sequence[Any], documents: Any, metadatas: Any, distances: Any) -> list[Chunk]:
    """One query's chunks. A column that was not asked for is None."""
    parts = zip_longest(ids, *((part or ())[: len(ids)] for part in (documents, metadatas, distances)))
    return [
        read_document(ids, id=id, body=body, metadata=metadata, score=negative(distance))
        for id, body, metadata, distance in within(parts)
    ]


CHROMA_RESULT: Final = Adapter(items=_columns)


# FAISS: `(distances, ids)`, one row per query, and what the host may add to it, its id map. hnswlib's `(labels,
# distances)` is told by its integers and read alike. Slots without a neighbor (-1) are left out.

_Rows: TypeAlias = list[list[Any]]


def _neighbors(value: tuple[Any, ...]) -> Iterable[Any] | None:
    """The chunks of a pair of arrays, with or without an id map behind it; None for any other tuple."""
    if len(value) not in (2, 3) or not (is_array(value[0]) and is_array(value[1])):
        return None
    distances, ids = _rows_of(value[0]), _rows_of(value[1])
    known: Any = value[2] if len(value) == 3 else None
    if _are_whole(distances) and not _are_whole(ids):
        if is_array(known):  # of `range_search`, which returns limits, distances and ids
            return None
        distances, ids = ids, distances
    known = known.tolist() if is_array(known) else known
    if [len(row) for row in distances] != [len(row) for row in ids] or isinstance(known, str):
        return None
    is_distance = _are_distances(distances, ids)
    return merge(
        [
            [
                _neighbor(place, score, is_distance, known)
                for score, place in within(zip(*row, strict=True))
                if _is_there(place)
            ]
            for row in zip(distances, ids, strict=True)
        ]
    )


def _rows_of(array: Any) -> _Rows:
    """Rows of an array of any number of dimensions up to two."""
    found = array.tolist()
    if not isinstance(found, list):
        return [[found]]
    return found if found and isinstance(found[0], list) else [found]


def _are_whole(rows: _Rows) -> bool:
    return all(isinstance(value, int) for row in rows for value in row)


def _is_there(place: Any) -> bool:
    index = whole(place)
    return index is None or index >= 0


def _are_distances(distances: _Rows, ids: _Rows) -> bool | None:
    """Whether lower is better, by the order of any row or by an empty slot, which has the worst number."""
    for scores, places in zip(distances, ids, strict=True):
        pairs = list(zip(scores, places, strict=True))
        empty = next((number(score) for score, place in pairs if not _is_there(place)), None)
        if empty:
            return empty > 0
        found = rises(score for score, place in pairs if _is_there(place))
        if found is not None:
            return found
    return None


def _neighbor(place: Any, score: Any, is_distance: bool | None, known: Any) -> Chunk:
    """One neighbor. Without a direction its number says nothing."""
    chunk = _mapped(place, known)
    chunk.score = None if is_distance is None else negative(score) if is_distance else number(score)
    return chunk


def _mapped(place: Any, known: Sequence[Any] | Mapping[Any, Any] | None) -> Chunk:
    """What the id map has at `place`: an id, or any chunk; without one, `place` is the id."""
    if known is not None:
        try:
            found = known[place]
        except (LookupError, TypeError):
            found = known.get(str(place)) if isinstance(known, Mapping) else None
        if found is not None:
            return _known_chunk(found)
    return Chunk(chunk_id=str(place))


def _known_chunk(found: Any) -> Chunk:
    try:
        chunk = read_chunk(found)
    except Unreadable:
        return Chunk(chunk_id=str(found))
    return Chunk(
        chunk.chunk_id, chunk.text, None, chunk.doc_id, chunk.source, chunk.modality, chunk.metadata, chunk.index
    )


# Qdrant: points and results. The order of the points tells a score from a distance (Euclidean, Manhattan).

_PAYLOAD_TEXTS: Final = ("text", "page_content", "content", "document", "body", "chunk", "passage")


def _point(point: Any) -> Chunk:
    """A `ScoredPoint` or a `Record`, which has no score. LangChain's payload is a text and nested metadata."""
    payload = dict(point.payload or {})
    key = next((key for key in _PAYLOAD_TEXTS if isinstance(payload.get(key), str)), None)
    body = payload.pop(key) if key else None
    if isinstance(nested := payload.get("metadata"), Mapping):
        del payload["metadata"]
        payload = {**nested, **payload}
    return read_document(point, id=point.id, body=body, metadata=payload, score=getattr(point, "score", None))


def _listed_points(points: list[Any]) -> Iterable[Any] | None:
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


def _is_page(value: tuple[Any, ...]) -> bool:
    """Whether this is what `scroll` returns: records, and where the next page begins."""
    return len(value) == 2 and type(value[0]) is list and bool(value[0]) and _is_record(value[0][0])


def _is_record(item: Any) -> bool:
    return type(item).__name__ == "Record" and type(item).__module__.startswith("qdrant_client.")


QDRANT_POINT: Final = Adapter(chunk=_point, listed=_listed_points)
QDRANT_RESPONSE: Final = Adapter(items=_points, listed=lambda responses: merge([_points(one) for one in responses]))
QDRANT_GROUPS: Final = Adapter(items=_groups)


# SQLAlchemy: rows and mapped objects, as pgvector's queries return them. Only what is loaded is read: an attribute that
# has expired would ask the database, in the host's session. All of pgvector's operators are distances, so the number
# without a label beside a mapped object is one.

_STATE: Final = "_sa_instance_state"
_ROW_IDS: Final = ("chunk_id", "id", "_id", "id_", "node_id")
_UNLABELED: Final = ("_no_label", "anon_", "?column?")
_METADATA_COLUMNS: Final = ("metadata_", "cmetadata", "meta_")  # `metadata` is taken in a mapped class


def _sql_row(row: Any) -> Chunk:
    return _read_row(row, zip(row._fields, row, strict=True))


def _sql_mapping(mapping: Mapping[Any, Any]) -> Chunk:
    return _read_row(mapping, ((str(key), value) for key, value in mapping.items()))


def _sql_entity(entity: Any) -> Chunk:
    return _row_chunk(entity, _loaded(entity))


def _read_row(item: Any, fields: Iterable[tuple[str, Any]]) -> Chunk:
    """One row: its columns, those of its objects (the first one's before the next one's), and its distance."""
    columns: dict[str, Any] = {}
    joined: dict[str, Any] = {}
    for name, value in fields:
        if _is_mapped(value):
            joined = {**_loaded(value), **joined}
        elif _is_distance(name, value):
            columns.setdefault("distance", value)
        else:
            columns[_named(name)] = value
    return _row_chunk(item, {**joined, **columns})


def _is_distance(name: str, value: Any) -> bool:
    return is_distance_name(name) or (
        name.startswith(_UNLABELED) and not isinstance(value, Integral) and number(value) is not None
    )


def _is_mapped(value: Any) -> bool:
    return _STATE in getattr(value, "__dict__", ())


def _loaded(entity: Any) -> dict[str, Any]:
    """The columns that are loaded, without related objects; the primary key also when nothing else is."""
    own = entity.__dict__
    found = {
        _named(name): value
        for name, value in own.items()
        if name != _STATE and not _is_mapped(value) and not type(value).__module__.startswith("sqlalchemy.")
    }
    key = getattr(own.get(_STATE), "key", None)
    if key is not None and len(key[1]) == 1 and not any(name in found for name in _ROW_IDS):
        found["id"] = key[1][0]
    return found


def _named(name: str) -> str:
    return "metadata" if name in _METADATA_COLUMNS else name


def _row_chunk(item: Any, columns: dict[str, Any]) -> Chunk:
    try:
        return read_chunk(columns)
    except Unreadable:
        raise Unreadable(item) from None


SQLALCHEMY_ROW: Final = Adapter(chunk=_sql_row)
SQLALCHEMY_MAPPING: Final = Adapter(chunk=_sql_mapping)
SQLALCHEMY_ENTITY: Final = Adapter(chunk=_sql_entity)


# sentence-transformers: hits, which are a place in the corpus and a score, from `CrossEncoder.rank` also a text.

_CORPUS_PLACE: Final = "corpus_id"
_HIT_MARKS: Final = frozenset({_CORPUS_PLACE})  # what a hit has


def _hits(found: list[Any]) -> Iterable[Any] | None:
    """The hits of one query; None for a list of other mappings.

    A reranker's place is among its inputs, whatever the text says: two inputs may have the same.
    """
    if _CORPUS_PLACE not in found[0] or any(name in found[0] for name in ("id", "chunk_id", "_id")):
        return None
    return [_hit(hit) for hit in found]


def _hit(hit: Any) -> Any:
    index = whole(hit.get(_CORPUS_PLACE)) if isinstance(hit, Mapping) else None
    if index is None:
        return hit
    return Chunk(text=text(hit.get("text")), score=number(hit.get("score")), index=index)


# LangChain: `Document`. A score stands beside it in a pair, or where compressors leave it, in its metadata.

_SCORES_IN_METADATA: Final = ("relevance_score", "similarity_score", "score", "_score")
_SCORE_NAMES: Final = frozenset(_SCORES_IN_METADATA)


def _langchain_document(document: Any) -> Chunk:
    metadata = document.metadata
    return read_document(
        document,
        id=getattr(document, "id", None),  # older versions have none
        body=document.page_content,
        metadata=metadata,
        score=first(metadata, *_SCORES_IN_METADATA) if not _SCORE_NAMES.isdisjoint(metadata or ()) else None,
    )


LANGCHAIN_DOCUMENT: Final = Adapter(chunk=_langchain_document)


# LlamaIndex: nodes, alone, in a `NodeWithScore` or in a vector store's `VectorStoreQueryResult`.

_SOURCE: Final = "1"  # the value of `NodeRelationship.SOURCE`, which hashes and compares as this text
_MODALITIES: Final = ("image", "audio", "video")


def _node(node: Any) -> Chunk:
    return read_document(
        node,
        id=getattr(node, "id_", None) or getattr(node, "node_id", None),
        body=_node_text(node),
        metadata=getattr(node, "metadata", None),
        doc_id=_origin(node),
        modality=_node_modality(node),
    )


def _node_text(node: Any) -> Any:
    """The text without the metadata that `get_content()` may put around it; None of a node without one."""
    own = getattr(node, "__dict__", {})
    if "text" in own:
        return own["text"] or None
    if "text_resource" in own:
        return getattr(own["text_resource"], "text", None)
    return node.get_content()


def _origin(node: Any) -> str | None:
    source = (getattr(node, "relationships", None) or {}).get(_SOURCE)
    return getattr(source, "node_id", None)


def _node_modality(node: Any) -> str:
    """What a node without text holds instead: `ImageNode`s have `image*`, nodes `*_resource`s."""
    own = getattr(node, "__dict__", {})
    if own.get("text") or own.get("text_resource") is not None:
        return "text"
    if any(own.get(name) for name in ("image", "image_path", "image_url")):
        return "image"
    return next((kind for kind in _MODALITIES if own.get(f"{kind}_resource") is not None), "text")


def _scored(scored: Any) -> Chunk:
    chunk = _node(scored.node)
    chunk.score = number(scored.score)
    return chunk


def _nodes_of(result: Any) -> Iterable[Any]:
    """Nodes or, of a store that keeps no texts, ids."""
    found = result.nodes if result.nodes is not None else [Chunk(chunk_id=str(id)) for id in result.ids or ()]
    return list(zip_longest(found, (result.similarities or ())[: len(found)]))


LLAMA_INDEX_NODE: Final = Adapter(chunk=_node)
LLAMA_INDEX_SCORED: Final = Adapter(chunk=_scored)
LLAMA_INDEX_RESULT: Final = Adapter(items=_nodes_of)


# Haystack: `Document`, whose text is `content`; one that holds a blob instead has that blob's modality.


def _haystack_document(document: Any) -> Chunk:
    return read_document(
        document,
        id=document.id,
        body=document.content,
        metadata=document.meta,
        score=document.score,
        modality=_blob_modality(document),
    )


def _blob_modality(document: Any) -> str:
    blob = None if document.content is not None else getattr(document, "blob", None)
    kind = str(getattr(blob, "mime_type", None) or "").partition("/")[0]
    return kind if kind in _MODALITIES else "text"


HAYSTACK_DOCUMENT: Final = Adapter(chunk=_haystack_document)


# Bare dicts, lists and tuples, whose parts tell what they are; and chunks that are read already.


def _tuple(value: tuple[Any, ...]) -> Iterable[Any] | None:
    if _is_page(value):
        return value[0]  # type: ignore[no-any-return]
    if value and type(value[0]) is tuple:
        return distances(value)
    for read in (_neighbors, rows_in, listed_in):
        if (found := read(value)) is not None:
            return found
    return None


DICT: Final = Adapter(items=_columns, listed=_hits, marks=_HIT_MARKS)
LIST: Final = Adapter(listed=nested)
TUPLE: Final = Adapter(items=_tuple, listed=distances)
CHUNK: Final = Adapter(chunk=lambda chunk: chunk)  # an adapter of a result gives them
