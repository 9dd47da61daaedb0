"""Texts cut at their tokens, and values turned into shades."""

from __future__ import annotations

from hypothesis import given, strategies as st

from ragtrace.explanations import GeneratorAttribution
from ragtrace.export._explanation_drawings import (
    LEVELS,
    PALETTE,
    Strength,
    answer_strength,
    cut,
    opponent,
    strongest,
    weighed,
    words,
)

_SPANS = st.lists(st.tuples(st.integers(-3, 40), st.integers(-3, 40)), max_size=12)


@given(text=st.text(max_size=30), spans=_SPANS)
def test_nothing_of_a_text_is_lost(text: str, spans: list[tuple[int, int]]) -> None:
    """Whatever the offsets, the segments are the text in its order, and each token stands in one of them at most."""
    for segments in (cut(text, spans), words(cut(text, spans))):
        assert "".join(segment.text for segment in segments) == text
        assert all(segment.text for segment in segments)
        known = [token for segment in segments for token in segment.tokens]
        assert len(known) == len(set(known))


def test_every_token_with_text_is_somewhere() -> None:
    """Overlapping tokens (bytes of one letter) share a segment; special tokens have none; white space goes along."""
    segments = cut("ab cd, é", [(0, 0), (0, 2), (3, 5), (7, 8), (7, 8), (9, 12)])

    assert [(segment.text, segment.tokens) for segment in segments] == [
        ("ab", (1,)),
        (" cd", (2,)),
        (", ", ()),
        ("é", (3, 4)),
    ]


def test_parts_of_a_word_are_joined() -> None:
    """Word pieces become the word; spaces, punctuation and endless words end it."""
    joined = words(cut("discovered it.", [(0, 8), (8, 10), (10, 13), (13, 14)]))
    assert [segment.text for segment in joined] == ["discovered", " it", "."]
    assert joined[0].tokens == (0, 1)
    endless = words(cut("字" * 100, [(place, place + 1) for place in range(100)]))
    assert len(endless) > 1


def test_shades_grow_with_the_value() -> None:
    """Levels rise up to the scale; what is next to nothing has none; one outlier does not pale the rest."""
    strength = Strength(2.0)
    levels = [strength.level(value) for value in (0.0, 0.1, 0.3, 1.0, 2.0, 9.0)]
    assert levels == sorted(levels)
    assert levels[:2] == [0, 0]
    assert levels[-2:] == [LEVELS, LEVELS]
    assert strength.level(-1.0) == strength.level(1.0)
    assert Strength.of([*[1.0] * 39, 1.6]).scale == 1.0
    assert Strength.of([*[0.001] * 39, 1.6]).scale == 0.8
    assert Strength.of([]).level(1.0) == 0


def test_the_strongest_document_and_its_opponent() -> None:
    """The most positive row owns a word; a row far below zero opposes it; without a positive row nobody owns it."""
    [segment] = cut("30", [(0, 2)])
    assert strongest(segment, [[0.5], [2.0], [-1.5]]) == (1, 2.0)
    assert strongest(segment, [[-0.5], [0.0]]) is None
    assert strongest(segment, []) is None
    assert opponent(segment, [[0.5], [2.0], [-1.5]], Strength(2.0)) == 2
    assert opponent(segment, [[0.5], [2.0], [-0.5]], Strength(2.0)) is None


def test_noise_stays_pale() -> None:
    """Where no document adds anything to speak of, nothing is shaded as if one did."""
    segments = cut("yes", [(0, 3)])
    noise = GeneratorAttribution(values=((0.02,), (-0.01,)))
    assert answer_strength(segments, noise).level(0.02) == 0


def test_weights_of_words() -> None:
    """A word weighs what its tokens weigh; a scale has its least value."""
    segments, totals, strength = weighed("reporting it", [(0, 6), (6, 9), (10, 12)], [0.2, 0.1, -0.05])
    assert [segment.text for segment in segments] == ["reporting", " it"]
    assert [round(total, 9) for total in totals] == [0.3, -0.05]
    assert strength.scale == 0.2 + 0.1
    assert weighed("it", [(0, 2)], [0.01], least=0.5)[2].scale == 0.5


def test_ten_different_hues() -> None:
    """Ten documents have ten colors."""
    assert len(set(PALETTE)) == len(PALETTE) == 10
