"""The fit of the built-in verifier, on claims whose truth follows from their features."""

from __future__ import annotations

import numpy as np
import pytest

from bench import builtin_verifier
from bench.builtin_verifier import OPEN, SEALED, SIGNS, TRAINED_ON, Judged, fit, print_table, read_claims
from ragtrace.engines._builtin_verifier import FEATURES


def made(seed: int, claims: int = 120, offset: float = 0.0) -> Judged:
    """Claims that are supported where least is large and pairs is small; the set's own level says nothing."""
    draw = np.random.default_rng(seed)
    rows = draw.uniform(size=(claims, len(FEATURES)))
    odds = 6 * (rows[:, FEATURES.index("least")] - rows[:, FEATURES.index("pairs")]) + draw.normal(size=claims) + offset
    truth = (odds > 0).astype(float)
    return Judged(truth, tuple(f"s{place // 3}" for place in range(claims)), draw.uniform(size=claims),
                  np.zeros(claims), rows)  # fmt: skip


def test_no_weight_has_the_sign_against_what_it_measures() -> None:
    """What decides has the largest weights, whatever share of a set is supported; what is not named has none."""
    sets = [made(seed, offset=offset) for seed, offset in enumerate((-2.0, 0.0, 2.0))]
    weights, bias = fit(sets)
    assert all(weight * SIGNS.get(name, 1) >= 0 for name, weight in zip(FEATURES, weights, strict=True))
    assert {FEATURES[place] for place in np.argsort(-np.abs(weights))[:2]} == {"least", "pairs"}
    assert np.isfinite(bias)
    alone, _ = fit(sets, ["held", "least"])
    assert {name for name, weight in zip(FEATURES, alone, strict=True) if weight} <= {"held", "least"}


def test_the_table_judges_each_set_by_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row for each judge, and for each set how much the fitted words and the verifier add to words."""
    monkeypatch.setattr(builtin_verifier, "DRAWS", 20)
    sets = {name: made(seed) for seed, name in enumerate((*TRAINED_ON, *SEALED))}
    print_table(sets, [*OPEN, *SEALED])
    lines = {line[:32].strip(): line for line in capsys.readouterr().out.splitlines()}
    means = {name: float(lines[name].split()[-1]) for name in ("words, as shipped", "builtin")}
    assert means["builtin"] > 0.85 > 0.65 > means["words, as shipped"]
    assert sum(" claims, " in line for line in lines.values()) == 2 * len((*OPEN, *SEALED))


def test_claims_written_by_hand_have_both_labels() -> None:
    """Each beside its evidence and what lies near; the held-out domains are others."""
    claims = [
        next(claim for claim in read_claims("handwritten") if claim.is_supported is said) for said in (True, False)
    ]
    assert all(len(claim.chunks) >= 2 and claim.text for claim in claims)
    held_out = next(read_claims("handwritten-held-out"))
    assert held_out.source.partition("/")[0] not in {claim.source.partition("/")[0] for claim in claims}
