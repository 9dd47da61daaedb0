"""The tree of the tokens of texts that begin alike, and packs of its edges, each of which a model reads in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Edge", "Pack", "Piece", "Root", "cut_edge", "grow", "pack_edges"]


@dataclass(slots=True, eq=False)
class Edge:
    """A run of tokens behind the same beginning. A leaf ends the sequence with this number and is never shared."""

    tokens: list[int]
    children: list[Edge] = field(default_factory=list)
    sequence: int | None = None


def _nothing() -> NDArray[np.bool_]:
    return np.zeros(0, dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """An edge behind a beginning of `depth` tokens, which are those of the kept ones that it `sees`, (width,)."""

    edge: Edge
    depth: int = 0
    sees: NDArray[np.bool_] = field(default_factory=_nothing)


@dataclass(slots=True)
class Piece:
    """An edge in a pack: where its tokens begin there, how many tokens stand before it in its text, its parent in the
    pack, and the root that both stand below."""

    edge: Edge
    start: int
    depth: int
    parent: Piece | None
    root: Root
    left: list[Edge] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Where its tokens end in the pack."""
        return self.start + len(self.edge.tokens)

    @property
    def tokens_left(self) -> int:
        """Tokens of all that stands below it and was not read, however deep."""
        return sum(map(_tokens, self.left))

    def path(self) -> list[Piece]:
        """The pieces from the pack's beginning down to this one."""
        return [*(self.parent.path() if self.parent is not None else ()), self]


@dataclass(slots=True)
class Pack:
    """Edges that a model reads in one pass."""

    pieces: list[Piece] = field(default_factory=list)
    size: int = 0

    def add(self, edge: Edge, depth: int, parent: Piece | None, root: Root) -> Piece:
        """Put an edge behind those that are there."""
        piece = Piece(edge, self.size, depth, parent, root)
        self.pieces.append(piece)
        self.size += len(edge.tokens)
        return piece


def grow(sequences: Sequence[list[int]], own: int) -> list[Edge]:
    """The tree over all sequences but their last `own` tokens, which become a leaf of each.

    Raises: ValueError when a sequence is not longer than `own`, or `own` is less than 1.
    """
    if own < 1 or any(len(sequence) < own for sequence in sequences):
        raise ValueError(f"each sequence needs its {own} own tokens; own must be at least 1")
    order = sorted(range(len(sequences)), key=lambda number: sequences[number][: len(sequences[number]) - own])
    return _grow(sequences, order, 0, own)


def _grow(sequences: Sequence[list[int]], order: Sequence[int], depth: int, own: int) -> list[Edge]:
    """The edges of sequences, sorted, that are equal up to `depth`."""
    edges: list[Edge] = []
    rest = []
    for number in order:
        if len(sequences[number]) - own == depth:
            edges.append(Edge(list(sequences[number][depth:]), sequence=number))
        else:
            rest.append(number)
    start = 0
    while start < len(rest):
        head = sequences[rest[start]][depth]
        stop = start
        while stop < len(rest) and sequences[rest[stop]][depth] == head:
            stop += 1
        group = rest[start:stop]
        end = _shared(sequences[group[0]], sequences[group[-1]], depth, own)
        edges.append(Edge(list(sequences[group[0]][depth:end]), _grow(sequences, group, end, own)))
        start = stop
    return edges


def _shared(first: Sequence[int], last: Sequence[int], start: int, own: int) -> int:
    """Where the first and the last of a sorted group part; those between share at least as much."""
    end = min(len(first), len(last)) - own
    while start < end and first[start] == last[start]:
        start += 1
    return start


def cut_edge(edge: Edge, size: int) -> Edge:
    """The edge in pieces of at most `size` tokens, one below the other; a leaf stays whole."""
    if edge.sequence is not None:
        return edge
    below = edge.children
    for start in reversed(range(size, len(edge.tokens), size)):
        below = [Edge(edge.tokens[start : start + size], below)]
    return Edge(edge.tokens[:size], below)


def pack_edges(roots: list[Root], size: int) -> Pack:
    """Take roots out of `roots`, with as much of what is below them as fits into `size` tokens; at least one.

    Of a piece whose children did not all fit, `left` holds those.
    """
    taken = Pack()
    while roots and (not taken.pieces or taken.size + len(roots[0].edge.tokens) <= size):
        root = roots.pop(0)
        _fill(taken, root.edge, root.depth, None, root, size)
    return taken


def _fill(taken: Pack, edge: Edge, depth: int, parent: Piece | None, root: Root, size: int) -> None:
    piece = taken.add(edge, depth, parent, root)
    for child in edge.children:
        if taken.size + len(child.tokens) <= size:
            _fill(taken, child, depth + len(edge.tokens), piece, root, size)
        else:
            piece.left.append(child)


def _tokens(edge: Edge) -> int:
    return len(edge.tokens) + sum(map(_tokens, edge.children))
