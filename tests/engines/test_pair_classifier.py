"""Classifiers of pairs of every shape that is documented, with random weights, beside what the library says of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.engines.calibration import Calibration
from ragtrace.engines.pair_classifier import RelevanceClassifier
from ragtrace.engines.text_pairs import Role
from ragtrace.engines.verifier import EntailmentVerifier
from ragtrace.errors import ConfigurationError, ModelError
from tests.engines.verifiers import save_classifier

QUESTION, CHUNK = "what is the limit", "The limit is 30 days. The policy ends in May."
PAIRS = [(QUESTION, CHUNK), (QUESTION, "The deductible is 500 EUR. " * 40), ("was it may", CHUNK)]


def save_as(folder: Path, family: str, *labels: str) -> Path:
    """Save a one-layer classifier of another family with the same tokenizer in `folder`."""
    transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")
    torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")
    save_classifier(folder, *labels)
    size = transformers.AutoConfig.from_pretrained(folder).vocab_size
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: place for place, label in enumerate(labels)}}
    torch.manual_seed(3)
    shape: dict[str, Any] = {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 64, "initializer_range": 0.5,
    }  # fmt: skip
    if family == "T5":
        shape = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
    if family == "DebertaV2":  # as version 3 is made
        shape |= {"relative_attention": True, "position_buckets": 8, "position_biased_input": False,
                  "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0, "norm_rel_ebd": "layer_norm",
                  "share_att_key": True}  # fmt: skip
    config = getattr(transformers, f"{family}Config")(
        vocab_size=size,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        num_labels=len(labels),
        **shape,
        **names,
    )
    getattr(transformers, f"{family}ForSequenceClassification")(config).save_pretrained(folder)
    if family == "Roberta":  # whose pairs have two ends of a sentence between them
        tokenizers = pytest.importorskip("tokenizers")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        tokenizer.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
        tokenizer.save_pretrained(folder)
    return folder


def logits_of(folder: Path, *texts: str) -> np.ndarray:
    """What the library itself says of one text, or of a pair."""
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        said: np.ndarray = model(**tokenizer(*texts, return_tensors="pt")).logits[0].double().numpy()
    return said


def sigmoid(value: float) -> float:
    """1 / (1 + exp(-value))."""
    return float(1 / (1 + np.exp(-value)))


def softmax(values: np.ndarray) -> np.ndarray:
    """Shares that add up to one."""
    raised = np.exp(values - values.max())
    shares: np.ndarray = raised / raised.sum()
    return shares


@pytest.mark.parametrize("family", ["Roberta", "DebertaV2"])
def test_minicheck(family: str, tmp_path: Path) -> None:
    """Document and claim are one text with the end of a sentence between; LABEL_1 is supported, as its authors say."""
    folder = save_as(tmp_path / f"MiniCheck-{family}", family, "LABEL_0", "LABEL_1")
    ((support, contradiction),) = EntailmentVerifier.load(folder).verify([("The limit is 40 days.", CHUNK)])
    expected = softmax(logits_of(folder, f"{CHUNK}</s>The limit is 40 days."))
    assert support == pytest.approx(expected[1], abs=1e-5)
    assert contradiction == 0.0
    if family == "Roberta":
        assert abs(support - softmax(logits_of(folder, CHUNK, "The limit is 40 days."))[1]) > 1e-4  # as a pair


def test_labels_without_names_mean_something_in_that_family_alone(tmp_path: Path) -> None:
    """The same weights under another name are refused."""
    with pytest.raises(ModelError, match="cannot be told"):
        EntailmentVerifier.load(save_as(tmp_path / "other", "Roberta", "LABEL_0", "LABEL_1"))


def test_hhem(tmp_path: Path) -> None:
    """One output of a DeBERTa is a score of (evidence, claim), whose sigmoid is the support."""
    folder = save_as(tmp_path / "hhem", "DebertaV2", "LABEL_0")
    ((support, contradiction),) = EntailmentVerifier.load(folder).verify([("The limit is 40 days.", CHUNK)])
    assert support == pytest.approx(sigmoid(logits_of(folder, CHUNK, "The limit is 40 days.")[0]), abs=1e-5)
    assert contradiction == 0.0


def test_deberta_nli(tmp_path: Path) -> None:
    """Three named outputs of a DeBERTa are entailment, neutral and contradiction."""
    folder = save_as(tmp_path / "nli", "DebertaV2", "entailment", "neutral", "contradiction")
    ((support, contradiction),) = EntailmentVerifier.load(folder).verify([("The limit is 40 days.", CHUNK)])
    shares = softmax(logits_of(folder, CHUNK, "The limit is 40 days."))
    assert support == pytest.approx(shares[0], abs=1e-5)
    assert contradiction == pytest.approx(min(shares[2], 1 - shares[0]), abs=1e-5)


@pytest.mark.parametrize("role", ["relevant", "answers"])
def test_ms_marco(role: Role, tmp_path: Path) -> None:
    """One output of a BERT is a score of (question, text): its sigmoid is the probability, whatever its activation."""
    folder = save_classifier(tmp_path, "LABEL_0")
    config = json.loads((folder / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    (folder / "config.json").write_text(json.dumps(config))
    judge = RelevanceClassifier.load(folder, role=role)
    found = judge.relevant(PAIRS[:1]) if role == "relevant" else judge.answers(PAIRS[:1])
    assert judge.roles == {role}
    assert found == [pytest.approx(sigmoid(logits_of(folder, QUESTION, CHUNK)[0]), abs=1e-5)]


def test_crag(tmp_path: Path) -> None:
    """A T5 with one score reads `question [SEP] passage`; its scale from -1 to 1 is that of the probability."""
    folder = save_as(tmp_path, "T5", "LABEL_0")
    judge = RelevanceClassifier.load(folder)
    score = logits_of(folder, f"{QUESTION} [SEP] {CHUNK}")[0]
    assert judge.relevant([(QUESTION, CHUNK), (QUESTION, "  ")]) == [pytest.approx((score + 1) / 2, abs=1e-5), 0.0]


@pytest.mark.parametrize("labels", [("irrelevant", "relevant"), ("no", "yes"), ("False", "True")])
def test_named_classes_of_relevance(labels: tuple[str, str], tmp_path: Path) -> None:
    """The share of the one that says yes."""
    folder = save_classifier(tmp_path, *labels)
    expected = softmax(logits_of(folder, QUESTION, CHUNK))[1]
    assert RelevanceClassifier.load(folder).relevant(PAIRS[:1]) == [pytest.approx(expected, abs=1e-5)]


@pytest.mark.parametrize("labels", [("LABEL_0", "LABEL_1"), ("entailment", "neutral", "contradiction")])
def test_classes_that_tell_nothing_of_relevance(labels: tuple[str, ...], tmp_path: Path) -> None:
    """A model of another role is refused; labels that are given mend it."""
    folder = save_classifier(tmp_path, *labels)
    with pytest.raises(ModelError, match=r"for the role 'relevant' cannot be told .* \(relevant, irrelevant; yes, no;"):
        RelevanceClassifier.load(folder)
    assert RelevanceClassifier.load(folder, labels=["yes", "no", "no"][: len(labels)]).relevant(PAIRS[:1])


def test_one_model_in_two_roles(tmp_path: Path) -> None:
    """It is in memory once, and each role has its own calibration; it is not asked what it was not loaded for."""
    folder = save_classifier(tmp_path, "LABEL_0")
    raw = RelevanceClassifier.load(folder)
    Calibration("temperature", raw.digest, offset=2.0).save(folder / "calibration-answers.json")
    relevant = RelevanceClassifier.load(folder, role="relevant")
    answers = relevant.in_role("answers")
    assert answers._model is relevant._model
    assert relevant.relevant(PAIRS) == raw.relevant(PAIRS)
    said = np.array(raw.relevant(PAIRS))
    np.testing.assert_allclose(answers.answers(PAIRS), said * np.e**2 / (said * np.e**2 + 1 - said), atol=1e-6)
    with pytest.raises(ModelError, match="was loaded for the role answers, not relevant"):
        answers.relevant(PAIRS)


def test_the_best_window_of_a_long_chunk_counts(tmp_path: Path) -> None:
    """The chunk is cut, not the question, also where both are one text."""
    for name, family in (("pair", "Roberta"), ("one", "T5")):
        judge = RelevanceClassifier.load(save_as(tmp_path / name, family, "LABEL_0"), max_tokens=24)
        chunk = " ".join(f"The {noun} is {days} days." for noun in ("limit", "policy") for days in (30, 40, 500, 700))
        pieces = judge._windows(QUESTION, chunk)
        assert len(pieces) > 2
        apart = judge.relevant([(QUESTION, piece) for piece in pieces])
        assert judge.relevant([(QUESTION, chunk)]) == [pytest.approx(max(apart), abs=1e-5)]


def test_texts_that_hold_special_tokens(tmp_path: Path) -> None:
    """Nothing in a text ends its side of the pair, nor the batch: they are read as a space."""
    for name, family in (("pair", "Roberta"), ("one", "T5")):
        judge = RelevanceClassifier.load(save_as(tmp_path / name, family, "LABEL_0"))
        plain, odd = [(QUESTION, "the limit   days")], [(QUESTION, "the limit </s> days"), (QUESTION, "<s>limit</s>")]
        assert judge.relevant([*odd, *plain])[0] == pytest.approx(judge.relevant(plain)[0], abs=1e-6)


def test_odd_texts_as_one_text(tmp_path: Path) -> None:
    """Empty, long and broken texts are judged in [0, 1] where both are one text, too."""
    judge = EntailmentVerifier.load(save_as(tmp_path / "minicheck", "Roberta", "LABEL_0", "LABEL_1"))
    texts = ["", " ", "limit " * 3000, "half a \ud800 sign", "x" * 5000, "</s>" * 50, "مرحبا بالعالم"]
    for support, _ in judge.verify([(one, two) for one in texts for two in texts]):
        assert 0 <= support <= 1


def _counted(judge: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many windows were read so far."""
    read: list[int] = []
    classified = judge._classified

    def count(features: Sequence[dict[str, list[int]]]) -> Any:
        read.append(len(features))
        return classified(features)

    monkeypatch.setattr(judge, "_classified", count)
    return lambda: sum(read)


