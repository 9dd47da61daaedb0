"""A request of the insurance demo with its explanation, as an attribution job would have found it."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ragtrace import alignment
from ragtrace.explanations import (
    Alignment,
    Explanation,
    GeneratorAttribution,
    Offsets,
    RetrieverAttribution,
    TokenWeights,
)
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
)

QUESTION = "How soon must a theft abroad be reported in Ireland in 2021, and what happens if I am late?"
ANSWER = (
    "You must report a theft abroad to the local police within 24 hours and to us within 30 days after you discovered "
    "it [4]. If you report it later, we may reduce the payment by up to 20 percent [5], unless you were in hospital."
)
TEXTS = {
    "travel-ie-5.0#glance": "Travel, Ireland, edition 5.0 (2021): At a glance\nThis summary lists what is covered. The "
    "exact deadlines and amounts are not repeated here; they stand in the sections on reporting and on payment.",
    "travel-ie-4.2#report": "Travel, Ireland, edition 4.2 (2020): Reporting a loss\nReport every theft to the local "
    "police within 48 hours. Send us the police report no later than 45 days after you discovered the theft.",
    "travel-gb-5.0#report": "Travel, United Kingdom, edition 5.0 (2021): Reporting a loss\nReport every theft to the "
    "local police within 24 hours. Send us the police report no later than 21 days after you discovered the theft.",
    "travel-ie-5.0#report": "Travel, Ireland, edition 5.0 (2021): Reporting a loss\nReport every theft abroad to the "
    "local police within 24 hours. Send us the police report no later than 30 days after you discovered the theft.",
    "travel-ie-5.0#late": "Travel, Ireland, edition 5.0 (2021): Late reports\nIf you report later without a good "
    "reason, we may reduce the payment by up to 20 percent. A stay in hospital is a good reason.",
    "home-ie-3.1#garden": "Home, Ireland, edition 3.1 (2021): Gardens and sheds\nTools in a locked shed are covered up "
    "to EUR 1,500. Plants are covered against fire only.",
}
_OF_RETRIEVER = [0, 2, 1, 3, 5, 4]  # rows, best first


def tokens(text: str) -> tuple[Offsets, ...]:
    """Tokens with the space before them, long words in two, as a byte-pair tokenizer has them."""
    found = []
    for word in re.finditer(r"\s?[^\W_]{1,7}|\s?[^\w\s]", text):
        found.append(word.span())
    return tuple(found)


def record(texts: dict[str, str] | None = None, question: str = QUESTION, answer: str | None = ANSWER) -> RequestRecord:
    """The request: all texts were retrieved and packed, in this order."""
    texts = TEXTS if texts is None else texts
    return RequestRecord(
        request_id="0190aaaa" + "0" * 24,
        service="assistant",
        segment="deadline",
        started_at=1_770_000_000_000_000_000,
        query=Query(original=question),
        stages=(
            RetrieveRun(
                candidates=tuple(
                    Candidate(
                        chunk_id=chunk_id,
                        rank=rank,
                        score=0.9 - 0.04 * rank,
                        text=text,
                        doc_id=_document(chunk_id),
                    )
                    for rank, (chunk_id, text) in enumerate(texts.items(), 1)
                )
            ),
            PackRun(
                packing=Packing(
                    chunks=tuple(
                        PackedChunk(chunk_id=chunk_id, position=place, text=text)
                        for place, (chunk_id, text) in enumerate(texts.items(), 1)
                    )
                )
            ),
            GenerateRun(generation=Generation(answer=answer)),
        ),
    )


def _document(chunk_id: str) -> str:
    return chunk_id.partition("#")[0]


def explanation(texts: dict[str, str] | None = None, question: str = QUESTION, answer: str = ANSWER) -> Explanation:
    """What the answer used: the sections on reporting and on late reports, and not what was retrieved first."""
    texts = TEXTS if texts is None else texts
    return Explanation(
        generator=_documents(texts, answer),
        query=_words(question, answer),
        retriever=tuple(_retriever(chunk_id, text, question) for chunk_id, text in texts.items()),
        alignment=_alignment(list(texts)) if texts.keys() == TEXTS.keys() else None,
        seconds=21.4,
    )


def left_out(shares: tuple[float, ...]) -> Explanation:
    """What is known of a closed model's answer: its first documents, each left out once."""
    generator = GeneratorAttribution(
        chunk_ids=tuple(TEXTS)[: len(shares)],
        answer_spans=((0, len(ANSWER)),),
        values=tuple((share,) for share in shares),
        shares=shares,
        share_errors=(None,) * len(shares),
        full=1.0,
        unit="similarity",
        method="leave_one_out",
        evaluations=len(shares) + 1,
        engine="http",
        model="closed",
    )
    return Explanation(generator=generator)


