"""Faithfulness of methods over requests, against independent code."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze.faithfulness import MethodFaithfulness, faithfulness
from ragtrace.attribution import Method
from ragtrace.errors import ConfigurationError
from ragtrace.types import RequestRecord
from tests.analyze.alignment_report.explained import request
from tests.analyze.engines import LinearGradients, LinearRetriever, spans_of

METHODS = (Method("gp"), Method.parse("kernelshap:paired=true"))


@dataclass
class RedundantGenerator:
    """Documents a and b say the same: the first of them is worth 3, the second .2; c is worth 1 beside a, else 2."""

    kind: str = "causal_lm"
    name: str = "redundant"
    revision: str | None = None
    device: str = "cpu"

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """Two tokens, the second one worth half."""
        return np.array([[worth(shown(prompt)), worth(shown(prompt)) / 2] for prompt in prompts])

    def answer_places(self, prompt: str, answer: str) -> Sequence[tuple[int, int]]:
        """Not told."""
        return ()


def shown(prompt: str) -> frozenset[str]:
    """The documents of a prompt."""
    return frozenset(re.findall(r"The text ([a-z])\.", prompt))


def worth(documents: frozenset[str]) -> float:
    """The log-probability of the answer's first token behind them."""
    same = documents & {"a", "b"}
    third = (1.0 if "a" in documents else 2.0) if "c" in documents else 0.0
    return -9.0 + (3.0 + 0.2 * (len(same) - 1) if same else 0.0) + third - (0.5 if "d" in documents else 0.0)


def area(value: Any, ranked: Sequence[str]) -> float:
    """The area inside both curves, by loops: `ranked` from most to least relevant."""
    curves = []
    for order in (ranked, ranked[::-1]):
        left = list(order)
        heights = [value(frozenset(left))]
        for player in order:
            left.remove(player)
            heights.append(value(frozenset(left)))
        curves.append(heights)
    lowest, highest = min(map(min, curves)), max(map(max, curves))
    total = 0.0
    for at in range(len(ranked)):
        gaps = [(curves[1][place] - curves[0][place]) / (highest - lowest) for place in (at, at + 1)]
        total += (gaps[0] + gaps[1]) / 2 / len(ranked)
    return total


def by_value(weights: dict[str, float]) -> list[str]:
    """Players from most to least."""
    return sorted(weights, key=lambda each: -weights[each])


def shapley(documents: str) -> dict[str, float]:
    """The mean over all orders of what each document adds."""
    found = dict.fromkeys(documents, 0.0)
    for order in itertools.permutations(documents):
        for at, name in enumerate(order):
            found[name] += worth(frozenset(order[: at + 1])) - worth(frozenset(order[:at]))
    return {name: total / math.factorial(len(documents)) for name, total in found.items()}


def _of(found: Sequence[MethodFaithfulness], removed: str, method: str) -> MethodFaithfulness:
    return next(each for each in found if (each.removed, each.method) == (removed, method))


def test_areas_are_those_of_independent_code() -> None:
    """Exact values and leaving one document out, by loops over orders and steps; curves begin at 1 and end at 0."""
    records = [request(name, documents=name) for name in ("abcd", "cdab", "adc", "bca")]
    found = faithfulness(records, generator=RedundantGenerator(), methods=METHODS)

    exact, left_out = [], []
    for record in records:
        documents = record.request_id
        exact.append(area(worth, by_value(shapley(documents))))
        whole = frozenset(documents)
        left_out.append(area(worth, by_value({each: worth(whole) - worth(whole - {each}) for each in documents})))
    assert _of(found.methods, "documents", "exact").aipc.mean == pytest.approx(np.mean(exact), abs=1e-12)
    single = _of(found.methods, "documents", "leave_one_out")
    assert single.aipc.mean == pytest.approx(np.mean(left_out), abs=1e-12)
    assert np.mean(exact) > np.mean(left_out) + 0.05  # of two documents that say the same, each can be spared

    first = _of(found.methods, "documents", "gp")
    assert first.difference is None
    assert single.difference is not None
    assert single.difference.mean == pytest.approx(single.aipc.mean - first.aipc.mean)
    assert first.aipc.low is not None
    assert first.aipc.low <= first.aipc.mean
    assert (first.morf[0], first.morf[-1]) == (first.lerf[0], first.lerf[-1])


