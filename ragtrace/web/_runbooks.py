"""The runbooks as pages: the headings, paragraphs, lists, commands and links of docs/runbooks/, as plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from ragtrace import resources

__all__ = ["Block", "Piece", "linked", "runbook", "runbook_names"]

_FOLDER: Final = "docs/runbooks"
_INLINE: Final = re.compile(r"`(?P<code>[^`]+)`|\[(?P<words>[^\]]+)\]\((?P<target>[^)]*)\)")
_RUNBOOK: Final = re.compile(r"(?:.*/)?([\w-]+)\.md")
_PATH: Final = re.compile(r"`(?P<code>[^`]+)`|docs/runbooks/(?P<name>[\w-]+)\.md|\d\d-\d\d \d\d:\d\d:\d\dZ?")
_ITEM: Final = re.compile(r"(?:-|(\d+)\.) +")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text. runbook: the page that it leads to, "" for none; is_whole: it stands on one line."""

    text: str
    is_code: bool = False
    runbook: str = ""
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, a paragraph, an item of a list or of numbered steps, or lines of code."""

    kind: Literal["title", "heading", "text", "item", "step", "code"]
    pieces: tuple[Piece, ...]
    number: int | None = None  # of a step


@cache
def runbook_names() -> tuple[str, ...]:
    """The names of the pages, without `.md`, sorted."""
    return tuple(sorted(path.stem for path in resources.folder(_FOLDER).glob("*.md")))


def runbook(name: str) -> list[Block] | None:
    """The blocks of a page; None where there is none of this name."""
    if name not in runbook_names():
        return None
    text = (resources.folder(_FOLDER) / f"{name}.md").read_text("utf-8")
    blocks: list[Block] = []
    for place, part in enumerate(re.split(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)):
        if place % 2:
            blocks.append(Block("code", (Piece(part, is_code=True),)))
        else:
            blocks += [_block(one) for one in _paragraphs(part)]
    return blocks


def _paragraphs(text: str) -> list[str]:
    """Each on one line; an item of a list is one."""
    found: list[str] = []
    is_open = False
    for line in text.splitlines():
        if is_open and line.strip() and not _ITEM.match(line) and not line.startswith("#"):
            found[-1] += f" {line.strip()}"
        elif line.strip():
            found.append(line.strip())
        is_open = bool(line.strip()) and not line.startswith("#")
    return found


def _block(text: str) -> Block:
    if text.startswith("#"):
        return Block("title" if text.startswith("# ") else "heading", _pieces(text.lstrip("# ")))
    item = _ITEM.match(text)
    if item is None:
        return Block("text", _pieces(text))
    pieces = _pieces(text[item.end() :])
    return Block("step", pieces, int(item[1])) if item[1] else Block("item", pieces)


def _pieces(text: str) -> tuple[Piece, ...]:
    """Code, and links to other runbooks; what a link to elsewhere says."""
    found: list[Piece] = []
    at = 0
    for part in _INLINE.finditer(text):
        found.append(Piece(text[at : part.start()]))
        if part["code"]:
            found.append(Piece(part["code"], is_code=True))
        else:
            target = _RUNBOOK.fullmatch(part["target"])
            name = target[1] if target and target[1] in runbook_names() else ""
            found.append(Piece(part["words"], runbook=name))
        at = part.end()
    return tuple(piece for piece in (*found, Piece(text[at:])) if piece.text)


def linked(text: str) -> tuple[Piece, ...]:
    """A text of a report: what stands in back quotes is code, a runbook's path leads to its page, a time is whole."""
    found: list[Piece] = []
    at = 0
    for part in _PATH.finditer(text):
        found += [Piece(text[at : part.start()]), _linked(part)]
        at = part.end()
    return tuple(piece for piece in (*found, Piece(text[at:])) if piece.text)


def _linked(part: re.Match[str]) -> Piece:
    if part["code"]:
        return Piece(part["code"], is_code=True)
    if part["name"] in runbook_names():
        return Piece(f"runbook {part['name']}", runbook=part["name"])
    return Piece(part[0], is_whole=part["name"] is None)
