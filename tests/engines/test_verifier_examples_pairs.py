"""The training pairs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ragtrace.engines.verifier_examples import Example, PairDraw, contradicted, names_of, numbers_of, read_examples
from ragtrace.errors import ConfigurationError
from tests.engines.verifiers import write_ragtruth


@pytest.fixture
def examples(tmp_path: Path) -> list[Example]:
    """Claims of forty sources."""
    return read_examples(write_ragtruth(tmp_path, range(40)))


def test_a_pair_follows_from_seed_and_number(examples: list[Example]) -> None:
    """Another run draws the same pairs in any order; another seed draws others."""
    first, second = (PairDraw(examples, seed=1, made=0.3, words=50) for _ in range(2))
    drawn = [first.pair(number) for number in range(30)]
    assert [second.pair(number) for number in reversed(range(30))] == drawn[::-1]
    assert [PairDraw(examples, seed=2, made=0.3, words=50).pair(number) for number in range(30)] != drawn


def test_batches_hold_every_pair_once(examples: list[Example]) -> None:
    """All steps together read the pairs of their numbers, also when the last batch is not full."""
    draw = PairDraw(examples, seed=1, made=0.3, words=50)
    batches = [draw.batch(step, 4, 70) for step in range(18)]
    assert Counter(pair for batch in batches for pair in batch) == Counter(draw.pair(number) for number in range(70))
    assert max(map(len, batches)) == 4
    assert PairDraw(examples, seed=1, made=0.3, words=50).batch(13, 4, 70) == batches[13]


def test_supported_and_unsupported_alike_often(examples: list[Example]) -> None:
    """Though three of four claims are supported, one half of the pairs is."""
    draw = PairDraw(examples, seed=0, made=0.0, words=50)
    labels = [draw.pair(number).label for number in range(400)]
    assert labels.count("entailment") / 400 == pytest.approx(0.5, abs=0.08)


def test_one_kind_only(examples: list[Example]) -> None:
    """Without unsupported claims there is nothing to learn."""
    with pytest.raises(ConfigurationError, match="both supported and unsupported"):
        PairDraw([each for each in examples if each.supported], seed=0, made=0.1, words=50)


@pytest.mark.parametrize(
    ("sentence", "names", "numbers"),
    [
        ("The limit of 30 days applies", [], []),
        ("The limit of 30 days applies", [], ["30", "45"]),
        ("They met in Paris", ["Rome", "Paris"], []),
        ("The policy does not end", [], []),
        ("The policy ends before Monday", [], []),
        ("The policy ends on Monday in May", ["Rome"], []),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_contradicted(sentence: str, names: list[str], numbers: list[str], seed: int) -> None:
    """A number, a name, a word or the sense is turned, in the place that is named; the rest stays."""
    changed = contradicted(sentence, names, numbers, np.random.default_rng(seed))
    assert changed is not None
    assert changed.text != sentence
    behind = len(changed.text) - changed.end
    assert changed.text[: changed.start] == sentence[: changed.start]
    assert changed.text[changed.end :] == sentence[len(sentence) - behind :]
    assert len(set(sentence.split()) ^ set(changed.text.split())) <= 2


def test_nothing_to_contradict() -> None:
    """A sentence without number, name, opposite and verb of the list is left alone."""
    assert contradicted("the policy ends", ["Rome"], ["30"], np.random.default_rng(0)) is None
    assert names_of("He met Anna Smith and later Bob.") == ["Anna Smith", "Bob"]
    assert numbers_of("30 days or 1,000.5 euros, 30 days") == ["30", "1,000.5"]


def test_marked_parts_stay_with_their_claim(tmp_path: Path) -> None:
    """A labelled claim knows what people marked; a supported one that nothing is wrong; others do not know."""
    claim = "The limit is 70 days [1]."
    known = Example("any", "one", claim, ("The limit is 30 days.",), "contradiction", wrong=((13, 15),))
    good = Example("any", "two", "The limit is 30 days.", ("The limit is 30 days.",), "entailment")
    unknown = Example("other", "three", "It ends.", ("It goes on.",), "unsupported")
    draw = PairDraw([known, good, unknown], seed=0, made=0.0, words=50)
    found = {(pair.claim, pair.wrong) for pair in map(draw.pair, range(60))}
    assert found == {
        ("The limit is 70 days    .", ((13, 15),)),
        ("The limit is 30 days.", ()),
        ("It ends.", None),
    }
