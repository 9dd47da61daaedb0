"""What an answer is worth beside a reference answer."""

from __future__ import annotations

from itertools import combinations

import pytest

from ragtrace.exposure import exact_match, rouge_l, token_f1


@pytest.mark.parametrize(
    ("answer", "reference", "exact", "f1", "longest"),
    [
        ("The cat sat.", "the cat sat", 1, 1, 1),
        ("", "", 1, 1, 1),
        ("", "a cat", 0, 0, 0),
        ("cat this sat", "this cat sat", 0, 1, 2 / 3),
        ("e b c d", "b d x y", 0, 0.5, 0.5),
        ("e e e", "e b", 0, 0.4, 0.4),
        ("The Eiffel Tower", "Eiffel Tower", 1, 1, 0.8),
        ("caf\u00e9", "cafe\u0301", 1, 1, 1),
        ("हिन्दी", "हन्द", 0, 0, 0),
        ("Straße 7", "STRASSE 7", 1, 1, 1),
        ("猫 坐", "猫", 0, 2 / 3, 2 / 3),
    ],
)
def test_by_hand(answer: str, reference: str, exact: float, f1: float, longest: float) -> None:
    """Case and punctuation do not count; order counts for two of three."""
    assert exact_match(answer, reference) == exact
    assert token_f1(answer, reference) == pytest.approx(f1)
    assert rouge_l(answer, reference) == pytest.approx(longest)
    assert rouge_l(reference, answer) == pytest.approx(longest)


def test_the_longest_subsequence_is_the_longest() -> None:
    """As all subsequences tell."""
    first, second = "a b a c b a".split(), "b a b c a a".split()
    common = max(
        size
        for size in range(7)
        for places in combinations(range(6), size)
        if any([second[at] for at in others] == [first[at] for at in places] for others in combinations(range(6), size))
    )
    assert rouge_l(" ".join(first), " ".join(second)) == pytest.approx(2 * common / 12)
