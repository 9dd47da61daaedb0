"""The joint judgment of words and calibrated models: how likely a request broke at which stage, or nowhere.

Each judgment counts as a witness by the log of its ratio of likelihoods, and witnesses count as independent: a model's
of each chunk, of the prompt as one text, of each claim, of the answer; and the scores of words. What they say of one
thing is put together where they say it. A request is sound where the prompt holds the evidence and the answer rests on
it; generation broke where the prompt holds it, and claims are false, or the answer is to something else, or declines;
ranking where it is outside of the prompt; retrieval where it is nowhere. No weight is fitted to any model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragtrace.analyze._doubt_model import GENERATION, RANKING, RETRIEVAL, usable
from ragtrace.analyze._stage_signs import Signs
from ragtrace.types import Stage

__all__ = ["Chances", "chances"]

# Of all requests, before anything is known: those that answer, and those that decline, by what breaks first in them. Of
# answers four fifths are sound, as in the traffic that the figures are given for; what declines is seldom right.
_ANSWERS: Final = {"sound": 0.80, "retrieval": 0.05, "ranking": 0.025, "generation": 0.05}
_REFUSALS: Final = {"sound": 0.02, "retrieval": 0.03, "ranking": 0.015, "generation": 0.01}
# Of broken answers: one claim is false, all from some claim on are, all are, and the answer is to something else, with
# claims that the prompt bears out or not.
_ONE: Final = 0.40
_LATER: Final = 0.15
_ALL: Final = 0.15
_OTHER: Final = 0.15
_STRANGE: Final = 0.15
_WORDS_ON_ONE: Final = 0.5  # of what words say of generation, where one claim is false: they see what is made up
_MADE_UP: Final = 0.4  # of answers without the evidence; the others rest on a near miss
_WORDS_ON_RANKING: Final = 3.0  # log odds, beyond which words are not believed where an answer declines
_WORDS_ON_REFUSALS: Final = 0.7  # of the log odds of retrieval by words, where an answer declines


@dataclass(frozen=True, slots=True)
class Chances:
    """How likely a request is sound, or broke first at a stage; they sum to 1."""

    sound: float
    retrieval: float
    ranking: float
    generation: float

    def of(self, stage: Stage) -> float:
        """How likely a stage broke first."""
        return {"retrieval": self.retrieval, "ranking": self.ranking, "generation": self.generation}.get(stage, 0.0)


def chances(signs: Signs, *, left_out: bool) -> Chances | None:
    """How likely a request broke where, by words and by what calibrated models said of it.

    None where no chunk of the prompt was judged; claims that were not judged count by the words' score alone. left_out:
    whether a candidate is not in the prompt.
    """
    if signs.packed_odds is None:
        return None
    words = signs.by_words or signs
    known = usable(words)
    retrieval = RETRIEVAL.log_odds(words) if "RETRIEVAL" in known else 0.0
    ranking = RANKING.log_odds(words) if "RANKING" in known else None
    can_rank = left_out and ranking is not None and signs.left_odds is not None
    left = signs.left_odds or 0.0
    if signs.declined:
        trusted = max(-_WORDS_ON_RANKING, min(_WORDS_ON_RANKING, ranking or 0.0))
        found = {
            "sound": 0.0,
            "generation": signs.packed_odds - _WORDS_ON_REFUSALS * retrieval,
            "retrieval": 0.0,
            "ranking": left + trusted if can_rank else -math.inf,
        }
        return _chances(_REFUSALS, found)
    generation = GENERATION.log_odds(words) if "GENERATION" in known else 0.0
    rests = signs.packed_odds if signs.rest_odds is None else signs.rest_odds
    false = [-odds for odds in signs.borne] or [0.0]
    without = _mixed([(_MADE_UP, math.fsum(false) + generation), (1 - _MADE_UP, 0.0)])
    found = {
        "sound": rests,
        "generation": rests + _of_generation(false, -(signs.answer_odds or 0.0), signs.packed_odds - rests, generation),
        "retrieval": without + retrieval,
        "ranking": left + without + (ranking or 0.0) if can_rank else -math.inf,
    }
    return _chances(_ANSWERS, found)


def _of_generation(false: Sequence[float], beside: float, unused: float, words: float) -> float:
    """The log of the ratio of likelihoods that an answer is broken, whose evidence is in the prompt.

    false: the log odds that each claim is; beside: that the answer is to something else; unused: that the evidence is
    what the answer does not rest on; words: the score of generation by words, which cannot see an answer to something
    else that the prompt bears out.
    """
    later = [math.fsum(false[place:]) for place in range(1, len(false))] or false
    return _mixed(
        [
            (_ONE, _mean(false) + _WORDS_ON_ONE * words),
            (_LATER, _mean(later) + words),
            (_ALL, math.fsum(false) + words),
            (_OTHER, beside + unused),
            (_STRANGE, beside + math.fsum(false) + words),
        ]
    )


def _mean(logs: Sequence[float]) -> float:
    return _mixed([(1 / len(logs), log) for log in logs])


def _mixed(parts: Sequence[tuple[float, float]]) -> float:
    """The log of a sum of weights times what their logs are of."""
    most = max(log for _, log in parts)
    return most + math.log(math.fsum(weight * math.exp(log - most) for weight, log in parts))


def _chances(before: dict[str, float], found: dict[str, float]) -> Chances:
    most = max(found.values())
    weights = {name: before[name] * math.exp(log - most) for name, log in found.items()}
    whole = math.fsum(weights.values())
    return Chances(**{name: weight / whole for name, weight in weights.items()})
