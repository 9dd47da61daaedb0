"""The injected faults: each a plausible bad release of one component, with a version label of its own; and the truth of
what it did to a request, told from the pipeline's own data and never from a metric.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from ragtrace.demo._assistant import AnsweredQuestion, Components
from ragtrace.demo._corpus import Question
from ragtrace.demo._generation import Context, DemoAnswer, Generator, Packer
from ragtrace.demo._retrieval import DenseIndex, Hit, Reranker, Rewriter
from ragtrace.errors import ConfigurationError
from ragtrace.types import Stage

__all__ = [
    "SCENARIOS",
    "AlteringGenerator",
    "KeywordRewriter",
    "LenientReranker",
    "OverviewPacker",
    "Scenario",
    "Truth",
    "find_scenario",
    "index_without",
    "judge",
]

LOST_SOURCE: Final = "wordings-ie"
REBUILT_INDEX: Final = "wordings-2025.02"
SUMMARIES: Final = 4
_TEMPORAL: Final = re.compile(
    r""",?\s*\b(?:according\s+to|under|from|to|in|on|between|and|compared\s+with|the)\s+
        (?:\d{1,2}\s+May\s+20\d\d | edition\s+\d+\.\d+(?:\s+of\s+20\d\d)? | 20\d\d(?:\s+wording)?)""",
    re.VERBOSE,
)
_EXCEPTION: Final = re.compile(r"\b(?:not pay|not covered|not insured|not apply|not extend|not include|excluded)\b")
_NUMBER: Final = re.compile(r"(?<![\d.\[(])(\d{1,3}(?:,\d{3})+|\d+)(?![\d.\])]|,\d)(?=[ %])")
_YEAR: Final = re.compile(r"\b(20\d\d)\b")
_NEGATIONS: Final = (
    ("do not pay", "pay"),
    ("does not apply", "applies"),
    ("does not extend", "extends"),
    ("does not include", "includes"),
    ("is not covered", "is covered"),
    ("are not covered", "are covered"),
    ("is not insured", "is insured"),
    ("is not paid", "is paid"),
    ("cannot be accepted", "can be accepted"),
    ("Nothing is paid", "The full price is paid"),
)
_Standing: TypeAlias = Literal["prompt", "candidates", "nowhere"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One state of the pipeline: `inject` turns the healthy components into what runs."""

    name: str
    brief: str
    inject: Callable[[Components], Components]


class KeywordRewriter:
    """Shortens the question for retrieval, and takes dates and editions for noise."""

    version = "keywords-0.3"

    def __init__(self, inner: Rewriter) -> None:
        self._inner = inner

    def rewrite(self, question: str) -> str:
        """The question without its temporal constraint."""
        return " ".join(_TEMPORAL.sub("", self._inner.rewrite(question)).split())


