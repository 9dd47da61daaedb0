"""The game over a request's prompts: its values, how they were checked, and what is kept of them to go on from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ragtrace.analyze.explaining.engines import GeneratorEngine
from ragtrace.analyze.explaining.prompts import Unexplained
from ragtrace.attribution import ShapleyValues, shapley_values
from ragtrace.attribution.game import CoalitionLog, Coalitions, Values, decode, encode
from ragtrace.attribution.shapley import default_budget
from ragtrace.engines.precision import CheckedScoring
from ragtrace.explanations import CoalitionScores, GeneratorAttribution, Precision

__all__ = ["NEVER", "PromptGame", "Stopping"]


@dataclass(frozen=True, slots=True)
class Stopping:
    """When an estimate ends before its budget; see `shapley_values`. Exact values that cost little are always computed.

    settle: the confidence at which the best document and both flags are those of the estimate.
    target_standard_error: the largest standard error of a share, in nats.
    """

    settle: float | None = None
    target_standard_error: float | None = None


NEVER: Final = Stopping()


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
        self, *, budget: int | None, seed: int, stopping: Stopping, ranking: Sequence[int] | None = None
    ) -> ShapleyValues:
        """The Shapley values; an earlier run goes on. Raises: as `shapley_values`."""
        k = self.n_players
        ends = stopping if 1 << k > default_budget(k) else NEVER
        log = _read(self.known.log, k) if self.known is not None and self.known.log is not None else None

        def solve(log: CoalitionLog | None) -> ShapleyValues:
            return shapley_values(
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
