"""Which chunks a packer left out, and why: the host's word, else what the packing itself shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from ragtrace.record.coercion.known import Known
from ragtrace.record.coercion.matching import exact_passages
from ragtrace.types import DroppedChunk, PackedChunk

__all__ = ["UNKNOWN", "left_out"]

UNKNOWN: Final = "unknown"
_DUPLICATE: Final = "duplicate"
_KEY: Final = 24  # characters of a text's beginning by which a possible duplicate is noticed


def left_out(
    inputs: Iterable[str],
    packed: Sequence[PackedChunk],
    stated: Mapping[str, str],
    known: Known,
    *,
    budget: int | None,
    readable: Mapping[str, bool] | None = None,
) -> tuple[DroppedChunk, ...]:
    """The chunks that did not reach the prompt; those that the host names come first.

    A reason that the host states is kept. Any other is inferred, and marked so, by the first rule that applies:

    - `duplicate`: the text, white space apart, is that of a packed chunk, or stands within one;
    - `filter`: left out although a chunk that came later among the inputs was packed;
    - `budget`: it came behind all packed ones, which are the beginning of the inputs, duplicates apart (the packer
      stopped there), and a token budget is known, a packed chunk was cut, or the host says `budget` of another one;
    - `limit`: the same without any of these;
    - `unknown`, which infers nothing: all else, and whatever is not certain to have been left out.

    Args:
        inputs: ids of what the packer was given, best first.
        stated: reasons by id, of the chunks that the host names.
        readable: where packed chunks were searched for in a prompt, whether each input could have been found there;
            None: what was packed is known. An input that could not be found may have been packed.
    """
    there = {chunk.chunk_id for chunk in packed}
    order = list(dict.fromkeys(inputs))
    open_ids = [name for name in order if name not in there and stated.get(name, UNKNOWN) == UNKNOWN]
    reasons = _Reasons(packed, known).of(order, open_ids, there, stated, budget, readable) if open_ids else {}
    named = [*stated, *(name for name in order if name not in there and name not in stated)]
    return tuple(
        DroppedChunk(chunk_id=name, reason=reasons[name], inferred=True)
        if name in reasons
        else DroppedChunk(chunk_id=name, reason=stated.get(name, UNKNOWN))
        for name in named
        if name not in there
    )


class _Reasons:
    """What a packing shows about the chunks that are not in it."""

    def __init__(self, packed: Sequence[PackedChunk], known: Known) -> None:
        self._packed = packed
        self._known = known

    def of(
        self,
        order: Sequence[str],
        open_ids: Sequence[str],
        there: set[str],
        stated: Mapping[str, str],
        budget: int | None,
        readable: Mapping[str, bool] | None,
    ) -> dict[str, str]:
        """The inferred reasons by id."""
        reasons = dict.fromkeys(self._duplicates(open_ids), _DUPLICATE)
        unsure = set[str]()
        if readable is not None:
            unsure = {name for name in order if not readable.get(name) and name not in stated}
        rest = [name for name in open_ids if name not in reasons and name not in unsure]
        place = {name: at for at, name in enumerate(order)}
        last = max((place[name] for name in there if name in place), default=-1)
        if last < 0:
            return reasons
        passed = there | unsure | {name for name in order if reasons.get(name, stated.get(name)) == _DUPLICATE}
        beginning = passed.issuperset(order[:last])
        is_cut = budget is not None or "budget" in stated.values() or any(chunk.truncated for chunk in self._packed)
        for name in rest:
            if place[name] < last:
                reasons[name] = "filter"
            elif beginning:
                reasons[name] = "budget" if is_cut else "limit"
        return reasons

    @cached_property
    def _bodies(self) -> list[str]:
        """What the packed chunks say: as they were given, and in full."""
        texts = [text for chunk in self._packed for text in (chunk.text, self._known.text(chunk.chunk_id)) if text]
        return list(dict.fromkeys(texts))

    @cached_property
    def _longest(self) -> int:
        return max((len(chunk.text) for chunk in self._packed if chunk.text), default=0)

    @cached_property
    def _beginnings(self) -> set[str]:
        return {_beginning(body) for body in self._bodies}

    @cached_property
    def _spaced(self) -> set[str]:
        return {_spaced(body) for body in self._bodies}

    @cached_property
    def _given(self) -> str:
        return "\0".join(_spaced(chunk.text) for chunk in self._packed if chunk.text)

    def _duplicates(self, open_ids: Iterable[str]) -> Iterator[str]:
        beginnings, longest = self._beginnings, self._longest
        for name in open_ids:
            text = self._known.text(name)
            if not text or (len(text) >= longest and _beginning(text) not in beginnings):
                continue
            spaced = _spaced(text)
            if spaced in self._spaced or (spaced and exact_passages(self._given, spaced, 0)):
                yield name


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _beginning(text: str) -> str:
    """The first characters, white space apart: texts that differ in them are no duplicates of each other."""
    return "".join(text[:_KEY].split())[: _KEY // 2]
