"""Totals of one analysis: what it adds to the indicators, histograms, diagnoses, losses and expenses that are exported.

Expenses are of each stage: wall time, tokens by who counted them, and cost by the host's prices. Counts that the
provider or the host reported win over those of the model's tokenizer, these over an estimate of a token for each four
characters. No price is built in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from math import isfinite
from typing import Any, Final, TypeAlias

from ragtrace.analyze._exposures import (
    UNNAMED,
    UsedBy,
    provider_of,
    request_exposures,
    used_documents,
    useful_documents,
    valued_documents,
)
from ragtrace.analyze.diagnosis import answered_right, stages_in_scope
from ragtrace.coverage import claim_supports
from ragtrace.coverage.values import date_ranges
from ragtrace.plausible_values import sampling_weight
from ragtrace.prompts import rebuild
from ragtrace.registry import instruments
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.registry.types import Instrument
from ragtrace.store import Delta, Exemplar, histogram_deltas
from ragtrace.types import (
    Analysis,
    Candidate,
    GenerateRun,
    PackRun,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageExpense,
    StageRun,
    TokenSource,
)

__all__ = [
    "CHARACTERS",
    "DATES",
    "LATE_AFTER_SECONDS",
    "STAGES_OF_RUNS",
    "CountTokens",
    "Prices",
    "analysis_deltas",
    "attribution_deltas",
    "candidate_ages",
    "stage_expenses",
]

LATE_AFTER_SECONDS: Final = 300.0  # the shortest alert window: a later result would page for what is long past
DATES: Final = (
    "updated_at", "last_updated", "updated", "last_modified", "last_modified_date", "modified_at", "modified",
    "published_at", "published", "published_date", "created_at", "creation_date", "date",
)  # fmt: skip
"""Keys of a candidate's metadata that state when its document changed; the first that can be read counts."""
_USED_BY: Final[tuple[UsedBy, ...]] = ("claims", "citations")
"""What says in each analysis which documents were used."""
_UNKNOWN: Final = "unknown"
"""The source of candidates that name none, and the model of a stage that names none."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = 86_400.0
_MONTH: Final = 31  # days; a date that is less precise says nothing of an age
_SCALES: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))  # numbers from there on are nano-, micro-, milliseconds


def analysis_deltas(record: RequestRecord, analysis: Analysis, *, now: int, provider: str = "") -> tuple[Delta, ...]:
    """Increments of the totals for a request's first completed analysis. `now`: nanoseconds since the epoch.

    provider: what names the provider of a document, as `provider_of` takes it; empty: nothing counts by provider.
    The states of the stages and exposure count only in time (`LATE_AFTER_SECONDS` after the request's end); later
    results are counted apart. With scope `conditional` a stage counts a request only where no earlier stage is broken
    or suspected.
    """
    labels = _Labels(record, analysis)
    late = now - record.ended_at > LATE_AFTER_SECONDS * 1e9
    deltas = [*_observed(record, analysis, labels), *_lag(record, labels, now)]
    if late:
        deltas.append(labels.count(instruments.LATE_EVALUATIONS))
    else:
        deltas.extend(_states(analysis, labels))
        if provider:
            deltas.extend(_exposed(record, analysis, labels, provider))
    return tuple(deltas)


def attribution_deltas(
    record: RequestRecord, analysis: Analysis, *, drawn: bool, provider: str = ""
) -> tuple[Delta, ...]:
    """Increments of the totals for a request's first explanation. drawn: at random, among all of the random stratum.

    provider: what names the provider of a document, where the request is one of those drawn to say what each of its
    candidates is worth; empty: that counts nowhere.
    """
    labels = _Labels(record, analysis, "random" if drawn else "flagged")
    return (*_scored(analysis, labels), *(_valued(record, analysis, labels, provider) if provider else ()))


def _valued(record: RequestRecord, analysis: Analysis, labels: _Labels, by: str) -> Iterator[Delta]:
    """How many candidates are useful alone, by provider, each request by its chance to be kept."""
    candidates = record.candidates
    found = valued_documents(analysis, candidates)
    if found is None:
        return
    weight = sampling_weight(record.head_probability)
    for candidate, is_useful in zip(candidates, found.flags, strict=True):
        given = {"provider": provider_of(candidate, by), "useful_by": found.by.replace("-", "_")}
        yield labels.count(instruments.PROVIDER_VALUED, weight, shown=False, **given)
        yield labels.count(instruments.PROVIDER_USEFUL, weight * is_useful, shown=False, **given)


def _exposed(record: RequestRecord, analysis: Analysis, labels: _Labels, by: str) -> Iterator[Delta]:
    """Exposure by provider, of the random stratum: each request counts by its chance to be kept."""
    if not record.head_sampled:
        return
    weight = sampling_weight(record.head_probability)
    candidates = record.candidates
    useful = useful_documents(analysis, candidates)
    reference = "none" if useful is None else useful.by
    for used_by in _USED_BY:
        used = used_documents(analysis, used_by)
        sums = request_exposures(record, candidates, by, useful, used)
        if isinstance(sums, str):
            return
        for provider, one in sums.items():
            counts = [(instruments.PROVIDER_ATTRIBUTED_EXPOSURE, one.used), (instruments.PROVIDER_MISUSED, one.misused)]
            if used_by == _USED_BY[0]:
                yield labels.count(instruments.PROVIDER_REQUESTS, provider=provider, shown=False)
                counts.append((instruments.PROVIDER_EXPOSURE, one.exposed))
                counts.append((instruments.PROVIDER_DESERVED_EXPOSURE, one.deserved))
            for instrument, places in counts:
                if places:
                    given = {"provider": provider, "used_by": used_by, "reference": reference}
                    yield labels.count(instrument, weight * places, shown=False, **given)


class _Labels:
    """Fills an instrument's labels from one request; what is not the request's is given by name."""

    def __init__(self, record: RequestRecord, analysis: Analysis, stratum: str | None = None) -> None:
        self._values = {
            "service": record.service,
            "segment": record.segment,
            "stratum": stratum or ("random" if record.head_sampled else "flagged"),
            "reference": analysis.reference,
            "judge": analysis.diagnosis.judge or "unknown",
        }
        self._trace_id = record.trace_id
        self._at = record.ended_at / 1e9

    def of(self, instrument: Instrument, **given: str) -> tuple[tuple[str, str], ...]:
        values = self._values | given
        return tuple((name, values[name]) for name in instrument.attributes)

    def count(self, instrument: Instrument, by: float = 1.0, *, shown: bool = True, **given: str) -> Delta:
        exemplar = self._exemplar(by) if shown else None
        return Delta(instrument.name, self.of(instrument, **given), by, exemplar)

    def observe(self, instrument: Instrument, value: float, **given: str) -> tuple[Delta, ...]:
        labels = self.of(instrument, **given)
        return histogram_deltas(instrument.name, labels, value, instrument.buckets, self._exemplar(value))

    def _exemplar(self, value: float) -> Exemplar | None:
        return Exemplar(self._trace_id, value, self._at) if self._trace_id else None


def _scored(analysis: Analysis, labels: _Labels) -> Iterator[Delta]:
    for score in analysis.scores:
        instrument = INSTRUMENTS[score.metric]
        if score.value is None:
            yield labels.count(instruments.UNDEFINED, metric=score.metric, reason=score.reason or "unknown")
        else:
            yield from labels.observe(instrument, score.value)


def _observed(record: RequestRecord, analysis: Analysis, labels: _Labels) -> Iterator[Delta]:
    yield from _scored(analysis, labels)
    for run in record.stages:
        yield from labels.observe(instruments.STAGE_DURATION, run.duration_ns / 1e9, stage=STAGES_OF_RUNS[type(run)])
    for expense in analysis.expenses:
        yield from _spent(expense, labels)
    for support in claim_supports(analysis.claims):
        yield from labels.observe(instruments.CLAIM_SUPPORT, support)
    for source, age in candidate_ages(record):
        yield from labels.observe(instruments.CANDIDATE_AGE, age, source=source)
    for loss in analysis.lost:
        yield labels.count(instruments.LOST_EVIDENCE, where=loss.where)
    yield from _graded(record, analysis, labels)
    verdict = analysis.diagnosis
    yield labels.count(instruments.DIAGNOSES, stage=verdict.stage or "none", verdict=verdict.verdict)


def _spent(expense: StageExpense, labels: _Labels) -> Iterator[Delta]:
    """Tokens and cost of a stage."""
    known: dict[str, Any] = {"stage": expense.stage, "model": expense.model or _UNKNOWN}
    for direction, tokens in (("input", expense.input_tokens), ("output", expense.output_tokens)):
        if tokens is not None and expense.counted is not None:
            counted = known | {"direction": direction, "counted": expense.counted}
            yield labels.count(instruments.STAGE_TOKENS, float(tokens), **counted)
    if expense.cost is not None:
        yield labels.count(instruments.STAGE_COST, expense.cost, **known)


def _graded(record: RequestRecord, analysis: Analysis, labels: _Labels) -> Iterator[Delta]:
    """The action that the grades say, and whether the host took it; and of the random stratum what became of the
    answer, where the verdict tells."""
    if (grading := analysis.grading) is None:
        return
    yield labels.count(instruments.RETRIEVAL_ACTIONS, action=grading.action)
    if grading.taken is not None:
        is_same = grading.taken == grading.action
        yield labels.count(instruments.HOST_ACTIONS, result="good" if is_same else "bad", shown=not is_same)
    found = analysis.diagnosis
    is_right = answered_right(found.stage, {finding.stage: finding.state for finding in found.stages})
    if record.head_sampled and is_right is not None:
        result, kind = "good" if is_right else "bad", grading.question_type
        yield labels.count(
            instruments.GRADED_ANSWERS, question_type=kind, action=grading.action, result=result, shown=not is_right
        )


def _lag(record: RequestRecord, labels: _Labels, now: int) -> tuple[Delta, ...]:
    """How long the result took; 0 where a clock that was set back makes it come before the request's end."""
    return labels.observe(instruments.ANALYZER_LAG, max(0, now - record.ended_at) / 1e9)


def _states(analysis: Analysis, labels: _Labels) -> Iterator[Delta]:
    """The state of each stage: sound and broken in the pair of counters that alerts divide, the others apart."""
    findings = analysis.diagnosis.stages
    in_scope = stages_in_scope({finding.stage: finding.state for finding in findings})
    for finding in findings:
        if finding.doubted:
            yield labels.count(instruments.SLI_DOUBTED_REQUESTS, stage=finding.stage)
        if finding.distant:
            yield labels.count(instruments.SLI_DISTANT_REQUESTS, stage=finding.stage)
        for scope in ("all", "conditional") if finding.stage in in_scope else ("all",):
            stage_labels: dict[str, Any] = {"stage": finding.stage, "scope": scope}
            if finding.state in ("sound", "broken"):  # the exemplar of an indicator is a broken request
                good = finding.state == "sound"
                yield labels.count(instruments.SLI_REQUESTS, shown=not good, **stage_labels)
                yield labels.count(instruments.SLI_GOOD_REQUESTS, float(good), shown=False, **stage_labels)
            else:
                why: dict[str, Any] = {"state": finding.state, "reason": finding.reason or "undecided"}
                yield labels.count(
                    instruments.SLI_UNJUDGED_REQUESTS, shown=finding.state == "suspected", **stage_labels, **why
                )


def candidate_ages(record: RequestRecord) -> Iterator[tuple[str, float]]:
    """Each source with the age in seconds, at the request's start, of its best-ranked candidate that states a date;
    nothing for a request that was kept for a flag alone.

    A date up to a day ahead is an age of 0 (zones, clocks); one further ahead says nothing of the past.
    """
    if not record.head_sampled:
        return
    seen: set[str] = set()
    for candidate in record.candidates:
        source = provider_of(candidate, "source").replace(UNNAMED, _UNKNOWN)
        if source in seen:
            continue
        changed = _changed(candidate)
        if changed is None:
            continue
        age = record.started_at / 1e9 - changed
        if age >= -_DAY:
            seen.add(source)
            yield source, max(0.0, age)


def _changed(candidate: Candidate) -> float | None:
    """When the candidate's document changed, in Unix seconds."""
    if not candidate.metadata:
        return None
    found = (_seconds(candidate.metadata.get(key)) for key in DATES)
    return next((each for each in found if each is not None), None)


def _seconds(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _of_number(float(value))
    return _of_text(value) if isinstance(value, str) else None


def _of_number(number: float) -> float | None:
    """Seconds, milliseconds, microseconds or nanoseconds since the epoch; not a year, nor a day of some calendar."""
    if not isfinite(number) or number < 1e8:
        return None
    return next((number / divisor for least, divisor in _SCALES if number >= least), number)


def _of_text(text: str) -> float | None:
    """A time in ISO 8601, in UTC where it names no zone; else the last day of the one date that the text states."""
    try:
        at = datetime.fromisoformat(text.strip()) if len(text) > len("2026-11-21") else None
    except ValueError:
        at = None
    if at is None:
        dates = date_ranges(text)
        if len(dates) != 1 or dates[0].days > _MONTH:
            return None
        at = datetime.combine(dates[0].last, time.min, UTC)
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) / timedelta(seconds=1)


CHARACTERS: Final = 4
"""Characters of a token in an estimate: about right for English prose, too few for code and other scripts."""
Prices: TypeAlias = Mapping[str, Mapping[str, float]]
"""By model, of a million tokens of `input` and `output`, and of a `call`."""
CountTokens: TypeAlias = Callable[[str], Callable[[str], int] | None]
"""What counts the tokens of a text for a model of this name; None where its tokenizer is not at hand."""
STAGES_OF_RUNS: Final[dict[type[StageRun], str]] = {
    RetrieveRun: "retrieve",
    RerankRun: "rerank",
    PackRun: "pack",
    GenerateRun: "generate",
}
_COMPONENTS: Final = {"retrieve": ("embedding", "retriever"), "rerank": ("reranker",), "generate": ("model",)}
_SURE: Final[tuple[TokenSource, ...]] = ("reported", "tokenizer", "estimate")
_MILLION: Final = 1e6
_LONGEST: Final = 200_000  # characters that a tokenizer is given; longer texts are estimated

_Count: TypeAlias = tuple[int, TokenSource] | None


def stage_expenses(
    record: RequestRecord, prices: Prices | None = None, tokenizers: CountTokens | None = None
) -> tuple[StageExpense, ...]:
    """The expenses of the stages that ran, each of all its runs, in the order of the path."""
    found = []
    for kind, stage in STAGES_OF_RUNS.items():
        runs = [run for run in record.stages if type(run) is kind]
        if runs:
            found.append(_expense(record, stage, runs, prices or {}, tokenizers))
    return tuple(found)


def _expense(
    record: RequestRecord, stage: str, runs: list[StageRun], prices: Prices, tokenizers: CountTokens | None
) -> StageExpense:
    models = [_model(record, stage, run) for run in runs]
    counts = [
        _tokens(record, run, tokenizers(model) if model and tokenizers else None)
        for run, model in zip(runs, models, strict=True)
    ]
    costs = [_cost(prices.get(model or ""), stage, *count) for model, count in zip(models, counts, strict=True)]
    given, made = _sum(count[0] for count in counts), _sum(count[1] for count in counts)
    sources = [count[1] for count in (given, made) if count is not None]
    return StageExpense(
        stage=stage,  # type: ignore[arg-type]  # of `STAGES_OF_RUNS`
        duration_ns=sum(run.duration_ns for run in runs),
        model=models[-1],
        input_tokens=given[0] if given else None,
        output_tokens=made[0] if made else None,
        counted=max(sources, key=_SURE.index) if sources else None,
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def _model(record: RequestRecord, stage: str, run: StageRun) -> str | None:
    """What the run names, else the version of the component that the stage asks; of packing the last generator, whose
    tokens it counts."""
    if isinstance(run, GenerateRun):
        return run.generation.model or record.versions.get("model")
    if stage == "pack":
        named = [run.generation.model for run in record.stages if isinstance(run, GenerateRun) and run.generation.model]
        return named[-1] if named else record.versions.get("model")
    return next((record.versions[name] for name in _COMPONENTS[stage] if name in record.versions), None)


def _tokens(record: RequestRecord, run: StageRun, reads: Callable[[str], int] | None) -> tuple[_Count, _Count]:
    """What a run's model read and wrote."""
    question = record.query.rewritten or record.query.original
    if isinstance(run, RetrieveRun):
        is_embedded = "embedding" in record.versions  # words alone read no tokens
        return (_count([run.query or question or None], reads) if is_embedded else None), None
    if isinstance(run, RerankRun):
        texts = {candidate.chunk_id: candidate.text for candidate in record.candidates}
        known = [texts.get(move.chunk_id) for move in run.moves if move.rank_before is not None]
        return _count([f"{question} {text}" if text else None for text in known], reads), None
    if isinstance(run, PackRun):
        parts = run.packing.chunks
        if parts and all(chunk.tokens is not None for chunk in parts):
            return None, (sum(chunk.tokens or 0 for chunk in parts), "reported")
        return None, _count([chunk.text for chunk in parts], reads)
    usage, made = run.generation.usage, run.generation
    given = usage.input_tokens if usage else None
    written = usage.output_tokens if usage else None
    return (
        _count([_prompt(record, made.prompt_template)], reads) if given is None else (given, "reported"),
        _count([made.answer], reads) if written is None else (written, "reported"),
    )


def _prompt(record: RequestRecord, template: str | None) -> str | None:
    try:
        return rebuild(template, record.packing.chunks if record.packing else ()) if template is not None else None
    except ValueError:  # a text that was not kept
        return None


def _count(texts: list[str | None], reads: Callable[[str], int] | None) -> _Count:
    """The tokens of texts; None where one was not kept."""
    kept = [text for text in texts if text is not None]
    if not kept or len(kept) < len(texts):
        return None
    if reads is not None and sum(map(len, kept)) <= _LONGEST:
        return sum(map(reads, kept)), "tokenizer"
    return sum(-(-len(text) // CHARACTERS) for text in kept), "estimate"


def _sum(counts: Iterable[_Count]) -> _Count:
    """Of all runs, by the least sure way; None where one is not known: a part would be taken for the whole."""
    known = list(counts)
    if not known or any(count is None for count in known):
        return None
    sure = [count for count in known if count is not None]
    return sum(number for number, _ in sure), max((source for _, source in sure), key=_SURE.index)


def _cost(price: Mapping[str, float] | None, stage: str, given: _Count, made: _Count) -> float | None:
    """Of a run by the price of its model; None without one, or where tokens with a price are not known."""
    if price is None or stage == "pack":
        return None
    priced = {"input": given} | ({"output": made} if stage == "generate" else {})
    cost = price.get("call", 0.0)
    for part, count in priced.items():
        if price.get(part) and count is None:
            return None
        cost += (count[0] if count else 0) * price.get(part, 0.0) / _MILLION
    return cost
