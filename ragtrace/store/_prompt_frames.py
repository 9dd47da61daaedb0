"""Frames of prompts: what stays of a prompt without its chunks, its question and its numbers, as a version.

A request that names no `prompt_hash` gets that of its frame, so that a prompt which somebody changed without a word is
a release like any other. A frame that holds a conversation or a name is another one in each request, and no version:
one counts from its tenth request in a service on, and only while each tenth of the service's last requests has it.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from ragtrace.chunk_wrappers import wrappers_of
from ragtrace.prompts import escaped, parsed
from ragtrace.types import Item, RequestRecord, RetrieveRun, replace

__all__ = ["COMPONENT", "PromptFrames", "frame_hash"]

COMPONENT: Final = "prompt_hash"
"""The version that it becomes, unless the host states one."""

_LAST: Final = 100  # requests of a service
_LEAST: Final = 10
_SERVICES: Final = 500
_LONGEST: Final = 100_000  # characters of a template that are read
_NUMBER: Final = re.compile(r"\d+")
_QUESTION: Final = "\x00"
_DIGEST: Final = 6  # bytes


class PromptFrames:
    """The frames that the last requests of each service had, as far as this process wrote them. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: OrderedDict[str, OrderedDict[str, str]] = OrderedDict()  # frames by service and request

    def named(self, items: Sequence[Item]) -> list[Item]:
        """The items, records with the hash of their prompt's frame where that is a version."""
        return [self.version(item) if isinstance(item, RequestRecord) else item for item in items]

    def version(self, record: RequestRecord) -> RequestRecord:
        """The record with the version of its prompt, where it states none and its frame is known by now."""
        if COMPONENT in record.versions:
            return record
        digest = frame_hash(record)
        if digest is None or not self._is_usual(record, digest):
            return record
        return replace(record, versions={**record.versions, COMPONENT: digest})

    def _is_usual(self, record: RequestRecord, digest: str) -> bool:
        """A request counts once, however often its writing is tried."""
        with self._lock:
            last = self._last.setdefault(record.service, OrderedDict())
            self._last.move_to_end(record.service)
            if len(self._last) > _SERVICES:
                self._last.popitem(last=False)
            last[record.request_id] = digest
            last.move_to_end(record.request_id)
            if len(last) > _LAST:
                last.popitem(last=False)
            return list(last.values()).count(digest) >= _LEAST


def frame_hash(record: RequestRecord) -> str | None:
    """Twelve hexadecimal digits of the frame of a record's last prompt; None where its chunks were not recognized, or
    too few of them to tell what around them is a chunk's own."""
    template = record.generation.prompt_template if record.generation else None
    if template is None or len(template) > _LONGEST:
        return None
    asked = {record.query.original, record.query.rewritten}
    asked |= {run.query for run in record.stages if isinstance(run, RetrieveRun)}
    for question in sorted((text for text in asked if text and text.strip()), key=len, reverse=True):
        template = template.replace(escaped(question), _QUESTION)
    wrappers = wrappers_of(tuple(parsed(template)[0]))
    if wrappers is None:
        return None
    frame = " ".join(_NUMBER.sub("0", wrappers.bare).split())
    return hashlib.blake2b(frame.encode("utf-8", "replace"), digest_size=_DIGEST).hexdigest()
