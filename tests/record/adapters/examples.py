"""Look-alikes of libraries' objects, with whatever parts a test gives them."""

from __future__ import annotations

from typing import Any

from ragtrace.record.coercion import Chunk, read_chunks
from tests.frameworks.look_alikes import build

__all__ = ["TEXT", "document", "look_alike", "node", "point", "read", "row"]

TEXT = "the text of a chunk"


def look_alike(names: list[str], **attributes: Any) -> Any:
    """A look-alike of a library's object."""
    found = build({"$object": names, "attributes": {}})
    found.__dict__.update(attributes)
    return found


def document(id: str | None = "a", content: str | None = TEXT, **metadata: Any) -> Any:
    """A LangChain document."""
    return look_alike(["langchain_core.documents.base.Document"], id=id, page_content=content, metadata=metadata)


def node(id: str = "a") -> Any:
    """A LlamaIndex node."""
    names = ["llama_index.core.schema.TextNode", "llama_index.core.schema.BaseNode"]
    return look_alike(names, id_=id, text=TEXT, metadata={}, relationships={})


def point(score: Any, id: Any = "a") -> Any:
    """A Qdrant point."""
    return look_alike(["qdrant_client.http.models.models.ScoredPoint"], id=id, payload={"text": TEXT}, score=score)


def row(fields: tuple[str, ...], *values: Any) -> Any:
    """A SQLAlchemy row."""
    found = build({"$object": ["sqlalchemy.engine.row.Row"], "fields": list(fields), "values": []})
    found._values = list(values)
    return found


def read(value: Any) -> list[Chunk]:
    """The chunks of a value of which every item can be read."""
    found = read_chunks(value)
    assert found.unread == []
    return [chunk for _, chunk in found.ranked]
