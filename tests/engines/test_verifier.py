"""Any sequence classifier as support and contradiction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragtrace.engines.calibration import Calibration
from ragtrace.engines.text_pairs import windows
from ragtrace.engines.verifier import EntailmentVerifier
from ragtrace.errors import ConfigurationError, ModelError
from tests.engines.verifiers import save_classifier, save_encoder

PAIRS = [
    ("The limit is 30 days.", "The limit is 30 days."),
    ("The limit is 40 days.", "The policy ends in May."),
    ("The policy ends.", "The deductible is 500 EUR. " * 30),
]


def logits_of(folder: Path, claim: str, evidence: str) -> np.ndarray:
    """What the library itself says of a pair, the evidence first."""
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        said = model(**tokenizer(evidence, claim, return_tensors="pt")).logits[0]
    found: np.ndarray = np.array([float(each) for each in said])
    return found


def softmax(values: np.ndarray) -> np.ndarray:
    """Shares that add up to one."""
    raised = np.exp(values - values.max())
    shares: np.ndarray = raised / raised.sum()
    return shares


def test_three_labels(tmp_path: Path) -> None:
    """Support and contradiction are the shares of the outputs that are named so."""
    folder = save_classifier(tmp_path, "contradiction", "neutral", "entailment")
    ((support, contradiction),) = EntailmentVerifier.load(folder).verify(PAIRS[:1])
    shares = softmax(logits_of(folder, *PAIRS[0]))
    assert support == pytest.approx(shares[2], abs=1e-4)
    assert contradiction == pytest.approx(min(shares[0], 1 - shares[2]), abs=1e-4)


def test_two_labels(tmp_path: Path) -> None:
    """A model of groundedness has no contradiction."""
    folder = save_classifier(tmp_path, "hallucinated", "consistent")
    ((support, contradiction),) = EntailmentVerifier.load(folder).verify(PAIRS[:1])
    assert support == pytest.approx(softmax(logits_of(folder, *PAIRS[0]))[1], abs=1e-4)
    assert contradiction == 0.0


def test_one_score(tmp_path: Path) -> None:
    """A single output is a score whose sigmoid is the support."""
    folder = save_classifier(tmp_path, "LABEL_0")
    ((support, contradiction),) = EntailmentVerifier.load(folder).verify(PAIRS[:1])
    assert support == pytest.approx(1 / (1 + np.exp(-logits_of(folder, *PAIRS[0])[0])), abs=1e-4)
    assert contradiction == 0.0


def test_batches_change_nothing(tmp_path: Path) -> None:
    """Pairs get the same verdict alone, together, and in batches of any size, in the order given."""
    folder = save_classifier(tmp_path, "contradiction", "neutral", "entailment")
    verifier = EntailmentVerifier.load(folder, cache_bytes=0)
    alone = [verifier.verify([pair])[0] for pair in PAIRS]
    assert verifier.verify([]) == []
    for size in (1, 2, 64):
        verifier.batch_size = size
        np.testing.assert_allclose(verifier.verify([*PAIRS, PAIRS[0]]), [*alone, alone[0]], atol=2e-4)


def test_the_best_window_counts(tmp_path: Path) -> None:
    """Long evidence has the support of its window that supports most."""
    folder = save_classifier(tmp_path, "contradiction", "neutral", "entailment", places=24)
    verifier = EntailmentVerifier.load(folder)
    sentences = [f"The {noun} is {number} days." for noun in ("limit", "policy") for number in (30, 40, 500, 700)]
    pieces = windows(verifier._tokenizer, "The limit ends.", " ".join(sentences), 24)
    assert len(pieces) > 2
    apart = verifier.verify([("The limit ends.", piece) for piece in pieces])
    ((whole, _),) = verifier.verify([("The limit ends.", " ".join(sentences))])
    assert whole == pytest.approx(max(support for support, _ in apart), abs=2e-4)


def test_calibrated(tmp_path: Path) -> None:
    """A calibration in the folder is applied, unless it is not wanted; the support comes through it."""
    folder = save_classifier(tmp_path, "contradiction", "neutral", "entailment")
    raw = EntailmentVerifier.load(folder)
    Calibration("temperature", raw.digest, temperature=2.0, offset=1.0).save(folder / "calibration.json")
    calibrated = EntailmentVerifier.load(folder)
    given = raw.probabilities(PAIRS)[0]
    expected = 1 / (1 + np.exp(-(np.log(given / (1 - given)) / 2 + 1)))
    np.testing.assert_allclose([support for support, _ in calibrated.verify(PAIRS)], expected, atol=1e-4)
    assert all(support + against <= 1.0001 for support, against in calibrated.verify(PAIRS))
    assert EntailmentVerifier.load(folder, calibrated=False).verify(PAIRS) == raw.verify(PAIRS)


def test_a_calibration_of_other_weights(tmp_path: Path) -> None:
    """It is refused: its probabilities would be of another model."""
    folder = save_classifier(tmp_path, "contradiction", "neutral", "entailment")
    Calibration("temperature", "0123456789ab").save(folder / "calibration.json")
    with pytest.raises(ModelError, match="of other weights"):
        EntailmentVerifier.load(folder)


def test_labels_that_tell_nothing(tmp_path: Path) -> None:
    """The error names the remedy; labels that are given mend it."""
    folder = save_classifier(tmp_path, "LABEL_0", "LABEL_1")
    with pytest.raises(ModelError, match="cannot be told"):
        EntailmentVerifier.load(folder)
    assert EntailmentVerifier.load(folder, labels=["unsupported", "supported"]).verify(PAIRS[:1])


def test_an_encoder_is_no_classifier(tmp_path: Path) -> None:
    """Weights that the file lacks are not made up."""
    with pytest.raises(ModelError, match="it is no classifier of pairs"):
        EntailmentVerifier.load(save_encoder(tmp_path))


def test_odd_texts(tmp_path: Path) -> None:
    """Empty, long, right-to-left, combining and broken texts get a verdict in [0, 1]."""
    verifier = EntailmentVerifier.load(save_classifier(tmp_path, "contradiction", "neutral", "entailment"))
    texts = [
        "",
        " ",
        "x" * 5000,
        "مرحبا بالعالم",
        "é" * 300,
        "half a \ud800 sign",
        "| a | b |\n|---|---|",
        "limit " * 3000,
    ]
    for support, against in verifier.verify([(one, two) for one in texts for two in texts]):
        assert 0 <= support <= 1
        assert 0 <= against <= 1


def test_no_memory_for_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that does not fit is read in halves."""
    folder = save_classifier(tmp_path, "contradiction", "neutral", "entailment")
    verifier = EntailmentVerifier.load(folder, cache_bytes=0)
    expected = verifier.verify(PAIRS)
    forward, sizes = type(verifier._model).forward, []

    def small(self: object, *arguments: object, **named: object) -> object:
        sizes.append(len(named["input_ids"]))  # type: ignore[arg-type]
        if sizes[-1] > 1:
            raise MemoryError
        return forward(self, *arguments, **named)

    monkeypatch.setattr(type(verifier._model), "forward", small)
    np.testing.assert_allclose(verifier.verify(PAIRS), expected, atol=2e-4)
    assert max(sizes) > 1


