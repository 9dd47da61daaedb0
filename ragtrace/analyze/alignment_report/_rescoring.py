"""Sampled requests that models score now: as they were, without duplicates, with documents in another order, and at
several budgets.

The answer stays as it was given: what changes is what a model is shown when it scores that answer, or how much is spent
on the estimate: how stable a generator's ranking, first document and WARG are as that grows (RAG-E, Fig. 5).
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment import rank_by_score, spearman, warg
from ragtrace.analyze._generator_attribution import GeneratorEngine
from ragtrace.analyze._retriever_attribution import EmbeddingEngine, RetrieverEngine
from ragtrace.analyze.alignment import ranking_of
from ragtrace.analyze.alignment_report._rates import (
    CONDITION,
    ORIGINAL,
    ExplainedRequest,
    Observation,
    WeightedMean,
    condition_of,
    estimated,
    observed,
)
from ragtrace.analyze.attribution import Part, explain_record, seed_of
from ragtrace.analyze.prompts import SubsetPrompts, Unexplained
from ragtrace.attribution import CoalitionLog, shapley_values
from ragtrace.attribution.game import Coalitions, Values
from ragtrace.engines.causal_lm import CheckedScoring
from ragtrace.errors import AttributionError, ConfigurationError, ModelError, ScoringStopped, ServerError
from ragtrace.explanations import RESOLUTION, Explanation
from ragtrace.plausible_values import sampling_weight
from ragtrace.prompts import escaped, parsed, placeholder, rebuild
from ragtrace.store import Store
from ragtrace.types import DroppedChunk, GenerateRun, PackedChunk, Packing, PackRun, RequestRecord, StageRun, replace

__all__ = [
    "CONDITIONS",
    "METHODS",
    "Settling",
    "Skipped",
    "StabilityCurve",
    "StabilityPoint",
    "check_condition",
    "curves",
    "reexplained",
    "rescored",
    "sampled_records",
    "settling_of",
    "under_condition",
]

CONDITIONS: Final = (ORIGINAL, "deduplicated", "shuffled", "shuffled-deduplicated")
_NUMBER: Final = re.compile(r"\d+")
_ANSWER: Final[tuple[Part, ...]] = ("generator",)
_RETRIEVAL: Final[tuple[Part, ...]] = ("retriever",)
_FIRST: Final = 200  # requests that are looked through at first; four times as many each time they do not suffice


def check_condition(condition: str) -> None:
    """Raises: ConfigurationError for a condition that cannot be made."""
    if condition not in CONDITIONS:
        raise ConfigurationError.of("condition", condition, f"one of {', '.join(CONDITIONS)}")


@dataclass(slots=True)
class Skipped:
    """Why requests are missing, under one condition or several."""

    _first: dict[str, str] = field(default_factory=dict)

    @property
    def reasons(self) -> Counter[str]:
        """How many requests by reason; each counts once, by the first reason that was met."""
        return Counter(self._first.values())

    @contextmanager
    def noted(self, request_id: str) -> Iterator[None]:
        """Count what cannot be explained. A server that cannot be asked is an error: nothing else would go well."""
        try:
            yield
        except (ServerError, ScoringStopped):
            raise
        except (Unexplained, ModelError, AttributionError) as reason:
            self._first.setdefault(request_id, str(reason))


def sampled_records(
    store: Store, limit: int, *, service: str | None = None, since: int | None = None
) -> list[RequestRecord]:
    """Up to `limit` answered requests of the random stratum that state no condition of their own, newest first."""
    wanted = _FIRST
    while True:
        rows = store.find_requests(service=service, since=since, limit=wanted)
        records = _answered(store, (row.request_id for row in rows if row.head_sampled))
        found = list(islice(records, limit))
        if len(found) == limit or len(rows) < wanted:
            return found
        wanted *= 4


def _answered(store: Store, request_ids: Iterable[str]) -> Iterator[RequestRecord]:
    """A few at a time: records come with their texts."""
    known = iter(request_ids)
    while page := list(islice(known, 50)):
        records = store.get_records(page)
        for request_id in page:
            record = records.get(request_id)
            if record is not None and record.generation is not None and condition_of(record) == ORIGINAL:
                yield record


def rescored(
    records: Sequence[RequestRecord],
    generator: GeneratorEngine,
    conditions: Sequence[str],
    *,
    skipped: Skipped,
    budget: int | None = None,
    seed: int = 0,
    on_progress: Callable[[], None] | None = None,
) -> list[Observation]:
    """The observations of all records under all conditions, as far as they can be had; the answers stay as they are.

    Raises: ConfigurationError for a condition that cannot be made, ServerError and ScoringStopped.
    """
    for condition in conditions:
        check_condition(condition)
    found = []
    for record in records:
        known: dict[tuple[str, tuple[str, ...]], Explanation] = {}
        for condition in conditions:
            with skipped.noted(record.request_id):
                changed = under_condition(record, condition, seed)
                prompts = SubsetPrompts.of(changed)
                key = (prompts.of_documents(prompts.documents), prompts.documents)
                if key not in known:  # a condition may change nothing
                    known[key] = explain_record(changed, generator=generator, parts=_ANSWER, budget=budget)
                observation = observed(ExplainedRequest(changed, known[key], drawn=True))
                if observation is None:
                    raise Unexplained(_reason(known[key]))
                found.append(observation)
        if on_progress is not None:
            on_progress()
    return found


def _reason(found: Explanation) -> str:
    return next(iter(found.skipped.values()), "the documents' ranking is not known")


def reexplained(
    records: Sequence[RequestRecord],
    retriever: RetrieverEngine | EmbeddingEngine,
    *,
    skipped: Skipped,
    on_progress: Callable[[], None] | None = None,
) -> list[ExplainedRequest]:
    """Why the documents of all records were retrieved, as far as it can be said. Raises: as `rescored`."""
    found = []
    for record in records:
        with skipped.noted(record.request_id):
            explanation = explain_record(record, retriever=retriever, parts=_RETRIEVAL)
            if not explanation.retriever:
                raise Unexplained(_reason(explanation))
            found.append(ExplainedRequest(record, explanation, drawn=True))
        if on_progress is not None:
            on_progress()
    return found


def under_condition(record: RequestRecord, condition: str, seed: int = 0) -> RequestRecord:
    """The record as its prompt would stand under a condition, which is noted as its attribute.

    original: as it is. deduplicated: of documents with the same text (white space and case aside) the best ranked one
    stays. shuffled: the documents change places at random, by `seed` and the request's id; ranks stay, and numbers and
    separators around documents stay where they are. shuffled-deduplicated: without duplicates, then shuffled.

    Raises: ConfigurationError for another condition; Unexplained where the record does not hold what it takes: texts, a
    packing, a prompt around whose documents nothing but numbers differs.
    """
    check_condition(condition)
    changed = record
    if condition.endswith("deduplicated"):
        changed = _deduplicated(changed)
    if condition.startswith("shuffled"):
        changed = _shuffled(changed, seed)
    return replace(changed, attributes={**record.attributes, CONDITION: condition})


def _deduplicated(record: RequestRecord) -> RequestRecord:
    packing, shown = _shown(record)
    ids = [chunk.chunk_id for chunk in shown]
    by_id = {chunk.chunk_id: chunk for chunk in shown}
    best: dict[str, str] = {}
    for chunk_id in ranking_of(record, ids) or ids:
        best.setdefault(_folded(by_id[chunk_id]), chunk_id)
    gone = [chunk_id for chunk_id in ids if best[_folded(by_id[chunk_id])] != chunk_id]
    if not gone:
        return record
    kept = [chunk for chunk in packing.chunks if chunk.chunk_id not in gone]
    chunks = tuple(replace(chunk, position=place) for place, chunk in enumerate(kept, packing.chunks[0].position))
    dropped = (*packing.dropped, *(DroppedChunk(chunk_id=each, reason="duplicate") for each in gone))
    template = _template(record)
    if template is not None:
        template = _without(template, shown, gone)
    return _with(record, replace(packing, chunks=chunks, dropped=dropped), template)


def _folded(chunk: PackedChunk) -> str:
    if chunk.text is None:
        raise Unexplained(f"the text of chunk {chunk.chunk_id!r} was not kept; capture_content='full' keeps it")
    return " ".join(chunk.text.split()).casefold()


def _without(template: str, shown: Sequence[PackedChunk], gone: Sequence[str]) -> str:
    """The template without the places of some documents. Marks that no prompt holds stand for those that stay."""
    marks = {chunk.chunk_id: f"\ue000{place}\ue001" for place, chunk in enumerate(shown)}
    marked = [replace(chunk, text=marks[chunk.chunk_id]) for chunk in shown]
    text = escaped(rebuild(template, marked, keep=marks.keys() - set(gone)))
    for chunk_id, mark in marks.items():
        text = text.replace(mark, placeholder(chunk_id))
    return text


def _shuffled(record: RequestRecord, seed: int) -> RequestRecord:
    packing, shown = _shown(record)
    ids = [chunk.chunk_id for chunk in shown]
    digest = hashlib.blake2b(f"{seed}:{record.request_id}".encode(), digest_size=8).digest()
    order = random.Random(int.from_bytes(digest, "big")).sample(ids, len(ids))
    now_at = dict(zip(ids, order, strict=True))
    by_id = {chunk.chunk_id: chunk for chunk in packing.chunks}
    chunks = tuple(
        replace(by_id[now_at.get(chunk.chunk_id, chunk.chunk_id)], position=chunk.position) for chunk in packing.chunks
    )
    template = _template(record)
    if template is not None:
        template = _moved(template, now_at)
    return _with(record, replace(packing, chunks=chunks), template)


def _moved(template: str, now_at: Mapping[str, str]) -> str:
    """The template with each document's placeholder in the place of another's.

    Raises: Unexplained where a place says more of its document than a number: that would stand beside another one.
    """
    texts, places = parsed(template)
    masked = [_masked(text, number) for number, text in enumerate(texts[:-1], 1)]
    heads = {text.rpartition("\n")[2] for text in masked}
    is_titled = len(places) == 2 and len(heads) > 1 and any(map(str.isalpha, "".join(heads)))
    if len(set(masked[1:])) > 1 or is_titled:
        raise Unexplained("the prompt says of each document more than its number, so their places cannot be changed")
    moved = {placeholder(before): placeholder(now) for before, now in now_at.items()}
    parts = zip_longest(map(escaped, texts), (moved[place] for place in places), fillvalue="")
    return "".join(part for pair in parts for part in pair)


def _masked(text: str, number: int) -> str:
    """The text before the document with this number, without this number (counted from 0 or 1)."""
    return _NUMBER.sub(lambda found: "#" if found[0] in (str(number), str(number - 1)) else found[0], text)


def _shown(record: RequestRecord) -> tuple[Packing, list[PackedChunk]]:
    """The packing, and those of its chunks that stand in the prompt, each once."""
    packing, template = record.packing, _template(record)
    if packing is None or not packing.chunks:
        raise Unexplained("no documents were packed")
    marks = set(parsed(template)[1]) if template is not None else set()
    shown = [chunk for chunk in packing.chunks if template is None or placeholder(chunk.chunk_id) in marks]
    if len({chunk.chunk_id for chunk in packing.chunks}) < len(packing.chunks):
        raise Unexplained("a document stands in the prompt twice under the same id")
    if template is not None and len(marks) > len(shown):
        raise Unexplained("the prompt's template names a document that was not packed")
    return packing, shown


def _template(record: RequestRecord) -> str | None:
    """The template, if documents stand in it."""
    template = record.generation.prompt_template if record.generation is not None else None
    return template if template is not None and parsed(template)[1] else None


def _with(record: RequestRecord, packing: Packing, template: str | None) -> RequestRecord:
    """The record with this packing as its last known one, and this template in its last known generation."""
    stages: list[StageRun] = list(record.stages)
    pack = _last(stages, PackRun)
    stages[pack] = replace(stages[pack], packing=packing)
    if template is not None:
        at = _last(stages, GenerateRun)
        run = stages[at]
        assert isinstance(run, GenerateRun)
        stages[at] = replace(run, generation=replace(run.generation, prompt_template=template))
    return replace(record, stages=tuple(stages))


def _last(stages: Sequence[StageRun], kind: type[PackRun] | type[GenerateRun]) -> int:
    return max(place for place, run in enumerate(stages) if isinstance(run, kind) and run.is_known)


METHODS: Final = ("gp", "pmcshap")
"""The default estimator, and that of the paper."""
PERSISTENCE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Settling:
    """One request's estimate at one budget, against its reference.

    ranking: Spearman's correlation with the reference ranking. first: whether the same document comes first, or one
    that ties with it in the reference.
    warg_error: |WARG - WARG of the reference| at p = 0.9.
    """

    request_id: str
    k: int
    method: str
    budget: int
    exact_reference: bool
    weight: float
    ranking: float
    first: bool
    warg_error: float


@dataclass(frozen=True, slots=True)
class StabilityPoint:
    """All requests of a curve at one budget (distinct prompts that were scored)."""

    budget: int
    ranking: WeightedMean
    first: WeightedMean
    warg_error: WeightedMean


@dataclass(frozen=True, slots=True)
class StabilityCurve:
    """An estimator over requests with k documents. exact_reference: it is compared with exact values; otherwise with
    its own estimate at the largest budget, which flatters it."""

    model: str
    method: str
    k: int
    exact_reference: bool
    requests: int
    points: tuple[StabilityPoint, ...]


def settling_of(
    records: Sequence[RequestRecord],
    generator: GeneratorEngine,
    *,
    most: int,
    skipped: Skipped,
    methods: Sequence[str] = METHODS,
    on_progress: Callable[[], None] | None = None,
) -> list[Settling]:
    """Estimates with 2k, 4k, 8k ... prompts, up to `most`, of all records; exact values where 2^k is at most `most`.

    Raises: ServerError, ScoringStopped.
    """
    found: list[Settling] = []
    for record in records:
        with skipped.noted(record.request_id):
            found += _of_record(record, generator, most, methods)
        if on_progress is not None:
            on_progress()
    return found


def _of_record(record: RequestRecord, generator: GeneratorEngine, most: int, methods: Sequence[str]) -> list[Settling]:
    prompts = SubsetPrompts.of(record)
    ranking = ranking_of(record, prompts.documents)
    k = len(prompts.documents)
    if ranking is None:
        raise Unexplained("the documents' ranking is not known")
    if k < 2:
        raise Unexplained("a single document has only one order")
    is_exact = 1 << k <= most
    budgets = [k << step for step in range(1, most.bit_length()) if k << step < min(1 << k, most + 1)]
    if not budgets:
        raise Unexplained(f"{k} documents leave no budget between {2 * k} prompts and the reference")

    scoring = CheckedScoring(generator, like=prompts.of_documents(prompts.documents))

    def game(coalitions: Coalitions) -> Values:
        kept = [{each for each, stays in zip(prompts.documents, row, strict=True) if stays} for row in coalitions]
        return np.asarray(scoring.score([prompts.of_documents(each) for each in kept], prompts.answer))

    log = CoalitionLog(k)
    if is_exact:  # all at once: what the prompts share is read once
        log = shapley_values(game, k, method="exact", continue_from=log).log
    order = [prompts.documents.index(each) for each in ranking]
    found = []
    for method in methods:
        seed = seed_of(record)
        largest = (1 << k) if is_exact else budgets[-1]
        reference = shapley_values(game, k, method=method, budget=largest, seed=seed, continue_from=log)
        log = reference.log
        for budget in budgets if is_exact else budgets[:-1]:
            estimate = shapley_values(game, k, method=method, budget=budget, seed=seed, continue_from=log)
            log = estimate.log
            found.append(_settling(record, method, budget, is_exact, estimate.scores[order], reference.scores[order]))
    return found


def _settling(
    record: RequestRecord,
    method: str,
    budget: int,
    is_exact: bool,
    scores: NDArray[np.float64],
    reference: NDArray[np.float64],
) -> Settling:
    """scores, reference: `(k,)` in the retriever's order, whose ranking is thus 0, 1, ..., k - 1."""
    k = len(scores)
    places = range(k)
    now, final = (rank_by_score(places, each, tolerance=RESOLUTION).documents for each in (scores, reference))
    return Settling(
        request_id=record.request_id,
        k=k,
        method=method,
        budget=budget,
        exact_reference=is_exact,
        weight=sampling_weight(record.head_probability),
        ranking=spearman(now, final) or 0.0,
        first=bool(reference[int(np.argmax(scores))] >= reference.max() - RESOLUTION),
        warg_error=abs(warg(places, now, PERSISTENCE) - warg(places, final, PERSISTENCE)),
    )


def curves(settlings: Sequence[Settling], model: str, *, seed: int = 0) -> list[StabilityCurve]:
    """A curve for each method and number of documents: only equal k are put together."""
    by: defaultdict[tuple[int, str, bool], defaultdict[int, list[Settling]]] = defaultdict(lambda: defaultdict(list))
    for each in settlings:
        by[each.k, each.method, each.exact_reference][each.budget].append(each)
    return [
        StabilityCurve(
            model=model,
            method=method,
            k=k,
            exact_reference=is_exact,
            requests=max(map(len, by_budget.values())),
            points=tuple(_point(budget, by_budget[budget], seed) for budget in sorted(by_budget)),
        )
        for (k, method, is_exact), by_budget in sorted(by.items())
    ]


def _point(budget: int, members: Sequence[Settling], seed: int) -> StabilityPoint:
    weights = [settling.weight for settling in members]

    def over(values: Sequence[float]) -> WeightedMean:
        estimate = estimated(values, weights, seed)
        assert estimate is not None  # there are members
        return estimate

    return StabilityPoint(
        budget=budget,
        ranking=over([settling.ranking for settling in members]),
        first=over([float(settling.first) for settling in members]),
        warg_error=over([settling.warg_error for settling in members]),
    )
