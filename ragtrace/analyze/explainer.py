"""The explainer of requests that wait: one by one, as deep as their flags buy, within a daily budget of all workers.

What an explanation costs is counted before any server is asked: answers, scored prompts, vectors, tokens.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final, Literal

from ragtrace.analyze._generator_attribution import ClosedEngine, Engine, GeneratorEngine
from ragtrace.analyze._retriever_attribution import EmbeddingEngine, RetrieverEngine, retrieved_documents, words_of
from ragtrace.analyze._totals import attribution_deltas
from ragtrace.analyze.alignment import resting_on
from ragtrace.analyze.analysis import FLAGS
from ragtrace.analyze.attribution import ASKED, DOCUMENTS, PARTS, SIMILARITY, Part, explain_record
from ragtrace.analyze.prompts import SubsetPrompts, Unexplained, query_number, retrieval_queries
from ragtrace.analyze.scores import scores_of
from ragtrace.attribution import Method
from ragtrace.attribution.game import MAX_PLAYERS
from ragtrace.attribution.perturbation import SIMILARITIES
from ragtrace.attribution.shapley import default_budget
from ragtrace.config import SETTINGS
from ragtrace.engines.model_agnostic import prompt_sentences
from ragtrace.engines.model_names import is_silent
from ragtrace.engines.tokens import Baseline
from ragtrace.errors import (
    AttributionError,
    ConfigurationError,
    ModelError,
    RagtraceError,
    ScoringStopped,
    ServerError,
)
from ragtrace.explanations import Explanation
from ragtrace.store import ATTRIBUTION, Finished, Heartbeat, Job, Store
from ragtrace.types import Analysis, RequestRecord, encode_record, replace

__all__ = [
    "ATTRIBUTION_VERSION",
    "DAILY_SECONDS",
    "SETTLE",
    "Depths",
    "Explained",
    "Explainer",
    "ExplanationCost",
    "explanation_cost",
    "holding",
    "server_cost",
]

_log = logging.getLogger("ragtrace.analyze")


_HOST: Final = "host"
"""Stands for every flag that is the host application's own."""
_OURS: Final = (
    "error",
    "unfinished",
    "abstention",
    "low_retrieval_score",
    *FLAGS,
    "thumbs_down",
    "task_failure",
)
_DEFAULT: Final = ",".join(f"{flag}=generator+retriever" for flag in (*FLAGS, "thumbs_down", "task_failure", _HOST))
_NONE: Final = "none"
_WHOLE: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Depths:
    """The parts of an explanation that each flag buys, and the share of the random stratum that is explained; of
    `utility_rate` it is asked what each candidate is worth alone.

    A request that was drawn counts in the random stratum of the metrics, whatever its flags: were those with flags left
    out or added, the stratum would say nothing of all requests.
    """

    by_flag: Mapping[str, frozenset[Part]]
    rate: float = SETTINGS["explain_rate"].default
    utility_rate: float = SETTINGS["explain_utility_rate"].default

    @classmethod
    def parse(
        cls,
        text: str = _DEFAULT,
        rate: float = SETTINGS["explain_rate"].default,
        utility_rate: float = SETTINGS["explain_utility_rate"].default,
    ) -> Depths:
        """Read `FLAG=PART+PART,...`, parts being generator, query, retriever and utility; `none` for no flag.

        Raises: ConfigurationError for another form, an unknown part, or a rate outside of [0, 1].
        """
        for name, share in (("explain rate", rate), ("explain utility rate", utility_rate)):
            if not 0 <= share <= 1:
                raise ConfigurationError.of(name, share, "a number from 0 to 1")
        pairs = [] if text.strip() == _NONE else [each.partition("=") for each in text.split(",") if each.strip()]
        by_flag = {flag.strip(): frozenset(map(str.strip, parts.split("+"))) for flag, _, parts in pairs}
        if not all(flag and parts <= set(PARTS) for flag, parts in by_flag.items()):
            allowed = f"FLAG=PART+PART,... with the parts {', '.join(PARTS)}, or {_NONE}"
            raise ConfigurationError.of("explain", text, allowed)
        return cls(
            {flag: frozenset(part for part in PARTS if part in parts) for flag, parts in by_flag.items()},
            rate,
            utility_rate,
        )

    def is_drawn(self, record: RequestRecord) -> bool:
        """Whether it is among those of the random stratum that are explained; by its id, so always the same."""
        return _is_among(record, self.rate)

    def is_valued(self, record: RequestRecord) -> bool:
        """The same for the worth of its candidates."""
        return _is_among(record, self.utility_rate)

    def parts_of(self, record: RequestRecord) -> tuple[Part, ...]:
        """What of it is explained; nothing where an exception or an empty answer leaves nothing to explain."""
        answer = record.generation.answer if record.generation is not None else None
        if record.error is not None or not (answer or "").strip():
            return ()
        flags = [flag if flag in _OURS or flag in self.by_flag else _HOST for flag in record.flags]
        found: set[Part] = {part for flag in flags for part in self.by_flag.get(flag, ())}
        if self.is_drawn(record):
            found.add("generator")
        if self.is_valued(record):
            found.add("utility")
        return tuple(part for part in PARTS if part in found)


