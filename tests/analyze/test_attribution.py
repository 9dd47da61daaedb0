"""Explanations of whole records, by engines whose games are known and by tiny models."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze.attribution import compare_attention, explain_record, seed_of
from ragtrace.attribution import shapley_values
from ragtrace.engines import causal_lm
from ragtrace.engines.causal_lm import CausalLM, Generated
from ragtrace.engines.encoder import CrossEncoder
from ragtrace.engines.model_names import load_generator
from ragtrace.errors import AttributionError, ConfigurationError, ModelError
from ragtrace.explanations import Explanation
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    replace,
)
from tests.analyze.engines import AdditiveGenerator, LinearRetriever, spans_of
from tests.analyze.examples import ANSWER, QUESTION, RERANK, RETRIEVE, TEXTS, packed, request
from tests.engines.serving import Served
from tests.models.copying import make, prompt_of
from tests.models.recorded import record_of
from tests.models.test_copier import FOLDER

WORTH = {TEXTS["old"]: 4.0, TEXTS["water"]: 1.5}
RECORD = request(RETRIEVE, RERANK, packed("theft", "water", "old"), GenerateRun(generation=Generation(answer=ANSWER)))


def of_many(count: int) -> RequestRecord:
    """A request with so many documents: `text 1.`, ..."""
    texts = {f"c{number}": f"text {number}." for number in range(1, count + 1)}
    found = tuple(Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(texts.items(), 1))
    chunks = tuple(PackedChunk(chunk_id=each.chunk_id, position=each.rank, text=each.text) for each in found)
    runs = (RetrieveRun(candidates=found), PackRun(packing=Packing(chunks=chunks)))
    return request(*runs, GenerateRun(generation=Generation(answer="It is so.")))


def test_documents_get_what_they_are_worth() -> None:
    """An additive game: each document's Shapley value is what it adds, for every token, exactly."""
    found = explain_record(RECORD, generator=AdditiveGenerator(WORTH), parts=["generator"])
    shares = found.generator
    assert shares is not None
    assert shares.chunk_ids == ("theft", "water", "old")
    assert shares.shares == pytest.approx((0.0, 1.5, 4.0), abs=1e-12)
    assert np.array(shares.values) == pytest.approx(np.array([[0.0], [1.5], [4.0]]).repeat(10, axis=1), abs=1e-12)
    assert shares.answer_spans == tuple(spans_of(ANSWER))
    assert (shares.empty, shares.full, shares.exact, shares.evaluations) == (-10.0, -4.5, True, 8)
    assert (shares.engine, shares.model, shares.revision) == ("causal_lm", "additive", "7")
    assert found.skipped == {}
    assert found.query is None


def test_an_answer_in_which_the_model_sees_no_token() -> None:
    """A zero-width space, which a tokenizer leaves out: there is no share, rather than one that is no number."""
    invisible = replace(RECORD, stages=(*RECORD.stages[:-1], GenerateRun(generation=Generation(answer="\u200b"))))

    class Blind(AdditiveGenerator):
        def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
            return np.zeros((len(prompts), 0))

    found = explain_record(invisible, generator=Blind(WORTH))
    assert (found.generator, found.query, found.alignment) == (None, None, None)
    assert found.skipped["generator"] == found.skipped["query"] == "the model reads no token in the answer"


def test_the_answers_use_is_compared_with_the_rerankers_order() -> None:
    """Ranked water, theft, old; used old, water, theft."""
    found = explain_record(RECORD, generator=AdditiveGenerator(WORTH), parts=["generator"]).alignment
    assert found is not None
    assert (found.retriever, found.generator) == (("water", "theft", "old"), ("old", "water", "theft"))
    assert found.adjusted[4] > 1.0
    assert found.wasted_retrieval is None


def test_wasted_retrieval_and_noise() -> None:
    """The last of five documents alone is used; the flags are certain, since the values are exact."""
    found = explain_record(of_many(5), generator=AdditiveGenerator({"text 5.": 1.0, "text 2.": 0.5}))
    alignment = found.alignment
    assert alignment is not None
    assert (alignment.noise_distraction, alignment.noise_probability) == (True, 1.0)
    assert (alignment.wasted_retrieval, alignment.wasted_probability) == (False, 0.0)


