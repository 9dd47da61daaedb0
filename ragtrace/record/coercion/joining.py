"""Joins the parts of a streamed answer as they pass: texts, deltas, chat chunks, messages, events of responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragtrace.record.coercion.answers import ANSWERS, FINISH, read_citation, read_usage
from ragtrace.record.coercion.values import first, names, text
from ragtrace.types import Citation, TokenUsage

__all__ = ["StreamedAnswer"]

_DELTAS: Final = ("delta", "message", "content_block", "token")  # where a part may hold its piece
_ABOUT: Final = ("response_metadata", "meta")  # where it may say more about the answer
_KNOWN: Final = ("choices", "type", "usage", "usage_metadata", "finish_reason", "citations", *_DELTAS, *ANSWERS)
_EVENT: Final = "response."
_DELTA: Final = "response.output_text.delta"
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_CLOSING: Final = (".done", "_stop")  # events that say again what their deltas have said
_PART: Final = 60  # bytes of a piece without its text, roughly


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
            finish, model = first(source, *FINISH), names(source, "model", "model_name")
            if finish is not None:
                about["finish_reason"] = str(finish)
            if model is not None:
                about["model"] = model
            if (template := text(first(source, "prompt_template"))) is not None:
                about["prompt_template"] = template
            if (usage := read_usage(first(source, "usage", "usage_metadata"))) is not None:
                about["usage"] = _more(about.get("usage") or TokenUsage(), usage)
            self._cite(first(source, "citations", "sources_cited"))

    def _cite(self, found: Any) -> None:
        for item in found if isinstance(found, list | tuple) else ():
            citation = item if type(item) is int else read_citation(item, ())
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
    for name in ANSWERS:
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
