"""Prompt templates: a prompt with `{chunk:ID}` where its chunks stand, and the prompt for any subset of them.

In a template `{chunk:}` is a literal brace, so that a prompt which says `{chunk:7}` itself survives. The k-th
placeholder of an id stands for the k-th chunk with this id, further ones for the last.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final, Protocol

__all__ = ["GivenChunk", "escaped", "parsed", "placeholder", "rebuild"]

_PLACEHOLDER: Final = re.compile(r"\{chunk:([^{}]*)\}")
_OPENING: Final = re.compile(r"\{(?=chunk:)")
_NUMBER: Final = re.compile(r"\d+")
_OWN: Final = "\0"
_BEFORE: Final = "\1"
_SAYS: Final = re.compile(rf"[^\W_]|[{_OWN}{_BEFORE}]")
_WORD_END: Final = re.compile(r"\w+$")
_QUOTED: Final = {"%": "%25", "{": "%7B", "}": "%7D"}
_ODD: Final = re.compile("|".join([*_QUOTED.values(), "[{}]"]))  # an id with one of these is quoted


class GivenChunk(Protocol):
    """What is needed of a chunk: its id and the text that stands in the prompt."""

    @property
    def chunk_id(self) -> str:
        """Its id."""

    @property
    def text(self) -> str | None:
        """Its text as it was given."""


def placeholder(chunk_id: str) -> str:
    """What stands for a chunk in a template; braces of its id are quoted as in URLs."""
    if _ODD.search(chunk_id):
        chunk_id = re.sub("[%{}]", lambda found: _QUOTED[found[0]], chunk_id)
    return f"{{chunk:{chunk_id}}}"


def escaped(prompt: str) -> str:
    """A prompt as a template without chunks: `rebuild(escaped(prompt), ())` is the prompt."""
    return _OPENING.sub("{chunk:}", prompt) if "{chunk:" in prompt else prompt


def parsed(template: str) -> tuple[list[str], list[str]]:
    """The texts of a template, unescaped, and the placeholders between them: one text more than placeholders."""
    texts, places, at = [""], [], 0
    for found in _PLACEHOLDER.finditer(template):
        texts[-1] += template[at : found.start()]
        at = found.end()
        if found[1]:
            places.append(found[0])
            texts.append("")
        else:
            texts[-1] += "{"
    texts[-1] += template[at:]
    return texts, places


def rebuild(template: str, chunks: Iterable[GivenChunk], keep: Collection[str] | None = None) -> str:
    """The prompt of a template for a subset of its chunks.

    Args:
        chunks: the packed chunks, in prompt order.
        keep: ids of the chunks that stay; None: all. Where the same wrapper stands around every chunk - a separator, a
            number, tags, also with a title in it - a chunk's wrapper leaves with it, and the others keep their numbers.
            Else all text around the chunks stays.

    Raises: ValueError when a placeholder has no chunk, or its chunk no text (where content is not captured).
    """
    given: defaultdict[str, list[str | None]] = defaultdict(list)
    kept = set()
    for chunk in chunks:
        mark = placeholder(chunk.chunk_id)
        given[mark].append(chunk.text)
        if keep is None or chunk.chunk_id in keep:
            kept.add(mark)
    texts, places = parsed(template)
    counts: defaultdict[str, int] = defaultdict(int)
    parts = []
    stay = [place for place, mark in enumerate(places) if mark in kept]
    for mark in places:
        parts.append(_given(mark, given[mark], counts[mark]))
        counts[mark] += 1
    before, last = _around(texts, stay)
    return "".join(text + parts[place] for text, place in zip(before, stay, strict=True)) + last


def _given(mark: str, texts: Sequence[str | None], count: int) -> str:
    body = texts[min(count, len(texts) - 1)] if texts else None
    if body is None:
        raise ValueError(f"{mark} has no text; give the packed chunks of its record, kept with capture_content='full'")
    return body


def _around(texts: Sequence[str], stay: Sequence[int]) -> tuple[list[str], str]:
    """The text before each chunk that stays, and the text behind all."""
    if len(stay) == len(texts) - 1:
        return list(texts[:-1]), texts[-1]
    wrapper = _wrapper(texts)
    if wrapper is None:
        bounds = [0, *(place + 1 for place in stay), len(texts)]
        *before, last = ["".join(texts[start:end]) for start, end in pairwise(bounds)]
        return before, last
    opening, prefixes, closing = wrapper
    if not stay:
        return [], opening + texts[-1].removeprefix(closing)
    return [opening + prefixes[stay[0]], *(texts[place] for place in stay[1:])], texts[-1]


def _wrapper(texts: Sequence[str]) -> tuple[str, list[str], str] | None:
    """What stands before all chunks, what opens each of them, and what closes each; None without a common wrapper."""
    masks = [_masked(text, number) for number, text in enumerate(texts, 1)]
    first, inner, behind = masks[0], masks[1:-1], masks[-1]
    if not inner:
        return None
    common = _beginning(inner)
    if any(mask != common for mask in inner):
        return _titled(texts, masks, common)
    opens = _beginning([first[::-1], common[::-1]])[::-1]
    head = common[: len(common) - len(opens)]
    closes = _beginning([head, behind])
    if len(inner) == 1 and _SAYS.search(head[len(closes) :]):
        return None  # one text between two chunks may hold a title of the second one
    start = len(texts[0]) - len(opens)
    prefixes = [_unmasked(opens, number) for number in range(1, len(texts))]
    return texts[0][:start], prefixes, _unmasked(closes, len(texts)) if closes.strip() else ""


def _titled(texts: Sequence[str], masks: Sequence[str], common: str) -> tuple[str, list[str], str] | None:
    """Wrappers that open with the same mark and go on with something of the chunk's own, such as its title."""
    mark = _WORD_END.sub("", common.lstrip())
    start = masks[0].rfind(mark) if mark.strip() else -1
    if start < 0:
        return None
    space = len(common) - len(common.lstrip())
    return texts[0][:start], [texts[0][start:], *(text[space:] for text in texts[1:-1])], ""


def _beginning(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    low, high = min(texts), max(texts)
    return next((low[:at] for at, sign in enumerate(low) if sign != high[at]), low)


def _masked(text: str, number: int) -> str:
    """A text before the chunk with this number, with marks in place of this number and of the one before it."""
    marks = {str(number): _OWN, str(number - 1): _BEFORE}
    return _NUMBER.sub(lambda found: marks.get(found[0], found[0]), text)


def _unmasked(mask: str, number: int) -> str:
    return mask.replace(_OWN, str(number)).replace(_BEFORE, str(number - 1))
