"""Scores by the fastest way that is right for a model: whether beginnings can be shared, and prompts be padded.

What a model's architecture allows is found out once, with random texts in its own precision, and by its settings; the
texts that are scored are checked by a sample.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from ragtrace.engines.devices import OutOfMemoryError
from ragtrace.engines.scoring import Scores, Walk, same_scale, score_batched, window

__all__ = ["Abilities", "abilities", "score_verified", "score_whole"]

_LOG: Final = logging.getLogger("ragtrace")
_OWN: Final = 8  # tokens of a random text that are scored
_BEGINNING: Final = 4
_BRANCHES: Final = 4
_LENGTH: Final = 24  # tokens of a branch
_SHORTEST_WINDOW, _LONGEST_WINDOW = 32, 1024  # where random texts can tell more than the settings do
_ROUNDING: Final = 4.0  # times the rounding that was measured
_LEAST: Final = 1e-3  # nats: of less than that no difference is made
_KNOWN: Final[WeakKeyDictionary[Any, Abilities]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Abilities:
    """What holds for all texts that a model reads.

    Attributes:
        unshared: why it cannot read a tree of texts; None where it can.
        pads: whether padding at the left leaves its scores as they are.
        tolerance: the difference of scores that rounding explains.
    """

    unshared: str | None
    pads: bool
    tolerance: float


def score_verified(model: Any, sequences: Sequence[list[int]], own: int, *, pack_size: int | None = None) -> Scores:
    """As `score_shared`, if the model reads a tree as it reads a text; else it reads whole sequences, with a warning.

    Raises: ModelError, OutOfMemoryError as `score_whole`.
    """
    if len(sequences) == 1:
        return score_batched(model, sequences, own)
    try:
        reason = _why_unshared(model, max(map(len, sequences)))
        if reason is None:
            walk = Walk(model, sequences, own, pack_size)
            walk.read()
            reason = _difference(model, sequences, own, walk)
            if reason is None:
                return walk.scores
    except OutOfMemoryError as error:
        reason = str(error)
    _LOG.warning("%s cannot share beginnings (%s); it reads each prompt whole", type(model).__name__, reason)
    return score_whole(model, sequences, own)


def score_whole(model: Any, sequences: Sequence[list[int]], own: int, *, batch: int = 16) -> Scores:
    """As `score_batched`, but one by one where sequences cannot be padded.

    Raises: OutOfMemoryError, and ModelError for a model whose logits are no numbers.
    """
    lengths = {len(sequence) for sequence in sequences}
    if batch > 1 and len(lengths) > 1:
        scale = same_scale(model.config)
        if (scale is not None and max(lengths) > scale) or not _pads(model):
            batch = 1
    return score_batched(model, sequences, own, batch=batch)


def _pads(model: Any) -> bool:
    """Whether padding is known to change nothing: it is not where there was no memory to find out."""
    try:
        return abilities(model).pads
    except OutOfMemoryError:
        return False


def abilities(model: Any) -> Abilities:
    """Found out when a model is first asked for, then kept as long as the model.

    Raises: OutOfMemoryError, and ModelError for a model whose logits are no numbers.
    """
    known = _KNOWN.get(model)
    if known is None:
        known = _KNOWN[model] = _tried(model)
    return known


def _why_unshared(model: Any, longest: int) -> str | None:
    for limit, what in ((window(model.config), "a window"), (same_scale(model.config), "positions")):
        if limit is not None and longest > limit:
            return f"{longest} tokens pass {what} of {limit}"
    return abilities(model).unshared


def _difference(model: Any, sequences: Sequence[list[int]], own: int, walk: Walk) -> str | None:
    """By how much too much the scores of the longest sequence are off, and of that least in one piece."""
    longest = max(range(len(sequences)), key=lambda number: len(sequences[number]))
    numbers = list(dict.fromkeys([longest, int(np.argmax(walk.shifts))]))
    sample = [sequences[number] for number in numbers]
    try:
        alone = score_batched(model, sample, own, batch=1)
    except OutOfMemoryError:  # the tree was read in smaller passes than a whole text
        return None
    apart = _root_mean_square(walk.scores[numbers] - alone)
    known = abilities(model)
    if apart <= known.tolerance:
        return None
    rounding = _root_mean_square(score_whole(model, sample, own) - alone)
    if apart <= _ROUNDING * rounding:
        return None
    return f"its log-probabilities would differ by {apart:.3g}"


def _tried(model: Any) -> Abilities:
    """What reading random texts in each way gives, beside reading each alone."""
    size = window(model.config)
    texts = _random_texts(model, size)
    alone = score_batched(model, texts, _OWN, batch=1)
    padded = score_batched(model, texts, _OWN, batch=len(texts)) - alone
    equal = score_batched(model, [texts[0]] * 2, _OWN, batch=2) - alone[0]
    tolerance = max(_LEAST, 2 * _precision(model) * float(alone.std()), _ROUNDING * _typical(equal))
    pads = _typical(padded) <= tolerance
    if pads:
        tolerance = max(tolerance, _ROUNDING * _typical(padded))
    unshared = f"a window of {size}" if size is not None and size < _SHORTEST_WINDOW else None
    if unshared is None:
        unshared = _why_no_tree(model, texts, alone, tolerance)
    return Abilities(unshared, pads, tolerance)


def _why_no_tree(model: Any, texts: Sequence[list[int]], alone: Scores, tolerance: float) -> str | None:
    try:
        scores = []
        for pack_size in (sum(map(len, texts)), _LENGTH + _BEGINNING):  # all in one pass, and in several
            walk = Walk(model, texts, _OWN, pack_size)
            walk.read()
            scores.append(walk.scores)
    except OutOfMemoryError:
        raise
    except Exception as error:  # each architecture that takes no tree has its own way to say so
        return f"{type(error).__name__}: {error}"
    apart = max(_typical(each - alone) for each in scores)
    return None if apart <= tolerance else f"its log-probabilities of random texts differ by {apart:.3g}"


def _random_texts(model: Any, size: int | None) -> list[list[int]]:
    """Texts that begin alike and stand far from their places in one row; none is longer than a window, all are."""
    embeddings = model.get_input_embeddings()
    vocabulary = int(getattr(embeddings, "num_embeddings", None) or model.config.vocab_size)
    draw = np.random.default_rng(0)

    def some(count: int) -> list[int]:
        return [int(each) for each in draw.integers(vocabulary // 5, vocabulary, size=count)]

    room = (size if size is not None and size <= _LONGEST_WINDOW else 4 * _LENGTH) - _OWN - _BEGINNING
    length = max(_LENGTH // 4, room // 2)
    beginning, shared = some(_BEGINNING), some(length // 2)
    branches = [[], [*shared, *some(length // 2)], [*shared, *some(length)], *(some(length) for _ in range(_BRANCHES))]
    return [[*beginning, *branch, *some(_OWN)] for branch in branches]


def _precision(model: Any) -> float:
    import torch

    return float(torch.finfo(model.dtype).eps)


def _typical(differences: Scores) -> float:
    """The median difference of the text that is worst: an expert chosen otherwise by rounding moves few tokens."""
    return float(np.median(np.abs(differences), axis=1).max())


def _root_mean_square(numbers: Scores) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))
