"""Reads LlamaIndex's nodes, alone, in a `NodeWithScore` or in a vector store's `VectorStoreQueryResult`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, Final

from ragtrace.record.coercion.chunks import read_document
from ragtrace.record.coercion.dispatch import Adapter
from ragtrace.record.coercion.values import Chunk, number

__all__ = ["NODE", "RESULT", "SCORED"]

_SOURCE: Final = "1"  # the value of `NodeRelationship.SOURCE`, which hashes and compares as this text
_MODALITIES: Final = ("image", "audio", "video")


def _node(node: Any) -> Chunk:
    return read_document(
        node,
        id=getattr(node, "id_", None) or getattr(node, "node_id", None),
        body=_text(node),
        metadata=getattr(node, "metadata", None),
        doc_id=_origin(node),
        modality=_modality(node),
    )


def _text(node: Any) -> Any:
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


def _modality(node: Any) -> str:
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


def _result(result: Any) -> Iterable[Any]:
    """Nodes or, of a store that keeps no texts, ids."""
    found = result.nodes if result.nodes is not None else [Chunk(chunk_id=str(id)) for id in result.ids or ()]
    return list(zip_longest(found, (result.similarities or ())[: len(found)]))


NODE: Final = Adapter(chunk=_node)
SCORED: Final = Adapter(chunk=_scored)
RESULT: Final = Adapter(items=_result)
