"""Chunks in a retriever's or reranker's value: mappings, tuples, dataclasses, texts, other objects; and rows of them.

Where the parts of an item are is worked out once for each shape of a mapping or class, and kept, so that fifty
candidates cost fifty look-ups.

Rows are bare lists and tuples, as stores, drivers and functions return them (`(document, 0.2)`, `(7, text, 0.2)`),
parallel lists, one list per query, and what stands beside a list (`(documents, total)`). Higher is better in the
record, so a distance is written as its negative. A number that is called a distance is one. A number without a name is
judged by the order that it stands in: a list of results is best first, so numbers that rise from its first item to its
last are distances. No distance is turned into a similarity: how depends on the metric, which the result does not tell.
Of several queries in one call the best of each comes first, then the second of each, ...; a chunk that several found
keeps its first place. The rank is the place in the merged list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import pairwise, zip_longest
from math import isfinite
from numbers import Integral
from operator import attrgetter, getitem, itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from ragtrace.record.coercion._passages import UNSPACED
from ragtrace.record.coercion.dispatch import adapter_of, items_in, read_adapted
from ragtrace.record.coercion.values import Chunk, Get, Unreadable, first, number, plain, text, within
from ragtrace.record.guard import attempt
from ragtrace.types import content_hash

__all__ = [
    "APART",
    "SHAPES",
    "TEXTS",
    "UNREAD",
    "Chunks",
    "distances",
    "is_array",
    "is_distance_name",
    "is_listing",
    "items_of",
    "listed_in",
    "lists_of_chunks",
    "merge",
    "named_parts",
    "negative",
    "nested",
    "plain_parts",
    "read_chunk",
    "read_chunks",
    "read_document",
    "rises",
    "rows_in",
    "told_apart",
]

APART: Final = "~"
_APART_DIGITS: Final = 8
_ID_LENGTH: Final = 128
_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_SAYS: Final = 8  # characters of such a script
_MARKS: Final = re.compile("[\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f]")  # of its sentences
_NAME_END: Final = re.compile(r"[-_.#/:][A-Za-z0-9]+$")
_DEPTH: Final = 2
_BUILT_IN: Final = frozenset({dict, list, str, tuple})  # no adapter reads one of these
_LISTS: Final = ("candidates", "documents", "results", "hits", "matches", "points", "nodes", "source_nodes", "chunks")
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
SHAPES: Final[dict[Any, _Shape]] = {}  # those that were met
_ID_NAMES: Final = ("chunk_id", "id", "_id")
_DOCUMENT_NAMES: Final = ("doc_id", "document_id", "ref_doc_id", "parent_id", "source_id", "file_id")
_SOURCE_NAMES: Final = ("source", "file_name", "file_path", "url")
_NAMES: Final = frozenset((*_ID_NAMES, *_DOCUMENT_NAMES, *_SOURCE_NAMES))


class Chunks(NamedTuple):
    """Chunks with their place in the value (from 1), and the type names of the items that could not be read."""

    ranked: list[tuple[int, Chunk]]
    unread: list[str]


def read_chunks(value: Any) -> Chunks:
    """The chunks of a list, or of a mapping or object that holds one. Raises: Unreadable when there is none."""
    if type(value) is list and value and {Chunk}.issuperset(map(type, value)):  # read already
        return Chunks(list(enumerate(within(value), 1)), [])
    items = items_of(value)
    ranked: list[tuple[int, Chunk]] = []
    unread: list[str] = []
    for rank, item in enumerate(within(items), 1):
        shape = SHAPES.get(tuple(item) if type(item) is dict else type(item))
        if shape is not None and shape.quick is not None:
            # it may lack an attribute that the first one of its class had
            said = attempt(shape.quick, item, (None, None))
            chunk_id, body, score = said if len(said) == 3 else (*said, None)
            is_scored = type(score) is float and isfinite(score)
            if type(chunk_id) is str and chunk_id and type(body) is str and (is_scored or len(said) == 2):
                ranked.append((rank, Chunk(chunk_id, body, score)))
                continue
        chunk = attempt(read_chunk, item, None)
        if chunk is None:  # one that raises when it is looked at is no reason to lose the others
            unread.append(type(item).__name__)
        else:
            ranked.append((rank, chunk))
    return Chunks(ranked, unread)


def told_apart(ranked: list[tuple[int, Chunk]]) -> list[tuple[int, Chunk]]:
    """The chunks of one list, each text under an id of its own. Where several have one id, as that of their document or
    file, the first keeps it, and each other one has `ID~` and the beginning of its text's hash."""
    ids = [chunk.chunk_id for _, chunk in ranked]
    if len(set(ids)) == len(ids):
        return ranked
    first: dict[str, Chunk] = {}
    return [(rank, _apart(chunk, first)) for rank, chunk in ranked]