def _is_among(record: RequestRecord, share: float) -> bool:
    """Whether it is in this share of the random stratum; whoever is in a smaller one is in a larger one, too."""
    digest = hashlib.blake2b(record.request_id.encode(), digest_size=8, person=b"explain").digest()
    return record.head_sampled and int.from_bytes(digest, "big") < share * _WHOLE


ATTRIBUTION_VERSION: Final = "attribution-8"  # raise it whenever a change could give a stored request another result
DAILY_SECONDS: Final[float] = SETTINGS["explain_gpu_seconds"].default
SETTLE: Final[float] = SETTINGS["explain_settle"].default

_REFUSED: Final = (400, 413, 422)  # what a server says of a prompt that it cannot take

Outcome = Literal["done", "failed", "lost"]


@dataclass(frozen=True, slots=True)
class Explained:
    """How a job ended, and what it found where it was done."""

    outcome: Outcome
    record: RequestRecord | None = None
    analysis: Analysis | None = None


@dataclass(slots=True)
class Explainer:
    """A worker's models, and what they may cost.

    Args:
        depths: which parts a request's flags buy.
        method: which estimator gives the shares, and its settings.
        budget: the most prompts that an estimate of one request may score; None: as `shapley_values` has it.
        settle: ends an estimate early once, so surely, its first document and its flags will stay as they are; None:
            never. Of up to six documents the values are always exact.
        target_standard_error: ends an estimate early once no share has a larger error, in nats; None: never.
        daily_seconds: of a day (UTC) and by resource, `gpu` and `cpu`; None: no limit. Each worker may exceed it by the
            job at hand.
        documents, baseline: of the retriever's part; similarity, sentences: of a model that tells nothing but its
            answers; see `explain_record`.
        provider: what names the provider of a document in totals; empty: the worth of candidates counts nowhere.

    Raises: ConfigurationError without any model, or for a number that cannot be used.
    """

    generator: GeneratorEngine | ClosedEngine | None = None
    retriever: RetrieverEngine | EmbeddingEngine | None = None
    depths: Depths = field(default_factory=Depths.parse)
    method: Method = field(default_factory=Method)
    budget: int | None = None
    settle: float | None = SETTLE
    target_standard_error: float | None = None
    daily_seconds: Mapping[str, float] | None = field(
        default_factory=lambda: {"cpu": DAILY_SECONDS, "gpu": DAILY_SECONDS}
    )
    documents: int = DOCUMENTS
    baseline: Baseline = "unk"
    provider: str = ""
    similarity: str = SIMILARITY
    sentences: bool = False
    _told: str = field(default="", init=False)  # the day of which it was said that its budget is used up

    def __post_init__(self) -> None:
        if not self._engines:
            raise ConfigurationError("no model explains anything; give a generator, a retriever, or both")
        if self.budget is not None and self.budget < 2:
            raise ConfigurationError.of("explain budget", self.budget, "2 or more: the empty and the full prompt")
        if self.method.name == "exact" and self.budget is not None:
            raise ConfigurationError.of("explain budget", self.budget, "none: the method exact scores all prompts")
        if self.settle is not None and not 0.5 < self.settle < 1:
            raise ConfigurationError.of("explain settle", self.settle, "a confidence between 0.5 and 1, such as 0.9")
        if self.similarity not in SIMILARITIES:
            raise ConfigurationError.of("explain similarity", self.similarity, ", ".join(SIMILARITIES))
        error = self.target_standard_error
        if error is not None and not error > 0:
            raise ConfigurationError.of("explain error", error, "a standard error above 0, in nats")

    def explain_next(self, store: Store, owner: str, lease_seconds: float = 60.0) -> Explained | None:
        """Lease a job, explain its request, and commit the result; None where no job waits or the budget is used up.

        A model that cannot do it would fail again: the job is dead at once, with its reason. Other errors are tried
        again, up to the queue's cap.
        """
        if not self._affords(store):
            return None
        jobs = store.claim(owner, kinds=(ATTRIBUTION,), limit=1, lease_seconds=lease_seconds)
        if not jobs:
            return None
        with holding(store, jobs, lease_seconds):
            return self._worked(store, jobs[0])

    def _worked(self, store: Store, job: Job) -> Explained:
        try:
            record = store.get_record(job.request_id)
            if record is None:
                store.fail(job, "the request is no longer in the store", for_good=True)
                return Explained("failed")
            return self._committed(store, job, record, self._explained(store, job, record))
        except Exception as error:  # one request must not stop the others
            hopeless = _is_hopeless(error)
            if hopeless:
                _log.warning("request %s cannot be explained: %s", job.request_id, error)
            elif isinstance(error, RagtraceError):
                _log.warning("request %s was not explained, and will be tried again: %s", job.request_id, error)
            else:
                _log.exception("request %s cannot be explained", job.request_id)
            store.fail(job, f"{type(error).__name__}: {error}", for_good=hopeless)
            return Explained("failed")

    def _explained(self, store: Store, job: Job, record: RequestRecord) -> Explanation:
        """The explanation; that of an earlier revision where only flags and feedback have changed since."""
        parts = self.depths.parts_of(record)
        if job.flagged and set(parts) <= {"utility"}:  # somebody asked for it
            parts = (*ASKED, *parts)
        reference_answer = self._reference_answer(store, record) if "utility" in parts else ""
        fingerprint = self._fingerprint(record, parts, reference_answer)
        known = store.get_analysis(job.request_id, ATTRIBUTION)
        if known is not None and known.explanation is not None and known.explanation.fingerprint == fingerprint:
            return known.explanation
        self._announce(record, parts)
        started = time.perf_counter()
        try:
            found = explain_record(
                record,
                generator=self.generator,
                retriever=self.retriever,
                method=self.method,
                similarity=self.similarity,
                sentences=self.sentences,
                budget=self.budget,
                parts=parts,
                reference_answer=reference_answer,
                settle=self.settle,
                target_standard_error=self.target_standard_error,
                documents=self.documents,
                baseline=self.baseline,
                known=known.explanation if known is not None else None,
            )
        except Exception:
            self._spend(store, {self._resources[-1]: time.perf_counter() - started})
            raise
        self._spend(store, {"cpu": found.seconds - found.gpu_seconds, "gpu": found.gpu_seconds})
        return replace(found, fingerprint=fingerprint)

    def _announce(self, record: RequestRecord, parts: Sequence[Part]) -> None:
        """Say in the log what a request will ask of servers."""
        cost = server_cost(
            record,
            self.generator,
            self.retriever,
            parts=parts,
            sentences=self.sentences,
            similarity=self.similarity,
            budget=self.budget,
            documents=self.documents,
        )
        if cost is not None:
            _log.info("explaining request %s asks servers for at most %s", record.request_id, cost)

    def _committed(self, store: Store, job: Job, record: RequestRecord, found: Explanation) -> Explained:
        judged = store.get_analysis(record.request_id)
        analysis = Analysis(
            request_id=record.request_id,
            analyzer_version=ATTRIBUTION_VERSION,
            kind=ATTRIBUTION,
            record_revision=record.record_revision,
            scores=scores_of("attribution", found),
            claims=resting_on(judged.claims if judged is not None else (), found.generator),
            explanation=found,
            computed_at=time.time_ns(),
        )
        provider = self.provider if self.depths.is_valued(record) else ""
        deltas = attribution_deltas(record, analysis, drawn=not job.flagged, provider=provider)
        done = store.finish([Finished(job, analysis, deltas)])
        return Explained("done", record, analysis) if done else Explained("lost")

    @staticmethod
    def _reference_answer(store: Store, record: RequestRecord) -> str:
        """That of the question's gold set; "" where there is none."""
        asked = record.service, record.query.original
        gold = store.find_golds([asked]).get(asked)
        return gold.answer if gold is not None else ""

    def _fingerprint(self, record: RequestRecord, parts: tuple[str, ...], reference_answer: str) -> str:
        """Of all that an explanation depends on."""
        bare = replace(record, flags=(), feedback=(), record_revision=0)
        models = [(each.kind, each.name, each.revision) for each in self._engines]
        limits = (self.budget, self.settle, self.target_standard_error, self.similarity, self.sentences)
        how = repr((ATTRIBUTION_VERSION, parts, str(self.method), limits, self.documents, self.baseline, models))
        how += reference_answer
        return hashlib.blake2b(encode_record(bare) + how.encode(), digest_size=16).hexdigest()

    def _affords(self, store: Store) -> bool:
        if self.daily_seconds is None:
            return True
        spent = store.spent()
        used_up = {
            each: f"{spent.get(each, 0.0):.1f} of {self.daily_seconds[each]:g} {each} seconds"
            for each in self._resources
            if spent.get(each, 0.0) >= self.daily_seconds.get(each, float("inf"))
        }
        if used_up:
            self._tell(store, used_up)
        return not used_up

    def _tell(self, store: Store, used_up: Mapping[str, str]) -> None:
        """Say once a day that jobs wait for the next one."""
        today = time.strftime("%Y-%m-%d", time.gmtime(time.time()))
        waiting = store.queue_depth(ATTRIBUTION)["pending"] if self._told != today else 0
        if waiting:
            self._told = today
            options = " and ".join(f"--explain-{each}-seconds" for each in used_up)
            spent = ", ".join(used_up.values())
            _log.warning(
                "the day's budget is used up (%s): explanations that wait for midnight UTC, or a larger %s: %d",
                spent,
                options,
                waiting,
            )

    def _spend(self, store: Store, seconds: Mapping[str, float]) -> None:
        store.spend({each: taken for each, taken in seconds.items() if taken > 0}, budgets=self.daily_seconds)

    @property
    def _engines(self) -> list[Engine]:
        return [each for each in (self.generator, self.retriever) if each is not None]

    @property
    def _resources(self) -> list[str]:
        """What the models run on, a GPU last."""
        return sorted({"gpu" if each.device.startswith("cuda") else "cpu" for each in self._engines})


