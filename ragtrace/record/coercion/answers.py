"""Reads what a generator was given and returned: the prompt, the answer, its citations, usage and finish reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ragtrace.record.coercion.allowance import within
from ragtrace.record.coercion.values import Unreadable, first, names, text, whole
from ragtrace.record.faults import let_through
from ragtrace.types import Citation, Generation, TokenUsage

__all__ = ["ANSWERS", "FINISH", "is_chat", "read_answer", "read_citation", "read_prompt", "read_usage"]

ANSWERS: Final = ("answer", "text", "content", "output_text", "output", "response", "completion", "generated_text")
_CITATIONS: Final = ("citations", "sources_cited")
FINISH: Final = ("finish_reason", "stop_reason")
_INPUT_TOKENS: Final = ("input_tokens", "prompt_tokens")
_SPEAKERS: Final = frozenset({"human", "ai", "system", "chat", "tool", "function"})  # LangChain's types of messages
_OUTPUT_TOKENS: Final = ("output_tokens", "completion_tokens")


def read_answer(value: Any, packed: Sequence[str] = ()) -> Generation:
    """The generation in a text, mapping or response object; a citation that is a number names a place in `packed`.

    Raises: Unreadable when no answer is found.
    """
    answer = text(value)
    if answer is not None:
        return Generation(answer=answer)
    if isinstance(value, list | tuple) and value:
        return read_answer(_answering(value), packed)
    choices = first(value, "choices")
    choice = choices[0] if isinstance(choices, list | tuple) and choices else value
    answer = _answer(first(choice, "message") or choice)
    if answer is None:
        raise Unreadable(value)
    finish = first(choice, *FINISH)
    return Generation(
        answer=answer,
        prompt_template=text(first(value, "prompt_template")),
        citations=_citations(first(value, *_CITATIONS), packed),
        finish_reason=None if finish is None else str(finish),
        usage=read_usage(first(value, "usage", "usage_metadata")),
        model=names(value, "model", "model_name"),
    )


def _answering(parts: Sequence[Any]) -> Any:
    """Of what was returned together, the answer: the first part; behind a list (of the documents used), the next."""
    return next((part for part in parts if type(parts) is list or not isinstance(part, list | tuple)), parts[0])


def read_prompt(value: Any) -> str | None:
    """A prompt text, or the texts of chat messages, a blank line between them; empty ones are left out.

    Who speaks is not kept: a template of it rebuilds the text, not the messages.
    """
    found = text(value)
    if found is not None or not isinstance(value, list | tuple):
        return found
    parts = [text(message) or _answer(message) for message in value]
    return "\n\n".join(part for part in parts if part) or None


def is_chat(value: Any) -> bool:
    """Whether a packer's list is chat messages and no chunks: each has a speaker and a content."""
    return bool(value) and isinstance(value, list | tuple) and all(map(_is_message, value))


def _is_message(value: Any) -> bool:
    if isinstance(value, str | list | tuple) or first(value, "content") is None:
        return False
    return isinstance(first(value, "role"), str) or first(value, "type") in _SPEAKERS


def _answer(value: Any) -> str | None:
    for key in ANSWERS:
        found = first(value, key)
        if isinstance(found, str):
            return text(found)
        if isinstance(found, list) and (parts := [_block(part) for part in found]) and all(parts):
            return "".join(part or "" for part in parts)
    return None


def _block(part: Any) -> str | None:
    """One content block of a message."""
    return text(part) or text(first(part, "text"))


def read_usage(value: Any) -> TokenUsage | None:
    """The counts of tokens in a usage; None where there are none."""
    if value is None:
        return None
    usage = TokenUsage(
        input_tokens=whole(first(value, *_INPUT_TOKENS)), output_tokens=whole(first(value, *_OUTPUT_TOKENS))
    )
    return usage if usage != TokenUsage() else None


def _citations(value: Any, packed: Sequence[str]) -> tuple[Citation, ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(read_citation(item, packed) for item in within(value))


def read_citation(item: Any, packed: Sequence[str]) -> Citation:
    """One citation: a place in `packed` (from 1), a chunk id, a mapping or an object; of what says nothing, an empty
    one."""
    try:
        return _citation(item, packed)
    except BaseException as error:  # an answer is not lost for what is beside it
        let_through(error)
        return Citation(marker="")


def _citation(item: Any, packed: Sequence[str]) -> Citation:
    if isinstance(item, Citation):
        return item
    if isinstance(item, int):
        return Citation(marker=f"[{item}]", chunk_id=packed[item - 1] if 0 < item <= len(packed) else None)
    if isinstance(item, str):
        return Citation(marker=item, chunk_id=item)
    chunk_id = names(item, "chunk_id", "id", "document_id")
    return Citation(
        marker=names(item, "marker", "label") or chunk_id or "",
        chunk_id=chunk_id,
        start=whole(first(item, "start")),
        end=whole(first(item, "end")),
    )
