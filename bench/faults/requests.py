"""Requests of the demo's pipeline over a data set: healthy ones, and ones with faults of known stage that took effect.

What broke a request, and where, is told from what the pipeline did with the known evidence, never from a metric.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from bench.datasets.model import Case, DataSet
from bench.faults import FAULTS, STRENGTHS, Fault, Scene
from bench.faults.answers import NAME
from ragtrace.coverage.text import content_words, sentences
from ragtrace.demo.answering import Answer, ExtractiveAnswerer, prompt_template
from ragtrace.demo.packing import BudgetPacker, Context
from ragtrace.demo.pipeline import TOP_K, Components, Outcome
from ragtrace.demo.reranking import FusionReranker
from ragtrace.demo.retrieval import Hit, Retriever
from ragtrace.types import Stage

__all__ = ["BUDGET", "Plan", "Request", "components_for", "requests_of"]

BUDGET: Final = 2400
SINGLES: Final = 2  # faults of each stage for one question
PAIRS: Final[Sequence[tuple[Stage, Stage]]] = (
    ("retrieval", "ranking"),
    ("retrieval", "generation"),
    ("ranking", "generation"),
)
_BEHAVIORS: Final = ("quote", "recall", "abstain")  # what a generator does that misses its evidence, a third each
_TRIES: Final = 12


@dataclass(frozen=True, slots=True)
class Request:
    """One request to run: its case, the pipeline that serves it, and its faults in the order of the path."""

    case: Case
    components: Components
    faults: tuple[Fault, ...] = ()

    @property
    def broken(self) -> Stage | None:
        """The first broken stage: that of the earliest fault."""
        return self.faults[0].stage if self.faults else None


@dataclass
class Plan:
    """What became of the questions: `sound` have a healthy run with all of the evidence in the prompt."""

    asked: int = 0
    sound: int = 0


class Rewriting:
    """Gives the retriever what the data set says a sound rewriter gives it."""

    version = "context-1.0"

    def __init__(self, case: Case) -> None:
        self._case = case

    def rewrite(self, question: str) -> str:
        """The query in its context."""
        return self._case.asked


class Answering:
    """Says of the reference answer what the prompt holds; for the rest quotes, recalls or abstains."""

    version = "reference-1.0"

    def __init__(self, case: Case) -> None:
        self._case = case
        self._behavior = _BEHAVIORS[random.Random(case.case_id).randrange(len(_BEHAVIORS))]

    def generate(self, question: str, context: Context) -> Answer:
        """Each statement with a citation of its chunk."""
        places = {chunk.chunk_id: place for place, chunk in enumerate(context.chunks, 1)}
        held = {name for name, found in self._case.evidence.items() if _stands(found, _text_of(context, name))}
        spoken = [
            f"{_bare(each.text)} [{places[each.chunk_id]}]." for each in self._case.answer if each.chunk_id in held
        ]
        missing = [_bare(each.text) for each in self._case.answer if each.chunk_id not in held]
        if missing and self._behavior == "recall":
            spoken += [f"{text} [1]." for text in missing]
        if missing and self._behavior == "quote" and context.chunks:
            spoken.append(ExtractiveAnswerer().generate(question, context).answer)
        text = " ".join(spoken) or "I could not find this in the documents."
        return Answer(text, prompt_template(question, context))


def components_for(retriever: Retriever) -> Components:
    """The healthy pipeline, but for what knows the case: rewriter and generator."""
    packer = BudgetPacker(retriever.encoder, budget=BUDGET)
    nothing = Case("", "", "", "", {}, ())
    return Components(Rewriting(nothing), retriever, FusionReranker(retriever), packer, Answering(nothing))


def requests_of(
    data: DataSet, cases: Sequence[Case], healthy: Components, plan: Plan, *, singles: int = SINGLES
) -> Iterator[Request]:
    """Of each case whose evidence the healthy pipeline brings into the prompt: it healthy, with single faults of each
    stage (`singles`), and with each pair of stages broken."""
    common = Counter(word for text in data.passages.values() for word in set(content_words(text)))
    strangers = [(case.evidence.keys(), each.text) for case in data.cases for each in case.answer]
    names = sorted({name for case in data.cases for each in case.answer for name in NAME.findall(each.text)})
    for case in cases:
        plan.asked += 1
        sound = healthy.changed(rewriter=Rewriting(case), generator=Answering(case))
        outcome, ranked = _dry_run(sound, case)
        if not all(_stands(found, _text_of(outcome.context, name)) for name, found in case.evidence.items()):
            continue
        plan.sound += 1
        foreign = [text for owners, text in strangers if not owners & case.evidence.keys() and len(text) > 40]
        scene = Scene(case, case.evidence, ranked, len(outcome.context.chunks), common, foreign, names, case.case_id)
        yield Request(case, sound)
        yield from _singles(sound, scene, singles)
        yield from _doubles(sound, scene)


def _singles(sound: Components, scene: Scene, count: int) -> Iterator[Request]:
    for stage in FAULTS:
        made = 0
        for fault in _drawn(stage, scene):
            broken = FAULTS[stage][fault.kind](sound, scene, fault.strength)
            if broken and _took_effect(broken, sound, scene.case, stage):
                made += 1
                yield Request(scene.case, broken, (fault,))
                if made == count:
                    break


def _doubles(sound: Components, scene: Scene) -> Iterator[Request]:
    for pair in PAIRS:
        found = (each for each in product(_drawn(pair[0], scene), _drawn(pair[1], scene)))
        for first, second in list(found)[:_TRIES]:
            once = FAULTS[first.stage][first.kind](sound, scene, first.strength)
            if once is None or not _took_effect(once, sound, scene.case, first.stage):
                continue
            twice = FAULTS[second.stage][second.kind](once, _after(scene, once, first.stage), second.strength)
            if twice and _took_effect(twice, sound, scene.case, first.stage) and _differs(twice, once, scene.case):
                yield Request(scene.case, twice, (first, second))
                break


def _drawn(stage: Stage, scene: Scene) -> list[Fault]:
    """All faults of a stage in an order that the case alone decides, kinds spread evenly."""
    chance = scene.chance(stage)
    kinds = chance.sample(list(FAULTS[stage]), len(FAULTS[stage]))
    orders = [chance.sample(STRENGTHS, len(STRENGTHS)) for _ in kinds]
    return [
        Fault(stage, kind, order[turn])
        for turn in range(len(STRENGTHS))
        for kind, order in zip(kinds, orders, strict=True)
    ]


def _took_effect(broken: Components, sound: Components, case: Case, stage: Stage) -> bool:
    """Whether the stage lost evidence that the healthy one kept and nothing else holds, or changed the answer."""
    outcome, _ = _dry_run(broken, case)
    if stage == "generation":
        return outcome.answer.answer != sound.generator.generate(case.question, outcome.context).answer
    found = {hit.chunk_id for hit in outcome.hits}
    candidates = "\n".join(hit.text for hit in outcome.hits)
    prompt = "\n".join(chunk.text for chunk in outcome.context.chunks)
    if stage == "retrieval":
        return any(name not in found and not _stands(held, candidates) for name, held in case.evidence.items())
    return all(name in found for name in case.evidence) and not all(
        _stands(held, prompt) for held in case.evidence.values()
    )


def _differs(twice: Components, once: Components, case: Case) -> bool:
    one, other = _dry_run(once, case)[0], _dry_run(twice, case)[0]
    return one.context != other.context or one.answer.answer != other.answer.answer


def _after(scene: Scene, once: Components, stage: Stage) -> Scene:
    """The scene of a second fault: behind a broken retrieval, what comes first instead of the evidence is lost."""
    outcome, ranked = _dry_run(once, scene.case)
    lost = scene.evidence
    if stage == "retrieval":
        lost = {hit.chunk_id: _latter_half(hit.text) for hit in ranked[: len(scene.evidence)]}
    return Scene(scene.case, lost, ranked, len(outcome.context.chunks), scene.common, scene.strangers, scene.names,
                 scene.seed)  # fmt: skip


def _dry_run(components: Components, case: Case) -> tuple[Outcome, list[Hit]]:
    """What the pipeline does with the case, unrecorded, and its ranking."""
    hits = components.retriever.search(components.rewriter.rewrite(case.question), TOP_K)
    ranked = components.reranker.rerank(case.question, hits)
    context = components.packer.pack(ranked)
    return Outcome("", hits, context, components.generator.generate(case.question, context)), ranked


def _latter_half(text: str) -> tuple[str, ...]:
    found = [sentence.text for sentence in sentences(text)]
    return tuple(found[max(1, len(found) // 2) :])


def _stands(held: Sequence[str], text: str) -> bool:
    return all(sentence in text for sentence in held)


def _text_of(context: Context, chunk_id: str) -> str:
    return next((chunk.text for chunk in context.chunks if chunk.chunk_id == chunk_id), "")


def _bare(text: str) -> str:
    return re.sub(r"[.\s]+$", "", text)
