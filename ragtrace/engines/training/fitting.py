"""Calibrates a verifier on sources of their own, and measures it on those that were held out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ragtrace.engines.calibration import Calibration, Method, expected_calibration_error
from ragtrace.engines.training.examples import Example, Part
from ragtrace.engines.training.measuring import Judge, Measured, best_threshold, measure, supports_of
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.engines.verifier import EntailmentVerifier

__all__ = ["CALIBRATE_ON", "calibrate", "evaluate", "report", "some"]

CALIBRATE_ON: Final = ("ragtruth-qa", "ragtruth-summary")
"""Answers of language models. Both help to weigh the model and the words; offset, rate, threshold and error are of the
first set alone: answers to questions, from retrieved passages, are what is verified later."""
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

    sets: all of them weigh what the model says against what words say; the rest is fitted on the first one.

    Raises: ConfigurationError where there are none of the first, or all of one kind.
    """
    import numpy as np

    chosen = [each for each in some(examples, "calibrate") if each.dataset in sets]
    kinds = np.array([list(sets).index(each.dataset) for each in chosen])
    first = kinds == 0
    if not first.any():
        raise ConfigurationError(f"no claims to calibrate on in the set {', '.join(sets[:1])}; name some of the data")
    verifier.calibration = None
    supports = supports_of(verifier, chosen, on_progress=on_progress)
    claims = _Claims(supports, _lexical(chosen), np.array([each.supported for each in chosen]), kinds)
    fitted = claims.fitted(method, verifier.digest)
    said, truth = claims.judged(fitted)[first], claims.truth[first]
    fitted = replace(
        fitted,
        data=tuple(name for name in sets if any(each.dataset == name for each in chosen)),
        sources=len({(each.dataset, each.source) for each in chosen}),
        threshold=round(best_threshold(said, truth), 4),
        ece=_left_out_error(claims, [each.source for each in chosen], method),
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
    """The figures on the held-out sources of each data set: of the model, of words, and of both, where both judge.

    Raises: ConfigurationError where no source is held out.
    """
    import numpy as np

    chosen = some(examples, "held_out", claims)
    if not chosen:
        raise ConfigurationError("no source of the data is held out; give more of them")
    supports = supports_of(verifier, chosen, on_progress=on_progress)
    calibration = verifier.calibration
    if calibration is None:
        return measure(chosen, supports)
    lexical = _lexical(chosen)
    worded = np.flatnonzero(~np.isnan(lexical))
    with_words = [chosen[place] for place in worded]
    judges: list[tuple[Judge, NDArray[np.float64]]] = [
        ("both", calibration.with_words(supports, lexical)[worded]),
        ("model", supports[worded]),
        ("words", lexical[worded]),
    ]
    by: dict[str, Any] = {"threshold": calibration.threshold, "at_rate": calibration.at_rate}
    found = [each for judge, said in judges for each in measure(with_words, said, judge=judge, **by)]
    rest = np.flatnonzero(np.isnan(lexical))
    found += measure([chosen[place] for place in rest], supports[rest], **by)
    names = list(dict.fromkeys(each.dataset for each in chosen))
    return sorted(found, key=lambda each: names.index(each.dataset))


def report(verifier: EntailmentVerifier, found: Sequence[Measured]) -> dict[str, Any]:
    """All of it as plain data."""
    calibration = verifier.calibration
    return {
        "model": verifier.name,
        "weights": verifier.digest,
        "calibration": None if calibration is None else {"id": calibration.id, **asdict(calibration)},
        "held_out": [asdict(each) for each in found],
    }


@dataclass(frozen=True, slots=True)
class _Claims:
    """What the model and words alone say of claims (NaN: nothing), the truth, and which set each claim is of."""

    supports: NDArray[np.float64]
    lexical: NDArray[np.float64]
    truth: NDArray[np.bool_]
    kinds: NDArray[np.int64]

    def of(self, chosen: NDArray[np.bool_]) -> _Claims:
        return _Claims(self.supports[chosen], self.lexical[chosen], self.truth[chosen], self.kinds[chosen])

    def fitted(self, method: Method, model: str) -> Calibration:
        import numpy as np

        lexical = None if np.isnan(self.lexical).any() else self.lexical
        return Calibration.fit(self.supports, self.truth, method=method, model=model, lexical=lexical, kinds=self.kinds)

    def judged(self, calibration: Calibration) -> NDArray[np.float64]:
        return calibration.with_words(calibration.apply(self.supports), self.lexical)


def _lexical(examples: Sequence[Example]) -> NDArray[np.float64]:
    """What words alone say of the claims; NaN of those that are no part of an answer."""
    import numpy as np

    return np.array([np.nan if each.lexical is None else each.lexical for each in examples])


def _left_out_error(claims: _Claims, sources: Sequence[str], method: Method) -> float | None:
    """The error, on the first set, of calibrations that were each fitted without a fifth of the sources, on it."""
    import numpy as np

    fold_of = {source: place % _FOLDS for place, source in enumerate(sorted(set(sources)))}
    folds = np.array([fold_of[source] for source in sources])
    first = claims.kinds == 0
    said = np.full(len(sources), np.nan)
    for fold in range(_FOLDS):
        rest, left = claims.of(folds != fold), claims.of(folds == fold)
        if len(set(rest.truth[rest.kinds == 0].tolist())) < 2:
            return None
        fitted = rest.fitted(method, "")
        said[folds == fold] = fitted.at_rate(left.judged(fitted))
    return round(expected_calibration_error(said[first], claims.truth[first]), 4)