def test_every_pair_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a call and across calls; what else is asked for in between does not matter."""
    judge = RelevanceClassifier.load(save_classifier(tmp_path, "LABEL_0"), max_tokens=64)
    read = _counted(judge, monkeypatch)
    first = judge.relevant([PAIRS[0], PAIRS[2], PAIRS[0]])
    assert (read(), first[0]) == (2, first[2])
    assert judge.relevant([PAIRS[2], PAIRS[0]]) == [first[1], first[0]]
    assert read() == 2


def test_the_cache_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for longest ago is read again; with no bytes everything is."""
    folder = save_classifier(tmp_path, "LABEL_0")
    judge = RelevanceClassifier.load(folder, cache_bytes=700)
    read = _counted(judge, monkeypatch)
    pairs = [(QUESTION, f"The limit is {days} days.") for days in (30, 40, 500)]
    for pair in (pairs[0], pairs[1], pairs[0], pairs[2], pairs[0]):
        judge.relevant([pair])
    assert read() == 3
    judge.relevant([pairs[1]])
    assert read() == 4
    bare = RelevanceClassifier.load(folder, cache_bytes=0)
    read = _counted(bare, monkeypatch)
    bare.relevant(pairs)
    bare.relevant(pairs)
    assert read() == 6
    with pytest.raises(ConfigurationError, match="cache_bytes -1"):
        RelevanceClassifier.load(folder, cache_bytes=-1)


def test_half_precision(tmp_path: Path) -> None:
    """bf16 says about the same as float32."""
    folder = save_classifier(tmp_path, "LABEL_0")
    exact, reduced = (RelevanceClassifier.load(folder, precision=each).relevant(PAIRS) for each in ("float32", "bf16"))
    np.testing.assert_allclose(reduced, exact, atol=0.02)


def test_code_of_its_own_is_refused(tmp_path: Path) -> None:
    """A model that brings code, as HHEM-2.1 does, is not run; the error says so."""
    folder = save_classifier(tmp_path, "LABEL_0")
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "HHEMv2Config",
        "auto_map": {
            "AutoConfig": "configuration_hhem_v2.HHEMv2Config",
            "AutoModelForSequenceClassification": "modeling_hhem_v2.HHEMv2ForSequenceClassification",
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "configuration_hhem_v2.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(ModelError, match=r"brings code of its own \(trust_remote_code\), which ragtrace does not run"):
        EntailmentVerifier.load(folder)