def _is_hopeless(error: BaseException) -> bool:
    """Whether another attempt would end in the same way: not where a server could not be asked."""
    if isinstance(error, ScoringStopped):
        return error.__cause__ is not None and _is_hopeless(error.__cause__)
    if isinstance(error, ServerError):
        return error.status in _REFUSED
    return isinstance(error, ModelError | AttributionError | ConfigurationError)


def holding(store: Store, jobs: Sequence[Job], lease_seconds: float) -> Heartbeat:
    """Prolongs the leases while it lasts: a model answers when it is done, not before."""
    what = f"{len(jobs)} requests"
    return Heartbeat(what, lease_seconds, lambda: bool(store.heartbeat(jobs, lease_seconds)))


_CHARACTERS: Final = 4  # of a token, as a guess


@dataclass(frozen=True, slots=True)
class ExplanationCost:
    """What is asked for at most.

    Attributes:
        answers: that a model gives of which nothing else is known.
        prompts: that a server scores behind the stored answer.
        vectors: texts that a server of embeddings reads.
        tokens: of all that is sent, a guess by the characters.
    """

    answers: int = 0
    prompts: int = 0
    vectors: int = 0
    tokens: int = 0

    def __str__(self) -> str:
        parts = [
            f"{count:,} {name}"
            for count, name in ((self.answers, "answers"), (self.prompts, "scored prompts"), (self.vectors, "vectors"))
            if count
        ]
        return f"{' and '.join(parts)}, about {self.tokens:,} tokens to read" if parts else "nothing"