def test_words_of_the_question() -> None:
    """The same game over words, with the documents fixed."""
    found = explain_record(RECORD, generator=AdditiveGenerator({"escape": 2.0}), parts=["query"]).query
    assert found is not None
    assert found.players == "words"
    words = [QUESTION[start:end] for start, end in found.query_spans]
    assert dict(zip(words, found.shares, strict=True))["escape"] == pytest.approx(0.0)  # the documents have it too
    only = explain_record(RECORD, generator=AdditiveGenerator({"does": 2.0}), parts=["query"]).query
    assert only is not None
    assert only.shares == pytest.approx([2.0 * (word == "does") for word in words], abs=1e-9)


def test_more_documents_than_can_be_enumerated_are_estimated() -> None:
    """With errors, within the budget, and the same again by the request's id."""
    engine = AdditiveGenerator({"text 3.": 2.0})
    found = explain_record(of_many(9), generator=engine, budget=40, parts=["generator"]).generator
    assert found is not None
    assert (found.exact, found.evaluations, found.seed) == (False, 40, seed_of(of_many(9)))
    assert len(engine.prompts) == 40
    assert sum(found.shares) == pytest.approx(2.0)
    assert all(error is not None and error >= 0 for error in found.share_errors)
    assert len(found.share_covariance) == 9
    again = explain_record(of_many(9), generator=AdditiveGenerator({"text 3.": 2.0}), budget=40, parts=["generator"])
    assert again.generator == found


def test_a_large_number_of_documents_can_be_settled_early() -> None:
    """An answer that rests on one document is settled before the budget is spent."""
    engine = AdditiveGenerator({"text 1.": 5.0} | {f"text {each}.": 1.0 / each for each in range(2, 11)})
    full = explain_record(of_many(10), generator=engine, budget=200, parts=["generator"]).generator
    early = explain_record(of_many(10), generator=engine, budget=200, settle=0.9, parts=["generator"]).generator
    assert full is not None
    assert early is not None
    assert early.evaluations < full.evaluations
    assert early.shares.index(max(early.shares)) == 0


def test_tokens_of_query_and_document() -> None:
    """A linear score: each token's attribution is what it adds; special tokens get nothing."""
    found = explain_record(RECORD, retriever=LinearRetriever(), parts=["retriever"]).retriever
    assert [each.chunk_id for each in found] == ["water", "theft", "old"]
    first = found[0]
    assert first.document.spans == tuple(spans_of(TEXTS["water"]))
    assert first.document.weights == pytest.approx([end - start for start, end in first.document.spans])
    assert first.query.spans == tuple(spans_of(QUESTION))
    assert first.score == pytest.approx(sum(first.document.weights))
    assert first.completeness_delta == pytest.approx(0.0, abs=1e-6)
    assert (first.engine, first.model, first.baseline, first.evaluations > 2) == ("encoder", "linear", "unk", True)


def test_a_document_is_explained_by_the_query_that_found_it() -> None:
    """At its best rank, of several queries; the same query of another retriever is no other."""

    def run(query: str, *names: str) -> RetrieveRun:
        found = [Candidate(chunk_id=name, rank=rank, text=TEXTS[name]) for rank, name in enumerate(names, 1)]
        return RetrieveRun(query=query, candidates=tuple(found))

    runs = (run("water", "water", "theft"), run("stolen bicycles", "theft", "old"), run("water", "old"))
    record = replace(RECORD, stages=(*runs, packed("water", "theft", "old"), RECORD.stages[-1]))
    found = {each.chunk_id: each for each in explain_record(record, retriever=LinearRetriever()).retriever}
    assert list(found) == ["water", "theft", "old"]
    assert {name: each.query_number for name, each in found.items()} == {"water": 0, "theft": 1, "old": 0}
    assert {name: len(each.query.spans) for name, each in found.items()} == {"water": 1, "theft": 2, "old": 1}
    for name, each in found.items():
        assert each.document.spans == tuple(spans_of(TEXTS[name]))
        assert each.score == sum(each.document.weights)


