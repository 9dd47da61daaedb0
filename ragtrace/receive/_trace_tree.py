"""The tree of one trace: its spans with what they say, each once, in their order; its root, and which are stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ragtrace.receive._spans import ReceivedSpan, Reranked, Retrieved, SpanGeneration, SpanReading, Step
from ragtrace.receive.dialects import read_span
from ragtrace.record.coercion import Unreadable, read_chunks
from ragtrace.types import replace

__all__ = ["ReadSpan", "in_order", "root_of", "stages_of", "times_of"]

_Parents: TypeAlias = Mapping[str, str | None]
_Kinds: TypeAlias = dict[str, type[Step]]


class ReadSpan(NamedTuple):
    """A span with what it says."""

    span: ReceivedSpan
    reading: SpanReading


def in_order(spans: Iterable[ReceivedSpan]) -> tuple[list[ReadSpan], int]:
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
    return [_read(span) for span in ordered], len(unique) + len(others)


def _read(span: ReceivedSpan) -> ReadSpan:
    reading = read_span(span)
    if reading.error is not None and span.status != "error":
        span = replace(span, status="error", message=span.message or reading.error)
    return ReadSpan(span, reading)


def _fullness(span: ReceivedSpan) -> tuple[int, int, int, str]:
    return span.ended_at, len(span.attributes), len(span.events), repr(span)


def root_of(read_spans: Sequence[ReadSpan]) -> ReadSpan:
    """The span that says it is the request, else the first one without a parent, else without one among the spans."""
    ids = {node.span.span_id for node in read_spans}
    likeliest_first = (
        *(node for node in read_spans if node.reading.request_id),
        *(node for node in read_spans if not node.span.parent_id),
        *(node for node in read_spans if node.span.parent_id not in ids),
    )
    return next(iter(likeliest_first), read_spans[0])


def times_of(root: ReadSpan, read_spans: Sequence[ReadSpan]) -> tuple[int, int]:
    """When the request ran: by the span that says it is the request, whose start is in the sender's record as well,
    else from the first span's start to the last one's end. A time of 0 is none."""
    spans = [root.span] if root.reading.request_id else [each.span for each in read_spans]
    starts = [span.started_at for span in spans if span.started_at]
    ends = [span.ended_at for span in spans if span.ended_at]
    started_at = min(starts or ends or [0])
    return started_at, max(ends or [started_at])


def stages_of(read_spans: Sequence[ReadSpan]) -> Iterator[ReadSpan]:
    """The spans that are stages, each call once: of nested spans of one kind the outermost that says what came out.

    A retriever that returns only some of what those within it found is what chose them, unless a reranker within it is:
    these are the retrievals then.
    """
    parents = {node.span.span_id: node.span.parent_id for node in read_spans}
    telling: _Kinds = {
        node.span.span_id: type(node.reading.step)
        for node in read_spans
        if node.reading.step is not None and _says_enough(node.reading.step)
    }
    choosing = _choosing(read_spans, parents)
    chosen = {node.span.span_id for later in choosing.values() for node in later}
    for span_id in chosen:
        telling.pop(span_id, None)
    above, below = _kinds_above(parents, telling), _kinds_below(parents, telling)
    for node in read_spans:
        span_id, kind = node.span.span_id, type(node.reading.step)
        is_told = kind in above[span_id] or (span_id not in telling and kind in below[span_id])
        if node.reading.step is not None and not is_told and span_id not in chosen:
            yield node
        yield from (outer for outer in choosing.get(span_id, ()) if Reranked not in below[outer.span.span_id])


def _choosing(read_spans: Sequence[ReadSpan], parents: _Parents) -> dict[str, list[ReadSpan]]:
    """The retrievers that chose among what others within them found, as rerankers, each by the last of these."""
    finding = {
        node.span.span_id: node
        for node in read_spans
        if isinstance(node.reading.step, Retrieved) and not node.reading.step.incomplete
    }
    if len(finding) < 2:
        return {}
    within: defaultdict[str, list[ReadSpan]] = defaultdict(list)
    for span_id, outer_id in _nearest(parents, finding.keys()).items():
        if outer_id is not None:
            within[outer_id].append(finding[span_id])
    rerankers: defaultdict[str, list[ReadSpan]] = defaultdict(list)
    place: dict[str, str] = {}
    for outer in reversed(list(finding.values())):  # the inner ones first
        inner, span_id = within.get(outer.span.span_id), outer.span.span_id
        if inner and outer.span.status != "error" and _identities([outer]) < _identities(inner):
            last = max(inner, key=lambda node: node.span.ended_at).span
            place[span_id] = place.get(last.span_id, last.span_id)
            rerankers[place[span_id]].append(_as_reranker(outer, last.ended_at))
    return rerankers


def _as_reranker(retriever: ReadSpan, started_at: int) -> ReadSpan:
    step = Reranked(kept=_found(retriever))
    return ReadSpan(replace(retriever.span, started_at=started_at), replace(retriever.reading, step=step))


def _found(read_span: ReadSpan) -> Any:
    return read_span.reading.step.found if isinstance(read_span.reading.step, Retrieved) else ()


def _nearest(parents: _Parents, among: Collection[str]) -> dict[str, str | None]:
    """For each of these spans the first of them above it. Each span is visited once; ids of a sender may make a
    circle."""
    nearest: dict[str, str | None] = {}
    for span_id in among:
        path: dict[str, None] = {}
        current, above = span_id, None
        while current not in nearest and current not in path:
            path[current] = None
            up = parents[current]
            if up is None or up not in parents:
                break
            if up in among:
                above = up
                break
            current = up
        else:
            above = nearest.get(current)
        nearest.update(dict.fromkeys(path, above))
    return {span_id: nearest[span_id] for span_id in among}


def _identities(retrieved: Iterable[ReadSpan]) -> set[str]:
    """What these retrievers found."""
    found: set[str] = set()
    for each in retrieved:
        try:
            found.update(chunk.identity for _, chunk in read_chunks(_found(each)).ranked)
        except Unreadable:
            continue
    return found


def _kinds_above(parents: _Parents, telling: _Kinds) -> dict[str, frozenset[type[Step]]]:
    """For each span, which kinds of stages the spans above it tell. Each span is visited once."""
    above: dict[str, frozenset[type[Step]]] = {}
    for span_id in parents:
        path: list[str] = []
        current: str | None = span_id
        while current is not None and current in parents and current not in above:
            above[current] = frozenset()
            path.append(current)
            current = parents[current]
        if current in path:  # ids of a sender may make a circle; its last span counts as the highest one
            path.pop()
        for visited in reversed(path):
            parent = parents[visited]
            if parent is not None and parent in parents:
                above[visited] = above[parent] | ({telling[parent]} if parent in telling else frozenset())
    return above


def _kinds_below(parents: _Parents, telling: _Kinds) -> defaultdict[str, set[type[Step]]]:
    """For each span, which kinds of stages the spans below it tell."""
    below: defaultdict[str, set[type[Step]]] = defaultdict(set)
    for span_id, kind in telling.items():
        current = parents[span_id]
        while current is not None and current in parents and kind not in below[current]:
            below[current].add(kind)
            current = parents[current]
    return below


def _says_enough(step: Step) -> bool:
    if isinstance(step, Retrieved):
        return bool(step.found)
    if isinstance(step, Reranked):
        return bool(step.kept)
    if isinstance(step, SpanGeneration):
        return bool(step.answer) and bool(step.prompt)
    return True