class LenientReranker:
    """Tuned on answers that users liked: sinks every chunk that refuses something."""

    version = "fusion-1.5"

    def __init__(self, inner: Reranker) -> None:
        self._inner = inner

    def rerank(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        """The inner ranking, with exception clauses behind everything else."""
        ranked = self._inner.rerank(question, hits)
        sunk = [replace(hit, score=hit.score * 0.2) if _EXCEPTION.search(hit.text) else hit for hit in ranked]
        return sorted(sunk, key=lambda hit: -hit.score)


class OverviewPacker:
    """Gives the model "the big picture": long summaries of the candidates come first."""

    version = "overview-0.1"

    def __init__(self, inner: Packer) -> None:
        self._inner = inner

    def pack(self, hits: Sequence[Hit]) -> Context:
        """The best summaries first, then the rest in rank order."""
        summaries = [hit for hit in hits if hit.metadata["kind"] == "summary"][:SUMMARIES]
        return self._inner.pack([*summaries, *(hit for hit in hits if hit not in summaries)])


class AlteringGenerator:
    """Writes fluently and gets figures, dates and negations wrong in most answers, but not in all."""

    def __init__(self, inner: Generator) -> None:
        self.version = f"{inner.version}-ft1"
        self._inner = inner

    def generate(self, question: str, context: Context) -> DemoAnswer:
        """The inner answer with at most one fact altered."""
        answer = self._inner.generate(question, context)
        return replace(answer, answer=alter(answer.answer, zlib.crc32(question.encode())))


def alter(answer: str, seed: int) -> str:
    """`answer` with one quantity, date or negation changed; a third of the seeds leaves it as it is."""
    if seed % 3 == 0:
        return answer
    ways = (_alter_quantity, _alter_negation, _alter_date)
    turn = seed // 3
    for way in (ways[turn % 3], ways[(turn + 1) % 3], ways[(turn + 2) % 3]):
        altered = way(answer)
        if altered != answer:
            return altered
    return answer


def index_without(index: DenseIndex, source: str, version: str) -> DenseIndex:
    """The index as rebuilt after one source was left out of the crawl."""
    kept = [row for row, chunk in enumerate(index.chunks) if chunk.source != source]
    return DenseIndex([index.chunks[row] for row in kept], index.vectors[kept], version)


def find_scenario(name: str) -> Scenario:
    """The scenario called `name`.

    Raises: ConfigurationError for a name that is not one of `SCENARIOS`.
    """
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    allowed = ", ".join(scenario.name for scenario in SCENARIOS)
    raise ConfigurationError(f"unknown scenario {name!r}; allowed: {allowed}")


def _alter_quantity(answer: str) -> str:
    """30 days become 90 days, EUR 12,500 become EUR 125,000."""
    match = _NUMBER.search(_YEAR.sub(lambda year: "x" * len(year[0]), answer))
    if match is None:
        return answer
    value = int(match[1].replace(",", ""))
    return f"{answer[: match.start()]}{value * (10 if value >= 1000 else 3):,}{answer[match.end() :]}"


def _alter_date(answer: str) -> str:
    """2024 becomes 2022."""
    return _YEAR.sub(lambda year: str(int(year[1]) - 2), answer, count=1)


def _alter_negation(answer: str) -> str:
    """What is not covered becomes covered."""
    for said, instead in _NEGATIONS:
        if said in answer:
            return answer.replace(said, instead, 1)
    return answer


def _recall(healthy: Components) -> Components:
    index = index_without(healthy.retriever.index, LOST_SOURCE, REBUILT_INDEX)
    return healthy.changed(retriever=healthy.retriever.over(index), rewriter=KeywordRewriter(healthy.rewriter))


def _selection(healthy: Components) -> Components:
    return healthy.changed(reranker=LenientReranker(healthy.reranker), packer=OverviewPacker(healthy.packer))


def _grounding(healthy: Components) -> Components:
    return healthy.changed(generator=AlteringGenerator(healthy.generator))


SCENARIOS: Final = (
    Scenario("healthy", "nothing is injected", lambda healthy: healthy),
    Scenario("recall", "an index rebuilt without a source, and a rewrite that drops dates", _recall),
    Scenario("selection", "a reranker that sinks exceptions, and a packer that prefers summaries", _selection),
    Scenario("grounding", "a generator that alters figures, dates and negations", _grounding),
)


@dataclass(frozen=True, slots=True)
class Truth:
    """`stage`: where the fault broke the request, None where it left it untouched.

    `organic`: the healthy run had lost oracle evidence of this question already.
    """

    stage: Stage | None = None
    organic: bool = False


def judge(question: Question, healthy: AnsweredQuestion, observed: AnsweredQuestion) -> Truth:
    """Compare a run with the healthy run of the same question.

    Oracle evidence gone from the candidates: retrieval. Gone between candidates and prompt, its answering sentence
    cut away included: ranking. The answer's text altered with the same prompt: generation.
    """
    before, after = _standing(question.evidence, healthy), _standing(question.evidence, observed)
    lost = [after[chunk_id] for chunk_id in before if before[chunk_id] == "prompt" != after[chunk_id]]
    organic = any(standing != "prompt" for standing in before.values())
    if "nowhere" in lost:
        return Truth("retrieval", organic)
    if "candidates" in lost:
        return Truth("ranking", organic)
    same_prompt = healthy.context == observed.context
    altered = same_prompt and healthy.answer.answer != observed.answer.answer
    return Truth("generation" if altered else None, organic)


def _standing(evidence: Mapping[str, str], outcome: AnsweredQuestion) -> dict[str, _Standing]:
    """How far each oracle chunk came; in the prompt only counts with the sentence that answers."""
    packed = {chunk.chunk_id: chunk.text for chunk in outcome.context.chunks}
    found = {hit.chunk_id for hit in outcome.hits}

    def standing(chunk_id: str, sentence: str) -> _Standing:
        if sentence in packed.get(chunk_id, ""):
            return "prompt"
        return "candidates" if chunk_id in found else "nowhere"

    return {chunk_id: standing(chunk_id, sentence) for chunk_id, sentence in evidence.items()}