def explanation_cost(
    record: RequestRecord,
    *,
    closed: bool = False,
    scored: bool = False,
    embedded: bool = False,
    parts: Collection[Part] = ("generator", "retriever"),
    sentences: bool = False,
    similarity: str = "",
    budget: int | None = None,
    documents: int = DOCUMENTS,
) -> ExplanationCost:
    """Count what `explain_record` would ask for, reading nothing but the record.

    closed: a generator gives answers alone. scored: it is behind a server that gives log-probabilities. embedded: the
    retriever is behind a server. budget, sentences, similarity, documents: as for `explain_record`. What cannot be
    explained costs nothing; estimates that end early, and prompts that are alike, cost less.
    """
    answers = prompts = characters = 0
    if (closed or scored) and {"generator", "query", "utility"} & set(parts):
        answers, prompts, characters = _of_answer(record, closed, parts, sentences, budget)
    compared = answers + 2 * (1 + sentences) if embedded and similarity == "cosine" and answers else 0
    vectors, read = _embedded(record, documents) if embedded and "retriever" in parts else (0, 0)
    return ExplanationCost(answers, prompts, vectors + compared, ceil((characters + read) / _CHARACTERS))


def server_cost(record: RequestRecord, generator: object, retriever: object, **how: Any) -> ExplanationCost | None:
    """What an explanation asks of the servers behind its models; None where there are none.

    how: as for `explanation_cost`. Raises: ServerError, as a chat is asked whether it gives log-probabilities.
    """
    embedded = isinstance(retriever, EmbeddingEngine) and retriever.device == "remote"
    closed = isinstance(generator, ClosedEngine) and is_silent(generator)
    scored = not closed and getattr(generator, "device", None) == "remote"
    if not (closed or scored or embedded):
        return None
    return explanation_cost(record, closed=closed, scored=scored, embedded=embedded, **how)


