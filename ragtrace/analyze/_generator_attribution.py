"""The generator's part of an explanation: what the answer was made from, and what each candidate is worth to it.

Shapley values of a prompt's documents, or of its question's words, for the tokens of the answer. Models are handed in:
`ragtrace.engines` has them, a test may bring its own.

The worth of a candidate is the answer with this document alone against the answer with none. Where a reference answer
is known, the model answers anew and its answers are compared with it; else it says how likely the recorded answer is. A
document of a positive worth is useful, whether or not it was packed: what exposure holds against the exposure that
there was. Source: Kim and Diaz, "Towards Fair RAG", section 3.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze.prompts import SubsetPrompts, Unexplained
from ragtrace.attribution import Method, ShapleyValues
from ragtrace.attribution.game import MAX_PLAYERS, CoalitionLog, Coalitions, Values, decode, encode
from ragtrace.attribution.perturbation import SIMILARITIES
from ragtrace.attribution.shapley import default_budget
from ragtrace.attribution.spans import Phrase, phrases, refined
from ragtrace.engines.causal_lm import CausalLM, CheckedScoring, Generated
from ragtrace.engines.model_agnostic import Encoding, SimilarityGame, leave_documents_out, leave_sentences_out, standing
from ragtrace.engines.model_names import is_silent
from ragtrace.errors import AttributionError, ConfigurationError
from ragtrace.explanations import CoalitionScores, GeneratorAttribution, ItemUtilities, MethodShares, Precision
from ragtrace.exposure import rouge_l
from ragtrace.types import Candidate, RequestRecord, replace

__all__ = [
    "ClosedEngine",
    "Engine",
    "GeneratorEngine",
    "LeavingOut",
    "Stopping",
    "attention_of_documents",
    "compare_methods",
    "explain_documents",
    "explain_words",
    "item_utilities",
    "leave_out_documents",
]


class Engine(Protocol):
    """A model with what is stored beside its results."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def kind(self) -> str:
        """`causal_lm`, `http`, `encoder` or `cross_encoder`."""
        ...

    @property
    def revision(self) -> str | None:
        """The revision of the model's files, where it is known."""
        ...

    @property
    def device(self) -> str:
        """`cpu`, `cuda` and the like, or `remote`."""
        ...


@runtime_checkable
class GeneratorEngine(Engine, Protocol):
    """A language model that scores a given answer."""

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """Log-probabilities of each token of the answer behind each prompt: `(prompts, answer tokens)`."""
        ...

    def answer_places(self, prompt: str, answer: str) -> Sequence[tuple[int, int]]:
        """Where each of these tokens stands in the answer: (start, end) offsets."""
        ...


@runtime_checkable
class ClosedEngine(Engine, Protocol):
    """A language model of which nothing but its answers is known."""

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> Sequence[Generated]:
        """An answer to each prompt."""
        ...


@dataclass(frozen=True, slots=True)
class Stopping:
    """When an estimate ends before its budget; see `shapley_values`. Exact values that cost little are always computed.

    settle: the confidence at which the best document and both flags are those of the estimate.
    target_standard_error: the largest standard error of a share, in nats.
    """

    settle: float | None = None
    target_standard_error: float | None = None


@dataclass(frozen=True, slots=True)
class LeavingOut:
    """How a model is explained that tells nothing but its answers. Source: RAG-Ex (Sudhi et al.).

    similarity: by which answers are compared, a name of `SIMILARITIES`. encoder: gives the vectors that `cosine`
    compares. sentences: whether each sentence of the prompt is left out as well.
    """

    similarity: str = "ngram-jaccard"
    encoder: Encoding | None = None
    sentences: bool = False


_NEVER: Final = Stopping()
_AUTO: Final = Method()


