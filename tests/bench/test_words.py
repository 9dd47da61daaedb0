"""The fit of words in a claim's support, and what ranks the same claims beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from bench import words
from bench.words import Labeled, Measured, beside, fit, read_claims, rouge

EVIDENCE = "The time limit is thirty days."


def made(seed: int, claims: int = 120) -> Measured:
    """Claims that are unsupported where the second measure is large; the set's own level says nothing."""
    draw = np.random.default_rng(seed)
    rows = draw.uniform(size=(claims, 5))
    unsupported = (6 * (rows[:, 1] - rows[:, 3]) + draw.normal(size=claims) + seed - 1 > 0).astype(float)
    return Measured(tuple(f"s{place // 3}" for place in range(claims)), rows, unsupported)


def test_no_weight_has_the_sign_against_what_it_measures() -> None:
    """What decides has the largest weight, whatever share of a set is supported; the fourth would be negative."""
    weights = fit([made(seed) for seed in range(3)])
    assert (weights >= 0).all()
    assert (int(weights.argmax()), weights[3]) == (1, 0)


def test_each_judge_ranks_the_claims_of_each_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row for each, and how much it adds to words on each set."""

    class Cosines:
        """Knows the labels, where words know nothing."""

        name, lexical_weight = "cosines", 0.0

        def verify(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, float]]:
            """More for what is supported."""
            return [(0.9 if claim == EVIDENCE else 0.1, 0.0) for claim, _ in pairs]

    def claims(_: str) -> Iterator[Labeled]:
        for place in range(20):
            text = EVIDENCE if place % 2 else "The fee is paid in gold."
            yield Labeled(f"s{place}", text, (EVIDENCE,), bool(place % 2), 0.5)

    monkeypatch.setattr(words, "read_claims", claims)
    monkeypatch.setattr(words, "DRAWS", 20)
    beside(["one", "two"], Cosines(), None)
    lines = {line[:32].strip(): line.split()[-1] for line in capsys.readouterr().out.splitlines()}
    assert [lines[name] for name in ("words", "ROUGE-2", "MiniLM, cosine", "words + cosine (--embeddings)")] == [
        "0.500", "1.000", "1.000", "1.000",
    ]  # fmt: skip
    assert rouge("The time limit is nine days.", EVIDENCE) == pytest.approx(3 / 5)


def test_claims_written_by_hand_have_both_labels() -> None:
    """Each beside its evidence and what lies near; the held-out domains are others."""
    claims = [
        next(claim for claim in read_claims("handwritten") if claim.is_supported is said) for said in (True, False)
    ]
    assert all(len(claim.chunks) >= 2 and claim.text for claim in claims)
    held_out = next(read_claims("handwritten-held-out"))
    assert held_out.source.partition("/")[0] not in {claim.source.partition("/")[0] for claim in claims}
