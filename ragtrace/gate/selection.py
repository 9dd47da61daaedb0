"""Reads a selection: which requests are one side of a comparison, in one line of text."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import Final

from ragtrace.errors import ConfigurationError
from ragtrace.store.address import Address
from ragtrace.times import parse_time, written_time

__all__ = ["ALLOWED", "Selection", "parse"]

ALLOWED: Final = (
    "replay:NAME, version:COMPONENT=VERSION[,...], window:SINCE..UNTIL, service:NAME, a JSONL file of records or a "
    "store's URL, joined by &"
)
"""What a selection may be made of, for help and errors."""

_PART: Final = re.compile(r"(replay|version|window|service):(.*)", re.DOTALL)
_URL: Final = re.compile(r"[a-z][a-z0-9+]*://")


@dataclass(frozen=True, slots=True)
class Selection:
    """One side of a comparison. text: as it was given, without a password. url: a store; file: a JSONL of records;
    neither: the store that both sides share. since, until: nanoseconds."""

    text: str
    url: str | None = None
    file: str | None = None
    service: str | None = None
    replay: str | None = None
    versions: tuple[tuple[str, str], ...] = field(default=())
    since: int | None = None
    until: int | None = None

    @property
    def is_controlled(self) -> bool:
        """Whether somebody chose the questions, so that the other side is expected to have the same ones."""
        return self.replay is not None or self.file is not None


def parse(option: str, text: str, now: int | None = None) -> Selection:
    """Read a selection. `option` is named in the errors; `now` is the present in nanoseconds.

    Raises: ConfigurationError.
    """
    present = time.time_ns() if now is None else now
    parts = _parts(text)
    if not parts:
        raise ConfigurationError.of(option, text, ALLOWED)
    selection = Selection("&".join(map(_shown, parts)))
    seen: set[str] = set()
    for part in parts:
        found = _PART.fullmatch(part)
        kind = found[1] if found else "source"
        if kind in seen and kind != "version":
            what = "two sources of requests" if kind == "source" else f"two parts {kind}:"
            raise ConfigurationError(f"{option} {selection.text!r} has {what}; give one")
        seen.add(kind)
        selection = _with(option, selection, found, part, present)
    return selection


def _parts(text: str) -> list[str]:
    """Split at `&`, but for one inside of a URL's query or a file's name."""
    parts: list[str] = []
    for piece in filter(str.strip, text.split("&")):
        starts = _PART.match(piece.strip()) or _URL.match(piece.strip())
        if parts and not starts and not _PART.match(parts[-1]):
            parts[-1] += f"&{piece}"
        else:
            parts.append(piece.strip())
    return [part.strip() for part in parts]


def _shown(part: str) -> str:
    return Address.parse(part).shown if _URL.match(part) else part


def _with(option: str, selection: Selection, found: re.Match[str] | None, part: str, now: int) -> Selection:
    if found is None:
        return replace(selection, url=part) if _URL.match(part) else replace(selection, file=part)
    kind, value = found[1], found[2].strip()
    if not value:
        raise ConfigurationError.of(option, part, f"a value behind {kind}:")
    if kind == "version":
        versions = dict(selection.versions) | _versions(option, value)
        return replace(selection, versions=tuple(versions.items()))
    if kind == "window":
        since, until = _window(option, value, now)
        return replace(selection, since=since, until=until)
    return replace(selection, replay=value) if kind == "replay" else replace(selection, service=value)


def _versions(option: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in text.split(","):
        component, equals, version = (part.strip() for part in pair.partition("="))
        if not (component and equals and version):
            raise ConfigurationError.of(option, f"version:{text}", "version:COMPONENT=VERSION, as in reranker=v17")
        if component in found:
            raise ConfigurationError.of(option, f"version:{text}", f"one version of {component}")
        found[component] = version
    return found


def _window(option: str, text: str, now: int) -> tuple[int | None, int]:
    since, dots, until = (part.strip() for part in text.partition(".."))
    if not dots or not since:
        raise ConfigurationError.of(option, f"window:{text}", "window:SINCE..UNTIL, as in window:2h ago..now")
    start, end = parse_time(f"{option}: SINCE", since, now), parse_time(f"{option}: UNTIL", until or "now", now)
    if start >= end:
        given = f"{written_time(start)} is not before {written_time(end)}"
        raise ConfigurationError(f"{option} 'window:{text}' is empty: {given}; give the earlier time first")
    return max(0, start), max(1, end)