def test_what_cannot_be_judged_is_counted() -> None:
    """A single document has no order; the others are judged all the same."""
    found = faithfulness([request("one", "a"), request("two", "ac")], generator=RedundantGenerator(), methods=METHODS)
    assert [each.aipc.requests for each in found.methods] == [1] * 4
    assert found.methods[0].aipc.low is None
    assert [sum(reasons.values()) for reasons in found.skipped.values()] == [1]


class SaturatedGradients(LinearGradients):
    """The score is a saturating function of the words' lengths: the gradient at the text is all but gone."""

    def value(self, points: Any, owners: NDArray[np.intp]) -> Any:
        """tanh of the sum."""
        return np.tanh(points[:, :, 0].sum(axis=1) / 4)

    def value_and_grad(self, points: Any, owners: NDArray[np.intp]) -> tuple[Any, Any]:
        """And its derivative."""
        values = self.value(points, owners)
        gradients = np.zeros_like(points)
        gradients[:, :, 0] = (1 - values[:, None] ** 2) / 4
        return values, gradients


class SaturatedRetriever(LinearRetriever):
    """By these gradients."""

    def gradients(self, query: str, documents: Sequence[str], *, of: Any, baseline: Any) -> SaturatedGradients:
        """Tokens are words."""
        return SaturatedGradients([query] * len(documents) if of == "query" else documents, of)


def test_retrieval_by_tokens() -> None:
    """Integrated Gradients goes by the words' lengths, as a loop does; plain gradients tell words apart in nothing."""
    record: RequestRecord = request("r", "ab")
    found = faithfulness([record], retriever=SaturatedRetriever(), documents=2)

    texts = [candidate.text or "" for candidate in record.candidates]
    expected = []
    for text in texts:
        lengths = {f"{at}": end - start for at, (start, end) in enumerate(spans_of(text))}

        def score(kept: frozenset[str], lengths: dict[str, int] = lengths) -> float:
            return math.tanh(sum(lengths[each] for each in kept) / 4)

        expected.append(area(score, by_value({key: float(value) for key, value in lengths.items()})))
    integrated = _of(found.methods, "document tokens", "integrated_gradients")
    assert integrated.aipc.mean == pytest.approx(np.mean(expected), abs=1e-6)
    assert integrated.aipc.requests == 1
    assert _of(found.methods, "document tokens", "gradient").aipc.mean == 0
    assert {each.removed for each in found.methods} == {"query tokens", "document tokens"}


def test_of_a_long_text_several_tokens_leave_at_once() -> None:
    """More than 20 tokens: the curves are those of 20 steps, and stay ordered."""
    text = " ".join("x" * (1 + place % 7) for place in range(60))
    record = request("r", "a", query=request("q").query)
    long = faithfulness([_with_text(record, text)], retriever=LinearRetriever())
    area_of = _of(long.methods, "document tokens", "integrated_gradients").aipc.mean
    lengths = np.sort([1 + place % 7 for place in range(60)])
    morf, lerf = (np.concatenate([[0], np.cumsum(each)]) for each in (lengths[::-1], lengths))
    gap = ((morf - lerf) / lengths.sum())[::3]
    assert area_of == pytest.approx(float((gap[1:] + gap[:-1]).mean() / 2), abs=1e-6)


def _with_text(record: RequestRecord, text: str) -> RequestRecord:
    from ragtrace.types import Candidate, RetrieveRun, replace

    run = RetrieveRun(query="What is it?", candidates=(Candidate(chunk_id="a", rank=1, text=text),))
    return replace(record, stages=(run, *record.stages[1:]))


def test_refuses_what_it_cannot_compare() -> None:
    """No model, and exact values as an estimator: they are compared anyway."""
    with pytest.raises(ConfigurationError, match="give a generator"):
        faithfulness([request("r")])
    with pytest.raises(ConfigurationError, match="exact is always compared"):
        faithfulness([request("r")], generator=RedundantGenerator(), methods=[Method("exact")])