def _apart(chunk: Chunk, first: dict[str, Chunk]) -> Chunk:
    if chunk.chunk_id is None or chunk.text is None:
        return chunk
    known = first.setdefault(chunk.chunk_id, chunk)
    if known.text == chunk.text:
        return chunk
    chunk_id = f"{chunk.chunk_id}{APART}{content_hash(chunk.text)[:_APART_DIGITS]}"
    return msgspec.structs.replace(chunk, chunk_id=chunk_id, doc_id=chunk.doc_id or chunk.chunk_id)


def read_chunk(item: Any, depth: int = _DEPTH) -> Chunk:
    """One chunk. Raises: Unreadable when the item has neither an id nor a text."""
    kind = type(item)
    if kind in SHAPES:
        return _from_shape(item, getattr, SHAPES[kind], depth)
    if kind not in _BUILT_IN and (adapted := read_adapted(item, kind)) is not None:
        return _without_empty_id(adapted, item)
    if kind is dict or isinstance(item, Mapping):
        key: Any = tuple(item)
        get: Get = getitem
    elif isinstance(item, str):
        return _from_text(item)
    elif isinstance(item, tuple | list) and not hasattr(item, "_fields"):
        return _from_parts(item, depth)
    else:
        key, get = _key_of(item, kind), getattr
    shape = SHAPES.get(key)
    if shape is None:
        shape = _shape_of(item, key)
    return _from_shape(item, get, shape, depth)


def _from_shape(item: Any, get: Get, shape: _Shape, depth: int) -> Chunk:
    ids, texts, scores, _, documents, sources, modalities, metadata_keys, _, _, others, _ = shape
    metadata = _metadata(item, get, shape) if metadata_keys or others else {}
    chunk_id, body = _id(item, get, ids), text(_get(item, get, texts))
    doc_id = (_get(item, get, documents) if documents else None) or metadata.get("doc_id")
    source = (_get(item, get, sources) if sources else None) or metadata.get("source")
    score = _get(item, get, scores) if scores else None
    chunk = Chunk(
        chunk_id if chunk_id is None or type(chunk_id) is str else str(chunk_id),
        body,
        number(score) if scores else _nearness(item, get, shape.distances),
        None if doc_id is None else str(doc_id),
        None if source is None else str(source),
        str(_get(item, get, modalities) or "text") if modalities else "text",
        metadata,
    )
    if chunk_id is None or body is None:
        _complete(chunk, item, get, shape, depth)
    return chunk


def _get(item: Any, get: Get, keys: tuple[str, ...]) -> Any:
    for key in keys:
        try:
            found = get(item, key)
        except (AttributeError, KeyError):
            continue
        if found is not None:
            return found
    return None


def _id(item: Any, get: Get, keys: tuple[str, ...]) -> Any:
    """The first id that is one; an empty text names nothing."""
    for key in keys:
        found = _get(item, get, (key,))
        if found is not None and not (type(found) is str and not found):
            return found
    return None


def _without_empty_id(chunk: Chunk, item: Any) -> Chunk:
    if chunk.chunk_id == "":
        chunk.chunk_id = None
        if chunk.text is None and chunk.index is None:
            raise Unreadable(item)
    return chunk


def _nearness(item: Any, get: Get, distances: tuple[str, ...]) -> float | None:
    """A distance as a score: its negative, so that higher is better."""
    distance = number(_get(item, get, distances)) if distances else None
    return None if distance is None else -distance


def _metadata(item: Any, get: Get, shape: _Shape) -> dict[str, Any]:
    given = _get(item, get, shape.metadata)
    metadata: dict[str, Any] = plain(given) if isinstance(given, Mapping) else {}
    for name in shape.others:
        metadata[name] = plain(item[name])
    return metadata


def _complete(chunk: Chunk, item: Any, get: Get, shape: _Shape, depth: int) -> None:
    """Look further for an id or a text: in a wrapped node or document, in `get_content()`, in the metadata."""
    inner = _get(item, get, shape.inner) if depth else None
    if inner is not None:
        _merge(chunk, read_chunk(inner, depth - 1))
    if chunk.text is None and callable(content := getattr(item, "get_content", None)):
        chunk.text = text(content())
    if chunk.text is None:
        key = next((name for name in TEXTS if isinstance(chunk.metadata.get(name), str)), None)
        chunk.text = chunk.metadata.pop(key) if key else None
    if chunk.chunk_id is None and (found := first(chunk.metadata, "chunk_id", "id", "_id")) is not None:
        chunk.chunk_id = str(found) or None
    if chunk.chunk_id is None and chunk.text is None:
        chunk.index = _get(item, get, shape.indexes)
        if not isinstance(chunk.index, int):
            raise Unreadable(item)