def test_candidates_follow_the_prompts_documents_up_to_the_limit() -> None:
    """Those of the prompt by rank, then others; the query is the rewritten one."""
    rewritten = replace(RECORD, query=Query(original=QUESTION, rewritten="water limit"))
    record = replace(rewritten, stages=(RETRIEVE, packed("theft"), RECORD.stages[-1]))
    found = explain_record(record, retriever=LinearRetriever(), documents=2).retriever
    assert [each.chunk_id for each in found] == ["theft", "water"]
    assert len(found[0].query.spans) == 2


def test_what_is_missing_is_said_by_part() -> None:
    """Nothing packed, no ranking, no model: a reason each, and no error."""
    nothing = replace(RECORD, stages=(RETRIEVE, packed(), RECORD.stages[-1]))
    found = explain_record(nothing, generator=AdditiveGenerator({}))
    assert found.skipped == {"generator": "there are no documents", "retriever": "no model was given"}
    assert found.query is not None
    unranked = replace(RECORD, stages=RECORD.stages[2:])
    found = explain_record(unranked, generator=AdditiveGenerator(WORTH), parts=["generator"])
    assert found.generator is not None
    assert found.skipped == {"alignment": "the documents' ranking is not known"}
    assert explain_record(RECORD).skipped == dict.fromkeys(("generator", "query", "retriever"), "no model was given")


@pytest.mark.parametrize(
    ("record", "generator", "alignment"),
    [
        (of_many(1), None, "a single document has only one order"),
        (of_many(31), "31 documents; at most 30 can be attributed to", None),
        (request(answer=""), "the answer is empty", None),
    ],
)
def test_odd_records(record: RequestRecord, generator: str | None, alignment: str | None) -> None:
    """One document, more than thirty, no answer."""
    found = explain_record(record, generator=AdditiveGenerator({"text 1.": 1.0}), parts=["generator"], budget=64)
    assert found.skipped.get("generator") == generator
    assert found.skipped.get("alignment") == alignment
    assert (found.generator is None) == (generator is not None)


LONG = (
    "We moved in May. " + "Then this and that happened to us and to them, " * 4 + "so is theft covered abroad, and why?"
)


def of_long_question(
    budget: int | None = None, known: Explanation | None = None
) -> tuple[Explanation, AdditiveGenerator]:
    """The answer needs one word of 50; what was scored."""
    engine = AdditiveGenerator({"abroad": 2.0})
    record = replace(RECORD, query=Query(original=LONG))
    return explain_record(record, generator=engine, parts=["query"], budget=budget, known=known), engine


def test_a_question_of_many_words_is_asked_for_in_groups() -> None:
    """At most thirty; the group that matters is cut to the one word that does, within the budget, with errors."""
    explained, engine = of_long_question()
    found = explained.query
    assert found is not None
    shares = {LONG[start:end]: share for (start, end), share in zip(found.query_spans, found.shares, strict=True)}
    assert shares["abroad"] == pytest.approx(2.0, abs=0.02)
    assert sum(shares.values()) == pytest.approx(2.0)
    assert len(found.query_words) > len(found.query_spans) == 30
    assert len(engine.prompts) == found.evaluations == 240
    assert all(error is not None for error in found.share_errors)
    spans, weights = found.word_shares()
    assert spans == found.query_words
    assert sum(weights) == pytest.approx(sum(found.shares))


def test_a_small_budget_takes_no_first_look_and_is_continued() -> None:
    """The groups stay those of the stored explanation, and nothing is scored twice."""
    few, engine = of_long_question(80)
    more, later = of_long_question(100, few)
    assert few.query is not None
    assert more.query is not None
    assert (few.query.evaluations, len(engine.prompts)) == (80, 80)
    assert (more.query.evaluations, len(later.prompts)) == (100, 20)
    assert more.query.query_spans == few.query.query_spans
    whole, _ = of_long_question(160)
    further, later = of_long_question(200, whole)
    assert whole.query is not None
    assert further.query is not None
    assert whole.query.query_spans == further.query.query_spans
    assert (whole.query.evaluations, further.query.evaluations, len(later.prompts)) == (160, 200, 40)


def test_a_long_question_is_explained_again_with_less() -> None:
    """The first look of the larger budget took more than the smaller one is: what is known is read, nothing scored."""
    large, _ = of_long_question(160)
    small, later = of_long_question(24, large)
    assert large.query is not None
    assert small.query is not None
    assert small.query.query_spans == large.query.query_spans
    assert sum(small.query.shares) == pytest.approx(2.0)
    assert later.prompts == []
    with pytest.raises(ConfigurationError, match="budget 1 is not usable"):
        of_long_question(1, large)


