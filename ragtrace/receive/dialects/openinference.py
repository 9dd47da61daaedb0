"""OpenInference, as Phoenix's instrumentations write it.

Source: https://github.com/Arize-ai/openinference, spec/semantic_conventions.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import repeat
from math import isfinite
from typing import Annotated, Any, Final

import msgspec

from ragtrace.receive._grades import graded_by_step
from ragtrace.receive._spans import (
    Attributes,
    Groups,
    ReceivedSpan,
    Reranked,
    Retrieved,
    SpanGeneration,
    SpanReading,
    column,
    columns,
    grouped,
    has_gaps,
    identifier,
    jsonish,
    listed,
    mapping,
    number,
    question_in,
    text,
    usage,
    whole,
)
from ragtrace.record import conventions as names
from ragtrace.record.coercion import Chunk
from ragtrace.record.coercion.values import LONGEST

__all__ = ["documents", "name", "read", "recognizes"]

name: Final = "OpenInference"

_JSON: Final = "application/json"
_EMBEDDING_MODEL: Final = "embedding.model_name"
_PROMPTS: Final = "llm.prompts"
_CHOICES: Final = "llm.choices"
_HIDDEN: Final = "__REDACTED__"  # what OPENINFERENCE_HIDE_* leave of a value
_SILENT: Final = ("TOOL", "GUARDRAIL", "EVALUATOR", "PROMPT")  # what these were given is no one's question
_LEFT: Final = (
    (f"{names.DOCUMENTS}.", "RETRIEVER"),
    (f"{names.RERANKER_INPUTS}.", "RERANKER"),
    (f"{names.RERANKER_OUTPUTS}.", "RERANKER"),
    (f"{names.LLM_INPUT}.", "LLM"),
    (f"{names.LLM_OUTPUT}.", "LLM"),
    ("embedding.embeddings.", "EMBEDDING"),
)
"""Which kind of span has such attributes."""

_PLAIN: Final = {names.DOCUMENT_ID, names.DOCUMENT_CONTENT, names.DOCUMENT_SCORE}
_Flat = (  # values that `ragtrace.record.coercion.values.plain` leaves as they are
    Annotated[str, msgspec.Meta(max_length=LONGEST)]
    | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    | float
    | bool
    | None
)
_FLAT: Final = msgspec.json.Decoder(dict[str, _Flat]).decode
_POSTPROCESSOR: Final = "._postprocess_nodes"
_NODE: Final = re.compile(r"\bid_=(?P<id>[^)]+)\), score=(?P<score>[-+.\de]+)?")


def recognizes(span: ReceivedSpan) -> bool:
    """Every span of the convention has a kind, which a limit on attributes may have taken away."""
    return names.SPAN_KIND in span.attributes or (span.dropped > 0 and _kind_left(span.attributes) is not None)


def read(span: ReceivedSpan) -> SpanReading:
    """By the span's kind."""
    attributes = span.attributes
    kind = attributes[names.SPAN_KIND] if names.SPAN_KIND in attributes else _kind_left(attributes)
    about: dict[str, Any] = {
        "session_id": text(attributes, names.SESSION_ID),
        "tenant_id": text(attributes, "tenant.id"),
    }
    if kind == "RETRIEVER":
        query = question_in(_shown(attributes, names.INPUT_VALUE))
        found, places = _listed(attributes, names.DOCUMENTS)
        step = Retrieved(
            query=query,
            found=found or _returned(attributes),
            ranks=tuple([place + 1 for place in places]) or None,
            incomplete=has_gaps(places),
        )
        return SpanReading(step=step, question=query, **about)
    if kind == "RERANKER":
        query = text(attributes, names.RERANKER_QUERY) or question_in(_shown(attributes, names.INPUT_VALUE))
        versions = {"reranker": model} if (model := text(attributes, names.RERANKER_MODEL)) else {}
        return SpanReading(step=_reranked(attributes), question=query, versions=versions, **about)
    if kind == "LLM":
        return SpanReading(step=_generated(attributes), **about)
    if kind == "EMBEDDING":
        model = text(attributes, _EMBEDDING_MODEL)
        return SpanReading(versions={"embedding": model} if model else {}, **about)
    if span.name.endswith(_POSTPROCESSOR) and (kept := _nodes(jsonish(attributes.get(names.OUTPUT_VALUE)))):
        nodes = _nodes(mapping(attributes.get(names.INPUT_VALUE)).get("nodes"))
        return SpanReading(step=Reranked(given=nodes or None, kept=kept), **about)
    asked, said = _shown(attributes, names.INPUT_VALUE), _shown(attributes, names.OUTPUT_VALUE)
    if span.parent_id and (graded := graded_by_step(span.name, asked, said)) is not None:
        return SpanReading(graded=(graded,), **about)
    if kind in _SILENT and span.parent_id:
        return SpanReading(**about)
    return SpanReading(question=question_in(asked), answer=_answer(attributes), **about)