def _documents(texts: dict[str, str], answer: str) -> GeneratorAttribution:
    spans = tokens(answer)
    draw = np.random.default_rng(3)
    values = draw.normal(0, 0.03, (len(texts), len(spans)))
    bodies = [set(re.findall(r"\w+", text.partition("\n")[2].lower())) for text in texts.values()]
    for column, (start, end) in enumerate(spans):
        token = answer[start:end].strip().lower()
        holders = [row for row, body in enumerate(bodies) if token in body and len(token) > 1]
        for row in holders:
            values[row, column] += 2.6 / len(holders) + (0.9 if token.isdigit() else 0.0) + (row == 3) * 0.4
        if token == "30":
            values[1:3, column] -= 1.9
    shares = values.mean(axis=1)
    return GeneratorAttribution(
        chunk_ids=tuple(texts),
        answer_spans=spans,
        values=tuple(tuple(float(value) for value in row) for row in values),
        shares=tuple(float(share) for share in shares),
        share_errors=tuple(0.03 + 0.01 * (row % 3) for row in range(len(texts))),
        empty=-1.9,
        full=-1.9 + float(shares.sum()),
        method="gp",
        evaluations=48,
        engine="causal_lm",
        model="copying-lm",
        revision="3f2a9c1",
    )


def _words(question: str, answer: str) -> GeneratorAttribution:
    spans = tuple(found.span() for found in re.finditer(r"\w+|[^\w\s]", question))
    strong = {"theft": 0.21, "abroad": 0.08, "soon": 0.12, "Ireland": 0.17, "2021": 0.26, "late": 0.31, "what": -0.07}
    shares = tuple(strong.get(question[start:end], 0.004) for start, end in spans)
    columns = len(tokens(answer))
    return GeneratorAttribution(
        players="words",
        query_spans=spans,
        answer_spans=tokens(answer),
        values=tuple((share,) * columns for share in shares),
        shares=shares,
        share_errors=(0.02,) * len(shares),
        empty=-3.0,
        full=-3.0 + sum(shares),
        method="gp",
        evaluations=64,
        engine="causal_lm",
        model="copying-lm",
        revision="3f2a9c1",
    )


def _retriever(chunk_id: str, text: str, question: str) -> RetrieverAttribution:
    asked = set(re.findall(r"\w+", question.lower())) - {"a", "be", "in", "and", "to", "is", "the", "must", "what"}
    held = set(re.findall(r"\w+", text.lower()))
    return RetrieverAttribution(
        chunk_id=chunk_id,
        score=0.41 + 0.01 * (len(text) % 37),
        query=_weights(question, lambda word: 0.09 if word in asked & held else -0.02 if word in asked else 0.004),
        document=_weights(text, lambda word: 0.07 if word in asked else -0.03 if word in ("2020", "home") else 0.003),
        completeness_delta=0.0011,
        evaluations=16,
        rule="midpoint",
        baseline="unk",
        engine="encoder",
        model="all-MiniLM-L6-v2",
        revision="c9745ed",
    )


def _weights(text: str, weight: Callable[[str], float]) -> TokenWeights:
    spans = tokens(text)
    weights = tuple(weight(text[start:end].strip().lower()) for start, end in spans)
    return TokenWeights(spans=((0, 0), *spans, (0, 0)), weights=(0.01, *weights, -0.01))


def _alignment(ids: list[str]) -> Alignment:
    retriever = [ids[row] for row in _OF_RETRIEVER]
    generator = [ids[row] for row in (3, 4, 2, 1, 0, 5)]
    ps = (0.5, 0.7, 0.9)
    chance = [float(alignment.warg_chance(len(ids), p)) for p in ps]
    return Alignment(
        retriever=tuple(retriever),
        generator=tuple(generator),
        ps=ps,
        warg=tuple(alignment.warg(retriever, generator, p) for p in ps),
        floor=tuple(alignment.warg_floor(len(ids), p) for p in ps),
        chance=tuple(chance),
        normalized=tuple(alignment.warg_normalized(retriever, generator, p) for p in ps),
        adjusted=tuple(alignment.warg_adjusted(retriever, generator, p) or 0.0 for p in ps),
        spearman=alignment.spearman(retriever, generator),
        wasted_retrieval=alignment.wasted_retrieval(retriever, generator),
        wasted_probability=0.97,
        noise_distraction=alignment.noise_distraction(retriever, generator),
        noise_probability=0.99,
    )
