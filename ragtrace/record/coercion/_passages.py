"""The passages of a prompt that are chunks, found by what they say: each place belongs to the chunk that fits it best.

The longest passage comes first; what it leaves of others is judged again. A part that several chunks have in common at
the same end of them, such as a header, is no chunk, unless it is most of it or they are editions of one text. Texts are
compared word by word, so that white space, punctuation, quoting and escaping do not hide what they say.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property
from heapq import heapify, heappop, heappush
from html import escape
from itertools import chain, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

__all__ = ["SHORTEST", "UNSPACED", "Passage", "Wording", "exact_passages", "locate", "rows_of"]

_OWN: Final = 3  # words more than any other chunk has, that make a part a chunk's own
_REST_WORDS: Final = 6  # words that must be left of a passage beside another
_MOST_OF: Final = 0.75
_EDGE: Final = 120  # characters in which a few words stand
_start: Final = attrgetter("start")
SHORTEST: Final = 16  # a shorter text says too little to be recognized in a prompt or as a cut one
_PART_WORDS: Final = 12  # words that a part of a chunk must have, of a short chunk half of its words
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
_GRAM: Final = 4  # words in a row that are looked up
_NEXT: Final = 3  # rows of words that a part of a chunk has at least
_FEW_ROWS: Final = 40  # rows of words that are looked up in a text sooner than the text is split into words
_FREQUENT: Final = 8  # a row of words that stands more often in a text says nothing of a place
UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORDS: Final = rf"[{UNSPACED}]|[^\W_{UNSPACED}]+"  # scripts without spaces: each character
_ENTITY: Final = r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,4}|#x[0-9a-fA-F]{1,4});"
_WORD: Final = re.compile(_WORDS)
_WORD_OR_ENTITY: Final = re.compile(f"{_ENTITY}|{_WORDS}")
_BLANKS: Final = bytes(code if code < 128 and chr(code).isalnum() else 32 for code in range(256))
_ALIKE: Final = ('"“”„«»', "'\u2018’\u201a", "-–—−\u2010\u2011", "*•·")


class Wording:
    """A text and its words; what is not asked for is not computed."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def words(self) -> list[str]:
        """Its words, as they are written."""
        if (plain := _blanked(self.text)) is not None:
            return plain.split()
        if "&" not in self.text:
            return _WORD.findall(self.text)
        return [word for word in _WORD_OR_ENTITY.findall(self.text) if word[0] != "&"]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Where each word stands."""
        if "&" not in self.text:
            return [found.span() for found in _WORD.finditer(self.text)]
        return [found.span() for found in _WORD_OR_ENTITY.finditer(self.text) if found[0][0] != "&"]

    @cached_property
    def grams(self) -> dict[tuple[str, ...], list[int]]:
        """Where each row of `_GRAM` words begins, of those that do not stand everywhere."""
        found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for at, row in enumerate(rows_of(self.words)):
            found[row].append(at)
        return {row: places for row, places in found.items() if len(places) <= _FREQUENT}

    def shares(self, rows: Set[tuple[str, ...]]) -> bool:
        """Whether one of each `_NEXT` rows of its words, of which a part of a text has so many, or the last is among
        these."""
        return not rows.isdisjoint(rows_of(self.words, _NEXT)) or tuple(self.words[-_GRAM:]) in rows

    def gap(self, word: int) -> str:
        """What stands before a word, from the end of the word before it; behind the last word, the rest."""
        start = self.spans[word - 1][1] if word else 0
        return self.text[start : self.spans[word][0] if word < len(self.spans) else len(self.text)]

    def within(self, start: int, end: int) -> range:
        """The words that begin in `text[start:end]`."""
        return range(bisect_left(self.spans, (start, -1)), bisect_left(self.spans, (end, -1)))


def _blanked(text: str) -> str | None:
    """The text with blanks for all that is no word, which is quicker than the expression; None where it needs that."""
    if "&" in text or not text.isascii():
        return None
    return text.encode("ascii").translate(_BLANKS).decode("ascii")


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


def locate(
    prompt: Wording, chunks: Sequence[Wording], questions: Iterable[str | None] = (), expected: int | None = None
) -> list[Passage]:
    """Where the chunks stand in the prompt, in its order; of equal claims that of the first chunk counts.

    Linear in the characters of prompt and chunks. A chunk may stand there several times, or in several parts.

    Args:
        questions: what the prompt asks; where it stands, no part of a chunk that says the same is meant.
        expected: so many of the chunks, the first ones, may stand there in any part; of the others at least half, in
            one piece. None: all.
    """
    asked = [Wording(question) for question in dict.fromkeys(questions) if question]
    expected = len(chunks) if expected is None else expected
    found = _located(prompt, [*chunks, *asked], len(chunks), expected)
    return [passage for passage in found if passage.order < len(chunks)]


def _located(prompt: Wording, chunks: Sequence[Wording], count: int, expected: int) -> list[Passage]:
    """The passages of all chunks; those from `count` on are found as they are only."""
    found: list[Passage] = []
    others: list[int] = []
    for order, chunk in enumerate(chunks):
        if len(chunk.text) >= SHORTEST:
            exact = exact_passages(prompt.text, chunk.text, order)
            found += exact
            if not exact and order < count:
                others.append(order)
    rest = _rest(prompt.text, found) if others else []
    anywhere = frozenset[tuple[str, ...]]().union(*(rows for _, rows in rest))
    longest = max((size for size, _ in rest), default=0)
    for order in others:
        chunk = chunks[order]
        least = 0 if order < expected else len(chunk.text) // 2
        if least > longest:
            continue
        near = [rows for size, rows in rest if size >= least] if least else [anywhere]
        if any(_may_share(chunk.text, rows) and chunk.shares(rows) for rows in near):
            found += _passages_of(prompt, chunk, order)
    found.sort(key=_start)
    are_apart = all(passage.end <= after.start for passage, after in pairwise(found))
    if are_apart and all(passage.whole for passage in found):
        return found
    return sorted(_Assignment(prompt, chunks, found).placed(), key=_start)


def _rest(prompt: str, found: Iterable[Passage]) -> list[tuple[int, set[tuple[str, ...]]]]:
    """What of the prompt is left beside these passages: each piece's length and its rows of words, also such as
    begin or end within a passage."""
    pieces, at = [], 0
    for start, end in sorted((passage.start, passage.end) for passage in found):
        pieces.append((at, max(at, start)))
        at = max(at, end)
    plain = _blanked(prompt)

    def words(start: int, end: int) -> list[str]:
        return Wording(prompt[start:end]).words if plain is None else plain[start:end].split()

    few = _GRAM - 1
    left = []
    for start, end in (*pieces, (at, len(prompt))):
        if plain is None:
            before, behind = words(max(0, start - _EDGE), start)[-few:], words(end, end + _EDGE)[:few]
        else:  # only these few words are split
            before = plain[max(0, start - _EDGE) : start].rsplit(maxsplit=few)[-few:]
            behind = plain[end : end + _EDGE].split(maxsplit=few)[:few]
        left.append((end - start, set(rows_of([*before, *words(start, end), *behind]))))
    return left


def _may_share(text: str, rows: Set[tuple[str, ...]]) -> bool:
    """Whether a text can have one of these rows, looked up without splitting it into words where the rows are few."""
    return len(rows) > _FEW_ROWS or any(all(word in text for word in row) for row in rows)


class _Assignment:
    """Gives each place of the prompt to one passage."""

    def __init__(self, prompt: Wording, chunks: Sequence[Wording], found: list[Passage]) -> None:
        self._prompt = prompt
        self._chunks = chunks
        self._found = found
        self._starts: list[int] = []  # of what is taken, in order
        self._taken: list[Passage] = []
        self._beside: defaultdict[tuple[int, bool], list[Passage]] = defaultdict(list)  # by first and last word
        for passage in found:
            if passage.spots:
                self._beside[passage.spots[0][0], True].append(passage)
                self._beside[passage.spots[-1][0], False].append(passage)
        self._placed: set[int] = set()
        self._whole: set[int] = set()

    def placed(self) -> list[Passage]:
        """The passages that are chunks."""
        waiting = [(-passage.weight, place) for place, passage in enumerate(self._found)]
        heapify(waiting)
        while waiting:
            weight = waiting[0][0]
            equal = []
            while waiting and waiting[0][0] == weight:
                equal.append(self._found[heappop(waiting)[1]])
            for passage in self._best_first(equal):
                for rest in self._place(passage):
                    heappush(waiting, (-rest.weight, len(self._found)))
                    self._found.append(rest)
        return self._taken

    def _best_first(self, equal: list[Passage]) -> Iterable[Passage]:
        """Of equally long ones whole chunks come first, then beginnings and ends; a chunk's repetition comes last."""
        equal.sort(key=lambda each: (not each.whole, not (each.begins or each.ends), each.start, each.order))
        repeated = []
        for passage in equal:
            if passage.order in self._placed or passage.order in self._whole:
                repeated.append(passage)
            else:
                yield passage
        yield from repeated

    def _place(self, passage: Passage) -> list[Passage]:
        """Take the passage if its place is free; what else is left of it."""
        if passage.order in self._whole and not passage.whole:
            return []
        at = bisect(self._starts, passage.start)
        near = self._taken[max(0, at - 1) : bisect(self._starts, passage.end - 1)]
        over = [other for other in near if other.end > passage.start]
        if over:
            return self._rests(passage, over)
        if passage.whole or not self._is_common(passage):
            self._starts.insert(at, passage.start)
            self._taken.insert(at, passage)
            (self._whole if passage.whole else self._placed).add(passage.order)
        return []

    def _rests(self, passage: Passage, over: Sequence[Passage]) -> list[Passage]:
        """The parts of a passage before, between and behind others."""
        if over[0].start <= passage.start and passage.end <= over[0].end:
            return []
        bounds = [passage.start, *(bound for other in over for bound in (other.start, other.end)), passage.end]
        parts = [
            self._part(passage, start, end) for start, end in zip(bounds[::2], bounds[1::2], strict=True) if start < end
        ]
        return [part for part in parts if part is not None and part.size >= _REST_WORDS]

    def _part(self, passage: Passage, start: int, end: int) -> Passage | None:
        """What of a passage stands between these places; its chunk is as whole as it was."""
        spots = passage.spots or self._spots(passage)
        inside = [spot for spot in spots if start <= spot[0] and spot[1] <= end]
        if not inside:
            return None
        opens, closes = inside[0] == spots[0], inside[-1] == spots[-1]
        first = max(start, passage.start) if opens else inside[0][0]
        last = min(end, passage.end) if closes else self._end(inside[-1][1], end)
        return passage._replace(
            start=first,
            end=last,
            weight=inside[-1][1] - inside[0][0],
            first=passage.first if opens else inside[0][2],
            last=passage.last if closes else inside[-1][3] + last - inside[-1][1],
            begins=passage.begins and opens,
            ends=passage.ends and closes,
            size=len(inside),
            spots=tuple(inside),
        )

    def _end(self, at: int, end: int) -> int:
        """The end of a word's punctuation."""
        text = self._prompt.text
        while at < end and not text[at].isspace() and not text[at].isalnum():
            at += 1
        return at

    def _spots(self, passage: Passage) -> tuple[tuple[int, int, int, int], ...]:
        """The words of a passage that is as its chunk is."""
        shift = passage.first - passage.start
        words = self._prompt.within(passage.start, passage.end)
        spans = self._prompt.spans[words.start : words.stop]
        return tuple((start, end, start + shift, end + shift) for start, end in spans)

    def _is_common(self, passage: Passage) -> bool:
        """Whether it does not tell its chunk from others, which have it at the same end."""
        words = self._chunks[passage.order].words
        if passage.size >= _MOST_OF * len(words):
            return False
        ends = (passage.begins, passage.ends)
        beside = (self._beside[passage.spots[0][0], True], self._beside[passage.spots[-1][0], False])
        return any(
            other.order != passage.order
            and (other.begins, other.ends) == ends
            and other.size > passage.size - _OWN
            and self._chunks[other.order].words[-_GRAM:] != words[-_GRAM:]
            for other in chain(*beside)
        )


