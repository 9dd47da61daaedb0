"""Answers: what a generator was given and returned, whole or streamed: the prompt, the answer, its citations, usage and
finish reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ragtrace.record.coercion.values import Unreadable, first, names, text, whole, within
from ragtrace.record.guard import attempt
from ragtrace.types import Citation, Generation, TokenUsage

__all__ = ["StreamedAnswer", "is_chat", "read_answer", "read_prompt"]

_ANSWERS: Final = ("answer", "text", "content", "output_text", "output", "response", "completion", "generated_text")
_CITATIONS: Final = ("citations", "sources_cited")
_FINISH: Final = ("finish_reason", "stop_reason")
_INPUT_TOKENS: Final = ("input_tokens", "prompt_tokens")
_SPEAKERS: Final = frozenset({"human", "ai", "system", "chat", "tool", "function"})  # LangChain's types of messages
_OUTPUT_TOKENS: Final = ("output_tokens", "completion_tokens")
_DELTAS: Final = ("delta", "message", "content_block", "token")  # where a part may hold its piece
_ABOUT: Final = ("response_metadata", "meta")  # where it may say more about the answer
_KNOWN: Final = ("choices", "type", "usage", "usage_metadata", "finish_reason", "citations", *_DELTAS, *_ANSWERS)
_EVENT: Final = "response."
_DELTA: Final = "response.output_text.delta"
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_CLOSING: Final = (".done", "_stop")  # events that say again what their deltas have said
_PART: Final = 60  # bytes of a piece without its text, roughly


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
    finish = first(choice, *_FINISH)
    return Generation(
        answer=answer,
        prompt_template=text(first(value, "prompt_template")),
        citations=_citations(first(value, *_CITATIONS), packed),
        finish_reason=None if finish is None else str(finish),
        usage=_read_usage(first(value, "usage", "usage_metadata")),
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
    for key in _ANSWERS:
        found = first(value, key)
        if isinstance(found, str):
            return text(found)
        if isinstance(found, list) and (parts := [_block(part) for part in found]) and all(parts):
            return "".join(part or "" for part in parts)
    return None


def _block(part: Any) -> str | None:
    """One content block of a message."""
    return text(part) or text(first(part, "text"))


def _read_usage(value: Any) -> TokenUsage | None:
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
    return tuple(_read_citation(item, packed) for item in within(value))


def _read_citation(item: Any, packed: Sequence[str]) -> Citation:
    """One citation: a place in `packed` (from 1), a chunk id, a mapping or an object; of what says nothing, an empty
    one. An answer is not lost for what is beside it."""
    return attempt(lambda item: _citation(item, packed), item, Citation(marker=""))


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


class StreamedAnswer:
    """What an undivided answer would have been. Nothing of the host's is kept but texts.

    The finish reason, the model, the usage and the citations come from whichever part has them; the usage may be
    spread over several. A part that is known to be none of the answer (an empty one, a mapping or event of another
    kind) is passed over; `unread` names the types of those that cannot be told.
    """

    def __init__(self) -> None:
        self.unread: list[str] = []
        self.response: Any = None  # the whole response, where the stream ends with it
        self.weight = 0
        self._texts: list[str] = []
        self._length = 0
        self._about: dict[str, Any] = {}
        self._citations: list[Citation | int] = []

    def add(self, part: Any) -> None:
        """One part."""
        if type(part) is str:
            self._texts.append(part)
            self._length += len(part)
            self.weight += _PART + len(part)
        elif isinstance(part, str):
            self.add(str.__str__(part))
        elif isinstance(part, list | tuple):  # (message, metadata); content blocks
            for each in part if type(part) is list else part[:1]:
                self.add(each)
        elif part is not None:
            self._add(part)

    @property
    def is_read(self) -> bool:
        """Whether there is an answer: all parts that passed were pieces of it, or some."""
        return bool(self._texts) or self.response is not None or not self.unread

    def whole(self) -> Any:
        """The answer: a text, or as mapping or response with what came with it."""
        if self.response is not None and not self._texts:
            return self.response
        answer = "".join(self._texts)
        about = self._about if not self._citations else {**self._about, "citations": self._citations}
        return {"answer": answer, **about} if about else answer

    def _add(self, part: Any) -> None:
        kind = first(part, "type")
        if isinstance(kind, str) and kind.startswith(_EVENT):
            self._add_event(kind, part)
            return
        if isinstance(kind, str) and (kind.endswith(_CLOSING) or self._is_said(first(part, "snapshot"))):
            return
        choices = first(part, "choices")
        if choices is not None:
            part_of_it = next(_first_choice(choices), None)
            piece = _piece(part_of_it)
            self._add_about(part, part_of_it)
        else:
            piece = _piece(part)
            self._add_about(part, first(part, "delta", "message"), *(first(part, name) for name in _ABOUT))
        if piece:
            if len(self._texts) < 2 or not self._is_said(piece):  # else it is the answer once more, as a whole
                self.add(piece)
        elif piece is None and not (isinstance(part, Mapping) or any(hasattr(part, name) for name in _KNOWN)):
            self.unread.append(type(part).__name__)

    def _is_said(self, whole: Any) -> bool:
        """Whether this is all of the answer so far."""
        return isinstance(whole, str) and len(whole) == self._length and whole == "".join(self._texts)

    def _add_event(self, kind: str, event: Any) -> None:
        if kind == _DELTA:
            self.add(text(first(event, "delta")) or "")
        elif kind in _ENDS:
            self.response = first(event, "response")

    def _add_about(self, *sources: Any) -> None:
        about = self._about
        for source in sources:
            if source is None or isinstance(source, str):
                continue
            finish, model = first(source, *_FINISH), names(source, "model", "model_name")
            if finish is not None:
                about["finish_reason"] = str(finish)
            if model is not None:
                about["model"] = model
            if (template := text(first(source, "prompt_template"))) is not None:
                about["prompt_template"] = template
            if (usage := _read_usage(first(source, "usage", "usage_metadata"))) is not None:
                about["usage"] = _more(about.get("usage") or TokenUsage(), usage)
            self._cite(first(source, "citations", "sources_cited"))

    def _cite(self, found: Any) -> None:
        for item in found if isinstance(found, list | tuple) else ():
            citation = item if type(item) is int else _read_citation(item, ())
            if citation not in self._citations:
                self._citations.append(citation)


def _first_choice(choices: Any) -> Iterator[Any]:
    """The choice that is recorded of several; each chunk of a stream holds one of them."""
    return (choice for choice in choices if not first(choice, "index"))


def _piece(part: Any) -> str | None:
    """The text in one part; None where there is none."""
    if part is None:
        return None
    for name in _DELTAS:
        inner = first(part, name)
        if inner is not None:
            return _text(inner)
        if name == "delta" and (name in part if isinstance(part, Mapping) else hasattr(part, name)):
            return ""  # of such a part, all else is the text so far
    return _text(part)


def _text(value: Any) -> str | None:
    """The text of a message, a delta or a content block."""
    if isinstance(value, str):
        return text(value)
    for name in _ANSWERS:
        found = first(value, name)
        if isinstance(found, str):
            return text(found)
        if isinstance(found, list | tuple):
            return "".join(text(block) or text(first(block, "text")) or "" for block in found)
        if found is not None and (inner := text(first(found, "text"))) is not None:
            return inner
    return None


def _more(known: TokenUsage, further: TokenUsage) -> TokenUsage:
    """Counts only grow while an answer streams, and a part may know one of them only."""

    def larger(one: int | None, other: int | None) -> int | None:
        return one if other is None else other if one is None else max(one, other)

    return TokenUsage(
        input_tokens=larger(known.input_tokens, further.input_tokens),
        output_tokens=larger(known.output_tokens, further.output_tokens),
    )
