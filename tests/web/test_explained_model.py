"""The explanation on a request's page, of a real small model that copies its answer from the document that states it:
what the page says is worked out by hand here."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import pytest

from ragtrace.analyze import analyze_record
from ragtrace.analyze.attribution import explain_record
from ragtrace.store import ATTRIBUTION, Finished, FollowUp, Store
from ragtrace.types import Analysis
from tests.analyze.engines import LinearRetriever
from tests.models.copying import Example, make, prompt_of
from tests.models.recorded import record_of
from tests.models.test_copier import FOLDER
from tests.web.test_pages import client

pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")

from ragtrace.engines.causal_lm import CausalLM

Shown = Callable[..., str]


class Closed:
    """The same model as a server's chat shows it: it writes answers, and tells nothing else."""

    def __init__(self, model: CausalLM) -> None:
        self._model = model
        self.kind, self.name, self.revision, self.device = "chat", model.name, model.revision, model.device

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> Sequence[Any]:
        """An answer to each prompt."""
        return [self._model.generate(prompt, max_new_tokens=10) for prompt in prompts]


@pytest.fixture(scope="module")
def copier() -> CausalLM:
    """The trained model."""
    return CausalLM.load(FOLDER)


@pytest.fixture(scope="module")
def example() -> Example:
    """Six documents of which one states the code that is asked for."""
    return make(random.Random(17), 6)


@pytest.fixture
def shown(example: Example, tmp_path: Path) -> Shown:
    """The page of the request as these models explain it."""

    def page(**models: Any) -> str:
        record = record_of(example, "explained")
        found = explain_record(record, **models)
        with Store.open(f"sqlite:///{tmp_path / 'explained.db'}") as store:
            store.write([record])
            [job] = store.claim("test")
            store.finish([Finished(job, analyze_record(record), (), FollowUp(ATTRIBUTION, "a-1", flagged=True))])
            [job] = store.claim("test", kinds=(ATTRIBUTION,))
            kept = Analysis(request_id="explained", analyzer_version="a-1", kind=ATTRIBUTION, explanation=found)
            store.finish([Finished(job, kept)])
            return client(store).get("/requests/explained").text

    return page


def _fewest_of_half(values: Mapping[str, float]) -> set[str]:
    """The fewest terms that hold half of what all terms add."""
    added = {term: value for term, value in values.items() if value > 0}
    chosen: set[str] = set()
    for term in sorted(added, key=lambda one: -added[one]):
        if 2 * sum(added[one] for one in chosen) < sum(added.values()):
            chosen.add(term)
    return chosen


def _shapley_values(worth: Callable[[Sequence[str]], float], words: Sequence[str]) -> dict[str, float]:
    """By their definition, over all orders' subsets."""
    number = len(words)
    found = {}
    for word in words:
        others = [one for one in words if one != word]
        found[word] = sum(
            (worth([one for one in words if one in (*some, word)]) - worth([one for one in words if one in some]))
            / (number * comb(number - 1, size))
            for size in range(number)
            for some in combinations(others, size)
        )
    return found


def test_the_question_s_terms_are_those_of_retriever_and_answer(
    shown: Shown, copier: CausalLM, example: Example
) -> None:
    """Figure 1 of RAG-E: the retriever of the test scores by letters, so that the longest words which hold half of them
    are its terms; those of the answer are worked out by the definition of the Shapley value, prompt by prompt."""
    page = shown(generator=copier, retriever=LinearRetriever())
    words = example.question.removesuffix(" ?").split()

    @cache
    def worth(kept: tuple[str, ...]) -> float:
        prompt = prompt_of(example.documents, " ".join((*kept, "?")))
        return float(copier.score([prompt], example.answer).sum())

    of_answer = _fewest_of_half(_shapley_values(lambda kept: worth(tuple(kept)), words))
    of_retriever = _fewest_of_half({word: len(word) for word in words})
    assert "hazel" in of_answer & of_retriever  # what is asked for: the other words are in each question
    table = page[page.index("Who used each term") :]
    rows = re.findall(r'<th scope="row">([^<]+)</th>(?:<td class="num">[^<]*</td>){2}<td>([^<]+)</td>', table)
    assert {term for term, use in rows if use in ("both used it", "only the retriever used it")} == of_retriever
    assert {term for term, use in rows if use in ("both used it", "only the answer used it")} == of_answer
    assert re.search(r'class="term both"[^>]*>hazel<', page)


def test_the_parts_of_a_closed_model_s_prompt_have_ragex_s_colors(
    shown: Shown, copier: CausalLM, example: Example
) -> None:
    """Without the document that states the code the model answers otherwise, without any other one the same: that one
    has weight 1 and the darkest color, all others 0 and the lightest."""
    page = shown(generator=Closed(copier), parts=("generator",))
    parts = re.findall(
        r'<p class="part">.*?<b>([\d.]+)</b> <bdi class="faint">(\w+)</bdi>.*?<i class="s(\d)">', page, re.DOTALL
    )
    assert {name: float(weight) for weight, name, _ in parts} == {
        f"c{place}": float(place in example.sources) for place in range(6)
    }
    levels = {name: int(level) for _, name, level in parts}
    assert levels[f"c{example.sources[0]}"] == max(levels.values())
    assert {level for name, level in levels.items() if name != f"c{example.sources[0]}"} == {min(levels.values())}