class _CommonRun(NamedTuple):
    """Words `at` to `end` of a prompt are the words `of` to `to` of a chunk, but for numbers before lines."""

    at: int
    end: int
    of: int
    to: int


def exact_passages(prompt: str, text: str, order: int) -> list[Passage]:
    """Where a chunk's text stands as it is, white space at its ends apart."""
    core = text.lstrip()
    at = prompt.find(core[:_HEAD])
    if at < 0:
        return []
    body, found = text, at - (len(text) - len(core))
    if found < 0 or not prompt.startswith(text, found):  # its head stands elsewhere, too
        found = prompt.find(text)
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


def _passages_of(prompt: Wording, chunk: Wording, order: int) -> list[Passage]:
    """Where a chunk's words stand, all of them or enough of them in a row."""
    size = len(chunk.words)
    need = max(_FEWEST, min(_PART_WORDS, size // 2))
    if size < _GRAM or not _stands(prompt, chunk, need):
        return []
    runs = _disjoint(_runs(prompt, chunk))
    found = [_passage(prompt, chunk, order, chain) for chain in _chains(runs)]
    found = [passage for passage in found if passage.whole or passage.size >= need]
    return sorted(found, key=lambda passage: -passage.weight)[:_PASSAGES]


def _stands(prompt: Wording, chunk: Wording, need: int) -> bool:
    """Whether any part of `need` words can stand there: one of its rows of words is at one of these steps."""
    words, grams = chunk.words, prompt.grams
    last = len(words) - _GRAM
    steps = (*range(0, last + 1, max(1, need - _GRAM + 1)), last)
    return any(tuple(words[of : of + _GRAM]) in grams for of in steps)


def _runs(prompt: Wording, chunk: Wording) -> list[_CommonRun]:
    words, grams = chunk.words, prompt.grams
    reached: dict[int, int] = {}
    runs: list[_CommonRun] = []
    for of in range(len(words) - _GRAM + 1):
        for at in grams.get(tuple(words[of : of + _GRAM]), ()):
            if reached.get(at - of, -1) > of or (runs and _holds(runs[-1], at, of)):
                continue
            run = _unchanced(_extended(prompt.words, words, at, of), prompt, chunk)
            reached[at - of] = max(run.to, of + _GRAM)
            reached[run.end - run.to] = run.to
            runs.append(run)
    return runs


def _holds(run: _CommonRun, at: int, of: int) -> bool:
    return run.of <= of < run.to and run.at - run.of <= at - of <= run.end - run.to


def _extended(prompt: Sequence[str], chunk: Sequence[str], start: int, of: int) -> _CommonRun:
    """As far as the words agree; a number between them is one that numbers a line."""
    end, to = start + _GRAM, of + _GRAM
    while to < len(chunk) and end < len(prompt):
        if prompt[end] != chunk[to]:
            if not (prompt[end].isdigit() and prompt[end + 1 : end + 2] == [chunk[to]]):
                break
            end += 1
        end, to = end + 1, to + 1
    while of and start:
        if prompt[start - 1] != chunk[of - 1]:
            if not (prompt[start - 1].isdigit() and start > 1 and prompt[start - 2] == chunk[of - 1]):
                break
            start -= 1
        start, of = start - 1, of - 1
    return _CommonRun(start, end, of, to)


def _unchanced(run: _CommonRun, prompt: Wording, chunk: Wording) -> _CommonRun:
    """Without a few words beyond a line break that the chunk does not have: they agree by chance."""
    start, end, of, to = run
    if end - start != to - of:
        return run
    near = [*range(start + 1, min(start + 1 + _CHANCE, end)), *range(max(start + 1, end - _CHANCE), end)]
    breaks = [word for word in near if "\n" in prompt.gap(word) and "\n" not in chunk.gap(of + word - start)]
    if not breaks or end - start <= 2 * _CHANCE:
        return run
    middle = range(start + 1 + _CHANCE, end - _CHANCE)
    if any("\n" in prompt.gap(word) and "\n" not in chunk.gap(of + word - start) for word in middle):
        return run  # its lines are broken anew
    opens = max((word for word in breaks if word <= start + _CHANCE and of > 0), default=start)
    closes = min((word for word in breaks if word >= end - _CHANCE and to < len(chunk.words)), default=end)
    return _CommonRun(opens, closes, of + opens - start, to - end + closes)


def _disjoint(runs: Iterable[_CommonRun]) -> list[_CommonRun]:
    """The longest runs that do not overlap in the prompt, in its order."""
    kept: list[_CommonRun] = []
    for run in sorted(runs, key=lambda run: run.of - run.to)[:_MOST]:
        start, end, of, to = run
        for other in kept:
            if start < other.end and other.at < end and end - start == to - of:
                if other.at <= start:
                    start, of = min(other.end, end), of + min(other.end, end) - start
                else:
                    to, end = to - end + max(other.at, start), max(other.at, start)
        clear = all(end <= other.at or other.end <= start for other in kept)
        if clear and end - start >= min(_GRAM, run.end - run.at):
            kept.append(_CommonRun(start, end, of, to))
    return sorted(kept)


def _chains(runs: Sequence[_CommonRun]) -> list[list[_CommonRun]]:
    """Runs that follow each other in the prompt and in the chunk, with little but what was left out between them."""
    chains: list[list[_CommonRun]] = []
    for run in runs:
        last = chains[-1][-1] if chains else None
        if last is not None and run.of >= last.to and _is_near(run.at - last.end, run.of - last.to):
            chains[-1].append(run)
        else:
            chains.append([run])
    return chains


def _is_near(inserted: int, left_out: int) -> bool:
    return inserted <= _INSERTED or (left_out <= _CHANGED and inserted <= left_out + _INSERTED)


def _passage(prompt: Wording, chunk: Wording, order: int, chain: Sequence[_CommonRun]) -> Passage:
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


def _opening(prompt: Wording, chunk: Wording, run: _CommonRun) -> tuple[int, int]:
    """Where a passage starts, in the prompt and in the chunk: with its first marks, half a word, an ellipsis."""
    start, first = prompt.spans[run.at][0], chunk.spans[run.of][0]
    found = _backward(prompt.text, start, chunk.gap(run.of))
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


def _closing(prompt: Wording, chunk: Wording, run: _CommonRun) -> tuple[int, int]:
    """Where a passage ends, in the prompt and in the chunk."""
    text, end, last = prompt.text, prompt.spans[run.end - 1][1], chunk.spans[run.to - 1][1]
    if run.to == len(chunk.words):
        return _forward(text, end, chunk.gap(run.to).rstrip()), len(chunk.text)
    found = _forward(text, end, chunk.gap(run.to))
    last += found - end if text[end:found] == chunk.text[last : last + found - end] else 0
    if run.end < len(prompt.words) and prompt.gap(run.end).split() == chunk.gap(run.to).split():
        half, word = prompt.words[run.end], chunk.words[run.to]
        place = prompt.spans[run.end][1]
        if word.startswith(half) and word != half and _CUT_END.match(text, place):
            found, last = place, chunk.spans[run.to][0] + len(half)
    mark = _ELLIPSIS.match(text, found)
    return (mark.end() if mark is not None else found), last


def rows_of(words: Sequence[str], step: int = 1) -> Iterator[tuple[str, ...]]:
    """Each row of `_GRAM` words that begins at a multiple of `step`."""
    return zip(*(words[shift::step] for shift in range(_GRAM)), strict=False)


def _forward(text: str, at: int, marks: str) -> int:
    """How far `marks`, the punctuation behind a word, also stands in `text` from `at` on, possibly escaped."""
    for mark in marks:
        form = next((form for form in _forms(mark) if text.startswith(form, at)), None) if not mark.isspace() else None
        if form is None:
            break
        at += len(form)
    return at


def _backward(text: str, at: int, marks: str) -> int:
    """How far back `marks`, the punctuation before a word, also stands in `text` before `at`, possibly escaped."""
    lead = marks.lstrip()
    if text.endswith(lead, 0, at):
        return at - len(lead)
    for mark in reversed(lead):
        form = next((form for form in _forms(mark) if text.endswith(form, 0, at)), None) if not mark.isspace() else None
        if form is None:
            break
        at -= len(form)
    return at


def _forms(mark: str) -> list[str]:
    """How a mark may be written: escaped for Markdown or HTML, as a typographic one, or as it is; longest first."""
    alike = next((marks for marks in _ALIKE if mark in marks), mark)
    return [*(escape(each) for each in alike if escape(each) != each), *(f"\\{each}" for each in alike), *alike]
