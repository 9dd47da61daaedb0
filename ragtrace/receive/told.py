"""The spans of one trace with what they say: each once, in their order, which is the root, and which are stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ragtrace.receive.dialects import read_span
from ragtrace.receive.reading import Generated, Reading, Reranked, Retrieved, Step
from ragtrace.receive.spans import ReceivedSpan

__all__ = ["Told", "in_order", "root_of", "stages_of", "times_of"]

_Parents: TypeAlias = Mapping[str, str | None]
_Kinds: TypeAlias = dict[str, type[Step]]


class Told(NamedTuple):
    """A span with what it says."""

    span: ReceivedSpan
    reading: Reading


def in_order(spans: Iterable[ReceivedSpan]) -> tuple[list[Told], int]:
    """The spans in the order in which they began, each id once, and how many different ones came.

    Of two that have one id, as of a span that is sent while it runs and again at its end, the fuller one counts.
    """
    unique: dict[str, ReceivedSpan] = {}
    others: dict[str, ReceivedSpan] = {}
    for span in spans:
        known = unique.setdefault(span.span_id, span)
        if known != span and repr(known) != (said := repr(span)):
            others[said] = span
    for span in others.values():
        unique[span.span_id] = max(unique[span.span_id], span, key=_fullness)
    ordered = sorted(unique.values(), key=lambda span: (span.started_at, -span.ended_at, span.span_id))
    return [Told(span, read_span(span)) for span in ordered], len(unique) + len(others)


def _fullness(span: ReceivedSpan) -> tuple[int, int, int, str]:
    return span.ended_at, len(span.attributes), len(span.events), repr(span)


def root_of(told: Sequence[Told]) -> Told:
    """The span that says it is the request, else the first one without a parent, else without one among the spans."""
    ids = {each.span.span_id for each in told}
    found = (
        *(each for each in told if each.reading.request_id),
        *(each for each in told if not each.span.parent_id),
        *(each for each in told if each.span.parent_id not in ids),
    )
    return next(iter(found), told[0])


def times_of(root: Told, told: Sequence[Told]) -> tuple[int, int]:
    """When the request ran: by the span that says it is the request, whose start is in the sender's record as well,
    else from the first span's start to the last one's end. A time of 0 is none."""
    spans = [root.span] if root.reading.request_id else [each.span for each in told]
    starts = [span.started_at for span in spans if span.started_at]
    ends = [span.ended_at for span in spans if span.ended_at]
    started_at = min(starts or ends or [0])
    return started_at, max(ends or [started_at])


def stages_of(told: Sequence[Told]) -> Iterator[Told]:
    """The spans that are stages, each call once: of nested spans of one kind the outermost that says what came out."""
    parents = {each.span.span_id: each.span.parent_id for each in told}
    telling: _Kinds = {
        each.span.span_id: type(each.reading.step)
        for each in told
        if each.reading.step is not None and _says_enough(each.reading.step)
    }
    above, below = _kinds_above(parents, telling), _kinds_below(parents, telling)
    for each in told:
        span_id, kind = each.span.span_id, type(each.reading.step)
        is_told = kind in above[span_id] or (span_id not in telling and kind in below[span_id])
        if each.reading.step is not None and not is_told:
            yield each


def _kinds_above(parents: _Parents, telling: _Kinds) -> dict[str, frozenset[type[Step]]]:
    """For each span, which kinds of stages the spans above it tell. Each span is visited once."""
    found: dict[str, frozenset[type[Step]]] = {}
    for span_id in parents:
        path: list[str] = []
        at: str | None = span_id
        while at is not None and at in parents and at not in found:
            found[at] = frozenset()
            path.append(at)
            at = parents[at]
        if at in path:  # ids of a sender may make a circle; its last span counts as the highest one
            path.pop()
        for each in reversed(path):
            parent = parents[each]
            if parent is not None and parent in parents:
                found[each] = found[parent] | ({telling[parent]} if parent in telling else frozenset())
    return found


def _kinds_below(parents: _Parents, telling: _Kinds) -> defaultdict[str, set[type[Step]]]:
    """For each span, which kinds of stages the spans below it tell."""
    found: defaultdict[str, set[type[Step]]] = defaultdict(set)
    for span_id, kind in telling.items():
        at = parents[span_id]
        while at is not None and at in parents and kind not in found[at]:
            found[at].add(kind)
            at = parents[at]
    return found


def _says_enough(step: Step) -> bool:
    if isinstance(step, Retrieved):
        return bool(step.found)
    if isinstance(step, Reranked):
        return bool(step.kept)
    if isinstance(step, Generated):
        return bool(step.answer) and bool(step.prompt)
    return True