def _kind_left(given: Attributes) -> str | None:
    """The kind of a span that has lost it: it is set first, and the SDK drops the oldest attributes first."""
    return next((kind for name in given for start, kind in _LEFT if name.startswith(start)), None)


def _shown(given: Mapping[str, Any], name: str) -> Any:
    """A value; None where its sender hides it."""
    value = given.get(name)
    return None if value == _HIDDEN else value


def _nodes(written: Any) -> list[dict[str, Any]]:
    """LlamaIndex's nodes out of their written form, which is all that a postprocessor's span says of them."""
    texts = [each for each in written if isinstance(each, str)] if isinstance(written, list) else []
    found = [match for each in texts if (match := _NODE.search(each))]
    return [{"id": match["id"], "score": number(match["score"])} for match in found]


def _listed(attributes: Attributes, prefix: str) -> tuple[Sequence[Any], Sequence[int]]:
    """The documents of a flattened list, as `read_chunks` takes them, and their places, from 0."""
    if (plain := _plain_chunks(attributes, prefix)) is not None:
        return plain, range(len(plain))
    groups = grouped(attributes, prefix)
    return documents(groups, attributes), list(groups)


def _plain_chunks(attributes: Attributes, prefix: str) -> list[Chunk] | None:
    """The chunks of a flattened list whose documents have an id, a text and a score each, all or none of them flat
    metadata, and nothing else: most are so, and are not looked at one by one. None for any other list."""
    found = columns(attributes, prefix)
    if found is None or found.keys() - {names.DOCUMENT_METADATA} != _PLAIN:
        return None
    ids, texts, scores = found[names.DOCUMENT_ID], found[names.DOCUMENT_CONTENT], found[names.DOCUMENT_SCORE]
    are_texts = {str}.issuperset(map(type, ids)) and {str}.issuperset(map(type, texts)) and all(ids) and all(texts)
    if not are_texts or _HIDDEN in texts or not {float}.issuperset(map(type, scores)) or not all(map(isfinite, scores)):
        return None
    given = found.get(names.DOCUMENT_METADATA, ())
    if not all(type(each) is str and each[:1] == "{" for each in given):
        return None
    try:
        metadata = list(map(_FLAT, given))
    except msgspec.MsgspecError:
        return None
    nothing: dict[str, Any] = {}  # one for all: one of each would keep the garbage collector busy
    doc_ids = [None if (said := each.get("doc_id")) is None else str(said) for each in metadata] or repeat(None)
    sources = [None if (said := each.get("source")) is None else str(said) for each in metadata] or repeat(None)
    return list(map(Chunk, ids, texts, scores, doc_ids, sources, repeat("text"), metadata or repeat(nothing)))


def documents(groups: Groups, attributes: Attributes) -> list[dict[str, Any]]:
    """The documents of `grouped` attributes, in their order."""
    read_documents = []
    for group in groups.values():
        document: dict[str, Any] = {}
        given, body, score = group.get(names.DOCUMENT_ID), group.get(names.DOCUMENT_CONTENT), None
        chunk_id = given if type(given) is str and given else identifier(given)
        if chunk_id is not None:
            document["id"] = chunk_id
        if isinstance(body, str) and body and body != _HIDDEN:
            document["text"] = body
        if names.DOCUMENT_METADATA in group and (metadata := mapping(group[names.DOCUMENT_METADATA])):
            document["metadata"] = metadata
            score = metadata.get("score", metadata.get("relevance_score"))
        if (score := number(group.get(names.DOCUMENT_SCORE, number(score)))) is not None:
            document["score"] = score
        read_documents.append(document)
    return _identified(read_documents, attributes)