def _of_answer(
    record: RequestRecord, closed: bool, parts: Collection[Part], sentences: bool, budget: int | None
) -> tuple[int, int, int]:
    """Answers, scored prompts, and their characters."""
    try:
        found = SubsetPrompts.of(record)
    except Unexplained:
        return 0, 0, 0
    full, k = len(found.of_documents(found.documents)), len(found.documents)
    if closed:
        asked = k + 1 if k and "generator" in parts else 0
        if asked and sentences:
            asked += len(prompt_sentences(found.template, found.chunks, found.question))
        return asked, 0, asked * full
    alone = len(record.candidates) + 1 if "utility" in parts and record.candidates else 0
    players = [k] if "generator" in parts and k <= MAX_PLAYERS else []
    players += [min(len(found.words), MAX_PLAYERS)] if "query" in parts and found.has_question else []
    budgets = [min(default_budget(each) if budget is None else budget, 1 << each) for each in players if each]
    prompts = sum(budgets) + alone
    return 0, prompts, prompts * (full + len(found.answer))


def _embedded(record: RequestRecord, documents: int) -> tuple[int, int]:
    """The distinct texts whose vectors are asked for, and their characters; none of them is made."""
    queries = retrieval_queries(record)
    chunks = record.packing.chunks if record.packing is not None else ()
    kept = retrieved_documents(record, tuple(dict.fromkeys(chunk.chunk_id for chunk in chunks)))[:documents]
    asked = [queries[query_number(record, chunk_id)] for chunk_id, _ in kept]
    vectors = characters = 0
    for text in dict.fromkeys([*asked, *(text for _, text in kept)]):
        words = [word.text for word in words_of(text)]
        vectors += 1 + len(words)
        characters += len(text) * (1 + len(words)) - sum(map(len, words))
    return vectors, characters
