"""Which sentences of a chunk say the opposite of a claim: another value in the same place, or a negation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragtrace.coverage.support.reading import Reading, Vocabulary, Window
from ragtrace.coverage.support.statement import Statement
from ragtrace.coverage.values import Value, same_kind, same_value

__all__ = ["Finding", "compare", "containment", "rarities"]

SAME_STATEMENT: Final = 0.6  # containment from which a window is taken to speak of what the claim says
SAME_SENTENCE: Final = 0.75  # containment from which one negation more or less turns the meaning
TWO_SAY_MORE: Final = 0.1  # how much more of the claim two sentences must hold than the best single one
SAYS_IT: Final = 0.9  # containment from which no other sentence of the chunk contradicts


@dataclass(frozen=True, slots=True)
class Finding:
    """How far a chunk contradicts a claim, in [0, 1], why, and the places of the sentences that do."""

    contradiction: float = 0.0
    reason: str | None = None
    sentences: frozenset[int] = frozenset()


def containment(statement: Statement, words: frozenset[str], weights: dict[str, float]) -> float:
    """The share of the claim's words that `words` holds, weighed by rarity, in [0, 1]; 1 for a claim without words."""
    total = sum(weights.values())
    return min(1.0, sum(weights[word] for word in statement.words & words) / total) if total else 1.0


def compare(statement: Statement, reading: Reading, weights: dict[str, float]) -> Finding:
    """Compare a claim with each window of a chunk; `weights` are the rarities of the claim's words."""
    if not statement.values and not statement.negations and not any(each.negations for each in reading.sentences):
        return Finding()
    worst, worst_reason, reach, said = 0.0, None, 0.0, 0.0
    against: set[int] = set()
    singles = len(reading.sentences)
    for at, window in enumerate(reading.windows):
        held = containment(statement, window.words | reading.heading, weights)
        if held < SAME_STATEMENT / 2 or (not window.single and held <= reach + TWO_SAY_MORE):
            continue  # what one sentence says is judged by that sentence alone
        reach = max(reach, held) if window.single else reach
        missing = [
            place
            for place, value in enumerate(statement.values)
            if not _holds(value, (*window.values, *reading.heading_values))
        ]
        reason = _opposes(statement, window, missing, held, weights)
        if reason is None:
            said = max(said, held if not missing else 0.0)
            continue
        against |= {at} if window.single else {at - singles, at - singles + 1}
        if held > worst:
            worst, worst_reason = held, reason
    if said >= SAYS_IT or worst < SAME_STATEMENT:
        return Finding()
    return Finding(worst, worst_reason, frozenset(against))


def _opposes(
    statement: Statement, window: Window, missing: Sequence[int], held: float, weights: dict[str, float]
) -> str | None:
    """Why the window says the opposite, if it does."""
    here = containment(statement, window.words, weights)
    if missing:
        speaks = held >= SAME_STATEMENT and here >= SAME_STATEMENT / 2
        other = _other_value(statement, missing, window) if speaks else None
        if other is None or (other[1].kind == "number" and held < SAYS_IT):
            return None
        return f"{other[0].raw}, the evidence says {other[1].raw}"
    turned = (statement.negations + window.negations) % 2
    if turned and here >= SAME_SENTENCE and _says_no_more(statement, window):
        return "negated against the evidence"
    return None


def _says_no_more(statement: Statement, window: Window) -> bool:
    """Whether the window is one sentence and mostly says what the claim says, so that its negation is the claim's."""
    return window.single and 2 * len(statement.words & window.words) >= len(window.words)


def _other_value(statement: Statement, missing: Sequence[int], window: Window) -> tuple[Value, Value] | None:
    """A missing value and the one that stands in its place: same kind, and not said by the claim. The three years of a
    claim do not say that there may be 3 losses; a bare number must count the same things."""
    for place in missing:
        value = statement.values[place]
        for given, counts in zip(window.values, window.counts, strict=True):
            if not same_kind(value, given) or (given.kind == "number" and counts != statement.counts[place]):
                continue
            if not _holds(given, [said for said in statement.values if same_kind(said, given)]):
                return value, given
    return None


def _holds(value: Value, given: Sequence[Value]) -> bool:
    return any(same_value(value, other) for other in given)


def rarities(statement: Statement, vocabulary: Vocabulary) -> dict[str, float]:
    """The rarity of each word of a claim."""
    return {word: vocabulary.weight(word) for word in statement.words}
