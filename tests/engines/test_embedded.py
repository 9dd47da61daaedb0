"""What a model reads, and its embedding layer: used by one thread without another one noticing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.engines.cross_encoder import CrossEncoder
from ragtrace.engines.embedded import embedded, frozen, replaced
from ragtrace.engines.encoder import Encoder
from ragtrace.errors import ModelError
from tests.engines.conftest import Build

TEXT = "the limit is thirty days ."


def in_another_thread(work: Callable[[], Any]) -> Any:
    """What it returns there, or the error that it raises."""
    said: list[Any] = []

    def run() -> None:
        try:
            said.append(work())
        except Exception as error:
            said.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return said[0]


def test_other_vectors_are_for_one_thread(build: Build) -> None:
    """The same text in another thread gets the layer's own vectors meanwhile."""
    torch = pytest.importorskip("torch")
    encoder = build()
    (text,), _ = encoder._embedded([TEXT], "document")
    ids, own = text.features["input_ids"], text.layer(text.features["input_ids"])
    with replaced(text.layer, ids, torch.zeros_like(own)):
        assert not text.layer(ids).any()
        assert torch.equal(in_another_thread(lambda: text.layer(ids)), own)


def test_the_search_for_the_layer_ends_no_other_thread(build: Build) -> None:
    """A host that encodes the same text meanwhile gets its vectors."""
    encoder = build()
    model, features = encoder._model, encoder._features(TEXT, "document")
    plain, beside = model.encode([TEXT]), []

    def run(given: dict[str, Any]) -> None:
        beside.append(in_another_thread(lambda: model.encode([TEXT])))
        model(given)

    assert embedded("tiny", model, features, run).ids == features["input_ids"][0].tolist()
    np.testing.assert_allclose(beside[0], plain, rtol=1e-6)


def test_two_explanations_of_one_text_at_once(build: Build) -> None:
    """From different baselines, in the model at the same moment: each gets its own values and gradients."""
    encoder = build()
    both = [encoder.gradients("the limit ?", [TEXT], baseline=baseline) for baseline in ("unk", "zero")]
    points = [((each.inputs[0] + each.baselines[0]) / 2)[None].astype(np.float32) for each in both]
    alone = [each.value_and_grad(point, np.array([0])) for each, point in zip(both, points, strict=True)]
    barrier, score = threading.Barrier(2, timeout=30), [each.score for each in both]
    found: dict[int, Any] = {}

    def ask(number: int) -> None:
        def together(features: dict[str, Any], owners: Any) -> Any:
            barrier.wait()
            values = score[number](features, owners)
            barrier.wait()
            return values

        both[number].score = together
        found[number] = both[number].value_and_grad(points[number], np.array([0]))

    threads = [threading.Thread(target=ask, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in (0, 1):
        np.testing.assert_allclose(found[number][0], alone[number][0], rtol=1e-5)
        np.testing.assert_allclose(found[number][1], alone[number][1], rtol=1e-4, atol=1e-6)


def test_a_tokenizer_is_used_by_one_thread_at_a_time(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting tokens switches off the cut at the model's length, so it waits until a text is encoded."""
    encoder = build()
    plain, waited = encoder._model.encode, []

    def encode(*given: Any, **more: Any) -> Any:
        thread = threading.Thread(target=encoder.count_tokens, args=(TEXT,))
        thread.start()
        thread.join(0.2)
        waited.append((thread.is_alive(), thread))
        return plain(*given, **more)

    monkeypatch.setattr(encoder._model, "encode", encode)
    encoder.encode([TEXT])
    ((alive, thread),) = waited
    thread.join()
    assert alive


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_is_explained_in_float32(build: Build, half: str, tmp_path: Path) -> None:
    """On the CPU, where rounding would hide what a few tokens change; what is more precise stays so."""
    torch = pytest.importorskip("torch")
    encoder = build()
    assert next(frozen(encoder._model).parameters()).dtype == torch.float64
    encoder._model.to(getattr(torch, half)).save(str(tmp_path))
    weights = list(Encoder.load(tmp_path)._model.parameters())
    assert {each.dtype for each in weights} == {torch.float32}
    assert not any(each.requires_grad for each in weights)


def test_a_text_without_tokens(build: Build) -> None:
    """Of a model that adds none of its own nothing is left to explain, and the error says which text it is."""
    encoder = build("mean", causal=True)
    encoder._model.tokenizer.backend_tokenizer.post_processor = pytest.importorskip("tokenizers").processors.Sequence(
        []
    )
    for query, document in (("", TEXT), (TEXT, "")):
        with pytest.raises(ModelError, match="model 'tiny' finds no token in ''; give a text that has one"):
            encoder.gradients(query, [document], baseline="zero")


def test_a_tokenizer_that_cannot_pad(build: Build, tiny_cross_encoder: Path) -> None:
    """Is refused by sentence-transformers; the error says whose it is."""
    models = (build(), CrossEncoder.load(tiny_cross_encoder))
    for model in models:
        model._model.tokenizer.pad_token = None
        with pytest.raises(ModelError, match="cannot read the text: Asking to pad"):
            model.gradients("the limit ?", [TEXT])
    with pytest.raises(ModelError, match="model 'tiny' cannot read the text"):
        models[0].encode([TEXT])
    with pytest.raises(ModelError, match="cannot read the text"):
        models[1].scores("the limit ?", [TEXT])