def test_values_that_are_no_numbers_are_an_error() -> None:
    """It names the coalition."""
    with pytest.raises(AttributionError, match="must be finite"):
        explain_record(RECORD, generator=AdditiveGenerator({TEXTS["old"]: float("nan")}))


def test_what_it_took_is_counted_by_device() -> None:
    """Time on a GPU apart; a device that is no CPU is named."""
    on_gpu, on_cpu = AdditiveGenerator(WORTH, device="cuda"), LinearRetriever()
    found = explain_record(RECORD, generator=on_gpu, retriever=on_cpu)
    assert 0 < found.gpu_seconds < found.seconds
    assert found.device == "cuda"
    assert explain_record(RECORD, retriever=on_cpu, parts=["retriever"]).gpu_seconds == 0.0


def test_progress_is_told_by_part() -> None:
    """Prompts that were scored, and sides of the retriever."""
    told: list[tuple[str, int]] = []
    explain_record(
        RECORD,
        generator=AdditiveGenerator(WORTH),
        retriever=LinearRetriever(),
        budget=16,
        on_progress=lambda part, done: told.append((part, done)),
    )
    assert told == [("generator", 8), ("query", 16), ("retriever", 1), ("retriever", 2)]


@dataclass
class Closed:
    """A model that repeats the documents which it was given, and tells nothing else."""

    kind: str = "http"
    name: str = "closed"
    revision: str | None = None
    device: str = "remote"
    prompts: list[str] = field(default_factory=list)

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> Sequence[Generated]:
        """Say what stands of the old edition."""
        self.prompts += prompts
        return [Generated(ANSWER if TEXTS["water"] in prompt else "No.", 1, 1, "stop") for prompt in prompts]


def test_a_closed_model_is_asked_again_without_each_document() -> None:
    """Weights by how the answer changes; no errors, no words."""
    engine = Closed()
    found = explain_record(RECORD, generator=engine, parts=["generator", "query"])
    assert found.generator is not None
    assert found.generator.unit == "similarity"
    assert found.generator.shares == (0.0, 1.0, 0.0)
    assert len(engine.prompts) == 4
    assert all("[2] " in prompt for prompt in engine.prompts if TEXTS["water"] in prompt)
    assert found.alignment is not None
    assert found.alignment.generator[0] == "water"
    assert found.alignment.wasted_probability is None
    assert found.skipped == {"query": "the model gives no log-probabilities"}
    assert found.device == "remote"


def test_a_tiny_language_model(tiny_causal_lm: Path) -> None:
    """The stored values are those of a game over the model itself, prompt by prompt."""
    model = CausalLM.load(tiny_causal_lm)
    record = of_many(3)
    found = explain_record(record, generator=model, parts=["generator"]).generator
    assert found is not None
    texts = [f"text {number}." for number in range(1, 4)]

    def prompt(row: NDArray[np.bool_]) -> str:
        shown = [text for text, stays in zip(texts, row, strict=True) if stays]
        listed = "".join(f"[{number}] {text}\n" for number, text in enumerate(shown, 1))
        head = "Answer the question with the help of the documents below."
        return f"{head}\n\n{listed}\nQuestion: {QUESTION}\nAnswer:"

    def game(
        rows: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    ) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.concatenate([model.score([prompt(row)], "It is so.", method="batched") for row in rows])

    expected = shapley_values(game, 3)
    assert np.array(found.values) == pytest.approx(expected.values, abs=1e-4)
    assert len(found.answer_spans) == len(found.values[0])
    assert ["It is so."[start:end].strip() for start, end in found.answer_spans] == ["It", "is", "so", "."]


def test_a_prompt_that_does_not_fit_the_model_is_an_error(tiny_causal_lm: Path) -> None:
    """128 positions are the tiny model's."""
    with pytest.raises(ModelError, match="do not fit the 128 positions"):
        explain_record(of_many(30), generator=CausalLM.load(tiny_causal_lm), budget=32, parts=["generator"])