def _merge(outer: Chunk, inner: Chunk) -> None:
    outer.chunk_id = outer.chunk_id if outer.chunk_id is not None else inner.chunk_id
    outer.text = outer.text if outer.text is not None else inner.text
    outer.score = outer.score if outer.score is not None else inner.score
    outer.doc_id = outer.doc_id or inner.doc_id
    outer.source = outer.source or inner.source
    outer.modality = inner.modality if outer.modality == "text" else outer.modality
    outer.metadata = inner.metadata | outer.metadata


def _from_text(item: str) -> Chunk:
    """A text without white space is an id, any other the chunk's text; so is a sentence in a script without spaces."""
    body = text(item) or ""
    if body and len(body) <= _ID_LENGTH and body.split(maxsplit=1) == [body] and not _is_sentence(body):
        return Chunk(chunk_id=body)
    return Chunk(text=body)


def _is_sentence(body: str) -> bool:
    """Whether a text in a script without spaces says something, and is no name such as `保険約款.pdf`."""
    if body.isascii() or _NAME_END.search(body) is not None:
        return False
    return len(_UNSPACED.findall(body)) >= _SAYS or _MARKS.search(body) is not None


def _from_parts(item: Sequence[Any], depth: int) -> Chunk:
    """(chunk, score), (id, score), (id, text, score) and their other orders."""
    texts: list[str] = []
    numbers: list[Any] = []
    others: list[Any] = []
    for part in item:
        kind = texts if isinstance(part, str) else others if number(part) is None else numbers
        kind.append(part)
    chunk = Chunk(score=number(numbers.pop()) if numbers else None)
    if len(texts) > 1:
        chunk.chunk_id, chunk.text = texts[0] or None, texts[1]
    elif texts:
        _merge(chunk, _from_text(texts[0]))
    if numbers and chunk.chunk_id is None:
        chunk.chunk_id = str(numbers[0])
    for part in others:
        _add_part(chunk, part, depth)
    if chunk.chunk_id is None and chunk.text is None:
        raise Unreadable(item)
    return chunk


def _add_part(chunk: Chunk, part: Any, depth: int) -> None:
    """A part that is no chunk itself is the metadata."""
    if part is None or not depth:
        return
    try:
        _merge(chunk, read_chunk(part, depth - 1))
    except Unreadable:
        if isinstance(part, Mapping):
            chunk.metadata = plain(part)


def items_of(value: Any) -> Iterable[Any]:
    """The items of a list-like value. An iterator is not touched: the host still needs it. Raises: Unreadable."""
    kind = type(value)
    if (adapted := items_in(value)) is not None:
        return adapted
    if kind is list or kind is tuple:
        return value  # type: ignore[no-any-return]
    if isinstance(value, str | bytes | bytearray) or value is None:
        raise Unreadable(value)
    is_named = isinstance(value, tuple) and hasattr(value, "_fields")
    if not (is_named or isinstance(value, Mapping)) and isinstance(value, Sequence | Set):
        return value
    found = first(value, *_LISTS)
    if isinstance(found, list | tuple):
        return found
    if isinstance(found, Mapping):  # Elasticsearch: {"hits": {"hits": [...]}}
        return items_of(found)
    if is_named:
        return items_of(tuple(value))
    raise Unreadable(value)


class _Shape(NamedTuple):
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


def _key_of(item: Any, kind: type) -> Any:
    """The class where it fixes the attributes (dataclasses, slots), else the class with the object's own attributes."""
    own = getattr(item, "__dict__", None)
    return kind if own is None or hasattr(kind, "__dataclass_fields__") else (kind, *own)


