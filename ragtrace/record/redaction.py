"""Redaction: what detectors and the host's own patterns find in a text becomes `[EMAIL]`, `[CARD]`, `[CUSTOMER]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from ragtrace.record.detectors import FINDERS
from ragtrace.record.faults import let_through
from ragtrace.record.keys import names_a_secret
from ragtrace.record.places import Span

__all__ = ["Redactor"]

_REMEMBERED: Final = 2000  # characters; longer texts are redacted each time
_TEXTS: Final = 4096
_SECRET: Final = "[KEY]"
_PASSES: Final = 8  # a find may stand free only when its neighbor is gone


class _Failed(Exception):
    """The host's function failed; it is asked again the next time."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Redactor:
    """Replaces what it finds in texts; the same chunk, retrieved again and again, is redacted once.

    Args:
        detectors: names of `FINDERS`.
        patterns: the host's own, by the name that stands in the text instead.
        function: the host's own, called last. It must leave its own output as it is.
        report: told the kind of each fault of `function`.

    Redacting a redacted text changes nothing: what stands in a placeholder is never replaced again.
    """

    def __init__(
        self,
        detectors: Iterable[str],
        patterns: Mapping[str, re.Pattern[str]],
        function: Callable[[str], str] | None,
        report: Callable[[str], object],
    ) -> None:
        wanted = frozenset(detectors)
        finders = {name.upper(): find for name, find in FINDERS.items() if name in wanted}
        self._finders = finders | {name.upper(): _finder(pattern) for name, pattern in patterns.items()}
        self._hides_secrets = "key" in wanted
        self._function = function
        self._report = report
        names = "|".join(re.escape(name) for name in self._finders)
        self._placeholder = re.compile(rf"\[(?:{names})\]") if names else re.compile(r"(?!)")
        self._remembered = lru_cache(_TEXTS)(self._redacted)

    def redact(self, text: str) -> str | None:
        """`text` without what is not to leave; None when the host's function failed, so that nothing of it does."""
        try:
            return self._remembered(text) if len(text) <= _REMEMBERED else self._redacted(text)
        except _Failed as failed:
            self._report(failed.kind)
            return None

    def redact_value(self, value: Any) -> Any:
        """A JSON value with its texts and keys redacted; what stands under a key such as `password` is a secret."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            kept = {self.redact_value(key): self._entry(key, item) for key, item in value.items()}
            kept.pop(None, None)
            return kept
        return [self.redact_value(item) for item in value] if isinstance(value, list | tuple) else value

    def _entry(self, key: Any, value: Any) -> Any:
        if self._hides_secrets and isinstance(key, str) and names_a_secret(key):
            return _hidden(value)
        return self.redact_value(value)

    def _redacted(self, text: str) -> str:
        found = self._replaced(text)
        if self._function is None:
            return found
        try:
            changed = self._function(found)
        except BaseException as error:
            let_through(error)
            raise _Failed(type(error).__name__) from error
        if not isinstance(changed, str):
            raise _Failed(f"returned {type(changed).__name__}")
        return found if changed == found else self._replaced(str(changed))

    def _replaced(self, text: str) -> str:
        for _ in range(_PASSES):
            before = text
            for name, find in self._finders.items():
                spans = find(text)
                if spans:
                    text = "".join(_parts(text, self._allowed(text, spans), f"[{name}]"))
            if text == before:
                break
        return text

    def _allowed(self, text: str, spans: list[Span]) -> list[Span]:
        """Those that neither lie in a placeholder nor cut one; a find may hold a whole one."""
        taken = [match.span() for match in self._placeholder.finditer(text)] if "[" in text else []
        if not taken:
            return spans
        edges = {place for start, end in taken for place in range(start + 1, end)}
        return [(start, end) for start, end in spans if start not in edges and end not in edges]


def _hidden(value: Any) -> Any:
    """A secret, whatever it is made of; that there is none, or a switch, is no secret."""
    if isinstance(value, dict):
        return {key: _hidden(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(item) for item in value]
    return value if value is None or value == "" or isinstance(value, bool) else _SECRET


def _finder(pattern: re.Pattern[str]) -> Callable[[str], list[Span]]:
    return lambda text: [match.span() for match in pattern.finditer(text) if match.end() > match.start()]


def _parts(text: str, spans: Iterable[Span], placeholder: str) -> Iterator[str]:
    at = 0
    for start, end in spans:
        yield text[at:start]
        yield placeholder
        at = end
    yield text[at:]
