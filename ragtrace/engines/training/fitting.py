"""Calibrates a verifier on sources of their own, and measures it on those that were held out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from ragtrace.engines.calibration import Calibration, Method, expected_calibration_error
from ragtrace.engines.training.examples import Example, Part
from ragtrace.engines.training.measuring import Measured, best_threshold, measure, supports_of
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.engines.verifier import EntailmentVerifier

__all__ = ["CALIBRATE_ON", "calibrate", "evaluate", "report", "some"]

CALIBRATE_ON: Final = ("ragtruth-qa",)
"""Answers of language models to questions, from retrieved passages: what is verified later."""
_FOLDS: Final = 5

OnProgress = Callable[[int], None]


def some(examples: Sequence[Example], part: Part, claims: int | None = None) -> list[Example]:
    """The examples of a part; of each data set whole sources until about so many `claims`, by a hash of their names."""
    chosen = [each for each in examples if each.part == part]
    if claims is None:
        return chosen
    kept: list[Example] = []
    for name in dict.fromkeys(each.dataset for each in chosen):
        own = [each for each in chosen if each.dataset == name]
        sources = sorted({each.source for each in own}, key=lambda name: hashlib.blake2b(name.encode()).digest())
        taken: set[str] = set()
        for source in sources:
            if sum(each.source in taken for each in own) >= claims:
                break
            taken.add(source)
        kept += [each for each in own if each.source in taken]
    return kept


def calibrate(
    verifier: EntailmentVerifier,
    examples: Sequence[Example],
    *,
    method: Method = "temperature",
    sets: Sequence[str] = CALIBRATE_ON,
    on_progress: OnProgress | None = None,
) -> Calibration:
    """Fit on the calibration sources of `sets`; the verifier has it from then on.

    Raises: ConfigurationError where there are none, or all of one kind.
    """
    import numpy as np

    chosen = [each for each in some(examples, "calibrate") if each.dataset in sets]
    if not chosen:
        raise ConfigurationError(f"no claims to calibrate on in the sets {', '.join(sets)}; name some of the data")
    verifier.calibration = None
    supports = supports_of(verifier, chosen, on_progress=on_progress)
    truth = np.array([each.supported for each in chosen])
    lexical = _lexical(chosen)
    fitted = Calibration.fit(supports, truth, method=method, model=verifier.digest, lexical=lexical)
    fitted = replace(
        fitted,
        data=tuple(sorted(set(sets))),
        sources=len({each.source for each in chosen}),
        threshold=round(best_threshold(fitted.apply(supports, lexical), truth), 4),
        ece=_left_out_error(supports, lexical, truth, [each.source for each in chosen], method),
    )
    verifier.calibration = fitted
    return fitted


def evaluate(
    verifier: EntailmentVerifier,
    examples: Sequence[Example],
    *,
    claims: int | None = None,
    on_progress: OnProgress | None = None,
) -> list[Measured]:
    """The figures on the held-out sources of each data set.

    Raises: ConfigurationError where no source is held out.
    """
    chosen = some(examples, "held_out", claims)
    if not chosen:
        raise ConfigurationError("no source of the data is held out; give more of them")
    supports = supports_of(verifier, chosen, on_progress=on_progress)
    calibration = verifier.calibration
    if calibration is None:
        return measure(chosen, supports)
    return measure(chosen, supports, threshold=calibration.threshold, at_rate=calibration.at_rate)


def report(verifier: EntailmentVerifier, found: Sequence[Measured]) -> dict[str, Any]:
    """All of it as plain data."""
    calibration = verifier.calibration
    return {
        "model": verifier.name,
        "weights": verifier.digest,
        "calibration": None if calibration is None else {"id": calibration.id, **asdict(calibration)},
        "held_out": [asdict(each) for each in found],
    }


def _lexical(examples: Sequence[Example]) -> NDArray[np.float64] | None:
    """What words alone say of the claims; None where some are no part of an answer."""
    import numpy as np

    found = [each.lexical for each in examples if each.lexical is not None]
    return np.array(found) if len(found) == len(examples) else None


def _left_out_error(
    supports: NDArray[np.float64],
    lexical: NDArray[np.float64] | None,
    truth: NDArray[np.bool_],
    sources: Sequence[str],
    method: Method,
) -> float | None:
    """The error of calibrations that were each fitted without a fifth of the sources, on that fifth."""
    import numpy as np

    fold_of = {source: place % _FOLDS for place, source in enumerate(sorted(set(sources)))}
    folds = np.array([fold_of[source] for source in sources])
    said = np.full(len(truth), np.nan)
    for fold in range(_FOLDS):
        rest = folds != fold
        if len(set(truth[rest].tolist())) < 2:
            return None
        words = (None, None) if lexical is None else (lexical[rest], lexical[~rest])
        fitted = Calibration.fit(supports[rest], truth[rest], method=method, model="", lexical=words[0])
        said[~rest] = fitted.at_rate(fitted.apply(supports[~rest], words[1]))
    return round(expected_calibration_error(said, truth), 4)