def test_a_tiny_reranker(tiny_cross_encoder: Path) -> None:
    """Token weights add up to what the score differs from the baseline's."""
    found = explain_record(RECORD, retriever=CrossEncoder.load(tiny_cross_encoder), parts=["retriever"]).retriever
    assert len(found) == 3
    assert {each.engine for each in found} == {"cross_encoder"}
    assert all(abs(each.completeness_delta or 0.0) < 0.01 for each in found)
    assert all(len(each.document.spans) == len(each.document.weights) > 5 for each in found)


def test_a_served_model_explains_as_a_local_one(model_server: Served, tiny_causal_lm: Path) -> None:
    """Through a real server process: the same tokens and shares."""
    runs = (*of_many(3).stages[:-1], GenerateRun(generation=Generation(answer="the limit is thirty days .")))
    record = replace(of_many(3), stages=runs, query=Query(original="what is the limit ?"))
    model_server.fail()
    served = load_generator(f"{model_server.at('vllm')}#tiny")
    found = explain_record(record, generator=served, parts=["generator", "query"])
    local = explain_record(record, generator=CausalLM.load(tiny_causal_lm), parts=["generator", "query"])
    for part, expected in ((found.generator, local.generator), (found.query, local.query)):
        assert part is not None
        assert expected is not None
        assert part.answer_spans == expected.answer_spans
        assert np.array(part.values) == pytest.approx(np.array(expected.values), abs=1e-3)
    assert found.generator is not None
    assert (found.generator.engine, found.generator.model, found.device) == ("http", "tiny", "remote")


def test_a_chat_that_gives_log_probabilities(model_server: Served, tiny_chat_lm: Path) -> None:
    """The shares are those of the same chat model read here."""
    runs = (*of_many(3).stages[:-1], GenerateRun(generation=Generation(answer="the limit is thirty days .")))
    record = replace(of_many(3), stages=runs)
    served = load_generator(f"chat:{model_server.at('vllm')}#tiny")
    found = explain_record(record, generator=served, parts=["generator"]).generator
    local = explain_record(record, generator=CausalLM.load(tiny_chat_lm), parts=["generator"]).generator
    assert found is not None
    assert local is not None
    assert found.unit == "log_probability"
    assert found.shares == pytest.approx(local.shares, abs=1e-3)


def test_a_chat_that_gives_none_leaves_each_document_out(model_server: Served) -> None:
    """Weights by its answers, and none of words."""
    served = load_generator(f"chat:{model_server.at('closed')}#tiny")
    found = explain_record(of_many(3), generator=served, parts=["generator", "query"])
    assert found.generator is not None
    assert (found.generator.method, found.generator.unit) == ("leave_one_out", "similarity")
    assert found.generator.evaluations == 4
    assert found.skipped["query"] == "the model gives no log-probabilities"


