"""Where the words of one chunk stand in a prompt: runs of the same words, and the passages that they make up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from ragtrace.record.coercion.wording import GRAM, Wording, backward, forward

__all__ = ["SHORTEST", "Passage", "exact_passages", "passages"]

SHORTEST: Final = 16  # a shorter text says too little to be recognized in a prompt or as a cut one
_PART: Final = 12  # words that a part of a chunk must have, of a short chunk half of its words
_FEWEST: Final = 6
_MOST: Final = 64  # runs and places that are looked at per chunk
_PASSAGES: Final = 16
_HEAD: Final = 120  # characters of a text that are looked for first: quicker than all of it, and than fewer
_CHANCE: Final = 3  # words behind a line break that may stand there by chance
_CHANGED: Final = 8  # words in a row that may be changed, or left out and replaced by as many
_INSERTED: Final = 3
_ELLIPSIS: Final = re.compile(r"[ \t]?(?:\[(?:…|\.{3})\]|…|\.{3})")
_CUT_END: Final = re.compile(r"""\s*(?:…|\.{3}|\[)|[ \t]*(?:\n|$|["'<)\]])""")
_CUT_START: Final = re.compile(r"""(?:(?:…|\.{3}|\])\s*|(?:\n|^|["'>(\[])[ \t]*)$""")


class Passage(NamedTuple):
    """A part of a prompt, `prompt[start:end]`, that holds the chunk with the number `order`, or a part of it."""

    order: int
    start: int
    end: int
    weight: int  # characters of the prompt that agree with the chunk
    whole: bool  # nothing of the chunk is missing
    first: int  # the part of the chunk, `text[first:last]`, that stands there
    last: int
    begins: bool = True  # it holds the chunk's beginning
    ends: bool = True
    size: int = 0  # words of the chunk that stand there; 0: all
    spots: tuple[tuple[int, int, int, int], ...] = ()  # each word: its place in the prompt and in the chunk


class _Run(NamedTuple):
    """Words `at` to `end` of a prompt are the words `of` to `to` of a chunk, but for numbers before lines."""

    at: int
    end: int
    of: int
    to: int


def exact_passages(prompt: str, text: str, order: int) -> list[Passage]:
    """Where a chunk's text stands as it is, white space at its ends apart."""
    if text.lstrip()[:_HEAD] not in prompt:
        return []
    body, found = text, prompt.find(text)
    if found < 0:
        body = text.strip()
        found = prompt.find(body) if body is not text and body else -1
    first = 0 if body is text else text.find(body)
    places: list[Passage] = []
    while found >= 0 and len(places) < _MOST:
        end = found + len(body)
        if _is_bounded(prompt, found, end, body):
            places.append(Passage(order, found, end, len(body), True, first, first + len(body)))
        found = prompt.find(body, end)
    return places


def _is_bounded(prompt: str, start: int, end: int, body: str) -> bool:
    """Whether it neither begins nor ends within a word: a limit of 10 is not one of 100."""
    opens = start and body[0].isalnum() and prompt[start - 1].isalnum()
    closes = end < len(prompt) and body[-1].isalnum() and prompt[end].isalnum()
    return not (opens or closes)


def passages(prompt: Wording, chunk: Wording, order: int) -> list[Passage]:
    """Where a chunk's words stand, all of them or enough of them in a row."""
    size = len(chunk.words)
    need = max(_FEWEST, min(_PART, size // 2))
    if size < GRAM or not _stands(prompt, chunk, need):
        return []
    runs = _disjoint(_runs(prompt, chunk))
    found = [_passage(prompt, chunk, order, chain) for chain in _chains(runs)]
    found = [passage for passage in found if passage.whole or passage.size >= need]
    return sorted(found, key=lambda passage: -passage.weight)[:_PASSAGES]


def _stands(prompt: Wording, chunk: Wording, need: int) -> bool:
    """Whether any part of `need` words can stand there: one of its rows of words is at one of these steps."""
    words, grams = chunk.words, prompt.grams
    last = len(words) - GRAM
    steps = (*range(0, last + 1, max(1, need - GRAM + 1)), last)
    return any(tuple(words[of : of + GRAM]) in grams for of in steps)


def _runs(prompt: Wording, chunk: Wording) -> list[_Run]:
    words, grams = chunk.words, prompt.grams
    reached: dict[int, int] = {}
    runs: list[_Run] = []
    for of in range(len(words) - GRAM + 1):
        for at in grams.get(tuple(words[of : of + GRAM]), ()):
            if reached.get(at - of, -1) > of or (runs and _holds(runs[-1], at, of)):
                continue
            run = _unchanced(_extended(prompt.words, words, at, of), prompt, chunk)
            reached[at - of] = max(run.to, of + GRAM)
            reached[run.end - run.to] = run.to
            runs.append(run)
    return runs


def _holds(run: _Run, at: int, of: int) -> bool:
    return run.of <= of < run.to and run.at - run.of <= at - of <= run.end - run.to


def _extended(prompt: Sequence[str], chunk: Sequence[str], at: int, of: int) -> _Run:
    """As far as the words agree; a number between them is one that numbers a line."""
    end, to = at + GRAM, of + GRAM
    while to < len(chunk) and end < len(prompt):
        if prompt[end] != chunk[to]:
            if not (prompt[end].isdigit() and prompt[end + 1 : end + 2] == [chunk[to]]):
                break
            end += 1
        end, to = end + 1, to + 1
    while of and at:
        if prompt[at - 1] != chunk[of - 1]:
            if not (prompt[at - 1].isdigit() and at > 1 and prompt[at - 2] == chunk[of - 1]):
                break
            at -= 1
        at, of = at - 1, of - 1
    return _Run(at, end, of, to)


def _unchanced(run: _Run, prompt: Wording, chunk: Wording) -> _Run:
    """Without a few words beyond a line break that the chunk does not have: they agree by chance."""
    at, end, of, to = run
    if end - at != to - of:
        return run
    near = [*range(at + 1, min(at + 1 + _CHANCE, end)), *range(max(at + 1, end - _CHANCE), end)]
    breaks = [word for word in near if "\n" in prompt.gap(word) and "\n" not in chunk.gap(of + word - at)]
    if not breaks or end - at <= 2 * _CHANCE:
        return run
    middle = range(at + 1 + _CHANCE, end - _CHANCE)
    if any("\n" in prompt.gap(word) and "\n" not in chunk.gap(of + word - at) for word in middle):
        return run  # its lines are broken anew
    opens = max((word for word in breaks if word <= at + _CHANCE and of > 0), default=at)
    closes = min((word for word in breaks if word >= end - _CHANCE and to < len(chunk.words)), default=end)
    return _Run(opens, closes, of + opens - at, to - end + closes)


def _disjoint(runs: Iterable[_Run]) -> list[_Run]:
    """The longest runs that do not overlap in the prompt, in its order."""
    kept: list[_Run] = []
    for run in sorted(runs, key=lambda run: run.of - run.to)[:_MOST]:
        at, end, of, to = run
        for other in kept:
            if at < other.end and other.at < end and end - at == to - of:
                if other.at <= at:
                    at, of = min(other.end, end), of + min(other.end, end) - at
                else:
                    to, end = to - end + max(other.at, at), max(other.at, at)
        clear = all(end <= other.at or other.end <= at for other in kept)
        if clear and end - at >= min(GRAM, run.end - run.at):
            kept.append(_Run(at, end, of, to))
    return sorted(kept)


def _chains(runs: Sequence[_Run]) -> list[list[_Run]]:
    """Runs that follow each other in the prompt and in the chunk, with little but what was left out between them."""
    chains: list[list[_Run]] = []
    for run in runs:
        last = chains[-1][-1] if chains else None
        if last is not None and run.of >= last.to and _is_near(run.at - last.end, run.of - last.to):
            chains[-1].append(run)
        else:
            chains.append([run])
    return chains


def _is_near(inserted: int, left_out: int) -> bool:
    return inserted <= _INSERTED or (left_out <= _CHANGED and inserted <= left_out + _INSERTED)


def _passage(prompt: Wording, chunk: Wording, order: int, chain: Sequence[_Run]) -> Passage:
    first, last = chain[0], chain[-1]
    gaps = [(right.at - left.end, right.of - left.to) for left, right in pairwise(chain)]
    begins, ends = first.of == 0, last.to == len(chunk.words)
    start, before = _opening(prompt, chunk, first)
    end, behind = _closing(prompt, chunk, last)
    spots = tuple(
        (*prompt.spans[run.at + step], *chunk.spans[run.of + step])
        for run in chain
        for step in range(min(run.end - run.at, run.to - run.of))
    )
    weight = sum(prompt.spans[run.end - 1][1] - prompt.spans[run.at][0] for run in chain)
    whole = begins and ends and all(left_out <= inserted for inserted, left_out in gaps)
    size = sum(run.to - run.of for run in chain)
    return Passage(order, start, end, weight, whole, before, behind, begins, ends, size, spots)


def _opening(prompt: Wording, chunk: Wording, run: _Run) -> tuple[int, int]:
    """Where a passage starts, in the prompt and in the chunk: with its first marks, half a word, an ellipsis."""
    start, first = prompt.spans[run.at][0], chunk.spans[run.of][0]
    found = backward(prompt.text, start, chunk.gap(run.of))
    if run.of == 0:
        return found, 0
    if found == start and run.at and prompt.gap(run.at).split() == chunk.gap(run.of).split():
        half, word = prompt.words[run.at - 1], chunk.words[run.of - 1]
        place = prompt.spans[run.at - 1][0]
        if word.endswith(half) and word != half and _CUT_START.search(prompt.text[max(0, place - 8) : place]):
            start, first = place, chunk.spans[run.of - 1][1] - len(half)
            found = start
    before = prompt.text[max(0, found - 8) : found].rstrip()
    mark = re.search(r"(?:\[(?:…|\.{3})\]|…|\.{3})$", before)
    if mark is not None:
        found = max(0, found - 8) + mark.start()
    return found, first


def _closing(prompt: Wording, chunk: Wording, run: _Run) -> tuple[int, int]:
    """Where a passage ends, in the prompt and in the chunk."""
    text, end, last = prompt.text, prompt.spans[run.end - 1][1], chunk.spans[run.to - 1][1]
    if run.to == len(chunk.words):
        return forward(text, end, chunk.gap(run.to).rstrip()), len(chunk.text)
    found = forward(text, end, chunk.gap(run.to))
    last += found - end if text[end:found] == chunk.text[last : last + found - end] else 0
    if run.end < len(prompt.words) and prompt.gap(run.end).split() == chunk.gap(run.to).split():
        half, word = prompt.words[run.end], chunk.words[run.to]
        place = prompt.spans[run.end][1]
        if word.startswith(half) and word != half and _CUT_END.match(text, place):
            found, last = place, chunk.spans[run.to][0] + len(half)
    mark = _ELLIPSIS.match(text, found)
    return (mark.end() if mark is not None else found), last
