"""OpenInference, as Phoenix's instrumentations write it.

Source: https://github.com/Arize-ai/openinference, spec/semantic_conventions.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ragtrace.receive.reading import Generated, Reading, Reranked, Retrieved
from ragtrace.receive.spans import Attributes, ReceivedSpan
from ragtrace.receive.values import (
    Groups,
    grouped,
    identifier,
    jsonish,
    mapping,
    number,
    question_in,
    text,
    usage,
    whole,
)
from ragtrace.record import conventions as names

__all__ = ["documents", "name", "read", "recognizes"]

name: Final = "OpenInference"

_JSON: Final = "application/json"
_EMBEDDING_MODEL: Final = "embedding.model_name"
_PROMPTS: Final = "llm.prompts"
_CHOICES: Final = "llm.choices"
_POSTPROCESSOR: Final = "._postprocess_nodes"
_NODE: Final = re.compile(r"\bid_=(?P<id>[^)]+)\), score=(?P<score>[-+.\de]+)?")


def recognizes(span: ReceivedSpan) -> bool:
    """Every span of the convention has a kind."""
    return names.SPAN_KIND in span.attributes


def read(span: ReceivedSpan) -> Reading:
    """By the span's kind."""
    given = span.attributes
    kind = given.get(names.SPAN_KIND)
    about: dict[str, Any] = {"session_id": text(given, names.SESSION_ID), "tenant_id": text(given, "tenant.id")}
    if kind == "RETRIEVER":
        groups = grouped(given, names.DOCUMENTS)
        query = question_in(given.get(names.INPUT_VALUE))
        step = Retrieved(
            query=query,
            found=documents(groups, given) or _returned(given),
            ranks=tuple(place + 1 for place in groups) or None,
            incomplete=_is_cut(span, groups),
        )
        return Reading(step=step, question=query, **about)
    if kind == "RERANKER":
        query = text(given, names.RERANKER_QUERY) or question_in(given.get(names.INPUT_VALUE))
        versions = {"reranker": model} if (model := text(given, names.RERANKER_MODEL)) else {}
        return Reading(step=_reranked(span), question=query, versions=versions, **about)
    if kind == "LLM":
        return Reading(step=_generated(given), **about)
    if kind == "EMBEDDING":
        model = text(given, _EMBEDDING_MODEL)
        return Reading(versions={"embedding": model} if model else {}, **about)
    if span.name.endswith(_POSTPROCESSOR) and (kept := _nodes(jsonish(given.get(names.OUTPUT_VALUE)))):
        nodes = _nodes(mapping(given.get(names.INPUT_VALUE)).get("nodes"))
        return Reading(step=Reranked(given=nodes or None, kept=kept), **about)
    return Reading(question=question_in(given.get(names.INPUT_VALUE)), answer=_answer(given), **about)


def _nodes(written: Any) -> list[dict[str, Any]]:
    """LlamaIndex's nodes out of their written form, which is all that a postprocessor's span says of them."""
    texts = [each for each in written if isinstance(each, str)] if isinstance(written, list) else []
    found = [match for each in texts if (match := _NODE.search(each))]
    return [{"id": match["id"], "score": number(match["score"])} for match in found]


def documents(groups: Groups, given: Attributes) -> list[dict[str, Any]]:
    """The documents of `grouped` attributes, in their order."""
    found = []
    for each in groups.values():
        document: dict[str, Any] = {}
        chunk_id, body, score = identifier(each.get(names.DOCUMENT_ID)), each.get(names.DOCUMENT_CONTENT), None
        if chunk_id is not None:
            document["id"] = chunk_id
        if isinstance(body, str) and body:
            document["text"] = body
        if names.DOCUMENT_METADATA in each and (metadata := mapping(each[names.DOCUMENT_METADATA])):
            document["metadata"] = metadata
            score = number(metadata.get("score", metadata.get("relevance_score")))
        if (score := number(each.get(names.DOCUMENT_SCORE, score))) is not None:
            document["score"] = score
        found.append(document)
    return _identified(found, given)


def _identified(found: list[dict[str, Any]], given: Attributes) -> list[dict[str, Any]]:
    """LangChain's documents have their ids in the returned value alone; those that say the same get them from there."""
    if any("id" not in each for each in found):
        ids = {_text_of(each): identifier(each.get("id")) for each in _returned(given)}
        for each in found:
            known = ids.get(each.get("text"))
            if "id" not in each and known:
                each["id"] = known
    return found


def _text_of(document: Mapping[str, Any]) -> str | None:
    return text(document, "page_content", "text", "content")


def _returned(given: Attributes) -> list[Any]:
    """The documents in the value that the call returned, where it is JSON that holds them."""
    value = jsonish(given.get(names.OUTPUT_VALUE))
    if isinstance(value, dict):
        value = next((value[key] for key in ("documents", "nodes", "results") if isinstance(value.get(key), list)), [])
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _is_cut(span: ReceivedSpan, *lists: Groups) -> bool:
    """Whether documents were dropped: the SDK drops the oldest attributes first, so that places are missing."""
    return bool(span.dropped) or any(list(groups) != list(range(len(groups))) for groups in lists)


def _reranked(span: ReceivedSpan) -> Reranked:
    given = span.attributes
    before, after = grouped(given, names.RERANKER_INPUTS), grouped(given, names.RERANKER_OUTPUTS)
    ids = tuple([found for each in before.values() if (found := identifier(each.get(names.DOCUMENT_ID))) is not None])
    are_named = len(ids) == len(before)
    return Reranked(
        given=None if are_named else documents(before, given),
        given_ids=ids if are_named else (),
        kept=documents(after, given) or _returned(given),
        incomplete=_is_cut(span, before, after),
    )


def _generated(given: Attributes) -> Generated:
    prompt: Any = _messages(given, names.LLM_INPUT) or _completed(given, _PROMPTS, "prompt.text")
    said = [each["content"] for each in _messages(given, names.LLM_OUTPUT)]
    answers = said or _completed(given, _CHOICES, "completion.text")
    return Generated(
        prompt=prompt or (text(given, names.INPUT_VALUE) if given.get(names.INPUT_TYPE) != _JSON else None),
        answer=answers[0] if answers else _answer(given),
        model=text(given, names.LLM_MODEL),
        usage=usage(whole(given, names.PROMPT_TOKENS), whole(given, names.COMPLETION_TOKENS)),
        finish_reason=text(given, "llm.finish_reason"),
    )


def _completed(given: Attributes, prefix: str, name: str) -> list[str]:
    """Texts of the completions interface: flattened, or a list as older versions write it."""
    values = given.get(prefix)
    found = values if isinstance(values, list) else [each.get(name) for each in grouped(given, prefix).values()]
    return [each for each in found if isinstance(each, str) and each]


def _messages(given: Attributes, prefix: str) -> list[dict[str, str]]:
    found = []
    for each in grouped(given, prefix).values():
        content = each.get(names.MESSAGE_CONTENT)
        if not isinstance(content, str):
            parts = grouped(each, "message.contents").values()
            said = [part.get("message_content.text") for part in parts]
            content = "".join(part for part in said if isinstance(part, str))
        if content:
            found.append({"role": str(each.get(names.MESSAGE_ROLE, "user")), "content": content})
    return found


def _answer(given: Attributes) -> str | None:
    value = jsonish(given.get(names.OUTPUT_VALUE))
    if isinstance(value, dict):
        return text(value, "answer", "response", "output", "result", "text", "content")
    return value if isinstance(value, str) and value else None