def test_reduced_precision_is_stored_with_what_it_differs(
    tiny_causal_lm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of documents and of words; where it differs by too much, the values are those of float32."""
    expected = explain_record(of_many(3), generator=CausalLM.load(tiny_causal_lm, dtype="float32")).generator
    model = CausalLM.load(tiny_causal_lm, dtype="bfloat16")
    found = explain_record(of_many(3), generator=model)
    assert found.generator is not None
    assert found.query is not None
    assert found.generator.precision is not None
    assert found.query.precision is not None
    assert (found.generator.precision.dtype, found.generator.precision.repeated) == ("bfloat16", False)
    assert 0 < (found.generator.precision.difference or 0) < 0.5
    monkeypatch.setattr(causal_lm, "TOLERANCE", 0.0)
    repeated = explain_record(of_many(3), generator=model).generator
    assert repeated is not None
    assert repeated.precision is not None
    assert repeated.precision.repeated
    assert expected is not None
    assert expected.precision is None
    assert repeated.shares == pytest.approx(expected.shares, abs=1e-5)
    assert found.generator.shares != pytest.approx(expected.shares, abs=1e-5)


def test_more_budget_goes_on_from_what_is_known() -> None:
    """Only what was not scored is asked, and the result is that of one run; another model begins anew."""
    worth = {"text 3.": 2.0, "text 5.": 0.7}
    first = explain_record(of_many(9), generator=AdditiveGenerator(worth), budget=24, parts=["generator"])
    engine = AdditiveGenerator(worth)
    more = explain_record(of_many(9), generator=engine, budget=40, parts=["generator"], known=first).generator
    whole = explain_record(of_many(9), generator=AdditiveGenerator(worth), budget=40, parts=["generator"]).generator
    assert len(engine.prompts) == 16
    assert more is not None
    assert whole is not None
    assert more.shares == pytest.approx(whole.shares, abs=1e-5)
    assert (more.evaluations, more.seed) == (whole.evaluations, whole.seed)
    assert more.log is not None
    assert len(more.log.coalitions) == 40
    for other in (AdditiveGenerator(worth, revision="8"), AdditiveGenerator(worth, name="other")):
        explain_record(of_many(9), generator=other, budget=40, parts=["generator"], known=first)
        assert len(other.prompts) == 40
    changed = replace(of_many(9), stages=(*of_many(9).stages[:-1], GenerateRun(generation=Generation(answer="No."))))
    explain_record(changed, generator=engine, budget=40, parts=["generator"], known=first)
    assert len(engine.prompts) == 56


def test_exact_values_keep_no_log() -> None:
    """There is nothing to go on from."""
    found = explain_record(RECORD, generator=AdditiveGenerator(WORTH), parts=["generator"]).generator
    assert found is not None
    assert found.exact
    assert found.log is None


def test_values_that_would_mix_precisions_are_computed_anew(
    tiny_causal_lm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier run in bfloat16 passed; the next prompts do not: then all are scored in float32."""
    model = CausalLM.load(tiny_causal_lm, dtype="bfloat16")
    record = of_many(7)
    first = explain_record(record, generator=model, budget=16, parts=["generator"])
    monkeypatch.setattr(causal_lm, "TOLERANCE", 0.0)
    found = explain_record(record, generator=model, budget=24, known=first, parts=["generator"]).generator
    full = CausalLM.load(tiny_causal_lm, dtype="float32")
    expected = explain_record(record, generator=full, budget=24, parts=["generator"]).generator
    assert found is not None
    assert expected is not None
    assert found.shares == pytest.approx(expected.shares, abs=1e-4)


def test_attention_of_documents_beside_their_shares() -> None:
    """The sums over each document's tokens, wherever the template puts it; other documents are refused."""
    model = CausalLM.load(FOLDER)
    example = make(random.Random(4), 5)
    record = record_of(example, "r")
    shares = explain_record(record, generator=model, parts=["generator"]).generator
    assert shares is not None
    found = compare_attention(record, shares, model)
    assert replace(found, attention=()) == shares

    prompt = prompt_of(example.documents, example.question)
    weights, places = model.attention_gradients(prompt, example.answer)
    expected, at = [], 0
    for text in example.documents:
        at = prompt.index(text, at)
        inside = [at <= start and end <= at + len(text) for start, end in places]
        assert sum(inside) == len(text.split())
        expected.append(weights[inside].sum())
        at += len(text)
    assert found.attention == pytest.approx(expected)
    assert int(np.argmax(found.attention)) == example.sources[0]
    with pytest.raises(AttributionError, match="other documents"):
        compare_attention(record_of(make(random.Random(4), 4), "r"), shares, model)


def test_attention_of_a_document_that_stands_twice_is_one_sum(tiny_causal_lm: Path) -> None:
    """As its share is one."""
    model = CausalLM.load(tiny_causal_lm)
    chunks = [PackedChunk(chunk_id=name, position=at, text=text) for at, (name, text) in enumerate(
        [("a", "the limit"), ("b", "thirty days"), ("a", "the limit")], 1
    )]  # fmt: skip
    template = "{chunk:a} . {chunk:b} . {chunk:a} ?"
    runs = (
        PackRun(packing=Packing(chunks=tuple(chunks))),
        GenerateRun(generation=Generation(answer="days", prompt_template=template)),
    )
    record = request(*runs)
    shares = explain_record(record, generator=model, parts=["generator"]).generator
    assert shares is not None
    weights, _ = model.attention_gradients("the limit . thirty days . the limit ?", "days")
    found = compare_attention(record, shares, model).attention
    assert found == pytest.approx([weights[[0, 1, 6, 7]].sum(), weights[[3, 4]].sum()])
