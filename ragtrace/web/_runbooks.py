"""The runbooks as pages: the headings, paragraphs, lists and commands of docs/runbooks/, as plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from ragtrace import resources

__all__ = ["Block", "runbook", "runbook_names"]

_FOLDER: Final = "docs/runbooks"
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_CODE: Final = re.compile(r"`([^`]+)`")
_ITEM: Final = re.compile(r"(?:-|(\d+)\.) +")


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, a paragraph, an item of a list or of numbered steps, or lines of code. pieces: its text, each with
    whether it is code."""

    kind: Literal["title", "heading", "text", "item", "step", "code"]
    pieces: tuple[tuple[str, bool], ...]
    number: int | None = None  # of a step


def runbook_names() -> list[str]:
    """The names of the pages, without `.md`."""
    return sorted(path.stem for path in resources.folder(_FOLDER).glob("*.md"))


def runbook(name: str) -> list[Block] | None:
    """The blocks of a page; None where there is none of this name."""
    if name not in runbook_names():
        return None
    text = (resources.folder(_FOLDER) / f"{name}.md").read_text("utf-8")
    blocks: list[Block] = []
    for place, part in enumerate(re.split(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)):
        if place % 2:
            blocks.append(Block("code", ((part, True),)))
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


def _pieces(text: str) -> tuple[tuple[str, bool], ...]:
    plain = _LINK.sub(r"\1", text)
    return tuple((part, place % 2 == 1) for place, part in enumerate(_CODE.split(plain)) if part)
