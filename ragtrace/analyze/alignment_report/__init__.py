"""The paper's analyses over a store: failure rates, WARG, its stability, and the words that retrieval goes by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, get_args

from ragtrace.analyze._generator_attribution import GeneratorEngine
from ragtrace.analyze._retriever_attribution import EmbeddingEngine, RetrieverEngine
from ragtrace.analyze.alignment_report._rates import (
    ORIGINAL,
    RESAMPLES,
    AgainstChance,
    ExplainedRequest,
    Group,
    GroupRates,
    Observation,
    PlaceShares,
    Stratum,
    Sweep,
    WeightedMean,
    estimated,
    observed,
    place_shares,
    rates,
    read_explained,
)
from ragtrace.analyze.alignment_report._rescoring import (
    CONDITIONS,
    Skipped,
    StabilityCurve,
    StabilityPoint,
    check_condition,
    curves,
    reexplained,
    rescored,
    sampled_records,
    settling_of,
    under_condition,
)
from ragtrace.analyze.alignment_report._words import (
    MassShare,
    Overlap,
    Tagging,
    WordSample,
    overlaps,
    sampled_words,
    shares,
)
from ragtrace.errors import ConfigurationError
from ragtrace.store import Store

__all__ = [
    "CONDITIONS",
    "AgainstChance",
    "AlignmentReport",
    "Basis",
    "Group",
    "GroupRates",
    "MassShare",
    "OnProgress",
    "Overlap",
    "PlaceShares",
    "Skipped",
    "StabilityCurve",
    "StabilityPoint",
    "Sweep",
    "WeightedMean",
    "alignment_report",
    "estimated",
    "sampled_records",
    "under_condition",
]


OnProgress: TypeAlias = Callable[[str, int, int], None]
"""Takes what is being done, how many requests are done, and of how many."""
_REASONS: Final = 10  # that are listed
_NO_ALIGNMENT = "the documents' ranking is not known"


@dataclass(frozen=True, slots=True)
class Basis:
    """What a part of the report rests on.

    source: stored explanations, or requests scored now. stratum: random: requests drawn at random, weighted by the
    inverse of the probability with which they were sampled; flagged: those that flags had explained, which speak for no
    others. requests: how many. left_out: requests of the other stratum. skipped: reasons why others are missing.
    """

    source: Literal["stored", "rescored"]
    stratum: Stratum
    requests: int = 0
    left_out: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """The analyses of RAG-E over a store: `rates` are Tables 2 and 3, `places` Figure 5, `overlap` Table 10, `pos`
    appendix G; `stability` is how estimates settle. Intervals are 95 % bootstrap intervals over requests."""

    basis: Basis
    rates: tuple[GroupRates, ...]
    places: tuple[PlaceShares, ...]
    words_basis: Basis
    overlap: tuple[Overlap, ...]
    pos: tuple[MassShare, ...]
    stability_basis: Basis | None
    stability: tuple[StabilityCurve, ...]
    pipeline: str | None
    seed: int
    resamples: int = RESAMPLES


@dataclass(slots=True)
class _StoredObservations:
    """The observations and word samples of all explained requests.

    drawn, with_retrieval: requests that were explained because they were drawn, and those of them whose retrieval was.
    """

    observations: list[Observation] = field(default_factory=list)
    words: list[WordSample] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    drawn: int = 0
    with_retrieval: int = 0

    @classmethod
    def read(
        cls, store: Store, *, service: str | None = None, since: int | None = None, tagging: Tagging | None = None
    ) -> _StoredObservations:
        """Read them all. since: only requests that started then or later, in nanoseconds."""
        stored = cls()
        for explained in read_explained(store, service=service, since=since):
            stored._add(explained, tagging)
        return stored

    def _add(self, explained: ExplainedRequest, tagging: Tagging | None) -> None:
        found = explained.explanation
        self.drawn += explained.drawn
        self.with_retrieval += explained.drawn and bool(found.retriever)
        observation = observed(explained)
        if observation is not None:
            self.observations.append(observation)
        elif found.generator is not None or "generator" in found.skipped:
            reason = found.skipped.get("alignment") or found.skipped.get("generator") or _NO_ALIGNMENT
            self.skipped[reason] += 1
        sample = sampled_words(explained, tagging)
        if sample is not None:
            self.words.append(sample)

    def observations_of(self, stratum: Stratum) -> list[Observation]:
        """Those of one stratum."""
        return [each for each in self.observations if each.drawn is (stratum == "random")]

    def words_of(self, stratum: Stratum) -> tuple[Stratum, list[WordSample]]:
        """Those of one stratum, and which one that is: retrieval that only flags had explained is never random."""
        if self.drawn and self.with_retrieval == self.drawn:
            return stratum, [each for each in self.words if each.drawn is (stratum == "random")]
        return "flagged", [replace(each, weight=1.0) for each in self.words]


def alignment_report(
    store: Store,
    *,
    service: str | None = None,
    since: int | None = None,
    stratum: str = "random",
    generator: GeneratorEngine | None = None,
    retriever: RetrieverEngine | EmbeddingEngine | None = None,
    tagging: Tagging | None = None,
    conditions: Sequence[str] = (ORIGINAL,),
    limit: int = 50,
    budget: int | None = None,
    stability: int | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> AlignmentReport:
    """Analyze the stored explanations, or with models up to `limit` sampled requests that are scored now.

    Args:
        since: only requests that started then or later, in nanoseconds.
        stratum: random or flagged, of the stored explanations; what is scored now is always of the random one.
        generator: scores the stored answers under all `conditions`, in place of what is stored.
        retriever: explains the retrieval of the same requests, in place of what is stored.
        tagging: gives parts of speech.
        budget: the most prompts of each estimate.
        stability: the most prompts of each request for the stability curves, which need a generator; None: no curves.
        seed: of shuffled orders and of intervals.

    Raises: ConfigurationError for arguments that do not fit together, StoreError, ServerError.
    """
    chosen = _stratum(stratum)
    _check(generator, conditions, limit, stability)
    asked = sampled_records(store, limit, service=service, since=since) if generator or retriever else []

    def progress(name: str) -> Callable[[], None]:
        done = Counter[str]()

        def one() -> None:
            done[name] += 1
            if on_progress is not None:
                on_progress(name, done[name], len(asked))

        return one

    stored = _StoredObservations()
    if generator is None or retriever is None:
        stored = _StoredObservations.read(store, service=service, since=since, tagging=tagging)
    if generator is None:
        observations = stored.observations_of(chosen)
        left_out = len(stored.observations) - len(observations)
        basis = Basis("stored", chosen, len(observations), left_out, _listed(stored.skipped))
    else:
        skipped = Skipped()
        observations = rescored(
            asked, generator, conditions, skipped=skipped, budget=budget, seed=seed, on_progress=progress("conditions")
        )
        basis = _rescored(observations, skipped)
    if retriever is None:
        words_stratum, words = stored.words_of(chosen)
        words_basis = Basis("stored", words_stratum, len(words), len(stored.words) - len(words))
    else:
        skipped = Skipped()
        found = reexplained(asked, retriever, skipped=skipped, on_progress=progress("retrieval"))
        words = [sample for each in found if (sample := sampled_words(each, tagging)) is not None]
        words_basis = _rescored(words, skipped)
    stability_basis: Basis | None = None
    settled: list[StabilityCurve] = []
    if generator is not None and stability is not None:
        skipped = Skipped()
        settlings = settling_of(asked, generator, most=stability, skipped=skipped, on_progress=progress("stability"))
        settled = curves(settlings, generator.name, seed=seed)
        requests = len({each.request_id for each in settlings})
        stability_basis = Basis("rescored", "random", requests, 0, _listed(skipped.reasons))
    return AlignmentReport(
        basis=basis,
        rates=tuple(rates(observations, seed=seed)),
        places=tuple(place_shares(observations, seed=seed)),
        words_basis=words_basis,
        overlap=tuple(overlaps(words, seed=seed)),
        pos=tuple(shares(words, seed=seed)),
        stability_basis=stability_basis,
        stability=tuple(settled),
        pipeline=tagging.name if tagging is not None else None,
        seed=seed,
    )


def _stratum(name: str) -> Stratum:
    known: tuple[Stratum, ...] = get_args(Stratum)
    for each in known:
        if each == name:
            return each
    raise ConfigurationError.of("stratum", name, " or ".join(known))


def _check(generator: GeneratorEngine | None, conditions: Sequence[str], limit: int, stability: int | None) -> None:
    for condition in conditions:
        check_condition(condition)
    if not conditions:
        raise ConfigurationError("no condition is given; give at least original")
    if limit < 1:
        raise ConfigurationError.of("limit", limit, "1 or more requests")
    if generator is None and (stability is not None or tuple(conditions) != (ORIGINAL,)):
        raise ConfigurationError(
            "other conditions and stability curves are scored by a model; give a generator (--generator MODEL)"
        )
    if stability is not None and stability < 8:
        raise ConfigurationError.of("stability", stability, "8 prompts or more, such as 1024")


def _rescored(found: Sequence[Observation] | Sequence[WordSample], skipped: Skipped) -> Basis:
    requests = len({each.request_id for each in found})
    return Basis("rescored", "random", requests, 0, _listed(skipped.reasons))


def _listed(reasons: Counter[str]) -> dict[str, int]:
    return dict(reasons.most_common(_REASONS))
