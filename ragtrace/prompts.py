"""Prompt templates: a prompt with `{chunk:ID}` where its chunks stand, and the prompt for any subset of them.

In a template `{chunk:}` is a literal brace, so that a prompt which says `{chunk:7}` itself survives. The k-th
placeholder of an id stands for the k-th chunk with this id, further ones for the last.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol

from ragtrace.chunk_wrappers import wrappers_of

__all__ = ["GivenChunk", "escaped", "parsed", "placeholder", "rebuild"]

_PLACEHOLDER: Final = re.compile(r"\{chunk:([^{}]*)\}")
_OPENING: Final = re.compile(r"\{(?=chunk:)")
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


def rebuild(
    template: str, chunks: Iterable[GivenChunk], keep: Collection[str] | None = None, *, renumber: bool = False
) -> str:
    """The prompt of a template for a subset of its chunks.

    Args:
        chunks: the packed chunks, in prompt order.
        keep: ids of the chunks that stay; None: all. Where a wrapper is recognized around every chunk - a separator, a
            number, a title, tags, a source - a chunk's wrapper leaves with it. Else all text around the chunks stays.
        renumber: whether numbers that count the chunks count those that stay; by default each keeps its own.

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
    bodies = []
    for mark in places:
        bodies.append(_given(mark, given[mark], counts[mark]))
        counts[mark] += 1
    stay = [place for place, mark in enumerate(places) if mark in kept]
    wrappers = wrappers_of(tuple(texts)) if len(stay) < len(places) else None
    if wrappers is not None:
        return wrappers.around(bodies, stay, renumber=renumber)
    shown = [body if mark in kept else "" for body, mark in zip(bodies, places, strict=True)]
    return "".join(text + body for text, body in zip(texts, [*shown, ""], strict=True))


def _given(mark: str, texts: Sequence[str | None], count: int) -> str:
    body = texts[min(count, len(texts) - 1)] if texts else None
    if body is None:
        raise ValueError(f"{mark} has no text; give the packed chunks of its record, kept with capture_content='full'")
    return body
