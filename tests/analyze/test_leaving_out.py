"""Explanations by models that tell nothing but answers and vectors, and what they cost."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze.attribution import explain_record
from ragtrace.analyze.explainer import Depths, Explainer, explanation_cost
from ragtrace.analyze.faithfulness import faithfulness
from ragtrace.engines.causal_lm import Generated
from ragtrace.engines.model_names import load_generator, load_retriever
from ragtrace.errors import ConfigurationError
from ragtrace.explanations import term_uses
from ragtrace.export import explanation_html
from ragtrace.export.explanation_text import render
from ragtrace.store import ATTRIBUTION, Store
from ragtrace.types import Candidate, GenerateRun, Generation, PackedChunk, Packing, PackRun, RequestRecord, RetrieveRun
from tests.analyze.examples import QUESTION, request
from tests.engines.serving import Served

TEXTS = {
    "terms": "Escape of water is covered. Home Plus pays 5,000 for water.",
    "cats": "Cats sleep. They sleep a lot.",
}
FACT = "Home Plus pays 5,000 for water."
TEMPLATE = f"Answer from the documents.\n\n[1] {{chunk:terms}}\n[2] {{chunk:cats}}\n\nQuestion: {QUESTION}\nAnswer:"


def asked() -> RequestRecord:
    """A request with two documents of two sentences."""
    found = tuple(Candidate(chunk_id=each, rank=at, text=text) for at, (each, text) in enumerate(TEXTS.items(), 1))
    chunks = tuple(PackedChunk(chunk_id=each.chunk_id, position=each.rank, text=each.text) for each in found)
    answer = Generation(answer=FACT, prompt_template=TEMPLATE)
    return request(
        RetrieveRun(candidates=found), PackRun(packing=Packing(chunks=chunks)), GenerateRun(generation=answer)
    )


@dataclass
class Closed:
    """Answers with the fact where the prompt has it."""

    name: str = "closed"
    kind: str = "http"
    revision: str | None = None
    device: str = "remote"
    prompts: list[str] = field(default_factory=list)

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> list[Generated]:
        """The answers."""
        self.prompts += prompts
        return [Generated(FACT if FACT in prompt else "I cannot say.", 0, 0, "stop") for prompt in prompts]


@dataclass
class Counting:
    """Vectors of how often each word of a small vocabulary stands in a text."""

    name: str = "counts"
    kind: str = "embedding_server"
    revision: str | None = None
    device: str = "remote"
    texts: list[str] = field(default_factory=list)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The counts."""
        self.texts += texts
        return np.array([_counts(text) for text in texts], dtype=np.float32)


_VOCABULARY = ("water", "plus", "pays", "pay", "sleep", "cats", "the", "for", "escape")


def _counts(text: str) -> list[int]:
    words = re.findall(r"\w+", text.lower())
    return [words.count(each) for each in _VOCABULARY]


def _cosine(first: str, second: str) -> float:
    a, b = np.array(_counts(first), dtype=float), np.array(_counts(second), dtype=float)
    return float(a @ b / np.sqrt((a @ a) * (b @ b))) if a.any() and b.any() else 0.0


def test_words_of_documents_against_the_question() -> None:
    """Each occurrence is left out by itself; the weights are 1 - minmax of the cosines that are left."""
    found = explain_record(asked(), retriever=Counting(), parts=["retriever"]).retriever
    assert [each.chunk_id for each in found] == list(TEXTS)
    for each in found:
        text = TEXTS[each.chunk_id]
        words = [match.span() for match in re.finditer(r"[\w,]*\w", text)]
        left = np.array([_cosine(text[:start] + text[end:], QUESTION) for start, end in words])
        spread = np.ptp(left)
        expected = 1 - (left - left.min()) / spread if spread else np.zeros(len(left))
        weights = dict(zip(each.document.spans, each.document.weights, strict=True))
        for span, weight in zip(words, expected, strict=True):
            if span in weights:  # "5,000" is two words
                assert weights[span] == pytest.approx(weight, abs=1e-6), text[slice(*span)]
        assert each.score == pytest.approx(_cosine(text, QUESTION), abs=1e-6)
        assert (each.rule, each.engine, each.completeness_delta) == ("leave_one_out", "embedding_server", None)
    waters = [match.span() for match in re.finditer("water", TEXTS["terms"])]
    assert len(waters) == 2
    assert {*waters} <= {*found[0].document.spans}
    strongest = max(zip(found[0].query.weights, found[0].query.spans, strict=True))[1]
    assert QUESTION[slice(*strongest)] == "water"


def test_sentences_and_words_are_shown() -> None:
    """In the terminal and on the page: the sentence that counts first, what was compared, and no gradients."""
    record = asked()
    found = explain_record(record, generator=Closed(), retriever=Counting(), sentences=True, similarity="levenshtein")
    assert found.generator is not None
    kinds = [part.kind for part in found.generator.parts]
    assert kinds == ["instruction", *["document"] * 4, "question"]
    assert max(found.generator.parts, key=lambda part: part.weight).chunk_id == "terms"
    page = explanation_html.page(record, found)
    assert f"{FACT}</i>" in page
    assert "each document and each sentence left out once" in page
    assert "by levenshtein" in page
    assert "Of this retriever only its vectors are known" in page
    assert "Integrated Gradients" not in page
    from rich.console import Console

    console = Console(width=120, record=True)
    console.print(render(record, found))
    text = console.export_text()
    assert re.search(rf"1\.00\s+terms\s+{re.escape(FACT)}", text)
    assert "how much its score falls without each word" in text
    assert not term_uses(found, record.query.original)