def _identified(chunks: list[dict[str, Any]], attributes: Attributes) -> list[dict[str, Any]]:
    """LangChain's documents have their ids in the returned value alone; those that say the same get them from there."""
    if any("id" not in chunk for chunk in chunks):
        ids = {_text_of(chunk): identifier(chunk.get("id")) for chunk in _returned(attributes) or ()}
        for chunk in chunks:
            chunk_id = ids.get(chunk.get("text"))
            if "id" not in chunk and chunk_id:
                chunk["id"] = chunk_id
    return chunks


def _text_of(document: Mapping[str, Any]) -> str | None:
    return text(document, "page_content", "text", "content")


def _returned(given: Attributes) -> list[Any] | None:
    """The documents in the value that the call returned; None where it is no JSON that holds them."""
    found = listed(_shown(given, names.OUTPUT_VALUE), "documents", "nodes", "results")
    return [each for each in found if isinstance(each, dict)] or None if found else found


def _reranked(given: Attributes) -> Reranked:
    before = column(given, names.RERANKER_INPUTS, names.DOCUMENT_ID)
    kept, after = _listed(given, names.RERANKER_OUTPUTS)
    ids = tuple([found for each in before.values() if (found := identifier(each)) is not None])
    are_named = len(ids) == len(before)
    return Reranked(
        given=None if are_named else documents(grouped(given, names.RERANKER_INPUTS), given),
        given_ids=ids if are_named else (),
        kept=kept or _returned(given),
        incomplete=has_gaps(before, after),
    )


def _generated(attributes: Attributes) -> SpanGeneration:
    asked, plain = grouped(attributes, names.LLM_INPUT), _shown(attributes, names.INPUT_VALUE)
    prompt: Any = _messages(asked) or _completed(attributes, _PROMPTS, "prompt.text")
    said = [message["content"] for message in _messages(grouped(attributes, names.LLM_OUTPUT))]
    answers = said or _completed(attributes, _CHOICES, "completion.text")
    return SpanGeneration(
        prompt=prompt or (plain if isinstance(plain, str) and attributes.get(names.INPUT_TYPE) != _JSON else None),
        answer=answers[0] if answers else _answer(attributes),
        model=text(attributes, names.LLM_MODEL),
        usage=usage(whole(attributes, names.PROMPT_TOKENS), whole(attributes, names.COMPLETION_TOKENS)),
        finish_reason=text(attributes, "llm.finish_reason"),
        incomplete=has_gaps(asked),
    )


def _completed(attributes: Attributes, prefix: str, name: str) -> list[str]:
    """Texts of the completions interface: flattened, or a list as older versions write it."""
    values = attributes.get(prefix)
    completions = (
        values if isinstance(values, list) else [group.get(name) for group in grouped(attributes, prefix).values()]
    )
    return [
        completion for completion in completions if isinstance(completion, str) and completion and completion != _HIDDEN
    ]


def _messages(groups: Groups) -> list[dict[str, str]]:
    found = []
    for each in groups.values():
        content = each.get(names.MESSAGE_CONTENT)
        if not isinstance(content, str):
            parts = grouped(each, "message.contents").values()
            said = [part.get("message_content.text") for part in parts]
            content = "".join(part for part in said if isinstance(part, str))
        if content and content != _HIDDEN:
            found.append({"role": str(each.get(names.MESSAGE_ROLE, "user")), "content": content})
    return found


def _answer(given: Attributes) -> str | None:
    value = jsonish(_shown(given, names.OUTPUT_VALUE))
    if isinstance(value, dict):
        return text(value, "answer", "response", "output", "result", "text", "content")
    return value if isinstance(value, str) and value else None
