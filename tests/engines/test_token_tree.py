"""The tree of shared beginnings, and how it is packed."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragtrace.engines._token_tree import Edge, Pack, Root, cut_edge, grow, pack_edges

_SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=12), min_size=1, max_size=20)


def _read(edges: list[Edge], before: list[int], found: dict[int, list[int]]) -> dict[int, list[int]]:
    for edge in edges:
        tokens = before + edge.tokens
        if edge.sequence is not None:
            found[edge.sequence] = tokens
        _read(edge.children, tokens, found)
    return found


@given(_SEQUENCES)
def test_the_tree_holds_all_sequences(sequences: list[list[int]]) -> None:
    """Reading the tree from its root to its leaves gives every sequence, equal ones too."""
    assert _read(grow(sequences, 2), [], {}) == dict(enumerate(sequences))


@given(_SEQUENCES)
def test_nothing_shared_stands_twice(sequences: list[list[int]]) -> None:
    """Below one edge no two edges that are no leaves begin with the same token."""

    def check(edges: list[Edge]) -> None:
        heads = [edge.tokens[0] for edge in edges if edge.sequence is None]
        assert len(heads) == len(set(heads))
        for edge in edges:
            check(edge.children)

    check(grow(sequences, 2))


@given(_SEQUENCES, st.integers(1, 20))
def test_packs_hold_every_edge_once(sequences: list[list[int]], size: int) -> None:
    """Packing until nothing is left visits each edge once, at its depth, and no pack of several is too large."""
    seen: list[int] = []

    def walk(roots: list[Root]) -> None:
        while roots:
            found: Pack = pack_edges(roots, size)
            assert len(found.pieces) == 1 or found.size <= size
            for piece in found.pieces:
                seen.append(id(piece.edge))
                assert piece.depth == piece.root.depth + sum(len(above.edge.tokens) for above in piece.path()[:-1])
                walk([Root(edge, piece.depth + len(piece.edge.tokens)) for edge in piece.left])

    tree = grow(sequences, 1)
    wanted: list[int] = []

    def collect(edges: list[Edge]) -> None:
        for edge in edges:
            wanted.append(id(edge))
            collect(edge.children)

    collect(tree)
    walk([Root(edge) for edge in tree])
    assert sorted(seen) == sorted(wanted)


@given(_SEQUENCES, st.integers(1, 5))
def test_a_cut_edge_says_the_same(sequences: list[list[int]], size: int) -> None:
    """In pieces that are short enough; leaves stay whole."""

    def check(edges: list[Edge], before: list[int]) -> None:
        for edge in edges:
            pieces = cut_edge(edge, size)
            assert _read([pieces], before, {}) == _read([edge], before, {})
            if edge.sequence is None:
                assert len(pieces.tokens) == min(size, len(edge.tokens))
            check(edge.children, before + edge.tokens)

    check(grow(sequences, 2), [])


@pytest.mark.parametrize("own", [0, 4])
def test_a_sequence_without_tokens_of_its_own(own: int) -> None:
    """Each sequence ends with tokens of its own."""
    with pytest.raises(ValueError, match="own"):
        grow([[1, 2, 3]], own)