def explain_documents(
    prompts: SubsetPrompts,
    engine: GeneratorEngine,
    *,
    ranking: Sequence[str],
    method: Method = _AUTO,
    compared: Sequence[Method] = (),
    budget: int | None = None,
    seed: int = 0,
    stopping: Stopping = _NEVER,
    known: GeneratorAttribution | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> GeneratorAttribution:
    """Shapley values of the documents. ranking: their order of retrieval, by which `stopping` judges. compared: further
    methods that read the same subsets. known: an earlier attribution, from which the same model goes on.

    Raises: Unexplained for no document or more than 30, ModelError and AttributionError of the model,
    ConfigurationError for a budget that the method cannot use.
    """
    documents = prompts.documents
    _check("documents", len(documents))

    def prompt_of(kept: Sequence[bool]) -> str:
        return prompts.of_documents({each for each, stays in zip(documents, kept, strict=True) if stays})

    full = prompts.of_documents(documents)
    game = PromptGame(engine, prompts.answer, full, len(documents), prompt_of, on_progress, known)
    order = [documents.index(each) for each in ranking]
    found = game.solved(method=method, budget=budget, seed=seed, stopping=stopping, ranking=order)
    stored = _stored("documents", found, game, seed, chunk_ids=documents)
    settings = method.settings(found)
    by_others = tuple(_by_method(each, found.log, seed) for each in compared)
    return replace(stored, settings=settings, drops=_drops(found), compared=by_others)


def compare_methods(found: GeneratorAttribution, methods: Sequence[Method]) -> GeneratorAttribution:
    """The same with what other methods make of the subsets that are stored; no model is needed.

    Raises: AttributionError where none are stored: of exact values, and of weights by leaving documents out.
    """
    if found.log is None:
        raise AttributionError("the subsets that were scored are not stored with these values")
    log = _read(found.log, len(found.chunk_ids))
    return replace(found, compared=tuple(_by_method(each, log, found.seed) for each in methods))


def _by_method(method: Method, log: CoalitionLog, seed: int) -> MethodShares:
    """On a complete log a method reads half of it: with all of it each one is exact."""
    k = log.n_players
    is_complete = len(log) == 1 << k and method.name != "exact"
    try:
        found = method.known_values(log, budget=max(len(log) // 2, k + 1) if is_complete else None, seed=seed)
    except (AttributionError, ConfigurationError) as error:
        return MethodShares(method=str(method), skipped=str(error))
    return MethodShares(
        method=found.method,
        settings=method.settings(found),
        evaluations=found.n_evaluations,
        exact=found.exact,
        shares=tuple(found.scores.tolist()),
        share_errors=_share_errors(found),
    )


def _share_errors(found: ShapleyValues) -> tuple[float | None, ...]:
    """Standard errors of the shares; None where the estimator gives none."""
    if found.reason is not None:
        return (None,) * len(found.values)
    return tuple(np.sqrt(np.clip(np.diagonal(found.covariance), 0, None)).tolist())


def leave_out_documents(prompts: SubsetPrompts, engine: ClosedEngine, how: LeavingOut) -> GeneratorAttribution:
    """How much the answer changes without each document, for a model that tells nothing but its answers; and without
    each sentence of the prompt, where that is wanted.

    Raises: Unexplained for no document, ConfigurationError for `cosine` without an encoder, ModelError of the model.
    """
    _check("documents", len(prompts.documents))
    if how.similarity == "cosine" and how.encoder is None:
        raise ConfigurationError(
            "the similarity cosine compares vectors of answers; give a retriever that makes them (--retriever MODEL "
            f"or embed:URL#NAME), or one of {', '.join(each for each in SIMILARITIES if each != 'cosine')}"
        )
    game = SimilarityGame(
        engine,
        prompts.template,
        prompts.chunks,
        answer=prompts.answer,
        similarity=how.similarity,
        encoder=how.encoder if how.similarity == "cosine" else None,
        question=prompts.question,
    )
    found = leave_documents_out(game)
    parts = leave_sentences_out(game) if how.sentences else ()
    evaluations = found.evaluations + len(parts)
    return replace(found, engine=engine.kind, revision=engine.revision, parts=parts, evaluations=evaluations)


def explain_words(
    prompts: SubsetPrompts,
    engine: GeneratorEngine,
    *,
    method: Method = _AUTO,
    budget: int | None = None,
    seed: int = 0,
    target_standard_error: float | None = None,
    known: GeneratorAttribution | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> GeneratorAttribution:
    """Shapley values of the question's words, with the documents fixed. Raises: as `explain_documents`.

    Of more than 30 words phrases are asked for, at most 30: those in which a first look finds most are cut to words.

    method: "exact" is of documents; of 13 words it would score 8,192 prompts, and is taken for "auto".
    """
    if not prompts.has_question:
        raise Unexplained("the question does not stand in the prompt as it was asked")
    words = prompts.words
    _check_some("words in the question", len(words))
    method = _AUTO if method.name == "exact" else method
    full = prompts.of_documents(prompts.documents)

    def game_of(groups: Sequence[Phrase], known: GeneratorAttribution | None, done: int) -> PromptGame:
        def prompt_of(kept: Sequence[bool]) -> str:
            return prompts.of_words([stays for stays, (a, b) in zip(kept, groups, strict=True) for _ in range(a, b)])

        return PromptGame(engine, prompts.answer, full, len(groups), prompt_of, on_progress, known, done)

    groups: Sequence[Phrase] = [(at, at + 1) for at in range(len(words))]
    looked = 0
    if len(words) > MAX_PLAYERS:
        budget = default_budget(MAX_PLAYERS) if budget is None else budget
        groups, looked = _groups_before(known, prompts)
        if not groups:
            known = None
            groups, looked = _groups(
                prompts, lambda coarse, most: _look(game_of(coarse, None, 0), method, most, seed), budget
            )
        budget -= min(looked, _most_looked(budget))  # the earlier look may have been for a larger budget
    game = game_of(groups, known, looked)
    stopping = Stopping(target_standard_error=target_standard_error)
    found = game.solved(method=method, budget=budget, seed=seed, stopping=stopping)
    spans = tuple((words[first].start, words[last - 1].end) for first, last in groups)
    places = tuple((word.start, word.end) for word in words) if len(groups) < len(words) else ()
    stored = _stored("words", found, game, seed, query_spans=spans)
    evaluations = found.n_evaluations + looked
    return replace(stored, settings=method.settings(found), query_words=places, evaluations=evaluations)


def _look(game: PromptGame, method: Method, budget: int, seed: int) -> ShapleyValues:
    return game.solved(method=method, budget=budget, seed=seed, stopping=_NEVER)


def _groups(
    prompts: SubsetPrompts, look: Callable[[Sequence[Phrase], int], ShapleyValues], budget: int
) -> tuple[list[Phrase], int]:
    """The phrases of a long question, cut further where a first look at a few finds most; and what the look took.

    It takes a quarter of the budget, and is left out where that is too little to tell the phrases apart.
    """
    few, most = MAX_PLAYERS // 2, _most_looked(budget)
    if most < 2 * few:
        return phrases(prompts.question, prompts.words, MAX_PLAYERS), 0
    coarse = phrases(prompts.question, prompts.words, few)
    found = look(coarse, most)
    masses = np.abs(found.scores).tolist()
    return refined(prompts.question, prompts.words, coarse, masses, MAX_PLAYERS), found.n_evaluations


def _most_looked(budget: int) -> int:
    """Of the budget, what a first look may take."""
    return budget // 4


def _groups_before(known: GeneratorAttribution | None, prompts: SubsetPrompts) -> tuple[list[Phrase], int]:
    """The phrases of an earlier attribution of the same words, and what the first look at them took; else none."""
    places = tuple((word.start, word.end) for word in prompts.words)
    if known is None or known.log is None or known.query_words != places:
        return [], 0
    firsts = [[start for start, _ in places].index(start) for start, _ in known.query_spans]
    looked = max(known.evaluations - len(known.log.coalitions), 0)
    return list(zip(firsts, [*firsts[1:], len(places)], strict=True)), looked


def _drops(found: ShapleyValues) -> tuple[tuple[float, ...], ...]:
    """What each token of the answer loses without each document; empty for a document whose subset was not scored."""
    kept, values = np.asarray(found.log.coalitions, dtype=bool), found.log.values
    whole = values[kept.all(axis=1)]
    rows = (values[~kept[:, player] & (kept.sum(axis=1) == kept.shape[1] - 1)] for player in range(kept.shape[1]))
    return tuple(tuple((whole[0] - row[0]).tolist()) if len(whole) and len(row) else () for row in rows)


def _check_some(players: str, number: int) -> None:
    if number == 0:
        raise Unexplained(f"there are no {players}")


def _check(players: str, number: int) -> None:
    _check_some(players, number)
    if number > MAX_PLAYERS:
        raise Unexplained(f"{number} {players}; at most {MAX_PLAYERS} can be attributed to")


def _stored(
    players: Literal["documents", "words"],
    shapley: ShapleyValues,
    game: PromptGame,
    seed: int,
    *,
    chunk_ids: tuple[str, ...] = (),
    query_spans: tuple[tuple[int, int], ...] = (),
) -> GeneratorAttribution:
    covariance = shapley.covariance.tolist() if shapley.reason is None else []
    return GeneratorAttribution(
        players=players,
        chunk_ids=chunk_ids,
        query_spans=query_spans,
        answer_spans=game.places(shapley.values.shape[1]),
        values=tuple(tuple(row) for row in shapley.values.tolist()),
        shares=tuple(shapley.scores.tolist()),
        share_errors=_share_errors(shapley),
        share_covariance=tuple(tuple(row) for row in covariance),
        empty=float(shapley.empty.mean()),
        full=float(shapley.full.mean()),
        method=shapley.method,
        exact=shapley.exact,
        stopped=shapley.stopped,
        evaluations=shapley.n_evaluations,
        seed=seed,
        engine=game.engine.kind,
        model=game.engine.name,
        revision=game.engine.revision,
        precision=game.precision,
        log=game.kept(shapley),
    )


@dataclass(slots=True)
class PromptGame:
    """A game over the prompts of one request, whose players are documents or words.

    Attributes:
        engine: scores the answer.
        full: the prompt with all players.
        prompt_of: the prompt with those that are kept.
        known: an earlier attribution by the same game, whose scores are not computed again.
    """

    engine: GeneratorEngine
    answer: str
    full: str
    n_players: int
    prompt_of: Callable[[Sequence[bool]], str]
    on_progress: Callable[[int], None] | None = None
    known: GeneratorAttribution | None = None
    done: int = 0
    _scoring: CheckedScoring = field(init=False)

    def __post_init__(self) -> None:
        if self.known is not None and not self._is_same(self.known):
            self.known = None
        before = self.known.precision if self.known is not None else None
        self._scoring = CheckedScoring(self.engine, before, like=self.full)

    def __call__(self, coalitions: Coalitions) -> Values:
        """The answer's log-probabilities behind the prompts of these coalitions.

        Raises: Unexplained for an answer in which the model sees no token, such as one of invisible characters.
        """
        prompts = [self.prompt_of([bool(each) for each in row]) for row in coalitions]
        values = self._scoring.score(prompts, self.answer)
        if not np.shape(values)[1]:
            raise Unexplained("the model reads no token in the answer")
        self.done += len(prompts)
        if self.on_progress is not None:
            self.on_progress(self.done)
        return np.asarray(values, dtype=np.float64)

    def solved(
        self,
        *,
        budget: int | None,
        seed: int,
        stopping: Stopping,
        method: Method = _AUTO,
        ranking: Sequence[int] | None = None,
    ) -> ShapleyValues:
        """The Shapley values; an earlier run goes on. Raises: as `shapley_values`."""
        k = self.n_players
        ends = stopping if 1 << k > default_budget(k) else _NEVER
        log = _read(self.known.log, k) if self.known is not None and self.known.log is not None else None

        def solve(log: CoalitionLog | None) -> ShapleyValues:
            return method.values(
                self,
                k,
                budget=budget,
                seed=seed,
                ranking=ranking,
                settle=ends.settle,
                target_standard_error=ends.target_standard_error,
                continue_from=log,
            )

        found = solve(log)
        if log is not None and self._mixes_precisions():
            return solve(None)
        return found

    @property
    def precision(self) -> Precision | None:
        """How the values compare with float32; None where they are of float32, or of a server."""
        if self._scoring.precision is None and self.known is not None:
            return self.known.precision
        return self._scoring.precision

    def kept(self, found: ShapleyValues) -> CoalitionScores | None:
        """What is stored, so that a larger budget goes on from it; nothing where the values are exact."""
        if found.exact:
            return None
        codes = tuple(encode(found.log.coalitions).tolist())
        values = found.log.values.astype("<f4").tobytes()
        return CoalitionScores(prompt=self._digest, coalitions=codes, values=values)

    def places(self, tokens: int) -> tuple[tuple[int, int], ...]:
        """Where the scored tokens stand; none where the model cannot say."""
        places = self.engine.answer_places(self.full, self.answer)
        return tuple((int(start), int(end)) for start, end in places) if len(places) == tokens else ()

    @property
    def _digest(self) -> str:
        return hashlib.blake2b(f"{self.full}\0{self.answer}".encode("utf-8", "replace"), digest_size=8).hexdigest()

    def _is_same(self, known: GeneratorAttribution) -> bool:
        engine = self.engine
        made_by = (known.engine, known.model, known.revision) == (engine.kind, engine.name, engine.revision)
        return made_by and known.log is not None and known.log.prompt == self._digest

    def _mixes_precisions(self) -> bool:
        """Whether it was found out now only that float32 is needed."""
        now, before = self._scoring.precision, self.known.precision if self.known is not None else None
        return now is not None and now.repeated and not (before is not None and before.repeated)


def _read(kept: CoalitionScores, n_players: int) -> CoalitionLog:
    values = np.frombuffer(kept.values, dtype="<f4").astype(np.float64).reshape(len(kept.coalitions), -1)
    return CoalitionLog(n_players, decode(np.array(kept.coalitions, dtype=np.int64), n_players), values)


def attention_of_documents(prompts: SubsetPrompts, model: CausalLM) -> tuple[float, ...]:
    """The sum over each document's tokens, in the order of `prompts.documents`. A token belongs to where it ends.

    Raises: ModelError of the model.
    """
    weights, places = model.attention_gradients(prompts.of_documents(prompts.documents), prompts.answer)
    last = np.array([end - 1 for _, end in places], dtype=np.intp)
    sums = dict.fromkeys(prompts.documents, 0.0)
    for chunk_id, start, text in standing(prompts.template, prompts.chunks):
        sums[chunk_id] += float(weights[(last >= start) & (last < start + len(text))].sum())
    return tuple(sums.values())


_MOST: Final = 100  # candidates of a request, each of which is a prompt
_LOG_PROBABILITY: Final = "log_probability"
_LIKENESS: Final = "rouge-l"


@runtime_checkable
class _Generating(Protocol):
    """A language model that answers."""

    def generate(self, prompt: str, *, max_new_tokens: int = 96) -> Generated:
        """The answer to a prompt."""
        ...


def item_utilities(
    record: RequestRecord,
    prompts: SubsetPrompts,
    engine: GeneratorEngine | ClosedEngine,
    *,
    reference: str = "",
    on_progress: Callable[[int], None] | None = None,
) -> ItemUtilities:
    """The worth of each candidate.

    reference: a reference answer, with which the model's own answers are compared; "": the recorded answer's
    log-probability counts. on_progress: told how many prompts are done.
    Raises: Unexplained for no document in the prompt, a candidate without text, more than 100, or a model that says
    neither; ModelError of the model.
    """
    candidates = record.candidates
    given = [(each.chunk_id, _text_of(each)) for each in candidates]
    if not given or not prompts.chunks:
        raise Unexplained("there are no candidates" if not given else "no document stood in the prompt")
    if len(given) > _MOST:
        raise Unexplained(f"{len(given)} candidates; at most {_MOST} can be looked at alone")
    texts = [prompts.of_documents(()), *(prompts.of_one(chunk_id, text) for chunk_id, text in given)]
    if reference.strip() and isinstance(engine, ClosedEngine | _Generating):
        measure, worths = _LIKENESS, _likenesses(engine, texts, reference, on_progress)
    elif isinstance(engine, GeneratorEngine) and not is_silent(engine):
        measure, worths = _LOG_PROBABILITY, _log_probabilities(engine, prompts, texts, on_progress)
    else:
        raise Unexplained("the model gives no log-probabilities, and no reference answer is known")
    return ItemUtilities(
        chunk_ids=tuple(chunk_id for chunk_id, _ in given),
        values=tuple((worths[1:] - worths[0]).tolist()),
        empty=float(worths[0]),
        measure=measure,
        engine=engine.kind,
        model=engine.name,
        revision=engine.revision,
        evaluations=len(texts),
    )


def _text_of(candidate: Candidate) -> str:
    if candidate.text is None:
        raise Unexplained(f"the text of candidate {candidate.chunk_id!r} was not kept; capture_content='full' keeps it")
    return candidate.text


def _likenesses(
    engine: ClosedEngine | _Generating,
    texts: Sequence[str],
    reference: str,
    on_progress: Callable[[int], None] | None,
) -> NDArray[np.float64]:
    """`(prompts,)`, in [0, 1]."""
    if isinstance(engine, ClosedEngine):
        answers = [each.text for each in engine.generate_many(texts)]
    else:
        answers = [engine.generate(each).text for each in texts]
    if on_progress is not None:
        on_progress(len(texts))
    return np.array([rouge_l(answer, reference) for answer in answers])


def _log_probabilities(
    engine: GeneratorEngine, prompts: SubsetPrompts, texts: Sequence[str], on_progress: Callable[[int], None] | None
) -> NDArray[np.float64]:
    """`(prompts,)`, the mean over the recorded answer's tokens, in nats."""
    scoring = CheckedScoring(engine, None, like=prompts.of_documents(prompts.documents))
    values = np.asarray(scoring.score(texts, prompts.answer), dtype=np.float64)
    if not values.shape[1]:
        raise Unexplained("the model reads no token in the answer")
    if on_progress is not None:
        on_progress(len(texts))
    return np.asarray(values.mean(axis=1))
