"""Prompt templates: a prompt with `{chunk:ID}` where its chunks stand, the prompt for any subset of them, and the
wrappers around chunks: what leaves with a chunk, and what stays.

In a template `{chunk:}` is a literal brace, so that a prompt which says `{chunk:7}` itself survives. The k-th
placeholder of an id stands for the k-th chunk with this id, further ones for the last.

A packer writes an opening, then each chunk between a prefix and a suffix of its own, with the same text between two of
them, and a closing. Only the whole is recorded. The texts between chunks are laid side by side: what varies there - a
number, or a line that says something else - is a chunk's own. It belongs to the chunk behind it when the text before
the first chunk goes on in the same way, to the chunk before it when the text behind the last one does. Where both do,
or neither, nothing is recognized: a wrong wrapper would be worse than none.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Final, NamedTuple, Protocol

__all__ = ["GivenChunk", "Wrappers", "escaped", "parsed", "placeholder", "rebuild", "wrappers_of"]

_TOKEN: Final = re.compile(  # numbers, words, runs of a sign, single white space
    r"\d{1,18}(?:\.\d{1,18})?|[^\W\d_]+|([^\w\s]|_)\1*|\s"
)
_SIGNS: Final = re.compile(r"[^\W\d_]+\s?[:=]|([^\w\s])\1*")  # also a word that captions what follows
_OPEN: Final = "<([{#*-|"
_CLOSED: Final = ">)]}.;!|"
_SEPARATES: Final = frozenset(" \t\r\n-=*_#~|/\\+.,;:•·–—")  # what a separator may consist of
_ANY_NUMBER: Final = "0"


class _Column(NamedTuple):
    """A token that all texts between two chunks have at the same place, or a line in which they differ."""

    values: tuple[str, ...]
    is_line: bool = False
    is_first: bool = False  # the line goes on behind a chunk
    is_last: bool = False  # a chunk stands at the line's end

    @property
    def varies(self) -> bool:
        return self.is_line or len(set(self.values)) > 1


class _Edge(NamedTuple):
    """How far the text at one end of the prompt goes on as the texts between chunks do, from the chunk outwards."""

    found: tuple[str, ...]
    is_odd: bool  # it ends in the midst of something: a run of a sign, or a caption whose value stands here alone


@dataclass(frozen=True, slots=True)
class Wrappers:
    """The parts of a prompt without its chunks, for each chunk a prefix and a suffix, in pieces.

    Attributes:
        bare: the prompt without any chunk.
    """

    opening: str
    prefixes: tuple[tuple[str, ...], ...]
    between: str
    suffixes: tuple[tuple[str, ...], ...]
    closing: str
    bare: str

    def around(self, bodies: Sequence[str], stay: Sequence[int], *, renumber: bool = False) -> str:
        """The prompt with the chunks at these places only; `renumber`: counted as if there were no others."""
        if not stay:
            return self.bare
        parts = []
        for count, place in enumerate(stay):
            before, behind = self.prefixes[place], self.suffixes[place]
            if renumber:
                before, behind = (_counted(each, place, count) for each in (self.prefixes, self.suffixes))
            parts.append("".join((*before, bodies[place], *behind)))
        return self.opening + self.between.join(parts) + self.closing


@lru_cache(16)  # whoever asks for one subset asks for many
def wrappers_of(texts: tuple[str, ...]) -> Wrappers | None:
    """Recognize them in the texts before, between and behind the chunks; None where that is not sure."""
    columns = _columns(texts[1:-1]) if len(texts) > 2 else None
    if columns is None:
        return None
    head = _edge(columns[::-1], list(_tokens(texts[0]))[::-1], is_head=True)
    tail = _edge(columns, list(_tokens(texts[-1])), is_head=False)
    owned = None if head.is_odd or tail.is_odd else _owned(columns, head, tail)
    if owned is None:
        return None
    behind, before = owned
    first, last = "".join(head.found[: len(columns) - before][::-1]), "".join(tail.found[:behind])
    rows = list(zip(*(column.values for column in columns), strict=True)) or [()] * (len(texts) - 2)
    return Wrappers(
        opening=texts[0][: len(texts[0]) - len(first)],
        prefixes=_pieces((head.found[: len(columns) - before][::-1], *(row[before:] for row in rows))),
        between="".join(rows[0][behind:before]),
        suffixes=_pieces((*(row[:behind] for row in rows), tail.found[:behind])),
        closing=texts[-1][len(last) :],
        bare=_bare(texts, head, tail, len(columns), behind),
    )


def _owned(columns: Sequence[_Column], head: _Edge, tail: _Edge) -> tuple[int, int] | None:
    """How many columns belong to the chunk before them, and the first that belongs to the one behind; None: unsure."""
    count = len(columns)
    behind, before = 0, count
    for place, column in enumerate(columns):
        at_head, at_tail = count - place <= len(head.found), place < len(tail.found)
        varies = (
            column.varies
            or (at_head and head.found[count - place - 1] != column.values[0])
            or (at_tail and tail.found[place] != column.values[0])
        )
        if varies and at_head == at_tail:
            return None
        if varies and at_tail:
            if before < count:
                return None
            behind = place + 1
        elif varies:
            before = min(before, place)
        elif not at_head and not at_tail and column.values[0][0] not in _SEPARATES:
            return None  # words of a separator, or of a title that all chunks but the first have
    return behind, before


def _bare(texts: Sequence[str], head: _Edge, tail: _Edge, count: int, behind: int) -> str:
    """The opening and the closing, without what is like a wrapper before the first chunk and behind the last."""
    start = max(count - len(head.found), behind)
    opened = sum(map(len, head.found[: count - start]))
    closed = "".join(tail.found[: min(len(tail.found), start)])
    return texts[0][: len(texts[0]) - opened] + texts[-1][len(closed) if closed.strip() else 0 :]


@lru_cache(64)  # an application's prompts have the same between their chunks, whatever they ask
def _columns(inner: tuple[str, ...]) -> tuple[_Column, ...] | None:
    """The texts side by side; None when they have not equally many lines."""
    lines = [text.split("\n") for text in inner]
    count = len(lines[0])
    if any(len(each) != count for each in lines):
        return None
    columns: list[_Column] = []
    for number, group in enumerate(zip(*lines, strict=True)):
        if number:
            columns.append(_Column(("\n",) * len(inner)))
        tokens = [list(_tokens(line)) for line in group]
        if len({_masked(each) for each in tokens}) == 1:
            columns += [_Column(values) for values in zip(*tokens, strict=True)]
        else:
            columns.append(_Column(group, True, number == 0, number == count - 1))
    return tuple(columns)


def _edge(columns: Sequence[_Column], tokens: Sequence[str], *, is_head: bool) -> _Edge:
    """Walk away from the chunk, through columns and the tokens of one end of the prompt."""
    values: list[str] = []
    position = 0
    for column in columns:
        if column.is_line:
            line = list(takewhile(lambda token: token != "\n", tokens[position:]))
            text = "".join(line[::-1] if is_head else line)
            cuts = column.is_first if is_head else column.is_last
            if cuts or not _is_like(text, column.values, _CLOSED if column.is_first else ""):
                return _Edge(tuple(values), False)
            values.append(text)
            position += len(line)
        elif _continues(tokens[position] if position < len(tokens) else "", column.values, is_head=is_head):
            values.append(tokens[position])
            position += 1
        else:
            break
    token = tokens[position] if position < len(tokens) else "\n"
    is_run = len(values) < len(columns) and token[:1] == columns[len(values)].values[0][:1] and not token.isalnum()
    del values[_outside_of_tags(columns, len(values), is_head=is_head) :]
    is_caption = token != "\n" and _is_caption(columns[: len(values)], _OPEN if is_head else _CLOSED)
    return _Edge(tuple(values), (is_run and not token.isspace()) or is_caption)


def _outside_of_tags(columns: Sequence[_Column], count: int, *, is_head: bool) -> int:
    """Of the first `count` columns, those before a tag that is cut behind them: one that only begins like another."""
    begins, ends = (">", "<") if is_head else ("<", ">")
    signs = [column.values[0] for column in columns]
    for place in range(count - 1, -1, -1):
        if signs[place] in (ends, "\n"):
            break
        if signs[place] == begins:
            rest = takewhile(lambda sign: sign not in (begins, "\n"), signs[count:])
            return place if ends in rest else count
    return count


def _is_caption(columns: Sequence[_Column], ends: str) -> bool:
    """Whether the last line is words that never change, up to none of the signs that end a wrapper."""
    line = list(takewhile(lambda column: column.values[0] != "\n", reversed(columns)))
    words = [column.values[0] for column in line if column.values[0].strip()]
    has_words = any(map(_says, words)) and not any(column.varies for column in line)
    return has_words and words[0][0] not in ends


def _continues(token: str, values: tuple[str, ...], *, is_head: bool) -> bool:
    """Whether a token at one end fits: it is the same, the next number of a count, or any among other numbers."""
    if len(set(values)) == 1 and (token == values[0] or len(values) > 1):
        return token == values[0]
    if not _is_number(token) or not _is_number(values[0]):
        return False
    whole = (token, *values) if is_head else (*values, token)
    return _counts(whole) or (len(values) > 1 and not _counts(values))


def _counts(numbers: Sequence[str]) -> bool:
    """Whether each whole number is one more than the one before."""
    return all(map(str.isdecimal, numbers)) and all(
        int(after) - int(before) == 1 for before, after in pairwise(numbers)
    )


def _is_like(line: str, others: Sequence[str], ends: str) -> bool:
    """Whether a line begins with the caption that the others have, and has their signs, no more and no less.

    ends: signs that end a wrapper, so that what follows would be none of its own.
    """
    rows = [list(_tokens(each)) for each in (*others, line)]
    caption = _caption(rows)
    said = [token for token in caption if token.strip()]
    if all(map(_is_number, said)) or said[-1][0] in ends or len(caption) == len(rows[-1]):
        return False
    *ends_of_others, end = [row[-1] for row in rows]
    if len(set(ends_of_others)) == 1 and end != ends_of_others[0]:
        return False
    if _says(end) not in set(map(_says, ends_of_others)):
        return False
    signs = [Counter(found[0] for found in _SIGNS.finditer(each)) for each in (*others, line)]
    here = signs.pop()
    return all(
        min(each[sign] for each in signs) <= here[sign] <= max(each[sign] for each in signs)
        for sign in set().union(here, *signs)
    )


def _caption(rows: Sequence[Sequence[str]]) -> list[str]:
    """The tokens that all begin with, numbers apart; those of the first."""
    same = takewhile(lambda tokens: len(set(map(_mask, tokens))) == 1, zip(*rows, strict=False))
    return [tokens[0] for tokens in same]


def _pieces(wrappers: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Lines cut behind their caption, so that the numbers in it are pieces as well."""
    pieces: list[tuple[str, ...]] = []
    for column in zip(*wrappers, strict=True):
        rows = [list(_tokens(each)) for each in column]
        caption = len(_caption(rows))
        pieces += list(zip(*(row[:caption] for row in rows), strict=True))
        pieces.append(tuple("".join(row[caption:]) for row in rows))
    return tuple(zip(*pieces, strict=True)) or ((),) * len(wrappers)


def _counted(wrappers: Sequence[tuple[str, ...]], place: int, count: int) -> tuple[str, ...]:
    """The wrapper of the chunk at `place`, with the numbers of the one at `count` where they count the chunks."""
    return tuple(column[count if _is_count(column) else place] for column in zip(*wrappers, strict=True))


def _is_count(values: Sequence[str]) -> bool:
    """Whether they count the chunks, from 0 or 1."""
    return _counts(values) and int(values[0]) in (0, 1)


def _tokens(text: str) -> Iterator[str]:
    return (found[0] for found in _TOKEN.finditer(text))


def _is_number(token: str) -> bool:
    return token[:1].isdecimal()


def _says(token: str) -> bool:
    return token[:1].isalnum()


def _mask(token: str) -> str:
    return _ANY_NUMBER if _is_number(token) else token


def _masked(tokens: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(_mask, tokens))


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