def _shape_of(item: Any, key: Any) -> _Shape:
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
    shape = _Shape(
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
    key = _key_of(item, type(item))
    shape = SHAPES.get(key) or _shape_of(item, key)
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
        chunk_id = _named(found, _ID_NAMES) if chunk_id is None else chunk_id
        origin = _named(found, _DOCUMENT_NAMES) if origin is None else origin
        source = _named(found, _SOURCE_NAMES)
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


_MISSING: Final = object()
_ARRAYS: Final = ("numpy", "torch", "cupy")


def distances(rows: Sequence[Any]) -> Iterable[Any] | None:
    """The tuples with negative scores when those are distances, which only their order tells; None when they are not.

    The score is a tuple's last number, if that is no integer.
    """
    best, worst = rows[0], rows[-1]
    place = next((at for at in range(len(best) - 1, -1, -1) if _is_score(best[at])), None)
    if place is None or _falls(best, worst, place):  # the usual case costs nothing
        return None
    if not all(type(row) is tuple and len(row) > place for row in rows) or not rises(row[place] for row in rows):
        return None
    return [(*row[:place], _opposite(row[place]), *row[place + 1 :]) for row in rows]


def _falls(best: tuple[Any, ...], worst: Any, place: int) -> bool:
    """Whether the last row's number shows that the numbers do not rise."""
    score = number(worst[place]) if type(worst) is tuple and len(worst) > place else None
    highest = number(best[place])
    return score is not None and highest is not None and score <= highest


def _is_score(part: Any) -> bool:
    return not isinstance(part, Integral) and number(part) is not None


def _opposite(distance: Any) -> Any:
    score = negative(distance)
    return distance if score is None else score


def rows_in(value: tuple[Any, ...]) -> Iterable[Any] | None:
    """The rows of parallel lists: chunks and scores, or ids, texts and scores. None where no column holds numbers, or
    all do but the ids of a pair, and where they are of different lengths."""
    if len(value) < 2 or not any(type(part) is list for part in value):
        return None
    columns = [part.tolist() if is_array(part) else part for part in value]
    if not all(isinstance(column, list | tuple) for column in columns) or len(set(map(len, columns))) > 1:
        return None
    are_scores = [all(number(each) is not None for each in column) for column in columns]
    if not columns[0] or not any(are_scores) or (all(are_scores) and len(columns) > len(("ids", "scores"))):
        return None
    rows = list(zip(*columns, strict=True))
    return distances(rows) or rows


def listed_in(value: tuple[Any, ...]) -> Iterable[Any] | None:
    """The items of the list beside something else, such as a total, a query or a page token; of several lists of
    chunks, all. None where no list is one of chunks or texts."""
    found = lists_of_chunks(value)
    if found:
        return nested(found) if len(found) > 1 else items_of(found[0])
    lists = [part for part in value if type(part) is list]
    full = [part for part in lists if part] or lists[:1]  # an empty list beside a total is a result without chunks
    are_texts = len(value) > 1 and len(full) == 1 and all(isinstance(item, str) for item in full[0])
    return full[0] if are_texts else None


def lists_of_chunks(value: tuple[Any, ...]) -> list[list[Any]]:
    """The parts that are lists of chunks."""
    return [part for part in value if type(part) is list and part and _holds_chunks(part)]


def _holds_chunks(part: list[Any]) -> bool:
    """Whether a list holds chunks or lists of them, and is no row of texts and numbers itself."""
    return is_listing(part) and (type(part[0]) is not list or not part[0] or _holds_chunks(part[0]))


def nested(value: list[Any]) -> Iterable[Any] | None:
    """The items of a list of one list per query; None for a list whose items are chunks written as lists."""
    if not all(type(part) is list and is_listing(part) for part in value):
        return None
    return merge([items_of(part) for part in value])


def is_listing(part: list[Any]) -> bool:
    """Whether a list holds chunks, and is no chunk written as a list."""
    return not part or (_may_be_chunk(part[0]) and _may_be_chunk(part[-1]))


def _may_be_chunk(item: Any) -> bool:
    """Whether this can be a result and no part of one: no text, no number."""
    return item is not None and not isinstance(item, str | bytes | bool) and number(item) is None


def merge(results: Sequence[Iterable[Any]]) -> Iterable[Any]:
    """The items of all results, in turn, each chunk once."""
    if len(results) == 1:
        return results[0]
    places: set[str] = set()
    found: list[Any] = []
    for turn in within(zip_longest(*results, fillvalue=_MISSING)):
        for item in turn:
            if item is not _MISSING:
                _add(item, places, found)
    return found


def _add(item: Any, places: set[str], found: list[Any]) -> None:
    try:
        chunk = read_chunk(item)
    except Unreadable:
        found.append(item)
        return
    if chunk.identity not in places:
        places.add(chunk.identity)
        found.append(chunk)


def is_distance_name(name: str) -> bool:
    """Whether a field of this name holds a distance: `distance`, `cosine_distance`, `dist`."""
    return name == "dist" or name.endswith("distance")


def negative(value: Any) -> float | None:
    """A distance as a score. None stays None, and zero keeps no sign."""
    distance = number(value)
    return None if distance is None else -distance or 0.0


def rises(values: Iterable[Any]) -> bool | None:
    """True when the numbers rise and never fall, False when they fall; None when that cannot be told."""
    numbers = [found for value in values if (found := number(value)) is not None]
    if any(later < earlier for earlier, later in pairwise(numbers)):
        return False
    return True if any(later > earlier for earlier, later in pairwise(numbers)) else None


def is_array(value: Any) -> bool:
    """Whether this is an array or tensor of one of the libraries that retrievers use."""
    return type(value).__module__.partition(".")[0] in _ARRAYS and hasattr(value, "tolist")
