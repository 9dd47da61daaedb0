"""Layer 1: what words alone say of how far chunks support or contradict the claims of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ragtrace.coverage.support.contradiction import (
    Finding,
    Origin,
    Rarities,
    compare,
    containment,
    opposition,
    rarities_of,
)
from ragtrace.coverage.support.novelty import Around, Ground, Measures, around, measure, probability
from ragtrace.coverage.support.readings import Evidence, Reading, Statement, Vocabulary, Window
from ragtrace.coverage.values import Value

__all__ = ["Lexical", "Support"]

LEAST: Final = 0.3  # share of a claim's words, by rarity, that a chunk must hold to be worth a closer look
UNSTATED: Final = 0.4  # the most support of a claim with a value or a name that the evidence does not state
LOOKED_AT: Final = 3  # unselected candidates that one claim is compared with


@dataclass(frozen=True, slots=True)
class Support:
    """How far one chunk supports a claim, in [0, 1], and what it says of the claim's values and negations."""

    chunk_id: str
    support: float
    finding: Finding = field(default_factory=Finding)

    @property
    def contradiction(self) -> float:
        """How far the chunk, heard alone, contradicts the claim."""
        return opposition([self.finding])[0]


@dataclass(frozen=True, slots=True)
class _Compared:
    evidence: Evidence
    held: float
    finding: Finding


class Lexical:
    """The evidence of one answer, with what its claims are compared by.

    selected: the packed chunks; others: candidates that were not packed, whose words count for rarity; question: its
    words are known to whoever reads the answer, and are not held against a claim.
    """

    def __init__(self, selected: Sequence[Evidence], others: Sequence[Evidence] = (), question: str = "") -> None:
        self._selected = selected
        self._others = others
        self._vocabulary = Vocabulary([*selected, *others])
        self._question = Reading(question)
        self._ground = Ground([chunk.reading for chunk in selected], self._question)

    def judge(self, statements: Sequence[Statement]) -> list[tuple[float, list[Support]]]:
        """For each claim its support by all selected chunks together, and that by each of them, in their order.

        The support by all is at least the largest by one. A sentence that contradicts a claim lends it no words.
        """
        return [self._judge(*each) for each in zip(statements, around(statements, self._ground), strict=True)]

    @property
    def vocabulary(self) -> Vocabulary:
        """How rare words are among all chunks."""
        return self._vocabulary

    def lacks(self, statement: Statement) -> str | None:
        """The first value or name of a claim that no selected chunk states."""
        return self._ground.lacks(statement)

    def elsewhere(self, statement: Statement) -> Support | None:
        """The best support of a claim by a candidate that was not selected; None where none holds much of it."""
        rarities = rarities_of(statement, self._vocabulary)
        held = [(containment(statement, chunk.words, rarities), chunk) for chunk in self._others]
        near = sorted((each for each in held if each[0] >= LEAST), key=lambda each: -each[0])[:LOOKED_AT]
        compared = (self._compared(statement, [each], rarities) for each in near)
        found = [self._by_chunk(statement, one, Around()) for (one,) in compared]
        return max(found, key=lambda support: support.support, default=None)

    def _judge(self, statement: Statement, beside: Around) -> tuple[float, list[Support]]:
        rarities = rarities_of(statement, self._vocabulary)
        held = [(containment(statement, chunk.words, rarities), chunk) for chunk in self._selected]
        compared = self._compared(statement, held, rarities)
        each = [self._by_chunk(statement, one, beside) for one in compared]
        if any(one.finding.sentences for one in compared):
            ground = Ground([part for one in compared for part in _lent(one)], self._question)
        else:
            ground = self._ground
        together = _support(measure(statement, ground, beside))
        return max([together, *(support.support for support in each)]), each

    def _compared(
        self, statement: Statement, held: Sequence[tuple[float, Evidence]], rarities: Rarities
    ) -> list[_Compared]:
        """Chunks that hold enough of a claim, compared with it."""
        origins: dict[Value, Origin] = {}

        def origin_of(value: Value) -> Origin:
            if value not in origins:
                origins[value] = self._ground.origin(value, statement)
            return origins[value]

        close = [chunk.reading for share, chunk in held if share >= LEAST]
        found = iter(compare(statement, close, rarities, origin_of))
        return [_Compared(chunk, share, next(found) if share >= LEAST else Finding()) for share, chunk in held]

    def _by_chunk(self, statement: Statement, compared: _Compared, beside: Around) -> Support:
        chunk, finding = compared.evidence, compared.finding
        if compared.held < LEAST:
            return Support(chunk.chunk_id, 0.0)
        support = _support(measure(statement, Ground(_lent(compared), self._question), beside))
        return Support(chunk.chunk_id, support, finding)


def _lent(compared: _Compared) -> Sequence[Reading | Window]:
    """The parts of a chunk that may support a claim: all of it, or the sentences that do not contradict."""
    against = compared.finding.sentences
    if not against:
        return [compared.evidence.reading]
    return [window for at, window in enumerate(compared.evidence.reading.sentences) if at not in against]


def _support(measures: Measures) -> float:
    found = probability(measures)
    return min(found, UNSTATED) if measures.unstated else found