@pytest.mark.parametrize("similarity", ["cosine", "levenshtein", "jaro-winkler", "ngram-jaccard"])
def test_all_similarities(similarity: str) -> None:
    """Each finds the document; it is stored by which answers were compared."""
    found = explain_record(
        asked(), generator=Closed(), retriever=Counting(), similarity=similarity, parts=["generator"]
    ).generator
    assert found is not None
    assert (found.similarity, found.shares) == (similarity, (1.0, 0.0))


def test_cosine_needs_vectors() -> None:
    """Without a retriever that makes them the error says what to give."""
    with pytest.raises(ConfigurationError, match="--retriever MODEL or embed:URL#NAME"):
        explain_record(asked(), generator=Closed(), similarity="cosine")


@pytest.mark.parametrize("sentences", [False, True])
def test_the_announced_cost_is_what_is_asked(sentences: bool) -> None:
    """Of answers and vectors, to the last one; of tokens a quarter of the characters, or a little more."""
    closed, vectors = Closed(), Counting()
    cost = explanation_cost(asked(), closed=True, embedded=True, sentences=sentences)
    explain_record(asked(), generator=closed, retriever=vectors, sentences=sentences)
    assert cost.answers == len(closed.prompts)
    assert cost.vectors == len(vectors.texts)
    assert cost.prompts == 0
    read = sum(map(len, closed.prompts)) + sum(map(len, vectors.texts))
    assert read / 4 <= cost.tokens <= read / 3
    assert str(cost).startswith(f"{cost.answers} answers and {cost.vectors} vectors, about")


def test_the_vectors_of_answers_are_announced_too() -> None:
    """Where the retriever's server compares them; no fewer than are asked for, and few more."""
    closed, vectors = Closed(), Counting()
    cost = explanation_cost(asked(), closed=True, embedded=True, sentences=True, similarity="cosine")
    explain_record(asked(), generator=closed, retriever=vectors, sentences=True, similarity="cosine")
    assert cost.vectors - cost.answers - 4 < len(vectors.texts) <= cost.vectors


def test_the_cost_of_scored_prompts() -> None:
    """At most the budget of each part; nothing of what cannot be explained."""
    assert explanation_cost(asked(), scored=True).prompts == 4
    assert explanation_cost(asked(), scored=True, parts=["generator", "query"]).prompts == 4 + 8 * 11
    assert explanation_cost(asked(), scored=True, parts=["query"], budget=20).prompts == 20
    assert explanation_cost(asked(), scored=True, parts=["utility"]).prompts == len(TEXTS) + 1
    assert str(explanation_cost(request(answer=None), scored=True)) == "nothing"


def test_more_documents_than_can_be_explained_cost_nothing() -> None:
    """The page of such a request can say so."""
    chunks = tuple(PackedChunk(chunk_id=f"c{at}", position=at, text=f"Fact {at}.") for at in range(1, 41))
    answer = GenerateRun(generation=Generation(answer=FACT))
    assert str(explanation_cost(request(PackRun(packing=Packing(chunks=chunks)), answer), scored=True)) == "nothing"


def test_a_worker_says_the_cost_before_it_asks(
    tmp_path: Path, model_server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """In its log; through real servers the explanation holds sentences and words."""
    generator = load_generator(f"chat:{model_server.at('closed')}#tiny")
    retriever = load_retriever(f"embed:{model_server.at('embeddings')}#small")
    depths = Depths.parse("host=generator+retriever", 1.0)
    explainer = Explainer(generator=generator, retriever=retriever, depths=depths, similarity="cosine", sentences=True)
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.write([asked()])
        store.ask("r", ATTRIBUTION, "1")
        with caplog.at_level(logging.INFO, "ragtrace.analyze"):
            done = explainer.explain_next(store, "test")
        assert done is not None
        assert done.outcome == "done"
        kept = store.get_analysis("r", ATTRIBUTION)
    assert kept is not None
    assert kept.explanation is not None
    assert kept.explanation.generator is not None
    assert len(kept.explanation.generator.parts) == 6
    assert kept.explanation.generator.similarity == "cosine"
    assert any(
        message.startswith("explaining request r asks servers for at most 9 answers") for message in caplog.messages
    )


def test_what_a_worker_cannot_compare_by() -> None:
    """Another similarity is refused before anything is asked."""
    with pytest.raises(ConfigurationError, match="cosine, levenshtein, jaro-winkler, ngram-jaccard"):
        Explainer(generator=Closed(), similarity="letters")


def test_faithfulness_needs_gradients() -> None:
    """A server's retriever is refused."""
    with pytest.raises(ConfigurationError, match="servers show no gradients"):
        faithfulness([asked()], retriever=Counting())