def test_batch_size() -> None:
    """A size of zero is refused."""
    with pytest.raises(ConfigurationError, match="batch size"):
        EntailmentVerifier("m", None, None, batch_size=0)


@pytest.mark.parametrize("name", ["Bert", "Roberta", "Camembert", "MPNet", "Data2VecText", "Longformer"])
def test_positions_that_padding_keeps(name: str, tmp_path: Path) -> None:
    """The model reads as far as it has positions, of which some families use the first for padding, and no further."""
    transformers = pytest.importorskip("transformers")
    folder = save_classifier(tmp_path, "contradiction", "neutral", "entailment", places=24)
    shape = transformers.AutoConfig.from_pretrained(folder).to_dict()
    own = {
        key: shape[key] for key in shape if key.startswith(("hidden_size", "num_", "intermediate", "max_pos", "vocab"))
    }
    more = {"attention_window": 4} if name == "Longformer" else {}
    labels = {"id2label": shape["id2label"], "label2id": shape["label2id"]}
    config = getattr(transformers, f"{name}Config")(**own, **more, **labels, pad_token_id=0, eos_token_id=2)
    getattr(transformers, f"{name}ForSequenceClassification")(config).save_pretrained(folder)
    full = [("The policy ends.", "days " * 200)]  # its windows are as long as can be
    for support, against in EntailmentVerifier.load(folder, max_tokens=100).verify(full):
        assert 0 <= support + against <= 1.0001


def test_a_model_without_positions_reads_as_far_as_it_is_asked(tmp_path: Path) -> None:
    """512 tokens are what it reads where nothing is said, not a limit."""
    transformers = pytest.importorskip("transformers")
    folder = save_classifier(tmp_path, "contradiction", "neutral", "entailment")
    size = transformers.AutoConfig.from_pretrained(folder).vocab_size
    config = transformers.T5Config(
        vocab_size=size, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, pad_token_id=0, eos_token_id=2,
        decoder_start_token_id=0, id2label={0: "contradiction", 1: "neutral", 2: "entailment"},
    )  # fmt: skip
    transformers.T5ForSequenceClassification(config).save_pretrained(folder)
    claim, evidence = "The limit is 30 days.", "The limit is 40 days. " * 100
    ((support, _),) = EntailmentVerifier.load(folder, max_tokens=1000).verify([(claim, evidence)])
    assert support == pytest.approx(softmax(logits_of(folder, claim, evidence))[2], abs=1e-4)


def test_weights_in_half_precision(tmp_path: Path) -> None:
    """Are read in float32, the precision unless another one is asked for."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    folder = save_classifier(tmp_path, "contradiction", "neutral", "entailment")
    half = transformers.AutoModelForSequenceClassification.from_pretrained(folder).bfloat16()
    half.save_pretrained(folder)
    verifier = EntailmentVerifier.load(folder)
    assert {each.dtype for each in verifier._model.parameters()} == {torch.float32}
    half.float().save_pretrained(folder)
    assert verifier.verify(PAIRS) == EntailmentVerifier.load(folder).verify(PAIRS)
